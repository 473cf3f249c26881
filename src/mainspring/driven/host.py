"""The program at the other end of the pipe, as the host of an agent session (stream-json 5).

A tool that asks the user something of its own (`AskUserQuestion`, `ExitPlanMode`) is asked about as permissions are:
who allows it answers it, and the answers come back in its input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainspring.agent.host import Answers, ApprovalRequest, HostHook, QuestionSet, Reach
from mainspring.agent.json_values import listed, table
from mainspring.core.errors import ToolError
from mainspring.driven.questions import SHUT, CallbackError, Questions
from mainspring.engine.plain import new_id
from mainspring.hooks.facts import as_updates
from mainspring.tools.approval import Approval

if TYPE_CHECKING:
    from mainspring.tools.question import QuestionInput

# What of a question is told, and under which name.
TOLD = {
    "description": "description",
    "decision_reason": "decision_reason",
    "agent_id": "agent_id",
    "blocked_path": "blocked_path",
}


class PipeHost:
    def __init__(self, questions: Questions, *, approves: bool, interrupt: Callable[[], object]) -> None:
        """`approves`: it wants to be asked about calls. `interrupt`: the run under way, after a no that ends it."""
        self._questions, self._interrupt = questions, interrupt
        self.reach: Reach = "always" if approves else "never"

    async def approve(self, request: ApprovalRequest) -> Approval:
        facts = request.facts
        asked: dict[str, Any] = {key: facts[key] for key in ("tool_name", "input", "tool_use_id")}
        asked |= {"display_name": request.tool_name}
        asked |= {name: facts[key] for key, name in TOLD.items() if facts.get(key)}
        asked["permission_suggestions"] = as_updates(facts)
        said = approval_of(await self._asked(asked))
        if said.interrupt:
            self._interrupt()
        return Approval(said.behavior, said.updated_input, said.message, updates=said.updates)

    async def ask(self, questions: QuestionSet) -> Answers:
        call = questions.call
        if call is None:
            raise ToolError("Nobody can be asked: the call is not known any more.")
        said = approval_of(await self._asked({"tool_name": call.name, "input": call.input, "tool_use_id": call.id}))
        if questions.questions is None:
            return Answers("yes" if said.behavior == "allow" else said.message or "no", updates=said.updates)
        if said.behavior != "allow":
            raise ToolError(said.message or "The user does not want to answer.")
        given = table(table(said.updated_input).get("answers"))
        return Answers(by_question=matched(given, questions.questions), updates=said.updates)

    async def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        """What is no answer is a no: nobody has said yes."""
        try:
            return await self._questions.ask("can_use_tool", **request)
        except CallbackError as error:
            return {"behavior": "deny", "message": f"The permission callback failed: {error}"}
        except ConnectionError:
            return {"behavior": "deny", "message": f"Nobody can be asked: {SHUT}."}

    async def run_hook(self, hook_id: str, payload: dict[str, Any]) -> object:
        called = payload.get("tool_use_id") or new_id()
        return await self._questions.ask("hook_callback", callback_id=hook_id, input=payload, tool_use_id=called)

    async def call_mcp(self, server: str, message: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._questions.ask("mcp_message", server_name=server, message=message)
        except CallbackError as error:
            from mainspring.tools.mcp.relayed import RelayError  # it is loaded: it asks

            raise RelayError(str(error)) from None
        return answer.get("mcp_response") or {}


def approval_of(said: dict[str, Any]) -> Approval:
    """An answer of the program, as far as it is one."""
    behavior, message = said.get("behavior"), said.get("message")
    changed: object = said.get("updatedInput")
    words = message if isinstance(message, str) else ""
    if behavior not in ("allow", "deny"):
        words = f"The permission callback answered neither 'allow' nor 'deny', but '{behavior}'."
    allowed = behavior == "allow"
    return Approval(
        "allow" if allowed else "deny",
        None if changed is None else table(changed),
        words,
        interrupt=not allowed and said.get("interrupt") is True,
        updates=said.get("updatedPermissions") if allowed else None,
    )


def matched(given: dict[str, Any], asked: QuestionInput) -> dict[str, str]:
    """By the text of each question; who answers may have named it by its title."""
    from mainspring.tools.question import rendered

    answers = {str(name): str(answer) for name, answer in given.items()}
    found: dict[str, str] = {}
    for one in asked.questions:
        text = rendered(one)
        found[one.question] = answers.get(max([name for name in answers if name in text], key=len, default=""), "")
    return found


def hooks_in(given: object) -> tuple[HostHook, ...]:
    """The hooks of an `initialize` request."""
    return tuple([one for event, matchers in table(given).items() for one in hooks_at(event, matchers)])


def hooks_at(event: str, matchers: object) -> list[HostHook]:
    found = [hook for matcher in map(table, listed(matchers)) for hook in hooks_of(event, matcher)]
    return found or [HostHook(event, "")]  # so that an event nobody knows is told of


def hooks_of(event: str, matcher: dict[str, Any]) -> list[HostHook]:
    pattern, seconds = matcher.get("matcher"), matcher.get("timeout")
    return [
        HostHook(
            event,
            str(own_id),
            pattern if isinstance(pattern, str) else None,
            float(seconds) if isinstance(seconds, int | float) else None,
            matcher.get("onFailure") == "block",
        )
        for own_id in listed(matcher.get("hookCallbackIds"))
    ]
