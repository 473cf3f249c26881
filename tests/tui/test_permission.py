"""May this call be made?"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.agent.permission_updates import ApprovalScopes, PermissionUpdates, make_rule_offer
from mainspring.cli.tui.dialog import BURST
from mainspring.cli.tui.permission_dialog import (
    ApprovalScope,
    PermissionChoice,
    apply_permission_choice,
    make_permission_dialog,
)
from mainspring.core.config import Config
from mainspring.core.models import DEFAULT_MODEL
from mainspring.engine.session import EngineSession
from mainspring.permissions.checker import PermissionChecker
from mainspring.settings import trust
from mainspring.settings.persist import SettingsWriter
from mainspring.testing.world import World
from mainspring.text import format_call_input
from mainspring.tools.base import Approval, Workspace
from tui.hands import Clock, Key, few, fits, harmless_keys, heights, keys, marked, press, read, widths, words

RULE = {"rule": "Bash(touch a)", "covers": "`touch a`"}
WIDER = {"rule": "Bash(touch:*)", "covers": "commands that start with `touch`"}


def about(tool: str = "Bash", *, suggestions: tuple[dict[str, str], ...] = (RULE,), **input: Any) -> dict[str, Any]:
    """As `tools/pipeline.py` makes it."""
    given = input or {"command": "touch a"}
    return {
        "tool_name": tool,
        "input": given,
        "tool_use_id": "toolu_1",
        "description": "",
        "decision_reason": "no rule covers 'touch a'",
        "is_default_reason": True,
        "shown": format_call_input(tool, given),
        "suggestions": list(suggestions),
    }


@pytest.mark.covers("O-11", "N-11")
def test_what_it_looks_like() -> None:
    assert read(make_permission_dialog(about(), now=Clock()), Clock(), 80) == [
        "─" * 80,
        "Bash command",
        "  ╭─────────╮",
        "  │ touch a │",
        "  ╰─────────╯",
        "",
        "Run this command?",
        "❯ 1. Yes",
        "  2. Yes, and don't ask again this session for `touch a`",
        "  3. No, and tell the model what to do instead",
        "  4. More choices…  rules for this session or for this project",
        "",
        "↑↓ move · enter choose · esc no · ctrl-c stop the run",
    ]


def test_the_second_page_has_the_rules_and_going_back_is_selected() -> None:
    clock = Clock()
    sheet = make_permission_dialog(about() | {"wider_suggestions": [WIDER]}, now=clock)
    read(sheet, clock)
    press(sheet, "4")
    clock.now += 2 * BURST
    sheet.settle()
    assert not sheet.over
    assert [line for line in read(sheet, clock, 120) if line[3:5] == ". "] == [
        "  1. Yes, and don't ask again this session for `touch a`  Bash(touch a)",
        "  2. Yes, and don't ask again this session for commands that start with `touch`  Bash(touch:*)",
        "  3. Yes, and don't ask again in this project for `touch a`  Bash(touch a)",
        "  4. Yes, and don't ask again in this project for commands that start with `touch`  Bash(touch:*)",
        "❯ 5. Back",
    ]
    press(sheet, "enter")
    assert not sheet.over
    assert "❯ 1. Yes" in read(sheet, clock)


def test_a_command_is_covered_by_the_wider_rule_on_the_first_page() -> None:
    clock = Clock()
    sheet = make_permission_dialog(about() | {"wider_suggestions": [WIDER]}, now=clock)
    assert "  2. Yes, and don't ask again this session for commands that start with `touch`" in read(sheet, clock)
    press(sheet, "2", "enter")
    assert sheet.said == PermissionChoice(ApprovalScope.SESSION, rules=("Bash(touch:*)",))


@pytest.mark.parametrize(
    ("pressed", "said"),
    [
        (("enter",), PermissionChoice(ApprovalScope.ONCE)),
        (("1",), PermissionChoice(ApprovalScope.ONCE)),
        (("2",), PermissionChoice(ApprovalScope.SESSION, rules=("Bash(touch a)",))),
        (("4", "enter", "read", "2"), PermissionChoice(ApprovalScope.PROJECT, rules=("Bash(touch a)",))),
        (("up", "enter", "read", "up", "enter"), PermissionChoice(ApprovalScope.PROJECT, rules=("Bash(touch a)",))),
        (("4", "enter", "read", "enter", "read", "enter"), PermissionChoice(ApprovalScope.ONCE)),
        (("4", "enter", "read", "escape"), PermissionChoice(ApprovalScope.NEVER)),
        (("3", "enter"), PermissionChoice(ApprovalScope.NEVER)),
        (("down", "down", "enter", "enter"), PermissionChoice(ApprovalScope.NEVER)),
        (("down", "down", "enter", "not yet", "enter"), PermissionChoice(ApprovalScope.NEVER, "not yet")),
        (("3", "look at b first", "enter"), PermissionChoice(ApprovalScope.NEVER, "look at b first")),
        (("down", "down", "1", "enter"), PermissionChoice(ApprovalScope.NEVER, "1")),
        (("escape",), PermissionChoice(ApprovalScope.NEVER)),
        (("3", "half a word", "escape"), PermissionChoice(ApprovalScope.NEVER)),
        (("c-c",), PermissionChoice(ApprovalScope.NEVER)),
    ],
)
def test_answers(pressed: tuple[str, ...], said: PermissionChoice) -> None:
    clock = Clock()
    sheet = make_permission_dialog(about(), now=clock)
    read(sheet, clock)
    for key in pressed:
        if key == "read":  # the next page
            read(sheet, clock)
        else:
            press(sheet, key)
    clock.now += 2 * BURST
    sheet.settle()
    assert sheet.over
    assert sheet.said == said


EDIT_RULE = {"rule": "Edit(/a.txt)", "covers": "this file"}
EDIT = about("Edit", suggestions=(EDIT_RULE,), file_path="a.txt", old_string="old", new_string="new") | {
    "suggested_mode": "acceptEdits"
}


def test_an_empty_no_shows_what_can_be_said() -> None:
    clock = Clock()
    sheet = make_permission_dialog(about(), now=clock)
    read(sheet, clock)
    press(sheet, "3")
    assert "❯ 3. No:  tell the model what to do instead, or press Enter to deny" in read(sheet, clock)


def test_an_edit_in_mode_default_offers_all_edits() -> None:
    clock = Clock()
    lines = read(make_permission_dialog(EDIT, now=clock, mode="default"), clock, 100)
    assert [line for line in lines if line[3:5] == ". "] == [
        "❯ 1. Yes",
        "  2. Yes, and allow all edits this session",
        "  3. No, and tell the model what to do instead",
        "  4. More choices…  rules for this session or for this project",
    ]
    assert lines[-1] == "shift-tab all edits · ↑↓ move · enter choose · esc no · ctrl-c stop the run"


@pytest.mark.parametrize("tool", ["Edit", "Write", "NotebookEdit"])
def test_shift_tab_is_a_yes_to_all_edits(tool: str) -> None:
    clock = Clock()
    sheet = make_permission_dialog(EDIT | {"tool_name": tool}, now=clock, mode="default")
    assert "shift-tab" in read(sheet, clock, 70, 12)[-1], "also where there is little room"
    press(sheet, "s-tab")
    assert sheet.said == PermissionChoice(ApprovalScope.EDITS)


def test_shift_tab_counts_only_when_it_was_read() -> None:
    clock = Clock()
    sheet = make_permission_dialog(EDIT, now=clock, mode="default")
    sheet.draw(80, 24)
    press(sheet, "s-tab")
    assert not sheet.over


@pytest.mark.parametrize(
    ("asked", "mode"), [(EDIT, "acceptEdits"), (EDIT, "dontAsk"), (EDIT, ""), (about(), "default")]
)
def test_where_it_would_change_nothing_all_edits_are_not_offered(asked: dict[str, Any], mode: str) -> None:
    clock = Clock()
    sheet = make_permission_dialog(asked, now=clock, mode=mode)
    assert "all edits" not in "".join(read(sheet, clock))
    press(sheet, "s-tab")
    assert not sheet.over


LONG = about(command="\n".join(f"step {number}" for number in range(30)))


@pytest.mark.parametrize(("width", "height"), [(40, 15), (40, 14), (20, 8), (20, 7)])
def test_in_a_small_window_all_choices_are_seen_and_the_page_says_how_many_lines_more(width: int, height: int) -> None:
    clock = Clock()
    sheet = make_permission_dialog(LONG, now=clock)
    for place in range(1, 5):
        lines = read(sheet, clock, width, height)
        numbers = [line[:4] for line in lines if line[3:4] == "."]
        assert numbers == [f"{'❯' if one == place else ' '} {one}." for one in range(1, 5)]
        assert "Bash command" in lines
        assert any(line.startswith("  │ step 0 ") for line in lines)
        assert any(line.endswith("more lines") for line in lines)
        press(sheet, "down")


def test_in_a_window_of_40_columns_the_marked_choice_is_whole() -> None:
    clock = Clock()
    sheet = make_permission_dialog(LONG, now=clock)
    read(sheet, clock)
    press(sheet, "down")
    text = " ".join(" ".join(read(sheet, clock, 40, 14)).split())
    assert "❯ 2. Yes, and don't ask again this session for `touch a`" in text


def test_in_the_smallest_windows_choices_come_before_the_page() -> None:
    clock = Clock()
    sheet = make_permission_dialog(LONG, now=clock)
    read(sheet, clock)
    press(sheet, "down")
    assert [line[:4] for line in read(sheet, clock, 20, 5)] == ["Bash", "  1.", "❯ 2.", "  3.", "  4."]
    assert [line[:5] for line in read(sheet, clock, 20, 4)] == ["Bash ", "❯ 2. ", "  3. ", "  ↑ 1"]
    assert [line[:4] for line in read(sheet, clock, 20, 1)] == ["❯ 2."]


def test_without_a_rule_to_offer_there_is_yes_and_no() -> None:
    clock = Clock()
    sheet = make_permission_dialog(about(suggestions=()), now=clock)
    assert [line for line in read(sheet, clock) if line[2:4] in ("1.", "2.", "3.")] == [
        "❯ 1. Yes",
        "  2. No, and tell the model what to do instead",
    ]
    press(sheet, "2", "enter")
    assert sheet.said == PermissionChoice(ApprovalScope.NEVER)


def test_all_of_a_long_command_can_be_read() -> None:
    clock = Clock()
    command = "\n".join(f"step {number}" for number in range(50))
    sheet = make_permission_dialog(about(command=command), now=clock)
    first = read(sheet, clock, 60, 16)
    assert any(line.endswith("more lines") for line in first)
    seen = set(first)
    for _ in range(20):
        press(sheet, "pagedown")
        seen |= set(read(sheet, clock, 60, 16))
    assert {f"step {number}" for number in range(50)} <= {line.strip(" │") for line in seen}
    press(sheet, "1", "enter")
    assert sheet.said == PermissionChoice(ApprovalScope.ONCE)


def test_everything_in_the_input_is_told() -> None:
    given = about(command="ls", description="List files", run_in_background=True, timeout=5_000, x=1)
    assert read(make_permission_dialog(given, now=Clock()), Clock())[2:9] == [
        "  List files",
        "  ╭────╮",
        "  │ ls │",
        "  ╰────╯",
        "  Runs in the background",
        "  Time limit: 5 s",
        "  x: 1",
    ]
    lines = read(make_permission_dialog(about("mcp__a__b", path="p", deep={"x": [1]}), now=Clock()), Clock())
    assert lines[1:4] == ["mcp__a__b", "  path: p", '  deep: {"x":[1]}']


def test_what_cannot_be_seen_is_made_visible() -> None:
    text = "\n".join(read(make_permission_dialog(about(command="rm \u202etxt \x1b[2J"), now=Clock()), Clock()))
    assert "rm <U+202E>txt <U+001B>[2J" in text
    edit = about("Write", file_path="a", content="x\u200b\u202ey")
    assert "It contains invisible characters: <U+200B>, <U+202E>" in "\n".join(
        read(make_permission_dialog(edit, now=Clock()), Clock())
    )


def test_a_command_cannot_end_its_frame() -> None:
    text = "ls │\n╰────╯\nRun this harmless command?"
    lines = read(make_permission_dialog(about(command=text), now=Clock()), Clock())
    assert lines[3:6] == [
        "  │ ls │                       │",
        "  │ ╰────╯                     │",
        "  │ Run this harmless command? │",
    ]


def test_an_edit_is_shown_as_a_change_with_a_relative_path() -> None:
    edit = about("Edit", file_path="/work/src/a.txt", old_string="old\nsame", new_string="new\nsame", replace_all=True)
    lines = [line.rstrip() for line in read(make_permission_dialog(edit, now=Clock(), root="/work"), Clock())]
    assert lines[1:9] == [
        "Edit file",
        "  src/a.txt",
        "  - old",
        "  + new",
        "    same",
        "  replace_all: true",
        "",
        "Make this edit to a.txt?",
    ]
    elsewhere = make_permission_dialog(edit, now=Clock(), root="/work/sr")
    assert "  /work/src/a.txt" in read(elsewhere, Clock())


def test_a_preview_has_the_line_numbers_of_the_file() -> None:
    edit = about("Edit", file_path="a.py", old_string="x", new_string="y")
    asked = edit | {"preview": "--- a.py\n+++ a.py\n@@ -9,2 +9,2 @@\n import os\n-x\n+y\n"}
    lines = [line.rstrip() for line in read(make_permission_dialog(asked, now=Clock()), Clock())]
    assert lines[2:6] == ["  a.py", "   9   import os", "  10 - x", "  10 + y"]


def test_the_reason_is_shown_only_if_it_is_not_the_default() -> None:
    assert "rule" not in "".join(read(make_permission_dialog(about(), now=Clock()), Clock())[:7])
    asked = about() | {"is_default_reason": False, "decision_reason": "an ask rule of source 'user': Bash(touch:*)"}
    lines = read(make_permission_dialog(asked, now=Clock()), Clock())
    assert "  Asked because an ask rule of source 'user': Bash(touch:*)" in lines


def test_whose_call_it_is() -> None:
    asked = about() | {"agent_type": "explore", "agent_description": "Find the bug"}
    assert "  For the subagent 'Find the bug'" in read(make_permission_dialog(asked, now=Clock()), Clock())


def test_rules_too_long_for_a_choice_stand_on_the_page_whole() -> None:
    long = {"rule": f"Bash({'x' * 300})", "covers": f"`{'x' * 300}`"}
    lines = read(make_permission_dialog(about(suggestions=(long,)), now=Clock()), Clock(), 80, 40)
    text = "".join(line.strip() for line in lines)
    assert text.count("x" * 300) == 1
    assert "2. Yes, and don't ask again this session for the rules listed above" in text


def test_a_name_too_long_for_the_title_stands_on_the_page_whole() -> None:
    name = "mcp__a_server_with_a_long_name__and_a_tool"
    lines = read(make_permission_dialog(about(name, a=1), now=Clock()), Clock(), 30)
    assert lines[1].endswith("…")
    assert "".join(line.strip() for line in lines[2:4]) == name


inputs = st.dictionaries(st.sampled_from(("command", "file_path", "old_string", "content", "x")), words | st.booleans())
abouts = st.builds(
    lambda tool, given, rules, agent: (
        about(tool, **(given or {"command": "ls"}), suggestions=tuple({"rule": one, "covers": one} for one in rules))
        | {"agent_type": agent}
    ),
    st.sampled_from(("Bash", "Edit", "mcp__" + "s" * 40)),
    inputs,
    st.lists(words, max_size=2),
    words,
)


@few
@given(abouts, st.lists(keys, max_size=8), widths, heights)
def test_whatever_is_pressed_it_fits_and_one_choice_is_marked(
    asked: dict[str, Any], pressed: list[Key], width: int, height: int
) -> None:
    clock = Clock()
    sheet = make_permission_dialog(asked, now=clock)
    for key in pressed:
        lines = sheet.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == 1
        clock.now += 1
        sheet.press(*key)
    if sheet.over and sheet.said.scope in (ApprovalScope.SESSION, ApprovalScope.PROJECT):
        assert asked["suggestions"]


@few
@given(abouts, st.lists(harmless_keys.filter(lambda key: key[0] != "enter" and key[1] not in "123"), max_size=8))
def test_escape_is_a_no_from_everywhere(asked: dict[str, Any], pressed: list[Key]) -> None:
    clock = Clock()
    sheet = make_permission_dialog(asked, now=clock)
    for key in pressed:
        sheet.draw(40, 12)
        clock.now += 1
        sheet.press(*key)
    assert not sheet.over
    sheet.press("escape")
    assert sheet.said == PermissionChoice(ApprovalScope.NEVER)


# --- what comes of it -----------------------------------------------------------------------------------------------


class Granted:
    def __init__(
        self,
        said: PermissionChoice,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        rules: tuple[dict[str, str], ...] = (RULE,),
    ) -> None:
        project = folder / "project"
        project.mkdir(exist_ok=True)
        monkeypatch.chdir(project)
        monkeypatch.setenv("MAINSPRING_HOME", str(folder / "home"))
        self.told: list[str] = []
        self.warned: list[str] = []
        session = EngineSession(World([]), Config(model=DEFAULT_MODEL))
        keeper = SettingsWriter(str(project), os.environ)
        updates = PermissionUpdates(
            session, PermissionChecker(()), Workspace(str(project)), may_bypass=False, keeper=keeper
        )
        granting = ApprovalScopes(lambda: updates)
        said = said if said.scope is ApprovalScope.NEVER else replace(said, rules=tuple([one["rule"] for one in rules]))
        self.approval = asyncio.run(apply_permission_choice(said, granting, self.told.append, self.warned.append))
        self.rules, self.mode = session.shared.policy.rules, session.shared.policy.mode
        self.kept = [file for file in folder.rglob("*") if file.is_file() and "touch a" in file.read_text()]


def test_a_yes_is_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = Granted(PermissionChoice(ApprovalScope.ONCE), tmp_path, monkeypatch)
    assert (done.approval, done.rules, done.kept) == (Approval("allow"), (), [])


def test_a_rule_for_the_session_counts_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = Granted(PermissionChoice(ApprovalScope.SESSION), tmp_path, monkeypatch)
    assert (done.approval, done.rules, done.kept) == (Approval("allow"), ("allow Bash(touch a)",), [])


def test_a_rule_for_the_project_is_kept_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = Granted(PermissionChoice(ApprovalScope.PROJECT), tmp_path, monkeypatch)
    assert (done.approval, done.rules) == (Approval("allow"), ("allow Bash(touch a)",))
    assert len(done.kept) == 1
    assert done.told == [f"(saved in '{done.kept[0]}')"]


TRUSTS = "The saved rules apply to this session; to use them in later sessions, trust the directory with '/trust' or"


def test_whoever_keeps_a_rule_in_a_folder_that_is_not_trusted_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = (RULE, {"rule": "Bash(touch b)", "covers": "touch b"})
    done = Granted(PermissionChoice(ApprovalScope.PROJECT), tmp_path, monkeypatch, rules)
    assert done.rules == ("allow Bash(touch a)", "allow Bash(touch b)")
    assert len(done.warned) == 1
    assert TRUSTS in done.warned[0]


def test_in_a_folder_that_is_trusted_there_is_nothing_to_warn_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    trust.add_trusted_folder(str(tmp_path / "home"), str(tmp_path / "project"), at=0)
    done = Granted(PermissionChoice(ApprovalScope.PROJECT), tmp_path, monkeypatch)
    assert (len(done.told), done.warned) == (1, [])


def test_all_edits_is_a_yes_and_a_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = Granted(PermissionChoice(ApprovalScope.EDITS), tmp_path, monkeypatch)
    assert (done.approval, done.mode, done.rules, done.kept) == (Approval("allow"), "acceptEdits", (), [])
    assert Granted(PermissionChoice(ApprovalScope.SESSION), tmp_path, monkeypatch).mode == "default"


def test_a_no_has_the_words_for_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Granted(PermissionChoice(ApprovalScope.NEVER), tmp_path, monkeypatch).approval == Approval(
        "deny", message="The user declined this call and stopped the run. Wait for what they say next.", interrupt=True
    )
    done = Granted(PermissionChoice(ApprovalScope.NEVER, "not that"), tmp_path, monkeypatch)
    assert done.approval == Approval("deny", message="The user said no: not that")
    assert done.rules == ()


def test_rules_for_starts_of_commands_are_named_together() -> None:
    starts = [{"rule": f"Bash({one}:*)", "covers": f"commands that start with `{one}`"} for one in ("a", "b", "c")]
    exact = {"rule": "Bash(rm x)", "covers": "`rm x`"}
    assert make_rule_offer([*starts, exact]).covers == "commands that start with `a`, `b` or `c` and `rm x`"
    assert make_rule_offer(starts[:2]).covers == "commands that start with `a` or `b`"
    assert make_rule_offer([exact, exact]).covers == "`rm x` and `rm x`"
    assert make_rule_offer([]).covers == ""
