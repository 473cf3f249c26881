"""Calls: one that runs, with the end of what it says or what its agent does, and one that is done, as paper has it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from mainspring.assembly.words import count
from mainspring.cli.repl import diffs, tasks
from mainspring.cli.repl.laid import below, in_rows, left_out, lines_in, one_line
from mainspring.cli.repl.live import seconds
from mainspring.cli.repl.page import clipped
from mainspring.core.messages import ToolCall
from mainspring.core.updates import AgentStarted, CallDone

BULLET = "● "
LONGEST_TITLE = 400  # columns: more is on no line
PATIENCE = 2.0  # seconds until it is told how long a call takes
MOST_PROGRESS = 5  # lines of what it says while it runs
MOST_RECENT = 3  # calls of an agent
MOST_OUTPUT = 4  # rows of what came out
MOST_UNFOLDED = 2_000  # lines of it: a few screens can be read, and a terminal keeps a few thousand lines
LOOKING = ("Read", "Grep", "Glob")  # several at once are told in one line each
MANY = 3

Make = Callable[[int], list[Text]]


class Title(NamedTuple):
    name: str
    words: str

    def draw(self, mark: str, width: int, more: str = "") -> Text:
        """`mark`: the bullet's style. The name and what is said behind the title are there at any rate."""
        room = width - cell_len(f"{BULLET}{self.name}(){more}")
        inside = clipped(Text(self.words), room) if self.words and room > 0 else Text()
        words = Text.assemble("(", inside, ")") if inside.plain else Text()
        return clipped(Text.assemble((BULLET, mark), (self.name, "call"), words, (more, "detail")), width)


def titled(call: ToolCall, line: str = "") -> Title:
    """Most tools say their name in the line that they have for a person."""
    name, words = one_line(call.name, LONGEST_TITLE), one_line(line, LONGEST_TITLE)
    if name == "Agent":
        kind, about = (one_line(str(call.input.get(key, "")), 100) for key in ("subagent_type", "description"))
        return Title(name, f"{kind}: {about}" if kind and about else about or kind)
    if name.startswith("mcp__") and words and words != name:
        return Title(words, "")  # the server, its tool and what it is given
    if not words:
        words = one_line(next((value for value in call.input.values() if isinstance(value, str)), ""), LONGEST_TITLE)
    if words.startswith(f"{name}(") and words.endswith(")"):
        words = words[len(name) + 1 : -1]
    return Title(name, "" if words == name else words.removeprefix(f"{name} "))


# --- that run -------------------------------------------------------------------------------------------------------


class Agent:
    """At work for a call, which may be over."""

    def __init__(self, started: AgentStarted, now: float) -> None:
        self.call_id, self.background, self.began = started.call_id, started.background, now
        self.title = Title("Agent", one_line(f"{started.kind}: {started.description}", LONGEST_TITLE))
        self.calls = 0
        self._recent: deque[tuple[str, str]] = deque(maxlen=MOST_RECENT)  # words and their style

    def calls_one(self, call: ToolCall, line: str) -> None:
        self.calls += 1
        title = titled(call, line)
        self._recent.append((f"{title.name}({title.words})" if title.words else title.name, "detail"))

    def was_denied(self, why: str) -> None:
        self._recent.append((one_line(why, LONGEST_TITLE), "error"))

    def figures(self, now: float) -> str:
        return f"{count(self.calls, 'call')} · {seconds(now - self.began)}"

    def draw(self) -> list[Text]:
        return [Text(words, style) for words, style in self._recent]


class Running:
    def __init__(self, call: ToolCall, line: str, now: float) -> None:
        self.title, self.name, self.began = titled(call, line), call.name, now
        self.agent: Agent | None = None
        self._said: list[str] = []

    def says(self, text: str) -> None:
        lines = [line for line in lines_in(text[-10_000:]) if line.strip()]
        self._said = lines[-MOST_PROGRESS:] or self._said

    def draw(self, now: float, width: int) -> list[Text]:
        took = now - self.began
        more = f" {self.agent.figures(now)}" if self.agent else f" {seconds(took)}" if took >= PATIENCE else ""
        lines = self.agent.draw() if self.agent else [Text(line, "detail") for line in self._said]
        head = self.title.draw("call.running", width, more)
        return [head, *[clipped(line, width) for line in below(lines)]]


def of_agent(agent: Agent, now: float, width: int) -> list[Text]:
    """One that works in the background: its call is over."""
    head = agent.title.draw("call.running", width, f" {agent.figures(now)}")
    return [head, *[clipped(line, width) for line in below(agent.draw()[-1:])]]


# --- that are done --------------------------------------------------------------------------------------------------


class Finished:
    def __init__(self, running: Running | None, done: CallDone, now: float) -> None:
        self._title = running.title if running else Title("Call", "")
        self._name = running.name if running else ""
        self._agent = running.agent if running else None
        self._done, self._now = done, now
        self._mark = "call.failed" if done.result.is_error or done.denied else "call.done"

    @property
    def is_quiet(self) -> bool:
        """Its title says all: the tasks are drawn elsewhere."""
        return self._name in tasks.TOOLS and not self._done.result.is_error

    @property
    def only_looks(self) -> bool:
        return self._name in LOOKING and not self._done.result.is_error

    def in_one_line(self, width: int) -> list[Text]:
        shown = self._done.rendering
        more = f" · {one_line(shown.summary, 60)}" if shown is not None and not self.is_quiet else ""
        return [self._title.draw(self._mark, width, more)]

    def draw(self, width: int) -> list[Text]:
        inside = width - 5
        body = self._figures() + self._outcome(inside)
        return [self._title.draw(self._mark, width), *[clipped(line, width) for line in below(body)]]

    def _figures(self) -> list[Text]:
        if self._agent is None or self._done.result.is_error or self._agent.background:
            return []
        return [Text(self._agent.figures(self._now), "detail")]

    def _outcome(self, width: int) -> list[Text]:
        """What is worth a few lines: what went wrong, a change, how an output begins, or one line that sums it up."""
        done, shown = self._done, self._done.rendering
        if done.denied:
            return first_rows(["Denied: " + one_line(done.result.text, 4 * width)], "warning", width)
        if done.result.is_error:
            return last_rows(lines_in(done.result.text), "error", width)
        if shown is None or (shown.kind == "output" and not shown.body.strip()):
            return first_rows(lines_in(done.result.text) or ["nothing"], "detail", width)
        if shown.kind == "diff":
            return [clipped(Text(one_line(shown.summary, width), "detail"), width), *diffs.made(shown.body)(width)]
        if shown.kind == "output" or (shown.body and one_line(shown.summary, LONGEST_TITLE) in self._title):
            return first_rows(lines_in(shown.body), "detail", width)
        return [clipped(Text(one_line(shown.summary, width), "detail"), width)]

    # --- all of it ---

    def whole(self, width: int) -> list[Text]:
        """As much of it as a person reads."""
        shown, failed = self._done.rendering, self._done.result.is_error
        head, inside = self._title.draw(self._mark, width), width - 5
        if shown is not None and shown.kind == "diff" and not failed:
            return [head, *[clipped(line, width) for line in below(diffs.made(shown.body, MOST_UNFOLDED)(inside))]]
        lines = lines_in(self._text)
        rows = in_rows(lines[:MOST_UNFOLDED], "error" if failed else "", inside)
        if len(lines) > MOST_UNFOLDED:
            rows.append(Text(f"… {len(lines) - MOST_UNFOLDED:,} more lines are in the file of this session", "detail"))
        return [head, *[clipped(line, width) for line in below(rows or [Text("nothing", "detail")])]]

    @property
    def _text(self) -> str:
        """What the model was told, or what there is for a person, whichever says more."""
        body = self._done.rendering.body if self._done.rendering and not self._done.result.is_error else ""
        return max(self._done.result.text, body, key=len)


def first_rows(lines: list[str], style: str, width: int) -> list[Text]:
    rows: list[Text] = []
    for at, line in enumerate(lines):
        made = in_rows([line], style, width)
        if len(rows) + len(made) > MOST_OUTPUT:
            rows += made[: MOST_OUTPUT - len(rows)]
            return [*rows, left_out(len(lines) - at)]
        rows += made
    return rows


def last_rows(lines: list[str], style: str, width: int) -> list[Text]:
    """Of what failed, the end says why."""
    rows: list[Text] = []
    for at, line in enumerate(reversed(lines)):
        made = in_rows([line], style, width)
        if len(rows) + len(made) > MOST_OUTPUT:
            rows = made[len(made) - (MOST_OUTPUT - len(rows)) :] + rows
            return [left_out(len(lines) - at), *rows]
        rows = made + rows
    return rows
