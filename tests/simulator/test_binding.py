"""Preserved thinking: a block comes back behind the conversation it was written in, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.simulator.cache import SignatureBinding
from mainspring.simulator.replies import Say
from simulator.bodies import Json, ask, assistant, call, mark, result, text, tool, user

THOUGHT: Json = {"type": "thinking", "thinking": "Hm."}
SYSTEM = "Be brief."


class Talk:
    """A request, the model's reply to it, and the request that hands it back."""

    def __init__(self, *said: Json | str, **more: Any) -> None:
        self.binding = SignatureBinding()
        self.first = ask(user("Read it."), system=SYSTEM, tools=[tool()], **more)
        self.reply = self.binding.sign_reply(Say.of(*(said or (THOUGHT, call()))), self.first)
        self.more = more

    def back(self, **changed: Any) -> Json:
        given = {"prompt": "Read it.", "system": SYSTEM, "tools": [tool()], "reply": list(self.reply.blocks), **changed}
        messages = [user(given.pop("prompt")), assistant(*given.pop("reply")), user(result())]
        return ask(*messages, **{**self.more, **given})

    def breaks(self, **changed: Any) -> str:
        found = self.binding.broken(self.back(**changed))
        return found.path if found else ""


def test_it_stands_where_it_was_written() -> None:
    assert Talk().breaks() == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": "Read that."},
        {"system": "Be long."},
        {"tools": []},
        {"tools": [tool("Write")]},
        {"model": "claude-opus-5-5", "prompt": "Read that."},
    ],
)
def test_whatever_is_changed_before_it_voids_it(changed: Json) -> None:
    assert Talk().breaks(**changed) == "messages.1.content.0"


def test_what_stands_behind_it_may_change() -> None:
    talk = Talk()
    assert talk.breaks(reply=[talk.reply.blocks[0], call("toolu_2")]) == ""


def test_the_words_are_those_of_the_api() -> None:
    talk = Talk()
    found = talk.binding.broken(talk.back(prompt="another"))
    assert found is not None
    assert "bound to a different conversation" in found.said
    assert found.rule == "thinking.prefix"


def test_cache_marks_and_forms_of_writing_do_not_count() -> None:
    talk = Talk()
    marked = [{**tool(), **mark()}]
    assert talk.breaks(tools=marked, prompt=text("Read it.", **mark()), system=[text(SYSTEM, **mark())]) == ""


def test_the_second_thought_of_a_reply_stands_behind_the_first() -> None:
    talk = Talk(THOUGHT, "So:", {**THOUGHT, "thinking": "Well."}, call())
    first, words, second, last = talk.reply.blocks
    assert talk.breaks() == ""
    assert talk.breaks(reply=[first, text("Thus:"), second, last]) == "messages.1.content.2"
    assert talk.breaks(reply=[words, second, last]) == "messages.1.content.1"


def test_an_empty_text_that_cannot_come_back_is_not_missed() -> None:
    talk = Talk(text(""), THOUGHT, call())
    assert talk.breaks(reply=list(talk.reply.blocks[1:])) == ""


def test_a_request_may_ask_that_such_blocks_are_dropped() -> None:
    dropping = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert Talk().breaks(prompt="another", thinking=dropping) == ""
    refusing = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    assert Talk().breaks(prompt="another", thinking=refusing) != ""


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-haiku-4-5", "some-model"])
def test_older_models_do_not_mind(model: str) -> None:
    assert Talk(model=model).breaks(prompt="another") == ""


def test_signatures_that_nobody_here_gave_are_not_judged() -> None:
    assert Talk().breaks(reply=[{**THOUGHT, "signature": "opaque"}, call()]) == ""


def test_a_signature_that_the_script_gives_is_kept() -> None:
    talk = Talk({**THOUGHT, "signature": "mine"}, call())
    assert talk.reply.blocks[0]["signature"] == "mine"
    assert talk.breaks(prompt="another") == "messages.1.content.0"
