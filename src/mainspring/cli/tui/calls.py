"""Calls: how they are titled, and those that run, with the end of what they say or of what their agents do.

What they come to is in `call_view.py`.
"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from mainspring.agent.permission_updates import DECLINED
from mainspring.cli.tui.laid import indent_with_branch, lines_in, one_line
from mainspring.cli.tui.layout import clip_text
from mainspring.cli.tui.live import format_elapsed
from mainspring.core.messages import ToolCall
from mainspring.core.updates import AgentStarted
from mainspring.text import plural
from mainspring.tools.base import DENIED

BULLET = "● "
LONGEST_TITLE = 400  # columns: more is on no line
PATIENCE = 2.0  # seconds until it is told how long a call takes
MOST_PROGRESS = 5  # lines of what it says while it runs
MOST_RECENT = 3  # calls of an agent
ABOUT_FILES = ("Read", "Edit", "Write", "NotebookEdit", "Grep", "Glob")  # their words name paths, and say no more
SAID_NO = "The user said no: "  # `granting.refused`, before the words


class CallTitle(NamedTuple):
    name: str
    words: str

    def draw(self, mark: str, width: int, more: str = "") -> Text:
        """`mark`: the bullet's style. The name and what is said behind the title are there at any rate."""
        room = width - cell_len(f"{BULLET}{self.name}(){more}")
        inside = clip_text(Text(self.words), room) if self.words and room > 0 else Text()
        words = Text.assemble("(", inside, ")") if inside.plain else Text()
        return clip_text(Text.assemble((BULLET, mark), (self.name, "call"), words, (more, "detail")), width)


def make_call_title(call: ToolCall, line: str = "", root: str = "") -> CallTitle:
    """Most tools say their name in the line that they have for a person."""
    name, words = one_line(call.name, LONGEST_TITLE), one_line(line, LONGEST_TITLE)
    if name == "Agent":
        kind, about = (one_line(str(call.input.get(key, "")), 100) for key in ("subagent_type", "description"))
        return CallTitle(name, f"{kind}: {about}" if kind and about else about or kind)
    if name.startswith("mcp__") and words and words != name:
        return CallTitle(words, "")  # the server, its tool and what it is given
    if not words:
        words = one_line(next((value for value in call.input.values() if isinstance(value, str)), ""), LONGEST_TITLE)
    if words.startswith(f"{name}(") and words.endswith(")"):
        words = words[len(name) + 1 : -1]
    return CallTitle(name, "" if words == name else seen_from(root, name, words.removeprefix(f"{name} ")))


# --- paths ----------------------------------------------------------------------------------------------------------


def seen_from(root: str, tool: str, words: str) -> str:
    """What a tool says of files, with paths as they are called in the working folder. A command stays as it is run."""
    if tool not in ABOUT_FILES or not root.strip("/"):
        return words
    if tool == "Grep":  # what is looked for may look like a path
        pattern, sign, place = words.rpartition(" in ")
        return f"{pattern}{sign}{make_paths_relative(place, root)}".removesuffix(" in .") if sign else words
    return make_paths_relative(words, root).removesuffix(" in .")


def make_paths_relative(words: str, root: str) -> str:
    return compile_root_pattern(root.rstrip("/")).sub(lambda found: "" if found[1] else ".", words)


@lru_cache(maxsize=4)
def compile_root_pattern(root: str) -> re.Pattern[str]:
    """Where a path begins that is the folder, or is in it."""
    return re.compile(rf"(?<![^\s'\"(]){re.escape(root)}(?:(/)(?=[^\s'\")])|/?(?=[\s'\"):,]|$))")


# --- refusals -------------------------------------------------------------------------------------------------------


def summarize_refusal(text: str) -> str:
    """Why a call was not done. The words of it are meant for a model, which should know what to do next."""
    said = text.strip()
    if said in (DENIED, DECLINED):
        why = "you said no"
    elif said.startswith(SAID_NO):
        why = f"you said no: {said.removeprefix(SAID_NO)}"
    else:  # of a rule or a hook
        why = said.removeprefix("Not allowed: ")
    return f"Not done: {why}"


# --- that run -------------------------------------------------------------------------------------------------------


class SubagentLine:
    """At work for a call, which may be over."""

    def __init__(self, started: AgentStarted, now: float) -> None:
        self.call_id, self.background, self.began = started.call_id, started.background, now
        self.title = CallTitle("Agent", one_line(f"{started.kind}: {started.description}", LONGEST_TITLE))
        self._calls = 0
        self._counted = True
        self._recent: deque[tuple[str, str]] = deque(maxlen=MOST_RECENT)  # words and their style

    def calls_one(self, call: ToolCall, line: str, root: str = "") -> None:
        self._calls += 1
        title = make_call_title(call, line, root)
        self._recent.append((f"{title.name}({title.words})" if title.words else title.name, "detail"))

    def was_denied(self, why: str) -> None:
        self._recent.append((one_line(summarize_refusal(why), LONGEST_TITLE), "error"))

    def is_out_of_sight(self) -> None:
        """From now on it may make calls that nobody sees."""
        self._counted = False

    def figures(self, now: float) -> str:
        took = format_elapsed(now - self.began)
        return f"{plural(self._calls, 'call')} · {took}" if self._calls and self._counted else took

    def draw(self) -> list[Text]:
        return [Text(words, style) for words, style in self._recent]


class ActiveCall:
    def __init__(self, call: ToolCall, line: str, now: float, root: str = "") -> None:
        self.title, self.id, self.name, self.began = make_call_title(call, line, root), call.id, call.name, now
        self.agent: SubagentLine | None = None
        self.said: list[str] = []  # the end of it

    def says(self, text: str) -> None:
        lines = [line for line in lines_in(text[-10_000:]) if line.strip()]
        self.said = lines[-MOST_PROGRESS:] or self.said

    def draw(self, now: float, width: int) -> list[Text]:
        took = now - self.began
        more = f" {self.agent.figures(now)}" if self.agent else f" {format_elapsed(took)}" if took >= PATIENCE else ""
        lines = self.agent.draw() if self.agent else [Text(line, "detail") for line in self.said]
        head = self.title.draw("call.running", width, more)
        return [head, *[clip_text(line, width) for line in indent_with_branch(lines)]]


def render_subagent_line(agent: SubagentLine, now: float, width: int) -> list[Text]:
    """One that works in the background: its call is over."""
    head = agent.title.draw("call.running", width, f" {agent.figures(now)}")
    return [head, *[clip_text(line, width) for line in indent_with_branch(agent.draw()[-1:])]]
