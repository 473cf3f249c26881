"""Who answers: lists, scripts, recordings and rules; by the conversation, not by the order of requests."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mainspring.simulator.replies import RawStream, ReceivedRequest, Refuse, Reply, Say
from mainspring.simulator.scripts import (
    NO_MORE,
    InOrder,
    PromptScript,
    RecordedExchange,
    choose_by_prompt,
    default_reply,
    encode_recording_line,
    read_recording,
    read_rule,
    read_script,
    replay_recording,
)
from simulator.bodies import Json, ask, assistant, call, mark, result, text, thought, user

A, B, C = Say.of("a"), Say.of("b"), Say.of("c")


def received(*messages: Json, **more: object) -> ReceivedRequest:
    return ReceivedRequest("/v1/messages", {}, b"", ask(*messages, **more), 0, 1)


def refused(reply: Reply) -> str:
    assert isinstance(reply, Refuse)
    return reply.message


def test_replies_in_order_and_those_that_come_back() -> None:
    choose = InOrder([A, B])
    assert choose(received()) == A
    choose.give_back(A)
    assert [choose(received()) for _ in range(3)] == [A, B, NO_MORE]


def test_a_server_that_was_told_nothing_answers_all_the_same() -> None:
    reply = default_reply(received(user("Good morning.\nAnd so on.")))
    assert isinstance(reply, Say)
    assert [block.get("text") for block in reply.blocks] == [None, "You said: Good morning."]


# --- scripts ---------------------------------------------------------------------------------------------


def test_a_script_goes_by_what_was_asked_and_how_often_it_was_answered() -> None:
    choose = choose_by_prompt([PromptScript("add", (A, B)), PromptScript("count", (C,))])
    adding = (user("please add"), assistant(call()), user(result()))
    assert choose(received(*adding)) == B
    assert choose(received(user("please count"))) == C
    assert choose(received(user("please add"))) == A
    assert choose(received(*adding)) == B, "the same conversation gets the same reply"


def test_what_a_client_adds_to_recover_does_not_change_the_conversation() -> None:
    choose = choose_by_prompt([PromptScript("add", (A, B))])
    assert choose(received(user("add"), assistant("hal"), user("Go on from where you stopped."))) == B


def test_the_last_prompt_that_is_known_counts() -> None:
    choose = choose_by_prompt([PromptScript("add", (A,)), PromptScript("count", (C,))])
    assert choose(received(user("add"), assistant("5"), user("count"))) == C


def test_an_end_of_the_script_is_named() -> None:
    choose = choose_by_prompt([PromptScript("add", (A,))])
    assert "has 1 replies, and number 2 was requested" in refused(
        choose(received(user("add"), assistant("5"), user("?")))
    )
    assert "no script matches the prompt 'sing'" in refused(choose(received(user("sing"))))


def test_scripts_in_files(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_bytes(msgspec.json.encode([PromptScript("add", (A, B))]))
    assert read_script(path)(received(user("add"))) == A
    path.write_bytes(msgspec.json.encode([B, Refuse(529, "overloaded_error")]))
    choose = read_script(path)
    assert [choose(received(user("whatever"))) for _ in range(2)] == [B, Refuse(529, "overloaded_error")]


# --- recordings -------------------------------------------------------------------------------------------


def test_a_recording_answers_the_same_messages(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    cut = RawStream((b"event: ping\n\n",), "close")
    first, second = ask(user("add")), ask(user("add"), assistant(call()), user(result()))
    path.write_bytes(
        encode_recording_line(first, cut) + encode_recording_line(first, A) + encode_recording_line(second, B)
    )
    assert read_recording(path) == [
        RecordedExchange(first, cut),
        RecordedExchange(first, A),
        RecordedExchange(second, B),
    ]
    choose = replay_recording(read_recording(path))
    assert choose(received(*second["messages"])) == B
    assert [choose(received(user("add"))) for _ in range(3)] == [cut, A, A], "then the last one again"


def test_what_changes_from_day_to_day_is_not_compared() -> None:
    body = ask(user("add"), assistant(thought(), text("hm")), user("go on"), system="Today is Monday.")
    choose = replay_recording([RecordedExchange(body, A)])
    changed = received(
        user(text("add", **mark())),
        assistant(thought(signature="sig:claude-sonnet-5-5:77"), text("hm")),
        user("go on"),
        system="Today is Tuesday.",
    )
    assert choose(changed) == A


@pytest.mark.parametrize("body", [ask(user("subtract")), ask(user("add"), model="claude-opus-5")])
def test_another_conversation_is_not_answered(body: Json) -> None:
    choose = replay_recording([RecordedExchange(ask(user("add")), A)])
    reply = choose(ReceivedRequest("/v1/messages", {}, b"", body, 0, 1))
    assert "has no answer to these 1 message" in refused(reply)


# --- rules ------------------------------------------------------------------------------------------------


def test_a_rule_by_name() -> None:
    assert read_rule("mainspring.simulator.scripts:default_reply") is default_reply


def test_a_rule_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="'json' has no function 'nothing'"):
        read_rule("json:nothing")


# --- what a rule can see ---------------------------------------------------------------------------------


def test_the_conversation_as_a_rule_sees_it() -> None:
    talk = received(
        user("add"),
        assistant(text("So:"), call("toolu_1", "Add"), call("toolu_2", "Read")),
        user(result("toolu_1", "5"), result("toolu_2", "x"), text("and hurry")),
        metadata={"user_id": "u1"},
    ).talk
    assert (talk.key, talk.prompt, talk.turns(), talk.turns(2)) == ("u1:add", "and hurry", 1, 0)
    assert [block["content"] for block in talk.results("Add")] == ["5"]
    assert len(talk.results()) == 2
    assert received(assistant(call())).talk.prompt == ""
