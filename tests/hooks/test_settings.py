"""Hooks of the settings, as a session has them: what they are told in common, and what of an entry is not there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.agent.hooks import HookListeners, hooks_of
from mainspring.agent.options import SessionOptions
from mainspring.agent.resume import OpenedSession
from mainspring.cli.stdio import print_hook_message, print_stderr
from mainspring.hooks.events import NOTHING, HookPoint, HookResult
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.line_format import Envelope
from mainspring.settings.values import HookSetting, SettingOrigin, Settings, SettingsSource
from mainspring.tools.base import Workspace
from mainspring.tools.builtin import BuiltinTools

ORIGIN = SettingOrigin(SettingsSource.USER, "settings.json")
ID = "11111111-1111-4111-8111-111111111111"
ENV = {"PATH": "/usr/bin:/bin"}

TOLD = SessionOptions(notice=print_stderr, remark=print_hook_message)


def ask(folder: Path, point: HookPoint, *entries: tuple[str, str, dict[str, object]]) -> HookResult:
    settings = Settings(hooks=tuple(HookSetting(event, matcher, entry, ORIGIN) for event, matcher, entry in entries))
    kit = BuiltinTools(Workspace(str(folder)), ENV)
    (folder / "sub").mkdir(exist_ok=True)

    async def main() -> HookResult:
        runner = hooks_of(
            settings, kit, OpenedSession("session-1", None), lambda: "default", (), HookListeners(TOLD.tell, TOLD.say)
        )
        kit.place.cwd = str(folder / "sub")  # a shell has gone there since
        try:
            return await runner.ask(point, {"fact": 1}, "Bash")
        finally:
            await runner.close()
            await kit.close()

    return asyncio.run(main())


def command(text: str, **more: Any) -> dict[str, object]:
    return {"type": "command", "command": text, **more}


def test_a_command_is_told_what_all_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = command('cat > told; echo \'{"systemMessage": "hi\\u001b[31m"}\'')
    assert ask(tmp_path, HookPoint.PRE_TOOL_USE, ("PreToolUse", "Bash", said)).message == "hi\x1b[31m"
    assert json.loads((tmp_path / "told").read_text()) == {
        "session_id": "session-1",
        "transcript_path": "",
        "cwd": str(tmp_path / "sub"),
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "fact": 1,
    }
    heard = capsys.readouterr().err
    assert heard.startswith("hi")
    assert "\x1b" not in heard


def test_a_failure_is_a_line_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(tmp_path, HookPoint.STOP, ("Stop", "", command("exit 1"))) == NOTHING
    assert capsys.readouterr().err == "mainspring: the Stop hook 'exit 1' ended with exit code 1\n"


def test_a_point_that_is_none_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(tmp_path, HookPoint.STOP, ("PreToolUze", "", command("exit 2"))) == NOTHING
    assert capsys.readouterr().err == (
        "mainspring: settings.json: 'PreToolUze': there is no hook event 'PreToolUze', so it never runs. "
        "Did you mean 'PreToolUse'?\n"
    )


@pytest.mark.covers("I-04")
def test_a_guard_of_a_kind_that_is_not_there_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry: dict[str, object] = {"type": "http", "url": "u"}
    assert ask(tmp_path, HookPoint.PRE_TOOL_USE, ("PreToolUse", "Bash", entry)).decision == "deny"
    assert "only 'command' is). Every call that it matches is denied" in capsys.readouterr().err
    assert ask(tmp_path, HookPoint.PRE_TOOL_USE, ("PreToolUse", "Edit", entry)) == NOTHING
    capsys.readouterr()
    assert ask(tmp_path, HookPoint.STOP, ("Stop", "", {"type": "prompt", "prompt": "p"})) == NOTHING
    assert capsys.readouterr().err == (
        "mainspring: settings.json: 'Stop': hooks of the type 'prompt' are not supported yet (only 'command' is). "
        "It is skipped\n"
    )


def test_a_guard_with_a_broken_entry_refuses_and_names_it(tmp_path: Path) -> None:
    broken = HookSetting(
        "PreToolUse", "Bash", {}, ORIGIN, "hooks.PreToolUse[0].hooks[1]", "it needs a string 'command'"
    )
    kit = BuiltinTools(Workspace(str(tmp_path)), ENV)

    async def main() -> list[HookResult]:
        runner = hooks_of(
            Settings(hooks=(broken,)),
            kit,
            OpenedSession("session-1", None),
            lambda: "default",
            (),
            HookListeners(TOLD.tell, TOLD.say),
        )
        try:
            return [await runner.ask(HookPoint.PRE_TOOL_USE, {}, tool) for tool in ("Bash", "Edit")]
        finally:
            await kit.close()

    refused, other = asyncio.run(main())
    assert (refused.decision, other) == ("deny", NOTHING)
    assert "settings.json: 'hooks.PreToolUse[0].hooks[1]': it needs a string 'command'" in refused.reason


def test_with_a_journal_it_is_told_where_the_session_is(tmp_path: Path) -> None:
    journal = FileJournal.create(tmp_path / f"{ID}.jsonl", Envelope(ID, str(tmp_path), "0"))
    settings = Settings(hooks=(HookSetting("Stop", "", command("cat > told"), ORIGIN),))
    kit = BuiltinTools(Workspace(str(tmp_path)), ENV)

    async def main() -> None:
        await hooks_of(
            settings, kit, OpenedSession(ID, journal), lambda: "default", (), HookListeners(TOLD.tell, TOLD.say)
        ).ask(HookPoint.STOP, {})
        journal.close()
        await kit.close()

    asyncio.run(main())
    assert json.loads((tmp_path / "told").read_text())["transcript_path"] == str(tmp_path / f"{ID}.jsonl")
