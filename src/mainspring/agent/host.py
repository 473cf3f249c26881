"""The host interface: what an agent session asks of the program around it (approvals, answers, hooks, MCP calls)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from mainspring import tools
from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle

if TYPE_CHECKING:
    from mainspring.core.messages import ToolCall
    from mainspring.tools.base import Approval
    from mainspring.tools.question import QuestionInput

JsonObject = dict[str, Any]

# When the host can be asked: never in print mode, during a run at a terminal, always where a program drives the session
# (also for subagents in the background).
Reach = Literal["never", "during_run", "always"]


class ApprovalRequest(Bundle):
    """A call that no rule decides.

    Example:
        def approve(request: ApprovalRequest) -> bool:
            return request.tool_name == "Bash" and request.input["command"] == "make test"

        agent = Agent("haiku", tools=["Bash"], approve=approve)
    """

    tool_name: str
    input: JsonObject
    tool_use_id: str
    facts: JsonObject  # everything known about it: reason, suggestions, the subagent that asks
    deps: Any = None  # the program's own object, in the library


class QuestionSet(Bundle):
    """Questions of a running call. `text` holds all of them as text."""

    kind: Literal["questions", "plan", "form"]
    text: str
    call: ToolCall | None = None  # the one that asks
    questions: QuestionInput | None = None  # of AskUserQuestion


class Answers(Bundle):
    text: str = ""  # to a plan or a form
    by_question: Mapping[str, str] = {}  # to AskUserQuestion, by the text of each question
    updates: object = None  # of permissions, in the shape of stream-json 5.1


class HostHook(Bundle):
    """A hook that is a function of the host. The session calls it by its id."""

    event: str
    id: str
    matcher: str | None = None
    seconds: float | None = None  # None: the default timeout of hooks
    blocks: bool = False  # if it fails, the call is denied


class Host(Protocol):
    """The session calls a method once the front end has read all earlier updates. No method may wait for an update."""

    reach: Reach

    async def approve(self, request: ApprovalRequest) -> Approval: ...

    async def ask(self, questions: QuestionSet) -> Answers:
        """Raises `DeclinedError` to end the run, `ToolError` to let the model continue without an answer."""
        ...

    async def run_hook(self, hook_id: str, payload: JsonObject) -> object: ...

    async def call_mcp(self, server: str, message: JsonObject) -> JsonObject: ...


class NoHost:
    """A host that answers nothing: the base class of hosts that answer only some requests."""

    reach: Reach = "never"

    async def approve(self, request: ApprovalRequest) -> tools.Approval:  # noqa: ARG002
        return tools.Approval("deny", message="There is no user to ask in this session.")

    async def ask(self, questions: QuestionSet) -> Answers:  # noqa: ARG002
        raise ToolError("There is no user to ask in this session.")

    async def run_hook(self, hook_id: str, payload: JsonObject) -> object:  # noqa: ARG002
        return None

    async def call_mcp(self, server: str, message: JsonObject) -> JsonObject:  # noqa: ARG002
        return {}
