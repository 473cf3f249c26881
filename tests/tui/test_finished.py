"""Calls as they end: what stands on paper of what they came to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tools.bash_hands import bash

from mainspring.cli.tui.layout import Painter
from mainspring.core.errors import ToolError
from mainspring.core.pairing import NeverRan
from mainspring.core.updates import CallProgress, Rendering
from mainspring.engine.executor import ABANDONED, CANCELLED
from mainspring.testing.world import FakeToolContext
from mainspring.tools.base import DENIED, INTERRUPTED, ToolAnswer
from mainspring.tools.edit import EDIT
from mainspring.tools.plan import plan_tools
from mainspring.tools.read import READ
from mainspring.tools.write import WRITE
from tui.seeing import Watching

LINES = "\n".join([f"row {at}" for at in range(41)])
DIFF = "--- a\n+++ a\n@@ -1,1 +1,30 @@\n" + "".join([f"+new {at}\n" for at in range(30)])
FIRST = ["row 0", "row 1", "row 2", "row 3", "… +37 lines (ctrl+o)"]
LAST = ["… 37 lines before (ctrl+o)", "row 37", "row 38", "row 39", "row 40"]


def below(*lines: str) -> list[str]:
    return [f"  ⎿  {lines[0]}", *[f"     {line}".rstrip() for line in lines[1:]]]


@pytest.mark.parametrize(
    ("text", "shown", "flags", "words"),
    [
        ("one", None, {}, ["one"]),
        ("", None, {}, ["nothing"]),
        (LINES, None, {}, FIRST),
        ("told", Rendering("make", LINES, "output"), {}, LAST),
        ("no output", Rendering("make", "", "output"), {}, ["no output"]),
        ("told", Rendering("Read 3 lines"), {}, ["Read 3 lines"]),
        ("told", Rendering("Found 2 files", "a\nb"), {}, ["Found 2 files"]),
        ("told", Rendering("make", "in the background: b1"), {}, ["in the background: b1"]),
        (LINES, None, {"wrong": True}, ["Failed: row 0", *FIRST[1:]]),
        ("", None, {"wrong": True}, ["Failed: no reason given"]),
        ("x" * 300, None, {}, ["x" * 55] * 4 + ["… +1 line (ctrl+o)"]),
        (DENIED, None, {"wrong": True, "denied": True}, ["Declined"]),
        ("not\nallowed", None, {"wrong": True, "denied": True}, ["Denied: not allowed"]),
        ("never " * 60, None, {"wrong": True, "denied": True},
         ["Denied: " + "never " * 6 + "never", "never " * 8 + "never", "… +1 line (ctrl+o)"]),
        (CANCELLED, None, {"wrong": True}, ["Not run: an earlier command failed"]),
    ],
)  # fmt: skip
def test_an_outcome_is_a_few_lines(text: str, shown: Rendering | None, flags: dict[str, Any], words: list[str]) -> None:
    said = Watching().reply().calls("Bash", "make").done(text, shown, **flags).paper.said
    assert said == ["● Bash(make)", *below(*words)]


def test_what_a_server_s_tool_says_is_told_from_its_beginning() -> None:
    said = Watching().reply().calls("mcp__git__log", "git: log").done("t", Rendering("git: log", LINES, "output"))
    assert said.paper.said == ["● git: log", *below(*FIRST)]


# --- what went wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "more", "words"),
    [
        ("seq 1 41; exit 3", {}, ["Failed: exit code 3", "… 37 lines before (ctrl+o)", "38", "39", "40", "41"]),
        ("echo why; false", {}, ["Failed: exit code 1", "why"]),
        ("exit 2", {}, ["Failed: exit code 2"]),
        ("echo a; kill -9 $$", {}, ["Failed: ended by signal SIGKILL: the memory may have ", "run out", "a"]),
        ("echo a; sleep 9", {"timeout": 100},
         ["Failed: it did not end within 0.1 seconds and was ", "ended: use 'run_in_background', a longer 'timeout' ",
          "(600000 at most), or do less at once.", "a"]),
        ("seq 1 41", {}, ["… 37 lines before (ctrl+o)", "38", "39", "40", "41"]),
    ],
)  # fmt: skip
def test_a_command_says_how_it_failed_and_how_its_output_ends(
    command: str, more: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    said = Watching().reply().calls("Bash", command).tells(bash(tmp_path, command, **more)).paper.said
    assert [line.rstrip() for line in said[1:]] == [line.rstrip() for line in below(*words)]


def test_what_the_model_is_told_of_the_sandbox_is_folded() -> None:
    data = {"stdout": "no\n", "stderr": ""}
    seen = (
        Watching().reply().calls("Bash", "make").done("no\nIt ran in the sandbox.\nExit code 1", data=data, wrong=True)
    )
    assert seen.paper.said[1:] == below("Failed: exit code 1", "no", "… +1 line (ctrl+o)")
    assert "     It ran in the sandbox." in seen.whole("c")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (INTERRUPTED, "Interrupted"),
        (ABANDONED, "Interrupted. It may still be running"),
        (NeverRan.INTERRUPTED, "Interrupted before it ran"),
    ],
)
def test_an_interrupted_call_keeps_what_was_seen_of_it(text: str, words: str) -> None:
    seen = Watching().reply().calls("Bash", "make").see(CallProgress("c", "one\ntwo\n"))
    assert seen.drawn()[:3] == ["● Bash(make)", *below("one", "two")]
    assert seen.done(text, wrong=True).paper.said == ["● Bash(make)", *below(words, "one", "two")]


def test_a_call_that_ends_with_its_run_is_told() -> None:
    seen = Watching().reply().calls("Bash", "make").see(CallProgress("c", "one\n"))
    seen.shown.broke_off("no memory")
    assert seen.paper.said == ["● Bash(make)", *below("Interrupted", "one"), "The run failed: no memory"]


@pytest.mark.parametrize(
    ("flags", "colour"), [({}, "32"), ({"wrong": True}, "31"), ({"wrong": True, "denied": True}, "31")]
)
def test_the_bullet_is_green_or_red(flags: dict[str, Any], colour: str) -> None:
    seen = Watching()
    seen.paper._painter = Painter()
    seen.reply().calls("Bash", "make").done("text", **flags)
    assert f"\x1b[{colour}m● \x1b" in seen.paper.raw


def test_an_outcome_nobody_knows_the_call_of_is_shown_all_the_same() -> None:
    """Cancelled before it began."""
    assert Watching().reply().done("cancelled", wrong=True).paper.said == ["● Call", "  ⎿  Failed: cancelled"]


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_change_is_told_by_its_lines() -> None:
    seen = Watching().reply().calls("Edit", "Edit a").done("ok", Rendering("Edited a (+30 -0)", DIFF, "diff"))
    assert seen.paper.said[:3] == ["● Edit(a)", "  ⎿  Edited a (+30 -0)", "      1 + new 0"]
    assert seen.paper.said[-2:] == ["     20 + new 19", "     … +10 lines (ctrl+o)"]


def test_files_are_named_from_the_working_folder(tmp_path: Path) -> None:
    file = str(tmp_path / "a.py")
    hands, seen = FakeToolContext(str(tmp_path)), Watching(100, str(tmp_path)).reply()
    seen.calls("Write", f"Write {file}").tells(hands.now(WRITE, file_path=file, content="one\n" * 12))
    assert seen.paper.said == [
        "● Write(a.py)", "  ⎿  Wrote 12 lines to a.py", *[f"     {at:>2}  one" for at in range(1, 11)],
        "     … +2 lines (ctrl+o)",
    ]  # fmt: skip
    seen.calls("Read", f"Read {file}").tells(hands.now(READ, file_path=file, limit=1))
    assert seen.paper.said[-1] == "● Read(a.py) · 1 line"
    seen.calls("Edit", f"Edit {file}").tells(
        hands.now(EDIT, file_path=file, old_string="one\n" * 12, new_string="two\n")
    )
    assert seen.paper.said[14:18] == ["● Edit(a.py)", "  ⎿  Edited a.py (+1 -12)", "      1 - one", "      2 - one"]
    seen.calls("Write", f"Write {file}").tells(hands.now(WRITE, file_path=file, content="three\n"))
    assert seen.paper.said[-4:] == [
        "● Write(a.py)", "  ⎿  Wrote a.py (+1 -1)", "     1 - two", "     1 + three",
    ]  # fmt: skip
    with pytest.raises(ToolError) as wrong:
        hands.now(READ, file_path=f"{file}x")
    seen.calls("Read", f"Read {file}x").done(str(wrong.value), wrong=True)
    assert "  ⎿  Failed: 'a.pyx' does not exist." in "\n".join(seen.paper.said)


def test_what_a_machine_has_written_in_one_line_does_not_fill_the_screen() -> None:
    data = {"type": "create", "content": "x" * 9_000}
    seen = Watching().reply().calls("Write", "Write a").done("ok", Rendering("Wrote 1 line to a"), data=data)
    assert len(seen.paper.said) == 2 + 30 + 1
    assert seen.paper.said[-1] == "     … +1 line (ctrl+o)"


@pytest.mark.parametrize("count", [1, 2, 5])
def test_looks_are_one_line_each_however_many_there_are(count: int) -> None:
    seen = Watching().reply()
    for at in range(count):
        seen.calls("Read", f"Read {at}.py", str(at)).done("1\tx", Rendering("Read 80 lines"), str(at))
    seen.calls("Grep", "Grep x").done("a\nb", Rendering("Found 2 files", "a\nb"))
    seen.calls("Glob", "Glob y").done("a", Rendering("Found 1 file", "a"))
    reads = [f"● Read({at}.py) · 80 lines" for at in range(count)]
    assert seen.paper.lines[1:] == [*reads, "● Grep(x) · 2 files", "● Glob(y) · 1 file", ""]


# --- plans ----------------------------------------------------------------------------------------------------------


def planned(said: str, plan: str) -> ToolAnswer:
    mode = ["plan"]

    async def change(new: str) -> None:
        mode[0] = new

    _, leave = plan_tools(lambda: mode[0], change)
    return FakeToolContext("/", answers=(said,)).now(leave, plan=plan)


PLAN = "## First\n\n- do *this*\n- and that\n"


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        ("yes", ["● Plan · approved", *below("First", "", "- do this", "- and that")]),
        ("no", ["● Plan · not approved", *below("First", "", "- do this", "- and that")]),
        (
            "use\nsqlite",
            ["● Plan · not approved", *below("You said: use sqlite", "", "First", "", "- do this", "- and that")],
        ),
    ],
)
def test_a_plan_stands_on_paper_with_what_was_said_of_it(said: str, lines: list[str]) -> None:
    seen = Watching().reply().calls("ExitPlanMode", "Show the plan").tells(planned(said, PLAN))
    assert seen.paper.lines[1:-1] == lines


@pytest.mark.parametrize(
    "data", [None, [], {"plan": 3, "approved": True}, {"plan": "x"}, {"plan": "x", "approved": "n"}]
)
def test_what_is_no_plan_is_told_like_any_other_call(data: Any) -> None:
    said = Watching().reply().calls("ExitPlanMode", "Show it").done("ok", data=data).paper.said
    assert said == ["● ExitPlanMode(Show it)", "  ⎿  ok"]
