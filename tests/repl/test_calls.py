"""Calls, as they are titled and as they end."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.cli.repl.calls import titled
from mainspring.cli.repl.paint import Painter
from mainspring.core.messages import ToolCall
from mainspring.core.updates import Rendering
from repl.seeing import Watching


@pytest.mark.parametrize(
    ("name", "line", "given", "words"),
    [
        ("Bash", "ls -la", {"command": "ls -la"}, "Bash(ls -la)"),
        ("Read", "Read a.py", {}, "Read(a.py)"),
        ("Read", "Read", {"file_path": "a.py"}, "Read"),
        ("Read", "", {"file_path": "a\n.py"}, "Read(a .py)"),
        ("weather", "weather(city='Rome')", {}, "weather(city='Rome')"),
        ("mcp__git__log", "git: log(n=3)", {}, "git: log(n=3)"),
        ("Agent", "Agent (Explore): look", {"subagent_type": "Explore", "description": "look"}, "Agent(Explore: look)"),
        ("Agent", "", {"description": "look", "subagent_type": 3}, "Agent(3: look)"),
        ("Bash", "a\x1b[2Jb\tc\x07", {}, "Bash(a[2Jb c)"),
        ("Enter", "", {}, "Enter"),
    ],
)
def test_a_call_is_titled_by_its_name_and_its_line(name: str, line: str, given: dict[str, Any], words: str) -> None:
    assert titled(ToolCall("1", name, given), line).draw("call.done", 80).plain == f"● {words}"


def test_a_title_is_one_line_and_keeps_its_bracket() -> None:
    title = titled(ToolCall("1", "Bash", {}), "日本" * 1_000)
    assert title.draw("call.done", 20).plain == "● Bash(日本日本日 …)"
    assert title.draw("call.done", 30, " 12 s").plain == "● Bash(日本日本日本日本…) 12 s"


LINES = "\n".join([f"row {at}" for at in range(41)])
DIFF = "--- a\n+++ a\n@@ -1,1 +1,30 @@\n" + "".join([f"+new {at}\n" for at in range(30)])


@pytest.mark.parametrize(
    ("text", "shown", "flags", "words"),
    [
        ("one", None, {}, ["one"]),
        ("", None, {}, ["nothing"]),
        (LINES, None, {}, ["row 0", "row 1", "row 2", "row 3", "… +37 lines (ctrl+o)"]),
        ("told", Rendering("make", LINES, "output"), {}, ["row 0", "row 1", "row 2", "row 3", "… +37 lines (ctrl+o)"]),
        ("no output", Rendering("make", "", "output"), {}, ["no output"]),
        ("told", Rendering("Read 3 lines"), {}, ["Read 3 lines"]),
        ("told", Rendering("Found 2 files", "a\nb"), {}, ["Found 2 files"]),
        ("told", Rendering("make", "in the background: b1"), {}, ["in the background: b1"]),
        (LINES, None, {"wrong": True}, ["… +37 lines (ctrl+o)", "row 37", "row 38", "row 39", "row 40"]),
        ("x" * 300, None, {}, ["x" * 55] * 4 + ["… +1 line (ctrl+o)"]),
        ("not\nallowed", None, {"wrong": True, "denied": True}, ["Denied: not allowed"]),
    ],
)
def test_an_outcome_is_a_few_lines(text: str, shown: Rendering | None, flags: dict[str, Any], words: list[str]) -> None:
    said = Watching().reply().calls("Bash", "make").done(text, shown, **flags).paper.said
    assert said == ["● Bash(make)", f"  ⎿  {words[0]}", *[f"     {line}" for line in words[1:]]]


def test_a_change_is_told_by_its_lines() -> None:
    said = (
        Watching().reply().calls("Edit", "Edit a").done("ok", Rendering("Edited a (+30 -0)", DIFF, "diff")).paper.said
    )
    assert said[:3] == ["● Edit(a)", "  ⎿  Edited a (+30 -0)", "      1 + new 0"]
    assert said[-2:] == ["     20 + new 19", "     … +10 lines (ctrl+o)"]


@pytest.mark.parametrize(
    ("flags", "colour"), [({}, "32"), ({"wrong": True}, "31"), ({"wrong": True, "denied": True}, "31")]
)
def test_the_bullet_is_green_or_red(flags: dict[str, Any], colour: str) -> None:
    seen = Watching()
    seen.paper._painter = Painter(colour=True)
    seen.reply().calls("Bash", "make").done("text", **flags)
    assert f"\x1b[{colour}m● \x1b" in seen.paper.raw


def test_an_outcome_nobody_knows_the_call_of_is_shown_all_the_same() -> None:
    """Cancelled before it began."""
    assert Watching().reply().done("cancelled", wrong=True).paper.said == ["● Call", "  ⎿  cancelled"]
