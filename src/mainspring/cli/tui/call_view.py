"""How tool calls look: titles, running calls, finished calls, and the task list.

A running call shows the end of its output, or the last calls of its subagent. A finished call goes to the scrollback
as a few lines; Ctrl-O expands it. Failures are described in words, since there may be no colours. The task list shows
a few lines around the task in progress, as the task tools report it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec
from rich.cells import cell_len
from rich.text import Text

from mainspring.agent.permission_updates import DECLINED
from mainspring.cli.tui import diff_view
from mainspring.cli.tui.ansi_text import colour_line, split_output, strip_sgr
from mainspring.cli.tui.layout import (
    ClippedRows,
    clean_for_drawing,
    clip_text,
    clipped_line,
    first_rows,
    indent_with_branch,
    last_rows,
    left_out,
    lines_in,
    wrap_rows,
)
from mainspring.cli.tui.links import make_file_link, make_link
from mainspring.cli.tui.markdown import MarkdownText, lines_of
from mainspring.core.messages import ToolCall, result
from mainspring.core.pairing import NeverRan
from mainspring.core.updates import AgentStarted, CallDone, Rendering
from mainspring.engine.executor import ABANDONED, CANCELLED
from mainspring.permissions import READERS, WRITERS
from mainspring.text import format_elapsed, plural
from mainspring.tools.base import DENIED, INTERRUPTED, INTERRUPTED_AFTER
from mainspring.tools.plan import NO
from mainspring.tools.tasks import Status, Task

BULLET = "● "
LONGEST_TITLE = 400  # columns: no line shows more
PATIENCE = 2.0  # seconds before the elapsed time of a call is shown
MOST_PROGRESS = 5  # lines of output of a running call
MOST_RECENT = 3  # calls shown for a subagent
ABOUT_FILES = READERS | WRITERS  # their titles contain paths only
SAID_NO = "The user said no: "  # prefix that `deny_approval` writes before the user's reason


class CallTitle(NamedTuple):
    name: str
    words: str
    link: str = ""  # to the file that the words name

    def draw(self, mark: str, width: int, more: str = "") -> Text:
        """`mark`: style of the bullet. The name and `more` are always drawn; the words are clipped to fit."""
        room = width - cell_len(f"{BULLET}{self.name}(){more}")
        inside = clip_text(Text(self.words), room) if self.words and room > 0 else Text()
        if self.link and inside.plain:
            inside.stylize(make_link(self.link))
        words = Text.assemble("(", inside, ")") if inside.plain else Text()
        return clip_text(Text.assemble((BULLET, mark), (self.name, "call"), words, (more, "detail")), width)


def make_call_title(call: ToolCall, line: str = "", root: str = "") -> CallTitle:
    """Most tools repeat their name in their one-line description: remove it."""
    name, words = clipped_line(call.name, LONGEST_TITLE), clipped_line(line, LONGEST_TITLE)
    if name == "Agent":
        kind, about = (clipped_line(str(call.input.get(key, "")), 100) for key in ("subagent_type", "description"))
        return CallTitle(name, f"{kind}: {about}" if kind and about else about or kind)
    if name.startswith("mcp__") and words and words != name:
        return CallTitle(words, "")  # it names the server, its tool and the input
    if not words:
        words = clipped_line(
            next((value for value in call.input.values() if isinstance(value, str)), ""), LONGEST_TITLE
        )
    if words.startswith(f"{name}(") and words.endswith(")"):
        words = words[len(name) + 1 : -1]
    shown = "" if words == name else seen_from(root, name, words.removeprefix(f"{name} "))
    return CallTitle(name, shown, find_file_link(call, shown, root))


def find_file_link(call: ToolCall, shown: str, root: str) -> str:
    """To the file of a call, if its title is the path."""
    path = call.input.get("notebook_path", call.input.get("file_path"))
    is_path = isinstance(path, str) and call.name in ABOUT_FILES and bool(shown) and path.endswith(shown)
    return make_file_link(path, root) if is_path and isinstance(path, str) else ""


# --- paths ----------------------------------------------------------------------------------------------------------


def seen_from(root: str, tool: str, words: str) -> str:
    """Make the paths in a tool's description relative to the working directory. Commands stay as they are run."""
    if tool not in ABOUT_FILES or not root.strip("/"):
        return words
    if tool == "Grep":  # the pattern may look like a path
        pattern, sign, place = words.rpartition(" in ")
        return f"{pattern}{sign}{make_paths_relative(place, root)}".removesuffix(" in .") if sign else words
    return make_paths_relative(words, root).removesuffix(" in .")


def make_paths_relative(words: str, root: str) -> str:
    return compile_root_pattern(root.rstrip("/")).sub(lambda found: "" if found[1] else ".", words)


@lru_cache(maxsize=4)
def compile_root_pattern(root: str) -> re.Pattern[str]:
    """Match the start of a path that is the folder itself or inside it."""
    return re.compile(rf"(?<![^\s'\"(]){re.escape(root)}(?:(/)(?=[^\s'\")])|/?(?=[\s'\"):,]|$))")


# --- refusals -------------------------------------------------------------------------------------------------------


def summarize_refusal(text: str, by: str = "") -> str:
    """Describe for the user why a call was denied: the original text is written for the model. `by`: the hook that
    denied it."""
    said = text.strip()
    if by:
        return f"Denied by {by}: {said}"
    if said == DECLINED:  # the run has ended with it
        return "Declined. What should the model do instead?"
    if said == DENIED:
        return "Declined"
    if said.startswith(SAID_NO):
        return f"Declined: {said.removeprefix(SAID_NO)}"
    return f"Denied: {said.removeprefix('Not allowed: ')}"  # by a rule or a hook


# --- running calls --------------------------------------------------------------------------------------------------


class SubagentLine:
    """A subagent that works for a call. The call may be over (background)."""

    def __init__(self, started: AgentStarted, now: float) -> None:
        self.call_id, self.background, self.began = started.call_id, started.background, now
        self.title = CallTitle("Agent", clipped_line(f"{started.kind}: {started.description}", LONGEST_TITLE))
        self._calls = 0
        self._counted = True
        self._recent: deque[tuple[str, str]] = deque(maxlen=MOST_RECENT)  # text and style

    def calls_one(self, call: ToolCall, line: str, root: str = "") -> None:
        self._calls += 1
        title = make_call_title(call, line, root)
        self._recent.append((f"{title.name}({title.words})" if title.words else title.name, "detail"))

    def was_denied(self, why: str) -> None:
        self._recent.append((clipped_line(summarize_refusal(why), LONGEST_TITLE), "error"))

    def is_out_of_sight(self) -> None:
        """From now on it may make calls that are not shown."""
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
        self.said: list[str] = []  # the end of its output

    def says(self, text: str) -> None:
        lines = [line for line in split_output(text[-10_000:]) if strip_sgr(line).strip()]
        self.said = lines[-MOST_PROGRESS:] or self.said

    def draw(self, now: float, width: int) -> list[Text]:
        took = now - self.began
        more = f" {self.agent.figures(now)}" if self.agent else f" {format_elapsed(took)}" if took >= PATIENCE else ""
        lines = self.agent.draw() if self.agent else [colour_line(line, "detail") for line in self.said]
        head = self.title.draw("call.running", width, more)
        return [head, *[clip_text(line, width) for line in indent_with_branch(lines)]]


def render_subagent_line(agent: SubagentLine, now: float, width: int) -> list[Text]:
    """A background subagent: its call is over."""
    head = agent.title.draw("call.running", width, f" {agent.figures(now)}")
    return [head, *[clip_text(line, width) for line in indent_with_branch(agent.draw()[-1:])]]


TOOLS = ("TaskCreate", "TaskUpdate", "TaskList")
MOST_LINES = 8
MOST_PRINTED = 30  # tasks in the scrollback

MARKS: dict[Status, str] = {"pending": "☐", "in_progress": "❯", "completed": "☒"}
STYLES: dict[Status, str] = {"pending": "task.open", "in_progress": "task.now", "completed": "task.done"}
LEFT_OUT: dict[Status, str] = {"pending": "open", "in_progress": "in progress", "completed": "done"}


class TaskList:
    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self.changed = False  # since it was last printed
        self.printed_short = False  # the last printed form is one line

    def see(self, tool: str, data: Any) -> bool:
        """Handle the result of a call; returns whether it is one of a task tool."""
        if tool not in TOOLS or not isinstance(data, dict):
            return False
        try:
            found = msgspec.convert(cast("dict[str, Any]", data).get("tasks"), list[Task])
        except msgspec.ValidationError:
            return False  # another tool with the same name
        self.changed = self.changed or found != self._tasks
        self._tasks = found
        return True

    def forget(self) -> None:
        self._tasks = []
        self.changed = self.printed_short = False

    def settle(self, *, whole: bool) -> Callable[[int], list[Text]] | None:
        """What to print about the tasks now; None: nothing. `whole`: the list, if it is not all done."""
        tasks = tuple(self._tasks)
        self.changed = False
        done = len([task for task in tasks if task.status == "completed"])
        if not tasks or (whole and done == len(tasks) and self.printed_short):
            self.printed_short = False
            return None
        self.printed_short = not whole
        figures = f" · {done} of {len(tasks)} done"
        under_way = "" if whole else self.under_way
        title = CallTitle("Tasks", "")

        def draw(width: int) -> list[Text]:
            more = f"{figures} · {clipped_line(under_way, width)}" if under_way else figures
            head = title.draw("call.done", width, more)
            rows = [render_task(task, width - INSIDE) for task in tasks[:MOST_PRINTED]] if whole else []
            left = [left_out(len(tasks) - MOST_PRINTED, unfolds=False)] if whole and len(tasks) > MOST_PRINTED else []
            return [head, *[clip_text(row, width) for row in indent_with_branch([*rows, *left])]]

        return draw

    @property
    def under_way(self) -> str:
        """The task in progress, in the model's words."""
        return next((task.active_form or task.subject for task in self._tasks if task.status == "in_progress"), "")

    def draw(self, width: int, height: int) -> list[Text]:
        """Draw nothing if all tasks are done."""
        most = min(MOST_LINES, height)
        if most < 1 or all(task.status == "completed" for task in self._tasks):
            return []
        if len(self._tasks) <= most:
            return [render_task(task, width) for task in self._tasks]
        first = self._first(most - 1)
        shown = self._tasks[first : first + most - 1]
        rest = [*self._tasks[:first], *self._tasks[first + most - 1 :]]
        return [
            *[render_task(task, width) for task in shown],
            clip_text(Text(f"… {count_left_out(rest)}", "detail"), width),
        ]

    def _first(self, most: int) -> int:
        """Centre the task in progress, or else the next one."""
        states = [task.status for task in self._tasks]
        now = states.index("in_progress" if "in_progress" in states else "pending")
        return max(0, min(now - most // 2, len(states) - most))


def render_task(task: Task, width: int) -> Text:
    words = task.active_form or task.subject if task.status == "in_progress" else task.subject
    mark = Text(f"{MARKS[task.status]} ", "detail" if task.status == "completed" else STYLES[task.status])
    return clip_text(Text.assemble(mark, (clipped_line(words, width), STYLES[task.status])), width)


def count_left_out(tasks: list[Task]) -> str:
    states = [task.status for task in tasks]
    return ", ".join([f"{number} {words}" for status, words in LEFT_OUT.items() if (number := states.count(status))])


MOST_OUTPUT = 4  # rows of output
MOST_WRITTEN = 10  # lines of a new file
MOST_REFUSAL = 2  # rows: a hook may write a long text for the model
MOST_UNFOLDED = 2_000  # lines: readable in a few screens, and terminals keep a few thousand lines
LOOKING = ("Read", "Grep", "Glob")  # one line each
INSIDE = 5  # columns of indentation below a call

# How an unfinished call ended; the output it printed until then is kept.
ENDS: dict[str, str] = {
    INTERRUPTED: "Interrupted",
    ABANDONED: "Interrupted. It may still be running",
    NeverRan.INTERRUPTED: "Interrupted before it ran",
    CANCELLED: "Not run: an earlier command failed",
}
HOW_IT_FAILED = re.compile(r"(Exit code|Ended by signal|It did not end)")  # of a command, after its output
# What errors of our tools tell the model to do next; Ctrl-O shows all.
FOR_THE_MODEL = re.compile(r" Nothing was done\b.*| Available: .*|: use Read on it .*", re.DOTALL)
IN_BACKGROUND = "Runs in the background"


class CallResultView:
    def __init__(self, running: ActiveCall | None, done: CallDone, now: float, root: str = "") -> None:
        self._title = running.title if running else CallTitle("Call", "")
        self._name = running.name if running else ""
        self._agent = running.agent if running else None
        self._said = running.said if running else []
        self._done, self._now, self._root = done, now, root
        self._failed = done.result.is_error or done.denied
        self._mark = "call.failed" if self._failed else "call.done"

    @property
    def call_id(self) -> str:
        return self._done.result.call_id

    @property
    def name(self) -> str:
        """The tool's."""
        return self._name or self._title.name

    @property
    def failed(self) -> bool:
        return self._failed

    @property
    def in_short(self) -> bool:
        """One line is enough: for files that were read or searched, and for tasks, which have their own list."""
        return not self._failed and (self._name in LOOKING or self._name in TOOLS)

    # --- in a few lines ---

    def head(self, width: int) -> Text:
        return self._title.draw(self._mark, width)

    def draw(self, width: int) -> list[Text]:
        part = self._in_short(width) if self.in_short else self._plan(width) or self._in_lines(width)
        return part.rows

    def _in_short(self, width: int) -> ClippedRows:
        shown = self._done.rendering
        if shown is None or self._name in TOOLS:
            return ClippedRows([self._title.draw(self._mark, width)], self._hides)
        words = self._summary(shown, 60).removeprefix("Read ").removeprefix("Found ")
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
        """A few lines: the error, the change, the end of the output, or a one-line summary."""
        done, shown, text = self._done, self._done.rendering, self._done.result.text
        if self._failed:
            return self._failure(width)
        if self._agent is not None and self._agent.background:
            return ClippedRows([Text(IN_BACKGROUND, "detail")])
        if shown is None or (shown.kind == "output" and not shown.body.strip()):
            return first_rows(lines_in(text) or ["nothing"], "detail", width, MOST_OUTPUT)
        summary = clip_text(Text(self._summary(shown, width), "detail"), width)
        if shown.kind == "diff":
            change = diff_view.render_change(shown.body, width, path=self._path)
            return ClippedRows([summary, *change.rows], change.cut)
        if content := new_file(self._name, done.data):
            begin = diff_view.render_new_file(content, width, MOST_WRITTEN, self._path)
            return ClippedRows([summary, *begin.rows], begin.cut)
        if shown.kind == "output" and not self._name.startswith("mcp__"):
            # A build reports its outcome at the end, and the user has just seen these lines.
            return last_rows(split_output(shown.body), "detail", width, MOST_OUTPUT, colour_line)
        if shown.kind == "output" or (shown.body and clipped_line(shown.summary, LONGEST_TITLE) in self._title):
            return first_rows(lines_in(shown.body), "detail", width, MOST_OUTPUT)
        return ClippedRows([summary], self._hides)

    def _summary(self, shown: Rendering, width: int) -> str:
        return seen_from(self._root, self._name, clipped_line(shown.summary, max(width, LONGEST_TITLE)))

    @property
    def _path(self) -> str:
        """The changed file; its name tells the language."""
        return str(facts_of(self._done.data).get("filePath", ""))

    @property
    def _hides(self) -> bool:
        """Whether there is more to show than the one-line summary."""
        shown = self._done.rendering
        return bool(shown and shown.body.strip()) or "\n" in self._done.result.text.strip()

    # --- failed calls ---

    def _failure(self, width: int) -> ClippedRows:
        text = self._done.result.text
        if self._done.denied:
            by = self._done.rendering.summary if self._done.rendering is not None else ""
            said = clipped_line(summarize_refusal(text, by), LONGEST_TITLE)
            return first_rows([said], "warning", width, MOST_REFUSAL)
        if words := "Interrupted" if text.startswith(INTERRUPTED_AFTER) else ENDS.get(text.strip()):
            return ClippedRows(
                [*wrap_rows([words], "warning", width), *[colour_line(line, "detail") for line in self._said]]
            )
        printed = get_shell_output(self._done.data)
        if printed is None or not text.startswith(printed):
            lines = lines_in(FOR_THE_MODEL.sub("", text)) or lines_in(text) or ["no reason given"]
            lines = [make_paths_relative(line, self._root) for line in lines] if self._root.strip("/") else lines
            rows = first_rows([f"Failed: {lines[0].strip()}", *lines[1:]], "error", width, MOST_OUTPUT)
            return ClippedRows(rows.rows, rows.cut or FOR_THE_MODEL.search(text) is not None)
        notes = lines_in(text[len(printed) :])
        how = next((note for note in notes if HOW_IT_FAILED.match(note)), notes[0] if notes else "no reason given")
        head = first_rows([f"Failed: {how[:1].lower()}{how[1:]}"], "error", width, MOST_OUTPUT)
        output = last_rows(split_output(printed), "detail", width, MOST_OUTPUT, colour_line)
        more = [left_out(len(notes) - 1)] if len(notes) > 1 else []
        return ClippedRows([*head.rows, *output.rows, *more], head.cut or output.cut or bool(more))

    # --- plans ---

    def _plan(self, width: int) -> ClippedRows | None:
        """Draw the whole plan: the rest of the session is about it."""
        facts = facts_of(self._done.data)
        plan, approved = facts.get("plan"), facts.get("approved")
        if self._failed or self._name != "ExitPlanMode" or not isinstance(plan, str) or not isinstance(approved, bool):
            return None
        said = clipped_line(str(facts.get("said", "")), LONGEST_TITLE)
        words = (
            [] if approved or said.lower() in NO else [*wrap_rows([f"You said: {said}"], "", width - INSIDE), Text()]
        )
        lines = lines_of(MarkdownText(clean_for_drawing(plan)), width - INSIDE)[:MOST_UNFOLDED]
        more, mark = ("approved", "call.done") if approved else ("not approved", "call.failed")
        head = CallTitle("Plan", "").draw(mark, width, f" · {more}")
        return ClippedRows([head, *[clip_text(line, width) for line in indent_with_branch([*words, *lines])]])

    # --- in the transcript ---

    def whole(self, width: int) -> list[Text]:
        """Draw everything, up to what a person reads. The title comes first, in one line."""
        rows = self._all(width - INSIDE) or [Text("nothing", "detail")]
        return [self._title.draw(self._mark, width), *[clip_text(row, width) for row in indent_with_branch(rows)]]

    def _all(self, width: int) -> list[Text]:
        shown, content = self._done.rendering, new_file(self._name, self._done.data)
        if shown is not None and shown.kind == "diff" and not self._failed:
            return diff_view.render_change(shown.body, width, MOST_UNFOLDED, self._path).rows
        if content and not self._failed:
            return diff_view.render_new_file(content, width, MOST_UNFOLDED, self._path).rows
        lines = split_output(self._text)
        style = "error" if self._failed else ""
        rows = wrap_rows([colour_line(line, style) for line in lines[:MOST_UNFOLDED]], style, width)
        if len(lines) > MOST_UNFOLDED:
            rows.append(Text(f"… {plural(len(lines) - MOST_UNFOLDED, 'more line')} in the session file", "detail"))
        return rows

    @property
    def _text(self) -> str:
        """The text for the model or the rendering for the user, whichever says more."""
        body = self._done.rendering.body if self._done.rendering and not self._failed else ""
        return max(self._done.result.text, body, key=len)


def render_interrupted_call(running: ActiveCall, now: float) -> CallResultView:
    """A call that ended with its run and has no result."""
    return CallResultView(running, CallDone(result(running.id, INTERRUPTED, is_error=True)), now)


# --- data of tools: it may come from any tool, so it may have any form ----------------------------------------------


def facts_of(data: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def get_shell_output(data: Any) -> str | None:
    """The output of a shell command; None if the data is of another tool."""
    printed = facts_of(data).get("stdout")
    return printed.rstrip("\n") if isinstance(printed, str) else None


def new_file(tool: str, data: Any) -> str:
    """The content of a newly created file."""
    facts = facts_of(data)
    content = facts.get("content")
    return content if tool == "Write" and facts.get("type") == "create" and isinstance(content, str) else ""
