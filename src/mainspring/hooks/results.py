"""From what a hook returns or prints to an opinion (stream-json 10).

Both ways lead through JSON: what a function returns is written and read again, so that it is checked as strictly as
what a command prints, and nobody can change it afterwards.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec
from msgspec import Struct, field

from mainspring.hooks.events import CAN_BLOCK, ENDS, GUARDS, NOTHING, STRICTEST_FIRST, Decision, HookPoint, HookResult

LONGEST_TEXT = 100_000  # characters of a text for the model
DEEPEST = 64  # how far an answer may be nested: as far as the input of a call
WRONGLY = "in an answer that is otherwise wrong"
ENDED = "A hook ended the run."
DEFERRED = "A hook deferred the call, and taking it up later is not there yet."


class HookAnswerError(ValueError):
    """An answer that is none. But a no in it is still a no, whatever is wrong beside it: then that is `said`."""

    def __init__(self, why: str, said: HookResult = NOTHING) -> None:
        super().__init__(why)
        self.said = said


# --- the shape ----------------------------------------------------------------------------------------------------


class _Approval(Struct, rename="camel"):
    """Of a PermissionRequest."""

    behavior: Literal["allow", "deny"] | None = None
    message: str | None = None
    updated_input: dict[str, Any] | None = None
    interrupt: bool | None = None


class _Own(Struct, rename="camel"):
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    permission_decision_reason: str | None = None
    updated_input: dict[str, Any] | None = None
    updated_tool_output: Any = None
    updated_mcp_tool_output: Any = field(default=None, name="updatedMCPToolOutput")
    additional_context: str | None = None
    decision: _Approval | None = None


class _Answer(Struct, rename="camel"):
    hook_specific_output: _Own | None = None
    decision: Literal["block", "deny", "approve", "allow"] | None = None
    reason: str | None = None
    go_on: bool | None = field(default=None, name="continue")
    stop_reason: str | None = None
    system_message: str | None = None


# What each word says about a call. The first four are the old form, and `block` is the only one elsewhere.
_WORDS: dict[str | None, Decision] = {
    "block": "deny",
    "approve": "allow",
    "deny": "deny",
    "allow": "allow",
    "ask": "ask",
    "defer": "deny",
}


# --- reading ------------------------------------------------------------------------------------------------------


def opinion_of(answer: object, point: HookPoint) -> HookResult:
    """Of what a function returned. Raises `HookAnswerError`."""
    if answer is None:
        return NOTHING
    if not isinstance(answer, dict | HookResult):
        raise HookAnswerError(f"answered with {type(answer).__name__}: an object, a HookResult or None is wanted")
    raw = msgspec.structs.asdict(answer) if isinstance(answer, HookResult) else cast("dict[object, object]", answer)
    try:
        data = msgspec.json.encode(answer)
        return _checked(data, point) if isinstance(answer, HookResult) else _read(data, point)
    except RecursionError:
        raise _wrong("it is nested too deeply", raw, point) from None
    except (TypeError, ValueError) as error:  # it is no JSON, or not of this shape
        raise _wrong(str(error), raw, point) from None


def opinion_in(printed: bytes, point: HookPoint) -> HookResult:
    """Of what a command printed. Raises `HookAnswerError`."""
    try:
        raw = msgspec.json.decode(printed)
    except RecursionError:
        raise HookAnswerError("printed JSON that is nested too deeply") from None
    except msgspec.MsgspecError as error:
        raise HookAnswerError(f"printed what is no JSON: {error}") from None
    try:
        return _read(printed, point)
    except msgspec.MsgspecError as error:
        raise _wrong(str(error), raw, point) from None


def _read(data: bytes, point: HookPoint) -> HookResult:
    answer = msgspec.json.decode(data, type=_Answer)
    own = answer.hook_specific_output or _Own()
    asked = own.decision or _Approval()
    opinion = HookResult(
        decision=_stricter(own.permission_decision, asked.behavior, answer.decision),
        reason=_cut(own.permission_decision_reason or asked.message or answer.reason),
        input=asked.updated_input if own.updated_input is None else own.updated_input,
        output=own.updated_tool_output,
        context=(_cut(own.additional_context),) if own.additional_context else (),
        message=_cut(answer.system_message),
        stop=_stop(answer, own, asked),
        mcp_output=own.updated_mcp_tool_output,
    )
    return _placed(opinion, point)


def _checked(data: bytes, point: HookPoint) -> HookResult:
    """Nobody has checked what stands in a `HookResult` that somebody else made."""
    return _placed(msgspec.json.decode(data, type=HookResult), point)


def _placed(opinion: HookResult, point: HookPoint) -> HookResult:
    """A no where it can be said: about a call it is a deny, elsewhere it blocks, if there is something to block."""
    if max(map(_depth, (opinion.input, opinion.output, opinion.mcp_output))) > DEEPEST:
        raise msgspec.ValidationError(f"an input or output is nested deeper than {DEEPEST}")
    no = opinion.block or opinion.decision == "deny"
    if point in GUARDS:
        return msgspec.structs.replace(opinion, decision="deny" if no else opinion.decision, block=False)
    placed = msgspec.structs.replace(opinion, decision=None, block=no and point in CAN_BLOCK)
    return _going_on(placed) if point in ENDS and opinion.context else placed


def _going_on(opinion: HookResult) -> HookResult:
    """What is added for the model at its end sends it on, as an objection does."""
    words = "\n".join([*([opinion.reason] if opinion.block and opinion.reason else []), *opinion.context])
    return msgspec.structs.replace(opinion, block=True, reason=words, context=())


def _stricter(*words: str | None) -> Decision | None:
    said = {_WORDS[word] for word in words if word is not None}
    return next((one for one in STRICTEST_FIRST if one in said), None)


def _stop(answer: _Answer, own: _Own, asked: _Approval) -> str | None:
    if answer.go_on is False:
        return _cut(answer.stop_reason) or ENDED
    if own.permission_decision == "defer":
        return DEFERRED
    return _cut(asked.message) or ENDED if asked.interrupt and asked.behavior == "deny" else None


def _cut(text: str | None) -> str:
    return (text or "")[:LONGEST_TEXT]


def _depth(value: object) -> int:
    """Without recursion, and no further than it matters."""
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        lists = [one if isinstance(one, list) else list(one.values()) for one in level if isinstance(one, dict | list)]  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
        level, depth = [inner for one in lists for inner in one], depth + 1  # pyright: ignore[reportUnknownVariableType]
    return depth


# --- what is wrong ------------------------------------------------------------------------------------------------


def _wrong(why: str, raw: object, point: HookPoint) -> HookAnswerError:
    return HookAnswerError(f"gave an answer that cannot be used: {why}", _no_in(raw, point))


def _no_in(raw: object, point: HookPoint) -> HookResult:
    """The no, or the question, in an answer of which something else is wrong: a slip must not turn it into a yes."""
    said = _table(raw)
    own = _table(said.get("hookSpecificOutput"))
    words = (said.get("decision"), own.get("permissionDecision"), _table(own.get("decision")).get("behavior"))
    known = [_WORDS[word] for word in words if isinstance(word, str) and word in _WORDS]
    stop = ENDED if said.get("continue") is False or said.get("stop") is not None else None
    if "deny" in known or said.get("block") is True or stop is not None:
        return msgspec.structs.replace(blocking_result(point, f"A hook said no, {WRONGLY}."), stop=stop)
    if "ask" in known and point in GUARDS:
        return HookResult(decision="ask", reason=f"a hook wants it asked, {WRONGLY}")
    return NOTHING


def _table(value: object) -> dict[object, object]:
    return cast("dict[object, object]", value) if isinstance(value, dict) else {}


def blocking_result(point: HookPoint, reason: str) -> HookResult:
    """No: about a call, or about whatever is going on."""
    return HookResult(decision="deny", reason=reason) if point in GUARDS else HookResult(block=True, reason=reason)
