"""Slash commands without a screen (settled 42): no request, one text for every front end, and an error that helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.stage import Serve, frames

from agent.stage import Stage, play, read_until_idle
from mainspring.agent.session import AgentSession
from mainspring.agent.slash_commands import WORDS
from mainspring.agent.updates import PromptAnswered
from mainspring.core.updates import Result
from mainspring.simulator.replies import Say


async def answer(session: AgentSession, prompt: str) -> PromptAnswered:
    await session.submit(prompt)
    [found] = [one for one in await read_until_idle(session) if isinstance(one, PromptAnswered)]
    return found


# What each answers in a new session, in part; failed: it needs more than there is.
ANSWERS = {
    "clear": "Started a new conversation.",
    "resume": "No other sessions in this folder.",
    "rewind": "Nothing to rewind yet.",
    "rename": "Usage: /rename TITLE",
    "export": "Nothing to export yet.",
    "status": "Mode      default",
    "context": " of 1,000,000 tokens (",
    "cost": "Nothing spent yet.",
    "model": "Model: claude-",
    "permissions": "Mode: default. Folders: ",
    "add-dir": "Usage: /add-dir FOLDER",
    "memory": "No memory files.",
    "skills": "No skills or custom commands.",
    "agents": "general-purpose  (built-in",
    "tasks": "No background tasks.",
    "mcp": "No MCP servers configured.",
    "hooks": "No hooks.",
    "config": "autoMemoryEnabled",
    "trust": "/trust needs a terminal: run 'mainspring trust' in the folder.",
    "doctor": "mainspring ",
    "help": "/permissions",
    "exit": "/exit needs a terminal: end the input.",
    "quit": "/quit needs a terminal: end the input.",
}
FAILED = {"rewind", "rename", "export", "add-dir", "trust", "exit", "quit"}
OF_THE_MODEL = {"compact", "init"}


@pytest.mark.covers("O-03")
def test_every_command_answers_without_a_request(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        got = {one.name: await answer(session, f"/{one.name}") for one in WORDS if one.name in ANSWERS}
        missing = {name for name, found in got.items() if ANSWERS[name] not in found.text}
        assert not missing, {name: got[name].text for name in missing}
        assert {name for name, found in got.items() if found.failed} == FAILED
        assert stage.server.requests == []
        await session.close()

    play(main, tmp_path)


def test_every_command_is_in_the_table_of_this_test() -> None:
    """A new command states here what it answers without a screen."""
    named = {one.name for one in WORDS if one.name in ANSWERS or one.name in OF_THE_MODEL}
    assert named == ANSWERS.keys() | OF_THE_MODEL


def test_what_they_do_without_a_screen(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("first words")
        await read_until_idle(session)
        first = session.world.about.session_id
        assert (await answer(session, "/model haiku")).text == "Switched to claude-haiku-5-5."
        assert (await answer(session, "/model sonet")).failed
        assert "'The way'" in (await answer(session, "/rename The way")).text
        assert "Exported 1 prompt" in (await answer(session, "/export way.md")).text
        assert "> first words" in (stage.folder / "way.md").read_text()
        again = await answer(session, "/export way.md")
        assert again.failed
        assert "already exists" in again.text
        assert "claude-sonnet-5-5: " in (await answer(session, "/cost")).text
        await session.submit("second words")
        await read_until_idle(session)
        assert "   1  second words" in (await answer(session, "/rewind")).text
        assert "Your prompt was: second words" in (await answer(session, "/rewind 1")).text
        assert session.world.about.session_id != first
        assert "second words" not in str(session.world.session.state.history)
        assert "Last reply: Two." in (await answer(session, f"/resume {first[:8]}")).text
        assert session.world.about.session_id == first
        assert (await answer(session, "/resume nowhere")).failed
        assert len(stage.server.requests) == 2
        await session.close()

    play(main, tmp_path, Say.of("One."), Say.of("Two."))


def test_init_becomes_a_prompt(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit("/init in German")
        assert any(isinstance(one, Result) for one in await read_until_idle(session))
        [request] = stage.server.requests
        text = json.dumps(request.body["messages"])
        assert f"Write '{stage.folder}/AGENTS.md'" in text
        assert "in German" in text
        await session.close()

    play(main, tmp_path, Say.of("Written."))


TEXTS = ("/etc/hosts is empty, why?", "/nobody knows", "/", "/ what is this")


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_only_begins_with_a_slash_goes_to_the_model(tmp_path: Path, text: str) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open()
        await session.start()
        await session.submit(text)
        await read_until_idle(session)
        [request] = stage.server.requests
        assert text in json.dumps(request.body["messages"])
        await session.close()

    play(main, tmp_path, Say.of("Hi."))


def test_print_mode_exits_with_1_and_json_says_so_too(serve: Serve) -> None:
    stage = serve()
    wrong = "There is no command and no skill '/stauts'. Did you mean /status?"
    done = stage.run("-p", "/stauts")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", f"mainspring: {wrong}\n")
    done = stage.run("-p", "/stauts", "--output-format=json")
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, b"")
    assert (result["is_error"], result["num_turns"], result["result"]) == (True, 0, wrong)
    done = stage.run("-p", "/quit", "--output-format=stream-json", "--verbose")
    assert done.returncode == 1
    assert frames(done.stdout)[-1]["result"] == "/quit needs a terminal: end the input."
    done = stage.run("-p", input=b"/cost\n")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Nothing spent yet.")
    assert stage.requests == []
    assert stage.sessions() == []
