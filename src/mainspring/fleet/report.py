"""What a fleet has done: figures by tag, as a table for a terminal, as JSON, and as one HTML page with plots.

Everything is read from the output directory, so a report can be made while the fleet runs.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from statistics import median
from urllib.parse import quote

from mainspring.core.value import Bundle
from mainspring.fleet.checks import CHECKS
from mainspring.fleet.results import TaskResult
from mainspring.fleet.workspaces import name_of
from mainspring.secrets.redaction import redact
from mainspring.text import plural, strip_control_characters

OK, CHECK_FAILED = "ok", "check failed"
ALL = "all tasks"
BINS = 12
WIDTH, HEIGHT = 420, 120  # of a plot, in pixels
MOST_LISTED = 2_000  # tasks on the page
LONGEST_TEXT = 300


def outcome_of(result: TaskResult) -> str:
    """One word for the table: `ok`, `check failed`, or why there is no answer."""
    if result.is_error:
        return result.terminal_reason if result.cause in {"", "error", "limit"} else result.cause
    return OK if result.check_code in (None, 0) else CHECK_FAILED


class GroupFigures(Bundle, frozen=True):
    """The tasks with one tag, or all of them."""

    name: str
    tasks: int
    ok: int
    outcomes: tuple[tuple[str, int], ...]
    turns: float
    """Of the median task."""
    seconds: float
    slowest: float
    """The time that 95 % of the tasks stay under."""
    cost_usd: float


class FleetReport(Bundle, frozen=True):
    """All figures of a report."""

    folder: str
    groups: tuple[GroupFigures, ...]
    """All tasks first, then by tag."""
    results: tuple[TaskResult, ...]
    """Failed ones first."""
    attempts_usd: float = 0
    """What earlier attempts of the same tasks have cost."""


def make_report(folder: Path, latest: Iterable[TaskResult], spent_usd: float) -> FleetReport:
    results = sorted(latest, key=lambda one: (outcome_of(one) == OK, outcome_of(one), one.id))
    tags = sorted({tag for one in results for tag in one.tags})
    groups = [measure(ALL, results), *[measure(tag, [one for one in results if tag in one.tags]) for tag in tags]]
    before = max(0.0, spent_usd - groups[0].cost_usd)
    return FleetReport(str(folder), tuple(groups), tuple(results), before)


def measure(name: str, results: Sequence[TaskResult]) -> GroupFigures:
    outcomes = Counter([outcome_of(one) for one in results])
    ran = [one for one in results if one.turns]
    times = sorted([one.seconds for one in ran])
    return GroupFigures(
        name,
        len(results),
        outcomes[OK],
        tuple(sorted(outcomes.items(), key=lambda item: (item[0] != OK, -item[1], item[0]))),
        median([one.turns for one in ran]) if ran else 0,
        median(times) if times else 0,
        times[min(len(times) - 1, int(0.95 * len(times)))] if times else 0,
        sum([one.cost_usd for one in results]),
    )


# --- text -----------------------------------------------------------------------------------------------


def format_report(report: FleetReport) -> list[str]:
    rows = [("", "tasks", "ok", "turns", "time", "95 %", "cost", "per task")]
    for group in report.groups:
        share = f"{group.ok / group.tasks:.0%}" if group.tasks else "-"
        each = group.cost_usd / group.tasks if group.tasks else 0
        rows.append((
            strip_control_characters(group.name), f"{group.tasks:,}", f"{group.ok:,} ({share})", f"{group.turns:g}",
            format_seconds(group.seconds), format_seconds(group.slowest), format_usd(group.cost_usd), format_usd(each),
        ))  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]]
        )
        for row in rows
    ]
    failed = [(name, count) for name, count in report.groups[0].outcomes if name != OK]
    if failed:
        lines += ["", "Failed: " + ", ".join([f"{name} {count:,}" for name, count in failed])]
        shown = [one for one in report.results if outcome_of(one) != OK][:10]
        lines += [f"  {one.id}: {describe_failure(one)}" for one in shown]
        if (more := sum([count for _, count in failed]) - len(shown)) > 0:
            lines.append(f"  and {more:,} more")
    if report.attempts_usd >= 0.005:
        lines += ["", f"Earlier attempts have cost {format_usd(report.attempts_usd)}."]
    return lines


def describe_failure(result: TaskResult) -> str:
    why = result.error.partition("\n")[0] or (
        f"the check ended with exit code {result.check_code}"
        if outcome_of(result) == CHECK_FAILED
        else outcome_of(result)
    )
    return strip_control_characters(redact(why))[:LONGEST_TEXT]


def format_usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.4f}"


def format_seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes} min {left} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


# --- the page -------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --dim: #57606a; --line: #d0d7de; --back: #ffffff; --bar: #2f6fdb;
  --ok: #1a7f37; --bad: #c2352b; --soft: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --line: #3d444d; --back: #0d1117;
  --bar: #6ea8fe; --ok: #3fb950; --bad: #ff7b72; --soft: #151b23; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 1000px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p.sub { color: var(--dim); margin: .2rem 0 1.2rem; overflow-wrap: anywhere; }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; }
.card { background: var(--soft); border: 1px solid var(--line); border-radius: 8px; padding: .6rem 1rem;
  min-width: 7rem; }
.card b { display: block; font-size: 1.35rem; } .card span { color: var(--dim); font-size: .85rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(280px, 1fr)); gap: 1.2rem; }
figure { margin: 0; } figcaption { color: var(--dim); font-size: .85rem; } svg { width: 100%; height: auto; }
svg text { fill: var(--dim); font-size: 11px; } .bar { fill: var(--bar); }
.ok { fill: var(--ok); } .bad { fill: var(--bad); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--dim); font-weight: 600; } th.l, td.l { text-align: left; }
td.t { white-space: normal; min-width: 14rem; }
a { color: var(--bar); } .good { color: var(--ok); } .fail { color: var(--bad); }
"""


def export_report(report: FleetReport, file: Path) -> None:
    """One HTML file, without scripts and without anything from elsewhere. Links lead to diffs and transcripts."""
    whole = report.groups[0]
    base = file.absolute().parent
    listed = report.results[:MOST_LISTED]
    left = len(report.results) - len(listed)
    body = [
        "<h1>Fleet report</h1>",
        f'<p class="sub">{text(report.folder)}</p>',
        make_cards(whole, report.attempts_usd),
        "<h2>Outcomes</h2>",
        plot_outcomes(report.groups),
        "<h2>Distributions</h2>",
        '<div class="plots">',
        plot_histogram("Turns", [float(one.turns) for one in listed if one.turns], lambda value: f"{value:.0f}"),
        plot_histogram("Time", [one.seconds for one in listed if one.turns], format_seconds),
        plot_histogram("Cost", [one.cost_usd for one in listed if one.turns], format_usd),
        "</div>",
        "<h2>By tag</h2>",
        make_tag_table(report.groups),
        "<h2>Tasks</h2>",
        make_task_table(listed, base, Path(report.folder)),
        f"<p>{plural(left, 'more task')} in results.jsonl.</p>" if left else "",
    ]
    file.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Fleet report</title>'
        '<meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n",
        "utf-8",
    )


def text(given: str) -> str:
    return escape(strip_control_characters(redact(given)))


def make_cards(whole: GroupFigures, attempts_usd: float) -> str:
    share = f"{whole.ok / whole.tasks:.0%}" if whole.tasks else "-"
    cards = [
        (f"{whole.tasks:,}", "tasks"),
        (share, "ok"),
        (f"{whole.tasks - whole.ok:,}", "failed"),
        (format_usd(whole.cost_usd + attempts_usd), "cost"),
        (f"{whole.turns:g}", "turns (median)"),
        (format_seconds(whole.seconds), "time (median)"),
    ]
    return (
        '<div class="cards">'
        + "".join([f'<div class="card"><b>{a}</b><span>{b}</span></div>' for a, b in cards])
        + "</div>"
    )


def plot_outcomes(groups: Sequence[GroupFigures]) -> str:
    """A bar for all tasks and for each tag: ok, and what failed."""
    row, label, bar = 26, 150, 600
    parts: list[str] = []
    for number, group in enumerate(groups):
        y, x = number * row, float(label)
        parts.append(f'<text x="0" y="{y + 15}">{text(group.name[:24])}</text>')
        for name, count in group.outcomes:
            wide = bar * count / group.tasks
            kind = "ok" if name == OK else "bad"
            strength = "" if name in (OK, group.outcomes[0][0]) else ' fill-opacity="0.75"'
            title = f"{text(group.name)}: {text(name)}, {count:,}"
            parts.append(
                f'<rect class="{kind}" x="{x:.1f}" y="{y + 3}" width="{max(0.5, wide - 1):.1f}" height="17"{strength}>'
                f"<title>{title}</title></rect>"
            )
            x += wide
        words = ", ".join([f"{name} {count:,}" for name, count in group.outcomes])
        parts.append(f'<text x="{label + bar + 8}" y="{y + 15}">{text(words[:44])}</text>')
    high = row * len(groups)
    drawn = f'<svg viewBox="0 0 1000 {high}" role="img" aria-label="Outcomes by tag">{"".join(parts)}</svg>'
    return f"<figure>{drawn}</figure>"


def plot_histogram(title: str, values: Sequence[float], show: Callable[[float], str]) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    bins = 1 if low == high else BINS
    if all(value.is_integer() for value in values) and high - low < 2 * BINS:
        bins, high = round(high - low) + 1, high + 1  # one for each number
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, math.floor((value - low) / (high - low) * bins)) if bins > 1 else 0] += 1
    most, wide = max(counts), WIDTH / bins
    parts: list[str] = []
    for number, count in enumerate(counts):
        tall = (HEIGHT - 20) * count / most
        start = low + (high - low) * number / bins
        end = low + (high - low) * (number + 1) / bins
        span = show(start) if bins == 1 or high - low == bins else f"{show(start)} to {show(end)}"
        parts.append(
            f'<rect class="bar" x="{number * wide + 1:.1f}" y="{HEIGHT - tall:.1f}" width="{wide - 2:.1f}" '
            f'height="{tall:.1f}"><title>{escape(span)}: {plural(count, "task")}</title></rect>'
        )
    parts.append(f'<text x="0" y="{HEIGHT + 14}">{escape(show(low))}</text>')
    if bins > 1:
        last = escape(show(max(values)))
        parts.append(f'<text x="{WIDTH}" y="{HEIGHT + 14}" text-anchor="end">{last}</text>')
    parts.append(f'<text x="0" y="11">{plural(most, "task")}</text>')
    drawn = f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 18}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{title}</figcaption>{drawn}</figure>"


def make_tag_table(groups: Sequence[GroupFigures]) -> str:
    head = "".join([f"<th>{one}</th>" for one in ("tasks", "ok", "turns", "time", "95 %", "cost", "per task")])
    rows: list[str] = []
    for group in groups:
        each = group.cost_usd / group.tasks if group.tasks else 0
        share = f"{group.ok:,} ({group.ok / group.tasks:.0%})" if group.tasks else "-"
        cells = (
            f"{group.tasks:,}", share, f"{group.turns:g}", format_seconds(group.seconds), format_seconds(group.slowest),
            format_usd(group.cost_usd), format_usd(each),
        )  # fmt: skip
        rows.append(
            f'<tr><td class="l">{text(group.name)}</td>' + "".join([f"<td>{one}</td>" for one in cells]) + "</tr>"
        )
    return f'<div class="wide"><table><tr><th class="l"></th>{head}</tr>{"".join(rows)}</table></div>'


def make_task_table(results: Sequence[TaskResult], base: Path, folder: Path) -> str:
    head = "".join([f"<th>{one}</th>" for one in ("turns", "time", "cost", "check")])
    rows: list[str] = []
    for one in results:
        outcome = outcome_of(one)
        said = one.text if outcome == OK else describe_failure(one)
        check = (
            ""
            if one.check_code is None
            else link(folder / CHECKS / f"{name_of(one.id, one.attempts)}.txt", base, str(one.check_code))
        )
        files = " ".join(
            [
                link(Path(path), base, name)
                for path, name in ((one.diff, "diff"), (one.transcript, "transcript"))
                if path
            ]
        )
        kind = "good" if outcome == OK else "fail"
        rows.append(
            f'<tr><td class="l">{text(one.id)}</td><td class="l {kind}">{text(outcome)}</td><td>{one.turns}</td>'
            f"<td>{format_seconds(one.seconds)}</td><td>{format_usd(one.cost_usd)}</td><td>{check}</td>"
            f'<td class="l t">{text(said[:LONGEST_TEXT])}</td><td class="l">{files}</td></tr>'
        )
    heads = f'<th class="l">task</th><th class="l">outcome</th>{head}<th class="l">answer</th><th class="l">files</th>'
    return f'<div class="wide"><table><tr>{heads}</tr>{"".join(rows)}</table></div>'


def link(file: Path, base: Path, name: str) -> str:
    return f'<a href="{quote(os.path.relpath(file, base))}">{name}</a>'
