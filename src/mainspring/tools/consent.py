"""The step of a call that decides whether it may run (F-13): rules first, then who can be asked.

Which rule counts is decided in `permissions/`; here its verdict is acted on.
"""

from __future__ import annotations

from typing import Any

from mainspring.hooks.events import HookPoint
from mainspring.hooks.payloads import permission_wanted, to_permission_updates
from mainspring.permissions.policy import PermissionDecision, PermissionRequest
from mainspring.tools.approval import DENIED, parse_approval
from mainspring.tools.base import ToolAnswer
from mainspring.tools.inputs import accept_input
from mainspring.tools.passage import ToolInvocation


async def decide_permission(passage: ToolInvocation) -> ToolAnswer | None:
    """Deny, ask, allow, mode: `permissions/decide.py` puts them in order. What a person has to say comes last."""
    hands, standing, opinion = passage.hands, passage.asking.policy, passage.opinion
    asked = PermissionRequest(
        passage.call.name,
        passage.input,
        passage.cwd,
        before=passage.sent if passage.input is not passage.sent else None,
        hook=opinion.decision,
        hook_reason=opinion.reason,
        reads=passage.tool.is_read_only(passage.given),
    )
    verdict = await hands.gate.verdict(asked, standing, passage.paths)
    await passage.asking.note_decision(verdict.decision, verdict.reason)
    if verdict.decision == "allow":
        return None
    if verdict.decision == "deny":
        by_hook = opinion.decision == "deny" and verdict.reason == opinion.reason  # stream-json 10: its own words
        return passage.refuse(opinion.reason if by_hook else f"Not allowed: {verdict.reason}.")
    offered = hands.gate.suggestions(asked, standing, passage.paths)
    mode = hands.gate.suggested_mode(asked, standing, passage.paths)
    about = {
        **({"agent_id": hands.agent[0]} if hands.agent is not None else {}),
        "tool_name": passage.call.name,
        "input": passage.input,
        "tool_use_id": passage.call.id,
        "description": passage.tool.line(passage.given),
        "decision_reason": verdict.reason,
        "shown": verdict.shown,
        "suggestions": [{"rule": one.rule, "covers": one.covers} for one in offered],
        **({"suggested_mode": str(mode)} if mode is not None else {}),
    }
    return await ask_permission(passage, verdict, about)


def way_out(verdict: PermissionDecision, about: dict[str, Any]) -> str:
    rule = next((one["rule"] for one in about["suggestions"]), "")
    if verdict.person or not rule:
        return "No rule allows this: leave it to the user, who can do it, or say yes in a conversation."
    return f"The user can allow it with the rule '{rule}' (allowed tools, or permissions.allow in the settings)."


async def ask_permission(
    passage: ToolInvocation, verdict: PermissionDecision, about: dict[str, Any]
) -> ToolAnswer | None:
    """The question itself. A hook may answer it, but not say yes to what only a person may; where nobody can be asked,
    the answer is no."""
    hooks, reason = passage.hands.hooks, verdict.reason
    if hooks.any_at(HookPoint.PERMISSION_REQUEST, passage.call.name):
        facts = passage.facts(permission_suggestions=to_permission_updates(about))
        opinion = await hooks.ask(HookPoint.PERMISSION_REQUEST, facts, passage.call.name)
        passage.heed(opinion)
        if opinion.decision == "deny" or (opinion.decision == "allow" and not verdict.person):
            await passage.asking.note_decision(opinion.decision, opinion.reason or "a hook answered the question")
        if opinion.decision == "deny" or opinion.stop is not None:
            return passage.refuse(opinion.reason or opinion.stop or "A hook refused it.")
        if opinion.decision == "allow" and not verdict.person:
            return await check_changed_input(passage, opinion.input) if opinion.input is not None else None
    if not passage.hands.attended:
        await passage.asking.note_decision("deny", "nobody can be asked")
        return passage.refuse(
            f"This needs permission, and nobody can be asked here: {reason}. {way_out(verdict, about)}"
        )
    permission_wanted(hooks, passage.call.name, passage.hands.agent)
    said = parse_approval(await passage.asking.ask(f"{passage.call.name}: {reason}", about))
    await passage.asking.note_decision(said.behavior, said.message or "a person answered")
    if said.behavior == "deny":
        passage.stop = passage.stop or (said.message or DENIED if said.interrupt else None)
        return passage.refuse(said.message or DENIED)
    passage.approved = True
    if said.updated_input is not None and said.updated_input != passage.input:
        return await check_changed_input(passage, said.updated_input)
    return None


async def check_changed_input(passage: ToolInvocation, input: dict[str, Any]) -> ToolAnswer | None:
    """Whoever answers may change the input, but not past a deny rule."""
    asked = PermissionRequest(passage.call.name, accept_input(passage, input), passage.cwd)
    verdict = await passage.hands.gate.verdict(asked, passage.asking.policy, passage.paths)
    return passage.refuse(f"Not allowed: {verdict.reason}.") if verdict.decision == "deny" else None
