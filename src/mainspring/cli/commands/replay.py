"""`mainspring replay`, `fork`, `compare` and `what-if`: work with recorded sessions.

`viewer/` computes the answers (`replay.py`, `forks.py`, `compare.py`, `what_if.py`), also for `mainspring.testing`;
this module finds the sessions and prints. Exit codes are those of `diff`: 0 the same, 1 different, 2 an error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from mainspring.agent.options import StartError
from mainspring.agent.resume import SessionLocation, new_place
from mainspring.cli.commands.trace import find_traced_session
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import UsageError
from mainspring.core.money import NANOS_PER_USD
from mainspring.processes.own_process import harden_process
from mainspring.text import plural, strip_control_characters
from mainspring.viewer.compare import SessionComparison, SessionDifference, SessionFigures, compare_sessions
from mainspring.viewer.forks import ForkedSession, fork_session_at, parse_turn
from mainspring.viewer.replay import ReplayedDecision, ReplayReport, replay_session
from mainspring.viewer.spans import make_label
from mainspring.viewer.transcript import ItemKind, Transcript, read_transcript
from mainspring.viewer.what_if import WhatIfChange, WhatIfResult, run_what_if

MOST_SHOWN = 20  # differing decisions; '--json' has them all
LABEL = 60  # characters of a turn in a list
COLUMN, WIDTH = 14, 40  # of a comparison
SHORT_ID = 8


def replay(args: Namespace) -> int:
    try:
        report = replay_session(find_traced_session(args.session_name or "", find_place()))
    except OSError as error:
        raise StartError(explain_os_error(error)) from None
    print_lines(format_replay(report), report if args.json else None, same=report.same)
    return 0 if report.same else 1


def fork(args: Namespace) -> int:
    place = find_place()
    try:
        file = find_traced_session(args.session_name, place)
        if args.list:
            return print_turns(read_transcript(file), as_json=args.json)
        folder, cwd = find_fork_folder(file, place)
        forked = fork_session_at(file, read_turn(args.at), folder=folder, cwd=cwd)
    except OSError as error:
        raise StartError(explain_os_error(error)) from None
    print_lines(format_fork(forked), forked if args.json else None)
    return 0


def compare(args: Namespace) -> int:
    place = find_place()
    try:
        found = compare_sessions(find_traced_session(args.a, place), find_traced_session(args.b, place))
    except OSError as error:
        raise StartError(explain_os_error(error)) from None
    print_lines(format_comparison(found, "A", "B"), found if args.json else None, same=found.same)
    return 0 if found.same else 1


def what_if(args: Namespace) -> int:
    """Exit code 1 if the new run failed; a difference is what it is for."""
    place, at = find_place(), read_turn(args.at)
    if isinstance(at, str):
        raise StartError(f"'--at {at}': give the number of a turn")
    harden_process()  # before a key is read
    change = WhatIfChange(args.model, args.prompt, args.compaction)
    try:
        found = asyncio.run(
            run_what_if(
                find_traced_session(args.session_name, place),
                change,
                after_turn=at,
                options=args.session,
                folder=place.folder if place.home is not None else None,
                other_calls=args.other_calls,
            )
        )
    except OSError as error:
        raise StartError(explain_os_error(error)) from None
    print_lines(format_what_if(found), found if args.json else None, same=found.comparison.same)
    return 1 if found.error else 0


# --- arguments ------------------------------------------------------------------------------------------------


def find_place() -> SessionLocation:
    return new_place(os.environ, os.getcwd(), ())  # noqa: PTH109  # pathlib takes 8 ms to load


def read_turn(said: str | None) -> int | str | None:
    try:
        return parse_turn(said) if said is not None else None
    except ValueError:
        raise StartError(
            f"'--at {said}': give the number of a turn. 'mainspring fork SESSION --list' lists them"
        ) from None


def find_fork_folder(file: str, place: SessionLocation) -> tuple[str | None, str | None]:
    """Beside the other session; a file from elsewhere is forked into this folder's sessions."""
    inside = place.home is not None and os.path.realpath(file).startswith(f"{os.path.realpath(place.home)}/projects/")
    if inside:
        return None, None
    if place.home is None:
        raise UsageError("no home folder to store the fork in: set MAINSPRING_HOME")
    return place.folder, place.cwd


def explain_os_error(error: OSError) -> str:
    if error.filename:
        return f"cannot read or write '{error.filename}': {error.strerror}"
    return error.strerror or str(error)


# --- output ---------------------------------------------------------------------------------------------------


def print_lines(lines: Iterator[str], found: object = None, *, same: bool | None = None) -> None:
    """For programs, `found` as one JSON object, with `same`."""
    if found is not None:
        extra = {"same": same} if same is not None else {}
        print(msgspec.json.encode(msgspec.to_builtins(found) | extra).decode())
        return
    for line in lines:
        print(strip_control_characters(line))


def format_replay(report: ReplayReport) -> Iterator[str]:
    also = f" and of {plural(len(report.agents), 'subagent')}" if report.agents else ""
    steps = f"{plural(report.steps, 'decision')} of session {report.id}{also} replayed"
    if report.same:
        yield f"{steps}: all are the same."
    else:
        yield f"{steps}: {plural(len(report.differences), 'difference')}."
        yield from map(format_decision, report.differences[:MOST_SHOWN])
        if len(report.differences) > MOST_SHOWN:
            yield f"  and {len(report.differences) - MOST_SHOWN} more: '--json' prints them all"
    yield from format_notes(report.notes)


def format_decision(one: ReplayedDecision) -> str:
    where = f"subagent {one.agent}, " if one.agent else ""
    arrow = f" > {one.effect}" if one.effect else ""
    return f"  {where}step {one.n} (run {one.run}, turn {one.turn}), {one.event}{arrow}: {one.why}"


def format_fork(forked: ForkedSession) -> Iterator[str]:
    after = f" after turn {forked.turns}" if forked.turns is not None else ""
    yield f"Forked session {forked.source}{after}: {forked.id} ({plural(forked.messages, 'message')})"
    yield f"Continue it: mainspring --resume {forked.id[:SHORT_ID]}"


def print_turns(transcript: Transcript, *, as_json: bool) -> int:
    rows = list(list_turns(transcript))
    if as_json:
        print(msgspec.json.encode(rows).decode())
        return 0
    for row in rows:
        print(strip_control_characters(f"{row['turn']:>5}  {row['label']}") if "turn" in row else f"❯ {row['prompt']}")
    return 0


def list_turns(transcript: Transcript) -> Iterator[dict[str, object]]:
    for item in transcript.items:
        if item.kind is ItemKind.PROMPT:
            yield {"prompt": make_label(item.words, LABEL)}
        elif item.kind is ItemKind.REPLY:
            yield {"turn": item.turn, "label": make_label(item.words, LABEL), "model": item.model, "id": item.id}


def format_comparison(found: SessionComparison, a: str, b: str) -> Iterator[str]:
    if found.shared_turns:
        yield f"Compared after {plural(found.shared_turns, 'common turn')}."
    if found.first is None:
        yield "No difference."
    else:
        yield from format_difference(found.first, a, b)
    yield ""
    yield format_row("", a, b)
    for name, left, right in list_figures(found.a, found.b):
        yield format_row(name, left or "-", right or "-")
    yield from format_notes(found.a.notes, f"{a}: ")
    yield from format_notes(found.b.notes, f"{b}: ")


def format_difference(first: SessionDifference, a: str, b: str) -> Iterator[str]:
    yield f"First difference, in turn {first.turn_a or first.turn_b}:"
    for name, kind, words in ((a, first.kind_a, first.a), (b, first.kind_b, first.b)):
        yield f"  {name}: {f'{kind}: {words}' if kind else 'nothing more'}"


def list_figures(a: SessionFigures, b: SessionFigures) -> Iterator[tuple[str, str, str]]:
    yield "session", a.id, b.id
    yield "model", ", ".join(a.models), ", ".join(b.models)
    for name in ("runs", "turns", "calls", "tokens_in", "tokens_out"):
        yield name.replace("_", " "), f"{getattr(a, name):,}", f"{getattr(b, name):,}"
    yield "cost", format_cost(a), format_cost(b)
    yield "outcome", a.outcome, b.outcome
    yield "answer", a.answer, b.answer


def format_cost(figures: SessionFigures) -> str:
    unknown = f", {plural(figures.unpriced, 'turn')} without a known price" if figures.unpriced else ""
    return f"${figures.cost / NANOS_PER_USD:.4f}{unknown}"


def format_row(name: str, left: str, right: str) -> str:
    return f"{name:<{COLUMN}}{make_label(left, WIDTH - 2):<{WIDTH}}{make_label(right, WIDTH - 2)}".rstrip()


def format_what_if(found: WhatIfResult) -> Iterator[str]:
    made = found.recorded_calls + found.other_calls
    calls = f", {plural(made, 'tool call')} ({found.recorded_calls} answered from the record)" if made else ""
    yield f"The past: {plural(found.after_turn, 'turn')} from the record."
    yield f"The future: session {found.id}{calls}."
    yield from format_comparison(replace(found.comparison, shared_turns=0), "recorded", "what if")
    if found.error:
        yield f"The new run failed: {found.error}"


def format_notes(notes: list[str], head: str = "") -> Iterator[str]:
    for note in notes[:MOST_SHOWN]:
        yield f"Note: {head}{note}"
