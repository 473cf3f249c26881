"""What a hook returned or printed, as an opinion (stream-json 10): field by field, and what is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.hooks.events import CAN_BLOCK, GUARDS, NOTHING, HookPoint, HookResult
from mainspring.hooks.results import DEEPEST, DEFERRED, ENDED, LONGEST_TEXT, HookAnswerError, opinion_in, opinion_of

PRE, POST, STOP, ASKED = HookPoint.PRE_TOOL_USE, HookPoint.POST_TOOL_USE, HookPoint.STOP, HookPoint.PERMISSION_REQUEST


def own(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": fields}


GOOD: list[tuple[HookPoint, dict[str, Any], HookResult]] = [
    (PRE, {}, NOTHING),
    (PRE, {"hookSpecificOutput": None, "decision": None, "continue": True, "suppressOutput": True}, NOTHING),
    (PRE, own(permissionDecision="allow"), HookResult("allow")),
    (PRE, own(permissionDecision="deny", permissionDecisionReason="no"), HookResult("deny", reason="no")),
    (PRE, own(permissionDecision="ask", permissionDecisionReason="sure?"), HookResult("ask", reason="sure?")),
    (PRE, own(permissionDecision="defer"), HookResult("deny", stop=DEFERRED)),
    (PRE, {"decision": "block", "reason": "old"}, HookResult("deny", reason="old")),
    (PRE, {"decision": "approve", "reason": "old"}, HookResult("allow", reason="old")),
    (PRE, {"decision": "block"} | own(permissionDecision="allow"), HookResult("deny")),
    (PRE, {"decision": "approve"} | own(permissionDecision="ask"), HookResult("ask")),
    (PRE, own(updatedInput={"command": "ls"}), HookResult(input={"command": "ls"})),
    (PRE, own(updatedInput={}), HookResult(input={})),
    (PRE, own(additionalContext="mind the gap"), HookResult(context=("mind the gap",))),
    (PRE, own(additionalContext=""), NOTHING),
    (PRE, {"systemMessage": "look"}, HookResult(message="look")),
    (PRE, {"continue": False}, HookResult(stop=ENDED)),
    (PRE, {"continue": False, "stopReason": "enough"}, HookResult(stop="enough")),
    (PRE, {"stopReason": "unused"}, NOTHING),
    (PRE, {"async": True, "asyncTimeout": 5}, NOTHING),
    (POST, own(updatedToolOutput={"stdout": "x"}), HookResult(output={"stdout": "x"})),
    (POST, own(updatedMCPToolOutput=[1]), HookResult(mcp_output=[1])),
    (POST, own(additionalContext="more"), HookResult(context=("more",))),
    (POST, {"decision": "block", "reason": "look again"}, HookResult(block=True, reason="look again")),
    (POST, own(permissionDecision="deny"), HookResult(block=True)),
    (POST, own(permissionDecision="allow"), NOTHING),
    (STOP, {"decision": "block", "reason": "3 errors"}, HookResult(block=True, reason="3 errors")),
    (STOP, {"decision": "approve"}, NOTHING),
    (STOP, own(additionalContext="tests are red"), HookResult(block=True, reason="tests are red")),
    (
        STOP,
        {"decision": "block", "reason": "no"} | own(additionalContext="red"),
        HookResult(block=True, reason="no\nred"),
    ),
    (STOP, {"reason": "idle"} | own(additionalContext="red"), HookResult(block=True, reason="red")),
    (HookPoint.SUBAGENT_STOP, own(additionalContext="look again"), HookResult(block=True, reason="look again")),
    (HookPoint.SESSION_START, {"decision": "block", "reason": "r"}, HookResult(reason="r")),
    (ASKED, own(decision={"behavior": "allow"}), HookResult("allow")),
    (ASKED, own(decision={"behavior": "allow", "updatedInput": {"a": 1}}), HookResult("allow", input={"a": 1})),
    (ASKED, own(decision={"behavior": "deny", "message": "not now"}), HookResult("deny", reason="not now")),
    (ASKED, own(decision={"behavior": "deny", "interrupt": True}), HookResult("deny", stop=ENDED)),
    (
        ASKED,
        own(decision={"behavior": "deny", "message": "stop", "interrupt": True}),
        HookResult("deny", reason="stop", stop="stop"),
    ),
    (ASKED, own(decision={"behavior": "allow", "interrupt": True}), HookResult("allow")),
]


@pytest.mark.covers("I-04")
@pytest.mark.parametrize(("point", "answer", "opinion"), GOOD)
def test_each_field_means_what_the_page_says(point: HookPoint, answer: dict[str, Any], opinion: HookResult) -> None:
    assert opinion_of(answer, point) == opinion
    assert opinion_in(msgspec.json.encode(answer), point) == opinion


WRONG: list[dict[str, Any]] = [
    {"hookSpecificOutput": "text"},
    {"hookSpecificOutput": []},
    {"decision": "banana"},
    {"decision": ["approve"]},
    {"reason": 5},
    {"continue": "false"},
    {"systemMessage": {"a": 1}},
    own(permissionDecision="maybe"),
    own(permissionDecision=["allow"]),
    own(permissionDecision="allow", permissionDecisionReason=5),
    own(updatedInput="ls"),
    own(updatedInput=[1]),
    own(additionalContext=["a"]),
    own(decision="allow"),
    own(decision={"behavior": "perhaps"}),
]


@pytest.mark.parametrize("answer", WRONG)
def test_what_is_of_the_wrong_type_is_no_opinion(answer: dict[str, Any]) -> None:
    with pytest.raises(HookAnswerError, match="gave an invalid answer") as returned:
        opinion_of(answer, PRE)
    with pytest.raises(HookAnswerError, match="gave an invalid answer") as printed:
        opinion_in(msgspec.json.encode(answer), PRE)
    assert returned.value.said == printed.value.said == NOTHING


STILL_NO: list[tuple[HookPoint, dict[str, Any], str | None, bool, bool]] = [
    (PRE, own(permissionDecision="deny", permissionDecisionReason=5), "deny", False, False),
    (PRE, own(permissionDecision="defer", updatedInput=5), "deny", False, False),
    (PRE, own(permissionDecision="ask", additionalContext=5), "ask", False, False),
    (POST, own(permissionDecision="ask", additionalContext=5), None, False, False),
    (PRE, {"decision": "block", "reason": ["why"]}, "deny", False, False),
    (PRE, {"continue": False, "stopReason": 5}, "deny", False, True),
    (ASKED, own(decision={"behavior": "deny", "message": 5}), "deny", False, False),
    (STOP, {"decision": "block", "reason": 5}, None, True, False),
]


@pytest.mark.parametrize(("point", "answer", "decision", "block", "stops"), STILL_NO)
def test_a_slip_beside_a_no_does_not_undo_the_no(
    point: HookPoint, answer: dict[str, Any], decision: str | None, *, block: bool, stops: bool
) -> None:
    with pytest.raises(HookAnswerError) as caught:
        opinion_in(msgspec.json.encode(answer), point)
    said = caught.value.said
    assert (said.decision, said.block, said.stop is not None) == (decision, block, stops)


# --- what functions return ----------------------------------------------------------------------------------------


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": [value]}
    return value


def test_none_is_no_opinion() -> None:
    assert opinion_of(None, PRE) == NOTHING


@pytest.mark.parametrize("answer", ["deny", 2, True, ["deny"], object()])
def test_what_is_no_object_is_named_by_its_type(answer: object) -> None:
    with pytest.raises(
        HookAnswerError, match=f"returned {type(answer).__name__}; expected a dictionary, a HookResult or None"
    ):
        opinion_of(answer, PRE)


def test_an_opinion_is_taken_as_it_is_and_put_in_its_place() -> None:
    assert opinion_of(HookResult("ask", reason="r", context=("c",)), PRE) == HookResult(
        "ask", reason="r", context=("c",)
    )
    for point in HookPoint:
        no = opinion_of(HookResult("deny", block=True, reason="r"), point)
        assert (no.decision == "deny") == (point in GUARDS)
        assert no.block == (point in CAN_BLOCK)


def test_an_opinion_that_was_made_wrongly_is_none_but_its_no_counts() -> None:
    made: Any = HookResult
    for wrong in (made(decision="perhaps"), made(context="text"), made(input=[1]), made(output=object())):
        with pytest.raises(HookAnswerError) as caught:
            opinion_of(wrong, PRE)
        assert caught.value.said == NOTHING
    for wrong in (made("deny", reason=5), made(block=True, output=object()), made(stop=5)):
        with pytest.raises(HookAnswerError) as caught:
            opinion_of(wrong, PRE)
        assert caught.value.said.decision == "deny"


def test_an_answer_cannot_be_changed_afterwards() -> None:
    changed: dict[str, Any] = {"command": "ls"}
    opinion = opinion_of(own(updatedInput=changed), PRE)
    changed["command"] = "rm -rf /"
    assert opinion.input == {"command": "ls"}


@pytest.mark.parametrize(
    "answer",
    [own(updatedToolOutput=object()), own(updatedInput={"a": {1, object()}}), {"reason": "\ud800"}, {object(): 1}],
)
def test_what_cannot_be_written_as_json_is_no_answer(answer: dict[str, Any]) -> None:
    with pytest.raises(HookAnswerError, match="gave an invalid answer"):
        opinion_of(answer, POST)


@pytest.mark.parametrize("field", ["updatedInput", "updatedToolOutput"])
def test_depth_is_bounded(field: str) -> None:
    fits, too_deep = own(**{field: nested(DEEPEST // 2 - 1)}), own(**{field: nested(DEEPEST // 2)})
    assert opinion_of(fits, PRE) != NOTHING
    with pytest.raises(HookAnswerError, match=f"nested deeper than {DEEPEST}"):
        opinion_of(too_deep, PRE)
    with pytest.raises(HookAnswerError, match=f"nested deeper than {DEEPEST}"):
        opinion_in(msgspec.json.encode(too_deep), PRE)
    with pytest.raises(HookAnswerError, match="nested too deeply"):
        opinion_of(own(**{field: nested(100_000)}), PRE)


def test_deep_json_is_told_so() -> None:
    with pytest.raises(HookAnswerError, match="nested too deeply"):
        opinion_in(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, PRE)


@pytest.mark.parametrize("printed", [b"{", b'{"decision": block}', b"{\xff\xfe\x00}", b'{"a": 1} {"b": 2}'])
def test_what_is_no_json_is_told_so(printed: bytes) -> None:
    with pytest.raises(HookAnswerError, match="printed invalid JSON"):
        opinion_in(printed, PRE)


def test_texts_have_a_limit() -> None:
    long = "x" * (LONGEST_TEXT + 1)
    answer = {"systemMessage": long, "reason": long, "continue": False, "stopReason": long}
    opinion = opinion_of(answer | own(additionalContext=long), PRE)
    sizes = {len(text) for text in (opinion.message, opinion.reason, opinion.stop or "", *opinion.context)}
    assert sizes == {LONGEST_TEXT}
