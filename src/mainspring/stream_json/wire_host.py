"""A host that is asked with `can_use_tool` requests (stream-json 5.1): what they say, and what their answers mean.

A tool that asks the user something of its own (`AskUserQuestion`, `ExitPlanMode`) is asked about as permissions are:
who allows it answers it, and the answers come back in its input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainspring.agent.host import Answers, ApprovalRequest, JsonObject, QuestionSet, Reach
from mainspring.core.errors import ToolError
from mainspring.hooks.payloads import to_permission_updates
from mainspring.text import as_object
from mainspring.tools.base import Approval

if TYPE_CHECKING:
    from mainspring.tools.question import QuestionInput

# The optional fields of a request.
OPTIONAL = ("description", "decision_reason", "agent_id", "blocked_path")


class WireHost(ABC):
    """Approvals and answers, over whichever way `can_use_tool` goes."""

    def __init__(self, *, approves: bool, interrupt: Callable[[], object]) -> None:
        """`approves`: the program wants to be asked. `interrupt` ends the run, after a denial that wants it."""
        self._interrupt = interrupt
        self.reach: Reach = "always" if approves else "never"

    @abstractmethod
    async def can_use_tool(self, request: JsonObject) -> JsonObject:
        """The program's answer. A program that fails or has left denies."""

    async def approve(self, request: ApprovalRequest) -> Approval:
        facts = request.facts
        asked: JsonObject = {key: facts[key] for key in ("tool_name", "input", "tool_use_id")}
        asked |= {"display_name": request.tool_name}
        asked |= {key: facts[key] for key in OPTIONAL if facts.get(key)}
        asked["permission_suggestions"] = to_permission_updates(facts)
        said = read_approval(await self.can_use_tool(asked))
        if said.interrupt:
            self._interrupt()
        return Approval(said.behavior, said.updated_input, said.message, updates=said.updates)

    async def ask(self, questions: QuestionSet) -> Answers:
        call = questions.call
        if call is None:
            raise ToolError("Nobody can be asked: the call is not known any more.")
        asked: JsonObject = {"tool_name": call.name, "input": call.input, "tool_use_id": call.id}
        said = read_approval(await self.can_use_tool(asked))
        if questions.questions is None:
            return Answers("yes" if said.behavior == "allow" else said.message or "no", updates=said.updates)
        if said.behavior != "allow":
            raise ToolError(said.message or "The user does not want to answer.")
        given = as_object(as_object(said.updated_input).get("answers"))
        return Answers(by_question=match_answers(given, questions.questions), updates=said.updates)


def deny(reason: str) -> JsonObject:
    return {"behavior": "deny", "message": reason}


def read_approval(said: JsonObject) -> Approval:
    """The answer of a program, as far as it is one."""
    behavior, message = said.get("behavior"), said.get("message")
    changed: object = said.get("updatedInput")
    words = message if isinstance(message, str) else ""
    if behavior not in ("allow", "deny"):
        words = f"The permission callback answered neither 'allow' nor 'deny', but '{behavior}'."
    allowed = behavior == "allow"
    return Approval(
        "allow" if allowed else "deny",
        None if changed is None else as_object(changed),
        words,
        interrupt=not allowed and said.get("interrupt") is True,
        updates=said.get("updatedPermissions") if allowed else None,
    )


def match_answers(given: dict[str, Any], asked: QuestionInput) -> dict[str, str]:
    """By the text of each question; an answer may name it by its title."""
    from mainspring.tools.question import render_question

    answers = {str(name): str(answer) for name, answer in given.items()}
    found: dict[str, str] = {}
    for one in asked.questions:
        text = render_question(one)
        found[one.question] = answers.get(max([name for name in answers if name in text], key=len, default=""), "")
    return found
