"""`initialize` and the prompts behind it. See stream-json 3."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from claude_agent_sdk import AgentDefinition, ClaudeSDKClient

from mainspring.simulator.replies import Say
from pipe.raw import prompt
from pipe.stage import Serve, Told, exchange

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PIXEL).decode()},
}


async def frames(*given: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    for frame in given:
        yield frame


# --- initialize -------------------------------------------------------------------------------------


def test_the_answer_to_initialize(serve: Serve) -> None:
    """3.1, 7 rule 1: it is the first line, with all its keys, and nothing else comes before the first prompt."""
    with serve().pipe() as pipe:
        said = pipe.initialize()
        assert pipe.kinds == ["control_response"]
        assert pipe.rest() == []
        assert pipe.exit() == 0
    assert "compact" in [command["name"] for command in said["commands"]]
    assert all({"name", "description", "argumentHint"} <= set(command) for command in said["commands"])
    assert "general-purpose" in [agent["name"] for agent in said["agents"]]
    assert (said["output_style"], said["session_state"]) == ("default", "idle")
    assert "default" in said["available_output_styles"]
    assert all({"value", "displayName", "description"} <= set(model) for model in said["models"])
    assert said["account"]["apiKeySource"] == "ANTHROPIC_API_KEY"
    assert said["pid"] == pipe.process.pid
    assert [part.isdigit() for part in said["claude_code_version"].split(".")] == [True] * 3
    assert said["current_permission_mode"] == "default"
    assert said["hook_on_failure_supported"] is True
    assert said.get("hooks_applied") is not False


def test_what_the_client_hands_out(serve: Serve) -> None:
    """3.1: `get_server_info()` is the inner object."""

    async def main(client: ClaudeSDKClient) -> None:
        info = await client.get_server_info()
        assert info is not None
        assert info["output_style"] == "default"
        assert "compact" in [command["name"] for command in info["commands"]]

    assert serve().talk(main) == []


def test_a_prompt_without_a_handshake_and_two_handshakes(serve: Serve) -> None:
    """3.1: it is simply run; a later `initialize`, and another one, are answered."""
    stage = serve(Say.of("One."), Say.of("Two."))
    with stage.pipe() as pipe:
        assert pipe.turn("hello")["result"] == "One."
        assert "commands" in pipe.initialize()
        assert "commands" in pipe.initialize()
        assert pipe.turn("again")["result"] == "Two."
        assert pipe.finish() == 0


def test_many_agents(serve: Serve) -> None:
    """1.2: 260 kB of agents in `initialize` must work; `init` and the answer name them."""
    agents = {f"agent-{n}": AgentDefinition(description=f"No {n}.", prompt="Do. " * 1_300) for n in range(50)}
    assert sum(len(agent.prompt) for agent in agents.values()) >= 260_000
    stage = serve(Say.of("Hi."))
    told = stage.ask("hello", agents=agents)
    assert told.error is None
    assert set(agents) <= set(told.init["agents"])


# --- prompts ----------------------------------------------------------------------------------------


def test_a_prompt_of_blocks(serve: Serve) -> None:
    """3.2: text and an image arrive as they are; the frame may lack all that is optional."""
    stage = serve(Say.of("A pixel."))
    content = [{"type": "text", "text": "what is this?"}, IMAGE]
    told = stage.ask(frames({"type": "user", "message": {"role": "user", "content": content}}))
    assert (told.error, told.result.result) == (None, "A pixel.")
    sent = [block for message in stage.requests[0].body["messages"] for block in message["content"]]
    assert [block["source"] for block in sent if block["type"] == "image"] == [IMAGE["source"]]
    assert "what is this?" in [block["text"] for block in sent if block["type"] == "text"]
    assert content in [line["message"]["content"] for line in stage.lines() if line["type"] == "user"]


def test_the_id_of_a_prompt_is_kept(serve: Serve) -> None:
    """3.2, 6.3: in the transcript and in the replay, with its content as it was and `isReplay`."""
    stage = serve(Say.of("One."), Say.of("Two."))
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    with stage.pipe("--replay-user-messages") as pipe:
        pipe.initialize()
        pipe.turn("hello", uuid=first, session_id="nonsense")
        pipe.turn([{"type": "text", "text": "again"}], uuid=second)
        assert pipe.finish() == 0
    echoes = [frame for frame in pipe.of("user") if frame.get("isReplay")]
    assert [(frame["uuid"], frame["message"]["content"]) for frame in echoes] == [
        (first, "hello"),
        (second, [{"type": "text", "text": "again"}]),
    ]
    assert [line["uuid"] for line in stage.lines() if line["type"] == "user" and not line.get("isMeta")] == [
        first,
        second,
    ]
    assert {frame["session_id"] for frame in pipe.frames if "session_id" in frame} == {
        pipe.of("result")[0]["session_id"]
    }
    assert pipe.kinds.index("user") > pipe.kinds.index("system/init")


@pytest.mark.covers("O-05")
def test_words_that_look_like_commands(serve: Serve) -> None:
    """3.2: an unknown `/word` goes to the model; with `client_composed` a known one does, no `@file` is expanded."""
    stage = serve(Say.of("One."), Say.of("Two."))
    (stage.folder / "note.txt").write_text("the secret of the note")
    assert stage.ask("/nosuchword at all").result.result == "One."
    assert "/nosuchword at all" in stage.said(0)
    told = stage.ask("/compact @note.txt", verbatim_prompts=True)
    assert told.result.result == "Two."
    assert "/compact @note.txt" in stage.said(1)
    assert "the secret of the note" not in stage.said(1)


def test_a_file_that_is_named(serve: Serve) -> None:
    """3.2: without `client_composed` an `@file` is expanded for the model, and the prompt is stored as given (14.2)."""
    stage = serve(Say.of("I see."))
    (stage.folder / "note.txt").write_text("the secret of the note")
    assert stage.ask("look at @note.txt").error is None
    assert "the secret of the note" in stage.said(0)
    prompts = [
        line["message"]["content"] for line in stage.lines() if line["type"] == "user" and not line.get("isMeta")
    ]
    assert "look at @note.txt" in prompts


def test_where_a_prompt_comes_from(serve: Serve) -> None:
    """3.2 [O]: `origin` is echoed on the turn's result."""
    stage = serve(Say.of("Hi."))
    with stage.pipe() as pipe:
        pipe.initialize()
        assert pipe.turn("hello", origin={"kind": "human"})["origin"] == {"kind": "human"}


@pytest.mark.covers("M-15", "L-07")
def test_many_prompts_in_one_connection(serve: Serve) -> None:
    """3.2, 17.11: one process, one session, an `init` for each turn."""
    stage = serve(Say.of("One."), Say.of("Two."))
    turns: list[Told] = []

    async def main(client: ClaudeSDKClient) -> None:
        for text in ("hello", "again"):
            turns.append(await exchange(client, text))

    assert stage.talk(main) == []
    assert [told.result.result for told in turns] == ["One.", "Two."]
    assert len({told.init["session_id"] for told in turns}) == 1
    assert "hello" in stage.said(1)
    assert "One." in stage.said(1)


def test_prompts_that_are_streamed_into_a_query(serve: Serve) -> None:
    """7 rules 4 and 5: all of an iterable's prompts are answered, and none is lost."""
    stage = serve(Say.of("One."), Say.of("Two."))
    told = stage.ask(frames(prompt("the first"), prompt("the second")))
    assert told.error is None
    assert "the first" in stage.said(-1)
    assert "the second" in stage.said(-1)
    assert json.dumps(stage.lines()).count("the second") >= 1
