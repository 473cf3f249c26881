"""Parses what a hook returns or prints into a `HookResult` (stream-json 10).

Both go through JSON: the return value of a function is encoded and decoded again, so that it is checked as strictly as
the output of a command, and later changes to it have no effect.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec
from msgspec import Struct, field

from mainspring.hooks.events import CAN_BLOCK, ENDS, GUARDS, NOTHING, STRICTEST_FIRST, Decision, HookPoint, HookResult

LONGEST_TEXT = 100_000  # characters of a text for the model
DEEPEST = 64  # nesting of an answer: as much as the input of a call
WRONGLY = "in an answer that is otherwise invalid"
ENDED = "A hook ended the run."
DEFERRED = "A hook deferred the call, but resuming deferred calls is not supported yet."


class HookAnswerError(ValueError):
    """An invalid answer. But a deny in it still counts, whatever else is wrong: then it is in `said`."""

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


# The meaning of each value for a call. The first four are the old form, and `block` is the only one elsewhere.
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
    """The result of a function's return value. Raises `HookAnswerError`."""
    if answer is None:
        return NOTHING
    if not isinstance(answer, dict | HookResult):
        raise HookAnswerError(f"returned {type(answer).__name__}; expected a dictionary, a HookResult or None")
    raw = msgspec.structs.asdict(answer) if isinstance(answer, HookResult) else cast("dict[object, object]", answer)
    try:
        data = msgspec.json.encode(answer)
        return _checked(data, point) if isinstance(answer, HookResult) else _read(data, point)
    except RecursionError:
        raise _wrong("it is nested too deeply", raw, point) from None
    except (TypeError, ValueError) as error:  # it is not JSON, or not of this shape
        raise _wrong(str(error), raw, point) from None


def opinion_in(printed: bytes, point: HookPoint) -> HookResult:
    """The result of a command's output. Raises `HookAnswerError`."""
    try:
        raw = msgspec.json.decode(printed)
    except RecursionError:
        raise HookAnswerError("printed JSON that is nested too deeply") from None
    except msgspec.MsgspecError as error:
        raise HookAnswerError(f"printed invalid JSON: {error}") from None
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
    """Checks a `HookResult` that a hook made itself."""
    return _placed(msgspec.json.decode(data, type=HookResult), point)


def _placed(opinion: HookResult, point: HookPoint) -> HookResult:
    """Puts a block where it has an effect: for a call it is a deny, elsewhere it blocks, if there is something to
    block.
    """
    if max(map(_depth, (opinion.input, opinion.output, opinion.mcp_output))) > DEEPEST:
        raise msgspec.ValidationError(f"an input or output is nested deeper than {DEEPEST}")
    no = opinion.block or opinion.decision == "deny"
    if point in GUARDS:
        return msgspec.structs.replace(opinion, decision="deny" if no else opinion.decision, block=False)
    placed = msgspec.structs.replace(opinion, decision=None, block=no and point in CAN_BLOCK)
    return _going_on(placed) if point in ENDS and opinion.context else placed


def _going_on(opinion: HookResult) -> HookResult:
    """Context that is added at a stop makes the model continue, as a block does."""
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
    """Without recursion, and only as deep as it matters."""
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        lists = [one if isinstance(one, list) else list(one.values()) for one in level if isinstance(one, dict | list)]  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
        level, depth = [inner for one in lists for inner in one], depth + 1  # pyright: ignore[reportUnknownVariableType]
    return depth


# --- errors -------------------------------------------------------------------------------------------------------


def _wrong(why: str, raw: object, point: HookPoint) -> HookAnswerError:
    return HookAnswerError(f"gave an invalid answer: {why}", _no_in(raw, point))


def _no_in(raw: object, point: HookPoint) -> HookResult:
    """The deny, or the ask, in an answer that is otherwise invalid: a slip must not turn it into an allow."""
    said = _table(raw)
    own = _table(said.get("hookSpecificOutput"))
    words = (said.get("decision"), own.get("permissionDecision"), _table(own.get("decision")).get("behavior"))
    known = [_WORDS[word] for word in words if isinstance(word, str) and word in _WORDS]
    stop = ENDED if said.get("continue") is False or said.get("stop") is not None else None
    if "deny" in known or said.get("block") is True or stop is not None:
        return msgspec.structs.replace(blocking_result(point, f"A hook blocked this, {WRONGLY}."), stop=stop)
    if "ask" in known and point in GUARDS:
        return HookResult(decision="ask", reason=f"a hook asks for approval, {WRONGLY}")
    return NOTHING


def _table(value: object) -> dict[object, object]:
    return cast("dict[object, object]", value) if isinstance(value, dict) else {}


def blocking_result(point: HookPoint, reason: str) -> HookResult:
    """A block: of a call, or of the current event."""
    return HookResult(decision="deny", reason=reason) if point in GUARDS else HookResult(block=True, reason=reason)
