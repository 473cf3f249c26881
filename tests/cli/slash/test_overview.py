"""`/status`, `/doctor`, `/config`, `/hooks`: how things stand, and what is set."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.stage import Serve, Stage
from mainspring.settings import trust
from mainspring.simulator.replies import Say
from mainspring.version import __version__


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def fact(shown: str, label: str) -> str:
    [found] = [line for line in shown.split("\n") if line.startswith(f"{label} ")]
    return found.removeprefix(label).strip()


@pytest.mark.covers("O-03")
def test_how_things_stand_in_a_session(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("Hi."))
    here(stage, monkeypatch)
    put(stage.folder / "AGENTS.md", "Be kind.")
    (stage.folder / "more").mkdir()

    async def play(sitting: Sitting) -> None:
        world = sitting.talk.world
        before = await sitting.said("/status")
        assert fact(before, "File").endswith(" (created with the first prompt)")
        await sitting.asked("hello you")
        shown = await sitting.said("/status")
        [file] = stage.sessions()
        assert fact(shown, "Version") == f"mainspring {__version__}"
        assert fact(shown, "Session") == f"{world.about.session_id}, 'hello you'"
        assert fact(shown, "File") == str(file)
        assert fact(shown, "Model") == f"claude-sonnet-5-5, at {stage.server.url}; key: none"
        assert fact(shown, "Mode") == "plan"
        assert fact(shown, "Folder") == str(stage.folder)
        assert fact(shown, "Added") == str(stage.home)
        assert f"sandbox: {fact(shown, 'Sandbox')}" == world.about.sandbox()
        assert fact(shown, "MCP") == "no servers"
        assert fact(shown, "Settings") == str(stage.home / "settings.toml")
        assert fact(shown, "Memory") == str(stage.folder / "AGENTS.md")
        assert fact(shown, "Context").endswith("tokens used (details: /context)")

    sat(play, "--permission-mode", "plan", "--add-dir", str(stage.home))


def test_no_secret_of_the_address_is_shown(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch, ANTHROPIC_BASE_URL=f"{stage.server.url}/way?token=geheim")

    async def play(sitting: Sitting) -> None:
        shown = await sitting.said("/status")
        assert fact(shown, "Model") == f"claude-sonnet-5-5, at {stage.server.url}/way; key: none"
        assert "geheim" not in shown

    sat(play)


def test_a_session_that_is_not_stored_says_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("Hi."))
    here(stage, monkeypatch)
    put(stage.home / "projects", "no folder")

    async def play(sitting: Sitting) -> None:
        await sitting.asked("hello")
        assert fact(await sitting.said("/status"), "File") == "none (this session is not stored)"
        assert await sitting.said("/rename it") == "Cannot rename: this session is not stored."
        assert await sitting.said("/rewind") == "Cannot rewind: this session is not stored."

    sat(play)


def test_the_doctor_looks_at_everything_and_the_loop_goes_on(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)
    put(stage.home / "settings.toml", "[sandbox]\nenabled = false\n")

    async def play(sitting: Sitting) -> None:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0)

        heart = asyncio.create_task(beat())
        shown = await sitting.said("/doctor")
        heart.cancel()
        for name in ("program", "sessions", "settings", "key", "sandbox"):
            assert any(line.split()[1:2] == [name] for line in shown.split("\n")), name
        last = shown.split("\n")[-1]
        assert last == "No problems found." or last.endswith(" found.")
        assert beats > len(shown.split("\n"))  # others had their turn between any two checks

    sat(play)


def test_settings_are_shown_with_who_said_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)
    rows = {"permissions": {"allow": ["Bash(oops"]}, "model": "sonnet"}
    put(stage.home / "settings.json", json.dumps(rows))

    async def play(sitting: Sitting) -> None:
        shown = await sitting.said("/config")
        assert f"  sonnet  (user: {stage.home / 'settings.json'})" in shown
        assert "broken: " in shown
        assert "To fix it: " in shown

    sat(play)
    command = stage.run("config").stdout.decode().rstrip("\n")

    async def same(sitting: Sitting) -> None:
        assert await sitting.said("/config") == command

    sat(same)


def test_an_empty_home_sets_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)
    (stage.home / "settings.toml").unlink()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-nobody-0123456789")

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/config") == "No settings: all values are defaults."
        assert await sitting.said("/hooks") == 'No hooks. Add them under "hooks" in your settings.'
        status = await sitting.said("/status")
        assert fact(status, "Settings") == "no file (all defaults)"
        assert ", at api.anthropic.com; key: ANTHROPIC_API_KEY" in status
        assert "nobody-0123" not in status

    sat(play)


# --- hooks --------------------------------------------------------------------------------------------------------


def hook(command: str) -> dict[str, str]:
    return {"type": "command", "command": command}


def furnish(stage: Stage) -> None:
    mine = {
        "PreToolUse": [{"matcher": "Bash", "hooks": [hook("check \x1b[31mit")]}],
        "Stop": [{"hooks": [{"type": "prompt", "prompt": "is it done?"}]}],
    }
    put(stage.home / "settings.json", json.dumps({"hooks": mine}))
    theirs = {"PostToolUse": [{"matcher": "Edit", "hooks": [hook("make fmt")]}]}
    put(stage.folder / ".claude" / "settings.json", json.dumps({"hooks": theirs}))


def test_hooks_with_their_files_and_those_of_a_folder_that_nobody_trusts(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve()
    here(stage, monkeypatch)
    furnish(stage)
    mine, theirs = stage.home / "settings.json", stage.folder / ".claude" / "settings.json"

    async def play(sitting: Sitting) -> None:
        shown = await sitting.said("/hooks")
        assert shown.split("\n") == [
            f"PreToolUse(Bash)       check [31mit  (user: {mine})",
            f"Stop                   is it done?  (user: {mine}; type 'prompt' is not supported yet)",
            f"Ignored: hooks in '{theirs}'. Type /trust to trust this folder.",
        ]

    sat(play)
    trust.add_trusted_folder(str(stage.home), str(stage.folder), at=0)

    async def trusted(sitting: Sitting) -> None:
        shown = await sitting.said("/hooks")
        assert f"PostToolUse(Edit)      make fmt  (project: {theirs})" in shown
        assert "Ignored" not in shown

    sat(trusted)
