"""Calls, as they are titled, and what is said of one that was refused."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.agent.permission_updates import DECLINED, deny_approval
from mainspring.cli.tui.call_view import make_call_title, summarize_refusal
from mainspring.core.messages import ToolCall
from mainspring.tools.base import DENIED
from tui.seeing import ROOT


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
    assert make_call_title(ToolCall("1", name, given), line).draw("call.done", 80).plain == f"● {words}"


def test_a_title_is_one_line_and_keeps_its_bracket() -> None:
    title = make_call_title(ToolCall("1", "Bash", {}), "日本" * 1_000)
    assert title.draw("call.done", 20).plain == "● Bash(日本日本日 …)"
    assert title.draw("call.done", 30, " 12 s").plain == "● Bash(日本日本日本日本…) 12 s"


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("Read", f"Read {ROOT}/src/a.py", "Read(src/a.py)"),
        ("Read", f"Read {ROOT}/a.py (lines 1-3)", "Read(a.py (lines 1-3))"),
        ("Write", f"Write {ROOT}er/a.py", f"Write({ROOT}er/a.py)"),
        ("Edit", f"Edit /x{ROOT}/a.py", f"Edit(/x{ROOT}/a.py)"),
        ("Glob", f"Glob {ROOT}/**/*.py in {ROOT}", "Glob(**/*.py)"),
        ("Grep", f"Grep {ROOT}/a in {ROOT}/src", f"Grep({ROOT}/a in src)"),
        ("Grep", f"Grep x in {ROOT}/", "Grep(x)"),
        ("Grep", f"Grep {ROOT}", f"Grep({ROOT})"),
        ("Bash", f"cat {ROOT}/a.py", f"Bash(cat {ROOT}/a.py)"),
    ],
)
def test_paths_are_seen_from_the_working_folder_and_commands_stay_as_they_are(name: str, line: str, words: str) -> None:
    assert make_call_title(ToolCall("1", name, {}), line, ROOT).draw("call.done", 80).plain == f"● {words}"


@pytest.mark.parametrize("root", ["", "/"])
def test_without_a_folder_paths_stay_whole(root: str) -> None:
    assert make_call_title(ToolCall("1", "Read", {}), "Read /a/b", root)[:2] == ("Read", "/a/b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DENIED, "Declined"),
        (DECLINED, "Declined. What should the model do instead?"),
        (deny_approval("use 'cp'").message, "Declined: use 'cp'"),
        ("Not allowed: deny rule of source 'user': Bash(rm:*).", "Denied: deny rule of source 'user': Bash(rm:*)."),
        ("Never on Fridays.", "Denied: Never on Fridays."),
    ],
)
def test_a_refusal_is_told_to_the_person_and_not_to_the_model(text: str, words: str) -> None:
    assert summarize_refusal(text) == words
