"""From what a hook returns or prints to an opinion (stream-json 10)."""

from __future__ import annotations

from typing import Any, cast

from mainspring.hooks.points import NOTHING, Decision, Opinion, Point

LONGEST_TEXT = 100_000  # characters of a text for the model

# At these points, `decision: "block"` is a word about a call, and the old form of `permissionDecision: "deny"`.
_ABOUT_A_CALL = (Point.PRE_TOOL_USE, Point.PERMISSION_REQUEST)
_WORDS: dict[object, Decision] = {"allow": "allow", "deny": "deny", "ask": "ask"}
_OLD_WORDS: dict[object, Decision] = {"block": "deny", "deny": "deny", "approve": "allow", "allow": "allow"}


class WrongAnswer(ValueError):  # noqa: N818  # it reads as what it says
    """An answer that is none."""


def opinion_of(answer: object, point: Point) -> Opinion:
    if answer is None or answer == {}:
        return NOTHING
    if isinstance(answer, Opinion):
        return answer
    if not isinstance(answer, dict):
        raise WrongAnswer(f"a hook answers with an object, not with {type(answer).__name__}")
    said = cast("dict[str, Any]", answer)
    own = said.get("hookSpecificOutput") or {}
    if not isinstance(own, dict):
        raise WrongAnswer("'hookSpecificOutput' is no object")
    own = cast("dict[str, Any]", own)
    return Opinion(
        decision=_decision(said, own, point),
        block=said.get("decision") == "block" and point not in _ABOUT_A_CALL,
        reason=_text(own, "permissionDecisionReason") or _text(said, "reason") or _message(own),
        input=_input(own),
        output=own.get("updatedToolOutput"),
        context=(text,) if (text := _text(own, "additionalContext")) else (),
        message=_text(said, "systemMessage"),
        stop=_text(said, "stopReason") or "A hook ended the run." if said.get("continue") is False else None,
    )


def _decision(said: dict[str, Any], own: dict[str, Any], point: Point) -> Decision | None:
    if point is Point.PERMISSION_REQUEST and isinstance(own.get("decision"), dict):
        word: object = own["decision"].get("behavior")
    else:
        word = own.get("permissionDecision")
    if word is None and point in _ABOUT_A_CALL:
        return _OLD_WORDS.get(said.get("decision"))
    if word is None or word in _WORDS:
        return _WORDS.get(word)
    raise WrongAnswer(f"'permissionDecision' is one of allow, deny, ask, not {str(word)[:40]!r}")


def _message(own: dict[str, Any]) -> str:
    decision = own.get("decision")
    return _text(cast("dict[str, Any]", decision), "message") if isinstance(decision, dict) else ""


def _input(own: dict[str, Any]) -> dict[str, Any] | None:
    decision = own.get("decision")
    inner = cast("dict[str, Any]", decision).get("updatedInput") if isinstance(decision, dict) else None
    changed = own.get("updatedInput", inner)
    if changed is None:
        return None
    if not isinstance(changed, dict):
        raise WrongAnswer("'updatedInput' is no object")
    return cast("dict[str, Any]", changed)


def _text(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WrongAnswer(f"'{name}' is no text")
    return value[:LONGEST_TEXT]


def blocked(point: Point, reason: str) -> Opinion:
    """No, at a point that can say no."""
    if point in _ABOUT_A_CALL:
        return Opinion(decision="deny", reason=reason)
    return Opinion(block=True, reason=reason)
