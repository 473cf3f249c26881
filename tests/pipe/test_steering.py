"""Prompts that join the turn under way, over the pipe: golden lines, withdrawing, kill -9; and the real client."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient
from cli.stage import until

from mainspring.simulator.replies import Say
from pipe.raw import Frame, Pipe, prompt
from pipe.stage import Serve, Stage, bash, response

FREE = ("--permission-mode", "bypassPermissions")
PROMPT = "system/mainspring_prompt"
FIRST, SECOND = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
WAIT = "touch began; for n in $(seq 2000); do [ -e go ] && exit; sleep 0.02; done"  # until the test says 'go'


def begin(stage: Stage, pipe: Pipe) -> None:
    """A turn whose command waits for a file."""
    pipe.initialize()
    pipe.send(prompt("the first"))
    until((stage.folder / "began").exists)


def golden(pipe: Pipe) -> list[Frame]:
    """Our frames, without what differs from run to run."""
    return [{k: v for k, v in frame.items() if k not in ("uuid", "session_id")} for frame in pipe.of(PROMPT)]


def steered(text: str, id: str) -> Frame:
    return prompt(text, uuid=id, delivery="steer")


@pytest.mark.covers("O-04")
def test_a_steering_prompt_joins_the_turn(serve: Serve) -> None:
    stage = serve(Say.of(bash(WAIT)), Say.of("Both done."))
    with stage.pipe(*FREE, "--replay-user-messages") as pipe:
        begin(stage, pipe)
        pipe.send(steered("And the second.", FIRST))
        pipe.until(PROMPT)
        (stage.folder / "go").touch()
        pipe.idle()
        assert pipe.finish() == 0
    assert golden(pipe) == [
        {"type": "system", "subtype": "mainspring_prompt", "prompt_id": FIRST, "status": "queued", "delivery": "steer"},
        {"type": "system", "subtype": "mainspring_prompt", "prompt_id": FIRST, "status": "delivered"},
    ]
    assert len(stage.requests) == 2
    assert ("And the second." in stage.said(0), stage.said(1).count("And the second.")) == (False, 1)
    assert (len(pipe.of("system/init")), len(pipe.of("result"))) == (1, 1)
    [echo] = [frame for frame in pipe.of("user") if frame["message"]["content"] == "And the second."]
    assert (echo["uuid"], echo["isReplay"]) == (FIRST, True)
    from claude_agent_sdk._internal.message_parser import parse_message  # only the official client has it

    assert all(parse_message(frame) is not None for frame in pipe.of(PROMPT))  # the client knows system frames


def test_without_a_turn_it_begins_one_and_init_comes_first(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    with stage.pipe(*FREE) as pipe:
        pipe.initialize()
        pipe.send(steered("hello", FIRST))
        pipe.idle()
        assert pipe.finish() == 0
    assert golden(pipe) == [
        {"type": "system", "subtype": "mainspring_prompt", "prompt_id": FIRST, "status": "queued"}
        | {"delivery": "next_run"}
    ]
    assert pipe.kinds.index("system/init") < pipe.kinds.index(PROMPT) < pipe.kinds.index("assistant")


def test_prompts_keep_their_order_whatever_their_delivery(serve: Serve) -> None:
    """A prompt behind a queued one waits with it: it must not overtake."""
    stage = serve(Say.of(bash(WAIT)), *[Say.of("Hi.")] * 4)
    with stage.pipe(*FREE) as pipe:
        begin(stage, pipe)
        pipe.send(steered("number one", FIRST), prompt("number two"), steered("number three", SECOND))
        pipe.until(lambda frame: frame.get("prompt_id") == SECOND)
        (stage.folder / "go").touch()
        pipe.idle()
        assert pipe.finish() == 0
    said = stage.said(-1)
    assert said.index("number one") < said.index("number two") < said.index("number three")
    assert [frame.get("delivery") for frame in golden(pipe)] == ["steer", "next_run", None]
    assert len(pipe.of("result")) == 3


def test_a_prompt_is_withdrawn_until_it_is_on_its_way(serve: Serve) -> None:
    """Both kinds; afterwards, and for an id that nobody knows, the answer is false."""
    stage = serve(Say.of(bash(WAIT)), *[Say.of("Hi.")] * 3)
    withdrawn = "33333333-3333-4333-8333-333333333333"
    with stage.pipe(*FREE) as pipe:
        begin(stage, pipe)
        pipe.send(steered("keep this", FIRST), steered("drop this", withdrawn), prompt("drop that", uuid=SECOND))
        answers = [pipe.control("cancel_async_message", message_uuid=id) for id in (withdrawn, SECOND, "nobody")]
        (stage.folder / "go").touch()
        pipe.idle()
        answers.append(pipe.control("cancel_async_message", message_uuid=FIRST))
        assert pipe.finish() == 0
    assert [answer["response"] for answer in answers] == [{"cancelled": one} for one in (True, True, False, False)]
    everything = "".join([stage.said(number) for number in range(len(stage.requests))])
    assert "drop" not in everything
    assert stage.said(-1).count("keep this") == 1
    assert len(pipe.of("result")) == 1


def test_an_interrupt_lists_steering_prompts_and_they_run_next(serve: Serve) -> None:
    stage = serve(Say.of(bash(WAIT)), Say.of("Hi."))
    with stage.pipe(*FREE) as pipe:
        begin(stage, pipe)
        pipe.send(steered("and now this", FIRST))
        pipe.until(PROMPT)
        assert pipe.control("interrupt")["response"] == {"still_queued": [FIRST]}
        pipe.idle()
        assert pipe.finish() == 0
    assert stage.said(-1).count("and now this") == 1
    assert len(pipe.of("result")) == 2


@pytest.mark.covers("L-03")
def test_an_acknowledged_prompt_survives_kill_9(serve: Serve) -> None:
    """It is journaled before the client is told that it is queued (law 3); a withdrawn one stays withdrawn."""
    stage = serve(Say.of(bash(WAIT)), Say.of("Hi."))
    with stage.pipe(*FREE) as pipe:
        begin(stage, pipe)
        pipe.send(steered("remember me", FIRST), steered("forget me", SECOND))
        pipe.until(lambda frame: frame.get("prompt_id") == SECOND)
        assert pipe.control("cancel_async_message", message_uuid=SECOND)["response"] == {"cancelled": True}
        session_id = pipe.of("system/init")[0]["session_id"]
        pipe.process.send_signal(signal.SIGKILL)
        assert pipe.exit() == -signal.SIGKILL
    (stage.folder / "go").touch()
    with stage.pipe(*FREE, "--resume", session_id) as pipe:
        pipe.initialize()
        pipe.send(prompt("go on"))
        pipe.idle()
        assert pipe.finish() == 0
    assert len(stage.requests) == 2
    assert stage.said(1).count("remember me") == 1
    assert "forget me" not in stage.said(1)


@pytest.mark.of_the_pipe
def test_the_real_client_is_unchanged_by_default(serve: Serve) -> None:
    """Two prompts at once: two turns, two results, and none of our frames."""
    stage = serve(Say.of(bash(WAIT)), *[Say.of("Hi.")] * 2)
    seen: list[Any] = []

    async def main(client: ClaudeSDKClient) -> None:
        await client.query("the first")
        until((stage.folder / "began").exists)
        await client.query("the second")
        (stage.folder / "go").touch()
        seen.extend([await response(client), await response(client)])

    stage.talk(main, permission_mode="bypassPermissions")
    assert [len(told.results) for told in seen] == [1, 1]
    assert [told.system("mainspring_prompt") for told in seen] == [[], []]
    assert len(stage.requests) == 3
    assert "the second" not in stage.said(1)


@pytest.mark.of_the_pipe
def test_the_real_client_can_steer_through_a_stream_of_messages(serve: Serve) -> None:
    """It passes unknown fields of a message on, and reads our frames as system messages."""
    stage = serve(Say.of(bash(WAIT)), Say.of("Both done."))

    async def messages() -> Any:
        yield prompt("the first")
        until((stage.folder / "began").exists)
        yield steered("And the second.", FIRST)
        until(lambda: FIRST in "".join([path.read_text() for path in stage.transcripts()]))
        (stage.folder / "go").touch()

    told = stage.ask(messages(), permission_mode="bypassPermissions")
    assert told.error is None
    assert [(frame["status"], frame["prompt_id"]) for frame in told.system("mainspring_prompt")] == [
        ("queued", FIRST),
        ("delivered", FIRST),
    ]
    assert (len(told.results), stage.said(1).count("And the second.")) == (1, 1)
