"""Calls that are done, as paper has them: a few lines of what is worth them, and all of it when somebody wants it.

What went wrong is said in words, since there may be no colours.
"""

from __future__ import annotations

import re
from typing import Any, cast

from rich.text import Text

from mainspring.cli.tui import permission_dialog, tasks
from mainspring.cli.tui.calls import LONGEST_TITLE, ActiveCall, CallTitle, seen_from, summarize_refusal
from mainspring.cli.tui.laid import (
    ClippedRows,
    first_rows,
    indent_with_branch,
    last_rows,
    left_out,
    lines_in,
    one_line,
    wrap_rows,
)
from mainspring.cli.tui.layout import clean_for_drawing, clip_text
from mainspring.cli.tui.markdown import MarkdownText, lines_of
from mainspring.core.messages import result
from mainspring.core.pairing import NeverRan
from mainspring.core.updates import CallDone, Rendering
from mainspring.engine.executor import ABANDONED, CANCELLED
from mainspring.tools.base import INTERRUPTED
from mainspring.tools.plan import NO

MOST_OUTPUT = 4  # rows of what came out
MOST_WRITTEN = 10  # lines of a new file
MOST_REFUSAL = 2  # rows: a hook may have a lot to say to the model
MOST_UNFOLDED = 2_000  # lines: a few screens can be read, and a terminal keeps a few thousand lines
LOOKING = ("Read", "Grep", "Glob")  # told in one line each
INSIDE = 5  # columns before what belongs to a call

# How a call ended that did not come to its end; what it said until then stays.
ENDS: dict[str, str] = {
    INTERRUPTED: "Interrupted",
    ABANDONED: "Interrupted. It may still be running",
    NeverRan.INTERRUPTED: "Interrupted before it ran",
    CANCELLED: "Not run: an earlier command failed",
}
HOW_IT_FAILED = re.compile(r"(Exit code|Ended by signal|It did not end)")  # of a command, below what it has printed
ONE = re.compile(r"\b1 (line|file|cell|page)s\b")


class CallResultView:
    def __init__(self, running: ActiveCall | None, done: CallDone, now: float, root: str = "") -> None:
        self._title = running.title if running else CallTitle("Call", "")
        self._name = running.name if running else ""
        self._agent = running.agent if running else None
        self._said = running.said if running else []
        self._done, self._now, self._root = done, now, root
        self._failed = done.result.is_error or done.denied
        self._mark = "call.failed" if self._failed else "call.done"
        self._cut: bool | None = None  # as it was drawn

    @property
    def in_short(self) -> bool:
        """One line says it: what was looked at, and tasks, which are drawn elsewhere."""
        return not self._failed and (self._name in LOOKING or self._name in tasks.TOOLS)

    @property
    def is_folded(self) -> bool:
        """There is more to it than what stands on paper. What was read is in its file, and would bury the rest."""
        if self._name in ("Read", *tasks.TOOLS) and not self._failed:
            return False
        if self._cut is None:
            self.draw(80)
        return bool(self._cut)

    # --- in a few lines ---

    def draw(self, width: int) -> list[Text]:
        part = self._in_short(width) if self.in_short else self._plan(width) or self._in_lines(width)
        self._cut = part.cut
        return part.rows

    def _in_short(self, width: int) -> ClippedRows:
        shown = self._done.rendering
        if shown is None or self._name in tasks.TOOLS:
            return ClippedRows([self._title.draw(self._mark, width)], self._hides)
        words = ONE.sub(r"1 \1", self._summary(shown, 60).removeprefix("Read ").removeprefix("Found "))
        return ClippedRows([self._title.draw(self._mark, width, f" · {words}")], self._hides)

    def _in_lines(self, width: int) -> ClippedRows:
        outcome = self._outcome(width - INSIDE)
        rows = indent_with_branch([*self._figures(), *outcome.rows])
        return ClippedRows([self._title.draw(self._mark, width), *[clip_text(row, width) for row in rows]], outcome.cut)

    def _figures(self) -> list[Text]:
        if self._agent is None or self._failed or self._agent.background:
            return []
        return [Text(self._agent.figures(self._now), "detail")]

    def _outcome(self, width: int) -> ClippedRows:
        """What is worth a few lines: what went wrong, a change, how an output ends, or one line that sums it up."""
        done, shown, text = self._done, self._done.rendering, self._done.result.text
        if self._failed:
            return self._failure(width)
        if shown is None or (shown.kind == "output" and not shown.body.strip()):
            return first_rows(lines_in(text) or ["nothing"], "detail", width, MOST_OUTPUT)
        summary = clip_text(Text(self._summary(shown, width), "detail"), width)
        if shown.kind == "diff":
            change = permission_dialog.render_change(shown.body, width)
            return ClippedRows([summary, *change.rows], change.cut)
        if content := new_file(self._name, done.data):
            begin = permission_dialog.render_new_file(content, width, MOST_WRITTEN)
            return ClippedRows([summary, *begin.rows], begin.cut)
        if shown.kind == "output" and not self._name.startswith("mcp__"):
            # The end is where a build says how it went, and what was seen a moment ago.
            return last_rows(lines_in(shown.body), "detail", width, MOST_OUTPUT)
        if shown.kind == "output" or (shown.body and one_line(shown.summary, LONGEST_TITLE) in self._title):
            return first_rows(lines_in(shown.body), "detail", width, MOST_OUTPUT)
        return ClippedRows([summary], self._hides)

    def _summary(self, shown: Rendering, width: int) -> str:
        return seen_from(self._root, self._name, one_line(shown.summary, max(width, LONGEST_TITLE)))

    @property
    def _hides(self) -> bool:
        """A line that sums it up stands for something that can be looked at."""
        shown = self._done.rendering
        return bool(shown and shown.body.strip()) or "\n" in self._done.result.text.strip()

    # --- that failed ---

    def _failure(self, width: int) -> ClippedRows:
        text = self._done.result.text
        if self._done.denied:
            return first_rows([one_line(summarize_refusal(text), LONGEST_TITLE)], "warning", width, MOST_REFUSAL)
        if words := ENDS.get(text.strip()):
            return ClippedRows([*wrap_rows([words], "warning", width), *[Text(line, "detail") for line in self._said]])
        printed = get_shell_output(self._done.data)
        if printed is None or not text.startswith(printed):
            lines = lines_in(text) or ["it did not say why"]
            return first_rows([f"Failed: {lines[0].strip()}", *lines[1:]], "error", width, MOST_OUTPUT)
        notes = lines_in(text[len(printed) :])
        how = next((note for note in notes if HOW_IT_FAILED.match(note)), notes[0] if notes else "it did not say why")
        head = first_rows([f"Failed: {how[:1].lower()}{how[1:]}"], "error", width, MOST_OUTPUT)
        output = last_rows(lines_in(printed), "detail", width, MOST_OUTPUT)
        more = [left_out(len(notes) - 1)] if len(notes) > 1 else []
        return ClippedRows([*head.rows, *output.rows, *more], head.cut or output.cut or bool(more))

    # --- plans ---

    def _plan(self, width: int) -> ClippedRows | None:
        """All of it: it is what the work is about from here on."""
        facts = facts_of(self._done.data)
        plan, approved = facts.get("plan"), facts.get("approved")
        if self._failed or self._name != "ExitPlanMode" or not isinstance(plan, str) or not isinstance(approved, bool):
            return None
        said = one_line(str(facts.get("said", "")), LONGEST_TITLE)
        words = (
            [] if approved or said.lower() in NO else [*wrap_rows([f"You said: {said}"], "", width - INSIDE), Text()]
        )
        lines = lines_of(MarkdownText(clean_for_drawing(plan)), width - INSIDE)[:MOST_UNFOLDED]
        more, mark = ("approved", "call.done") if approved else ("not approved", "call.failed")
        head = CallTitle("Plan", "").draw(mark, width, f" · {more}")
        return ClippedRows([head, *[clip_text(line, width) for line in indent_with_branch([*words, *lines])]])

    # --- all of it ---

    def whole(self, width: int) -> list[Text]:
        """As much of it as a person reads."""
        rows = self._all(width - INSIDE) or [Text("nothing", "detail")]
        return [self._title.draw(self._mark, width), *[clip_text(row, width) for row in indent_with_branch(rows)]]

    def _all(self, width: int) -> list[Text]:
        shown, content = self._done.rendering, new_file(self._name, self._done.data)
        if shown is not None and shown.kind == "diff" and not self._failed:
            return permission_dialog.render_change(shown.body, width, MOST_UNFOLDED).rows
        if content and not self._failed:
            return permission_dialog.render_new_file(content, width, MOST_UNFOLDED).rows
        lines = lines_in(self._text)
        rows = wrap_rows(lines[:MOST_UNFOLDED], "error" if self._failed else "", width)
        if len(lines) > MOST_UNFOLDED:
            rows.append(Text(f"… {len(lines) - MOST_UNFOLDED:,} more lines are in the file of this session", "detail"))
        return rows

    @property
    def _text(self) -> str:
        """What the model was told, or what there is for a person, whichever says more."""
        body = self._done.rendering.body if self._done.rendering and not self._failed else ""
        return max(self._done.result.text, body, key=len)


def render_interrupted_call(running: ActiveCall, now: float) -> CallResultView:
    """One that ended with its run, and nobody has said how."""
    return CallResultView(running, CallDone(result(running.id, INTERRUPTED, is_error=True)), now)


# --- what tools tell of what they did: they may be anybody's, so it may be anything ---------------------------------


def facts_of(data: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def get_shell_output(data: Any) -> str | None:
    """What a command has printed; None: it is none."""
    printed = facts_of(data).get("stdout")
    return printed.rstrip("\n") if isinstance(printed, str) else None


def new_file(tool: str, data: Any) -> str:
    """What is in a file that was made."""
    facts = facts_of(data)
    content = facts.get("content")
    return content if tool == "Write" and facts.get("type") == "create" and isinstance(content, str) else ""
