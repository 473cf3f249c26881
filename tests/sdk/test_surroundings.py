"""A session within a program has its own environment and folder, and its keys are held as long as it lasts."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.sdk import Client, PermissionResultAllow, PermissionUpdate, ResultError, SystemMessage
from mainspring.secrets import held
from mainspring.simulator.replies import Say
from sdk.stage import Stage, call, outcomes, play


def refused(told: list[Any]) -> list[bool]:
    return [bool(outcome.is_error) for outcome in outcomes(told)]


# --- home -------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of a user whom the session works for, who is not the one that the program runs as."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "secret.txt").write_text("what nobody should read")
    return folder


@pytest.mark.parametrize("by_settings", [False, True])
def test_a_rule_about_home_is_about_the_home_of_the_session(tmp_path: Path, home: Path, by_settings: bool) -> None:
    rule = "Read(~/secret.txt)"
    denied: dict[str, Any] = {"settings": json.dumps({"permissions": {"deny": [rule]}})}
    denied = denied if by_settings else {"disallowed_tools": [rule]}

    async def main(stage: Stage) -> None:
        env = {"HOME": str(home)}
        told = await stage.ask(cwd=home, allowed_tools=["Read", "Bash"], env=env, **denied)
        assert refused(told) == [True, True, True]
        assert all(rule in str(outcome.content) for outcome in outcomes(told))

    play(
        main,
        tmp_path,
        Say.of(call("Read", "1", file_path=f"{home}/secret.txt")),
        Say.of(call("Read", "2", file_path="~/secret.txt")),
        Say.of(call("Bash", "3", command="cat ~/secret.txt", description="x")),
        Say.of("Done."),
    )


def test_an_allowed_folder_in_home_is_in_the_home_of_the_session(tmp_path: Path, home: Path) -> None:
    (home / "notes").mkdir()
    (home / "notes" / "a.txt").write_text("ours")
    (home / "more").mkdir()
    (home / "more" / "b.txt").write_text("theirs")

    async def main(stage: Stage) -> None:
        settings = json.dumps({"permissions": {"additionalDirectories": ["~/more"]}})
        told = await stage.ask(add_dirs=["~/notes"], settings=settings, env={"HOME": f"{home}/"})
        assert [outcome.content for outcome in outcomes(told)] == ["1\tours\n", "1\ttheirs\n", "1\tours\n"]

    play(
        main,
        tmp_path,
        Say.of(call("Read", "1", file_path=f"{home}/notes/a.txt")),
        Say.of(call("Read", "2", file_path="~/more/b.txt")),
        Say.of(call("Read", "3", file_path="~/notes/a.txt")),
        Say.of("Done."),
    )


def test_what_must_not_be_removed_is_the_home_of_the_session(tmp_path: Path, home: Path) -> None:
    async def main(stage: Stage) -> None:
        told = await stage.ask(allowed_tools=["Bash"], env={"HOME": str(home)})
        assert refused(told) == [True, True]
        assert (home / "secret.txt").exists()

    play(
        main,
        tmp_path,
        Say.of(call("Bash", "1", command="rm -rf ~", description="x")),
        Say.of(call("Bash", "2", command=f"rm -rf {home}", description="x")),
        Say.of("Done."),
    )


def test_an_mcp_server_in_home_is_started_from_the_home_of_the_session(tmp_path: Path, home: Path) -> None:
    """It says its path, and ends: what it would answer is shown elsewhere."""
    program = home / "server"
    program.write_text(f"#!{sys.executable}\nopen({str(tmp_path / 'started')!r}, 'w').write(__file__)\n")
    program.chmod(0o755)

    async def main(stage: Stage) -> None:
        servers: Any = {"near": {"type": "stdio", "command": "~/server", "args": []}}
        await stage.ask(mcp_servers=servers, env={"HOME": str(home)})
        assert (tmp_path / "started").read_text() == str(program)

    play(main, tmp_path, Say.of("Done."))


# --- the way out ------------------------------------------------------------------------------------------


def test_the_proxy_is_that_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is at the model's address, and the proxy of the process is none: only that of the session answers."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    heard: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main(stage: Stage) -> None:
        async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
            address = "http://127.0.0.1:{1}".format(*server.sockets[0].getsockname())
            with pytest.raises(ResultError, match="404"):
                await stage.ask(env={"http_proxy": address, "ANTHROPIC_BASE_URL": "http://model.invalid"})
        assert heard[0].startswith(b"POST http://model.invalid/v1/messages")

    play(main, tmp_path)


# --- keys -------------------------------------------------------------------------------------------------


def key(number: int) -> str:
    return f"tenant-{number:030d}"


def ours() -> list[str]:
    return [value for value in held.list_secrets() if value.startswith("tenant-")]


def test_a_session_that_is_over_leaves_no_key_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "_held", held.HeldSecrets())
    monkeypatch.setattr(held, "LATE", 2)
    sessions = 6

    async def main(stage: Stage) -> None:
        for number in range(sessions):
            servers = {"near": {"type": "stdio", "command": "/bin/false", "env": {"ITS_TOKEN": key(100 + number)}}}
            await stage.ask(env={"ANTHROPIC_API_KEY": key(number)}, mcp_servers=servers)
        assert sorted(ours()) == [key(sessions - 1), key(100 + sessions - 1)]  # the last two, for what is written late

    play(main, tmp_path, *[Say.of("Done.") for _ in range(sessions)])


def test_a_session_that_cannot_begin_leaves_no_key_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "_held", held.HeldSecrets())
    monkeypatch.setattr(held, "LATE", 0)

    async def main(stage: Stage) -> None:
        with pytest.raises(Exception, match="no such directory"):
            await stage.ask(env={"ANTHROPIC_API_KEY": key(1)}, add_dirs=["/nowhere/at/all"])
        await stage.ask(env={"ANTHROPIC_API_KEY": key(2)})
        assert ours() == []

    play(main, tmp_path, Say.of("Done."))


def test_a_key_of_two_sessions_is_covered_until_both_are_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "_held", held.HeldSecrets())
    monkeypatch.setattr(held, "LATE", 0)
    env = {"ANTHROPIC_API_KEY": key(1)}

    async def main(stage: Stage) -> None:
        async with Client(stage.options(env=env)) as client:
            await stage.ask(env=env)
            assert ours() == [key(1)]
            await client.query("say it")
            async for _ in client.receive_response():
                pass
        assert ours() == []
        stored = [file.read_text() for file in stage.home.glob("projects/*/*.jsonl")]
        assert sum("it is ***" in text for text in stored) == 1
        assert not any(key(1) in text for text in stored)

    play(main, tmp_path, Say.of("Done."), Say.of(f"it is {key(1)}"))


# --- what is said later -----------------------------------------------------------------------------------


def test_a_folder_that_an_answer_adds_is_in_the_home_of_the_session(tmp_path: Path, home: Path) -> None:
    asked: list[str] = []

    async def allow(name: str, input: dict[str, Any], context: object) -> PermissionResultAllow:
        asked.append(input["file_path"])
        return PermissionResultAllow(
            updated_permissions=[PermissionUpdate(type="addDirectories", directories=["~"], destination="session")]
        )

    async def main(stage: Stage) -> None:
        async with Client(stage.options(can_use_tool=allow, env={"HOME": str(home)})) as client:
            await client.query("go")
            told = [message async for message in client.receive_response()]
        assert [outcome.content for outcome in outcomes(told)] == ["1\twhat nobody should read\n"] * 2
        assert asked == [f"{home}/secret.txt"]  # the second one lies in the folder

    play(
        main,
        tmp_path,
        Say.of(call("Read", "1", file_path=f"{home}/secret.txt")),
        Say.of(call("Read", "2", file_path="~/secret.txt")),
        Say.of("Done."),
    )


def test_the_certificates_that_are_trusted_are_those_of_the_session(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        address = stage.server.url.replace("http:", "https:")
        env = {"ANTHROPIC_BASE_URL": address, "SSL_CERT_FILE": "/nowhere/certificates.pem"}
        with pytest.raises(ResultError, match="SSL_CERT_FILE"):
            await stage.ask(env=env, settings='{"api": {"maxRetries": 0}}')

    play(main, tmp_path)


def test_a_search_passes_over_what_the_sessions_user_ignores(tmp_path: Path, home: Path) -> None:
    (home / "config" / "git").mkdir(parents=True)
    (home / "config" / "git" / "ignore").write_text("*.log\n")

    async def main(stage: Stage) -> None:
        (stage.folder / "a.log").write_text("word")
        (stage.folder / "b.txt").write_text("word")
        (stage.folder / ".git").mkdir()
        told = await stage.ask(env={"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")})
        assert "b.txt" in str(outcomes(told)[0].content)
        assert "a.log" not in str(outcomes(told)[0].content)

    play(main, tmp_path, Say.of(call("Grep", pattern="word")), Say.of("Done."))


# --- explicit sources (settled 37) ------------------------------------------------------------------------


@pytest.mark.parametrize("sources", [["project"], ["user"], None])
def test_an_explicit_source_loads_what_the_project_describes_and_no_rights(
    tmp_path: Path, sources: list[Any] | None
) -> None:
    hook = {"type": "command", "command": "echo the hook was here"}
    settings = {
        "outputStyle": "Pirate",
        "hooks": {"UserPromptSubmit": [{"hooks": [hook]}]},
        "permissions": {"allow": ["Bash(touch made)"]},
        "apiKeyHelper": "touch helped",
    }

    async def main(stage: Stage) -> None:
        folder = stage.folder / ".claude"
        for name, text in {
            "settings.json": json.dumps(settings),
            "output-styles/pirate.md": "---\nname: Pirate\n---\nSay arr.",
            "skills/its/SKILL.md": "---\nname: its\ndescription: Its skill.\n---\nBody.",
            "agents/its.md": "---\nname: its-agent\ndescription: An agent.\n---\nYou are.",
            "CLAUDE.md": "The project likes coffee.",
        }.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        told = await stage.ask(setting_sources=sources)
        init = next(
            message.data for message in told if isinstance(message, SystemMessage) and message.subtype == "init"
        )
        request = json.dumps(stage.server.requests[0].body)
        by_name, implied = sources == ["project"], sources != ["user"]
        assert {
            "hook": "the hook was here" in request,
            "style": ("Say arr." in request, init["output_style"]),
            "memory": "likes coffee" in request,
            "skill": "its" in init["skills"],
            "agent": "its-agent" in init["agents"],
        } == {
            "hook": by_name,
            "style": (by_name, "Pirate" if by_name else "default"),
            "memory": implied,
            "skill": implied,
            "agent": implied,
        }
        assert refused(told) == [True]
        assert not [name for name in ("made", "helped") if (stage.folder / name).exists()]
        assert not (stage.home / "trusted.json").exists()

    play(main, tmp_path, Say.of(call("Bash", "1", command="touch made", description="x")), Say.of("Done."))
