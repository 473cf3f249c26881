"""A slash command stays what the user typed, wherever prompts are listed; only the model gets its expansion."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tui.seeing import ReadPaper

from cli.slash.sitting import Sitting, here, sat, seated
from cli.stage import Serve, Stage
from mainspring.cli.plain import make_typed_prompt
from mainspring.cli.tui.history_view import put_past
from mainspring.sdk import list_sessions
from mainspring.sessions.listing import list_sessions_in, render_session
from mainspring.simulator.replies import Say

TYPED = "/hello world"
EXPANDED = "Greet world, politely."


@pytest.fixture
def stage(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = serve(*[Say.of("Hello, world.")] * 3)
    here(stage, monkeypatch)
    (stage.home / "commands").mkdir()
    (stage.home / "commands" / "hello.md").write_text("Greet $ARGUMENTS, politely.")
    return stage


def play_typed(stage: Stage, front_end: str) -> Path:
    if front_end == "print":
        assert stage.run("-p", TYPED).returncode == 0
    elif front_end == "pipe":
        said = {"type": "user", "message": {"role": "user", "content": TYPED}}
        formats = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        home = {"CLAUDE_CONFIG_DIR": str(stage.home)}
        assert stage.run("-p", *formats, input=json.dumps(said).encode() + b"\n", env=home).returncode == 0
    else:

        async def play(sitting: Sitting) -> None:
            await sitting.said(TYPED)
            await sitting.ask(make_typed_prompt(TYPED, sitting.meant))

        sat(play)
    [file] = stage.sessions()
    return file


@pytest.mark.parametrize("front_end", ["print", "pipe", "terminal"])
def test_every_list_of_prompts_shows_the_command(stage: Stage, front_end: str) -> None:
    file = play_typed(stage, front_end)
    [message] = stage.requests[0].body["messages"]
    assert EXPANDED in json.dumps(message)
    assert TYPED not in json.dumps(message)

    assert [entry.title for entry in list_sessions_in(file.parent)] == [TYPED]
    assert f"> {TYPED}" in render_session(file)
    listed = stage.run("trace", "--text", file.stem).stdout.decode()
    assert TYPED in listed
    assert EXPANDED not in listed
    [info] = list_sessions(str(stage.folder))
    assert (info.summary, info.first_prompt) == (TYPED, TYPED)

    paper = ReadPaper()

    async def main() -> None:
        async with seated("--continue") as sitting:
            put_past(paper, sitting.talk)
            assert f"   1  {TYPED}  (" in await sitting.said("/rewind")
            await sitting.said("/export out.md")
            await sitting.said("/rewind 1")
            assert sitting.talk.draft == TYPED

    asyncio.run(main())
    assert paper.said[0] == f"❯ {TYPED}"
    exported = (stage.folder / "out.md").read_text()
    assert f"> {TYPED}" in exported
    assert EXPANDED not in exported


def test_a_command_typed_in_claude_code_is_shown_as_it_was_typed(tmp_path: Path) -> None:
    tags = {"command-message": "hello", "command-name": "/hello", "command-args": "world"}
    said = "\n".join([f"<{tag}>{text}</{tag}>" for tag, text in tags.items()])
    line = {"type": "user", "uuid": "u", "message": {"role": "user", "content": said}}
    file = tmp_path / "11111111-2222-4333-8444-555555555555.jsonl"
    file.write_text(json.dumps(line, separators=(",", ":")) + "\n")
    assert [entry.title for entry in list_sessions_in(tmp_path)] == [TYPED]


def test_a_plain_prompt_has_nothing_else_to_show() -> None:
    assert make_typed_prompt("go on", "go on").typed == ""
