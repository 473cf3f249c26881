"""A host that answers `can_use_tool` requests (stream-json 5.1): builds the requests and reads the answers.

A tool that asks the user itself (`AskUserQuestion`, `ExitPlanMode`) also uses a permission request: the host allows it
and returns the user's answers in its updated input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainspring import tools
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
    """Approvals and answers over `can_use_tool`, whatever its transport."""

    def __init__(self, *, approves: bool, interrupt: Callable[[], object]) -> None:
        """`approves`: the host answers requests. `interrupt` ends the run, after a denial that asks for it."""
        self._interrupt = interrupt
        self.reach: Reach = "always" if approves else "never"

    @abstractmethod
    async def can_use_tool(self, request: JsonObject) -> JsonObject:
        """The host's answer. If the host fails or is gone, the answer denies."""

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
            raise ToolError("The question cannot be asked: its call is no longer known.")
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
    """Reads the host's answer. Anything invalid denies."""
    behavior, message = said.get("behavior"), said.get("message")
    changed: object = said.get("updatedInput")
    words = message if isinstance(message, str) else ""
    if behavior not in ("allow", "deny"):
        words = f"The permission callback must answer 'allow' or 'deny', not '{behavior}'."
    allowed = behavior == "allow"
    return Approval(
        "allow" if allowed else "deny",
        None if changed is None else as_object(changed),
        words,
        interrupt=not allowed and said.get("interrupt") is True,
        updates=said.get("updatedPermissions") if allowed else None,
    )


def match_answers(given: dict[str, Any], asked: QuestionInput) -> dict[str, str]:
    """Answers by the text of each question; an answer may also use the question's title."""
    answers = {str(name): str(answer) for name, answer in given.items()}
    found: dict[str, str] = {}
    for one in asked.questions:
        text = tools.render_question(one)
        found[one.question] = answers.get(max([name for name in answers if name in text], key=len, default=""), "")
    return found
