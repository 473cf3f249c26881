"""What an agent session asks of the program around it: approvals, answers, hooks and MCP servers of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from mainspring.core.value import Bundle

if TYPE_CHECKING:
    from mainspring.core.messages import ToolCall
    from mainspring.tools.base import Approval
    from mainspring.tools.question import QuestionInput

JsonObject = dict[str, Any]

# When somebody is there to be asked: never in print mode, during a run at a terminal, always where a program drives us,
# also for subagents in the background.
Reach = Literal["never", "during_run", "always"]


class ApprovalRequest(Bundle):
    """A call that no rule decides."""

    tool_name: str
    input: JsonObject
    tool_use_id: str
    facts: JsonObject  # all that is known of it: reason, suggestions, the subagent that asks


class QuestionSet(Bundle):
    """What a running call asks. `text` is the whole of it in words."""

    kind: Literal["questions", "plan", "form"]
    text: str
    call: ToolCall | None = None  # that asks
    questions: QuestionInput | None = None  # of AskUserQuestion


class Answers(Bundle):
    text: str = ""  # to a plan or a form
    by_question: Mapping[str, str] = {}  # to AskUserQuestion, by the text of each question
    updates: object = None  # of permissions, in the shape of stream-json 5.1


class HostHook(Bundle):
    """A hook that is a function of the host, called by its id."""

    event: str
    id: str
    matcher: str | None = None
    seconds: float | None = None  # None: as long as hooks usually have
    blocks: bool = False  # its failure refuses what it guards


class Host(Protocol):
    """Every method is called when the front end has taken all earlier updates. None of them may wait for an update."""

    reach: Reach

    async def approve(self, request: ApprovalRequest) -> Approval: ...

    async def ask(self, questions: QuestionSet) -> Answers:
        """Raises `DeclinedError` to end the run, `ToolError` to let the model go on without an answer."""
        ...

    async def run_hook(self, hook_id: str, payload: JsonObject) -> object: ...

    async def call_mcp(self, server: str, message: JsonObject) -> JsonObject: ...


class NoHost:
    """Nobody is there: the base of those who answer only some questions."""

    reach: Reach = "never"

    async def approve(self, request: ApprovalRequest) -> Approval:  # noqa: ARG002
        from mainspring.tools.base import Approval

        return Approval("deny", message="Nobody can be asked here.")

    async def ask(self, questions: QuestionSet) -> Answers:  # noqa: ARG002
        from mainspring.core.errors import ToolError

        raise ToolError("Nobody can be asked here.")

    async def run_hook(self, hook_id: str, payload: JsonObject) -> object:  # noqa: ARG002
        return None

    async def call_mcp(self, server: str, message: JsonObject) -> JsonObject:  # noqa: ARG002
        return {}
