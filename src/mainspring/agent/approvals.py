"""Approval requests, questions and hooks that go to the host, and the permission prompt tool.

`HostQuestions` calls the host once the reader has read every earlier update. `PermissionTool` asks a tool of an MCP
server about calls that no rule covers: it sends the tool's name, its input and the call's id, and reads the first text
of the result as a JSON answer (stream-json 5.1).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from mainspring import agent, tools
from mainspring.agent.host import Answers, ApprovalRequest, Host, HostHook, QuestionSet
from mainspring.core.errors import ToolError
from mainspring.engine.deps import CallQuestion
from mainspring.text import as_object
from mainspring.tools.base import Approval, approval_to_text

if TYPE_CHECKING:
    from mainspring.agent.options import SessionOptions
    from mainspring.core.messages import ToolCall
    from mainspring.hooks.runner import Hook
    from mainspring.mcp.server import McpServerConnection
    from mainspring.mcp.servers import McpServers
    from mainspring.tools.base import ToolContext
    from mainspring.tools.question import QuestionInput


Tell = Callable[[str], object]


class HostQuestions:
    def __init__(
        self,
        host: Host,
        caught_up: Callable[[], Awaitable[None]],
        asks: Callable[[int], object],
        update_permissions: Callable[[object], Awaitable[None]],
    ) -> None:
        """`asks` is called with 1 when a question is sent and with -1 when it is answered."""
        self._host, self._caught_up, self._asks = host, caught_up, asks
        self._update_permissions = update_permissions
        self._answers: dict[str, dict[str, str]] = {}  # of a call with several questions, by the text of each

    def forget(self) -> None:
        """The run is over: drop its answers."""
        self._answers.clear()

    async def answer(self, question: CallQuestion) -> str:
        """Raises `DeclinedError` or `ToolError` if the host does not answer."""
        about = as_object(question.about)
        if "tool_name" in about:
            return await self._approval(about)
        if question.call is not None and question.call.name == "AskUserQuestion":
            asked = questions_in(question.call)
            if asked is not None and (named := question_with(question.text, asked)) is not None:
                return await self._one_of(question.call, asked, question.text, named)
        plan = question.call is not None and question.call.name == "ExitPlanMode"
        answers = await self._asked(QuestionSet("plan" if plan else "form", question.text, question.call))
        return answers.text

    async def _approval(self, about: dict[str, Any]) -> str:
        request = ApprovalRequest(about["tool_name"], about["input"], about.get("tool_use_id", ""), about)
        async with self._turn():
            said = await self._host.approve(request)
        if said.behavior == "allow" and said.updates:
            await self._update_permissions(said.updates)
        return approval_to_text(replace(said, updates=None))

    async def _one_of(self, call: ToolCall, asked: QuestionInput, text: str, named: str) -> str:
        """The tool asks its questions one by one; the host gets all of them at once."""
        if call.id not in self._answers:
            answers = await self._asked(QuestionSet("questions", text, call, asked))
            self._answers[call.id] = dict(answers.by_question)
        return self._answers[call.id].get(named, "")

    async def _asked(self, questions: QuestionSet) -> Answers:
        async with self._turn():
            answers = await self._host.ask(questions)
        if answers.updates:
            await self._update_permissions(answers.updates)
        return answers

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Marks an open question and waits until the front end has shown every earlier update."""
        self._asks(1)
        try:
            await self._caught_up()
            yield
        finally:
            self._asks(-1)

    # --- hooks ---

    def hooks(self, given: Iterable[HostHook], tell: Tell) -> tuple[Hook, ...]:
        if not given:
            return ()
        return agent.host_hooks(given, self._run_hook, tell)

    async def _run_hook(self, hook_id: str, payload: dict[str, Any]) -> Any:
        await self._caught_up()
        return await self._host.run_hook(hook_id, payload)


def questions_in(call: ToolCall) -> tools.QuestionInput | None:
    try:
        return msgspec.convert(call.input, tools.QuestionInput)
    except msgspec.ValidationError:
        return None


def question_with(text: str, asked: QuestionInput) -> str | None:
    """The question with this text; None: a hook has changed the call."""
    total = len(asked.questions)
    return next(
        (one.question for at, one in enumerate(asked.questions, 1) if tools.render_question(one, at, total) == text),
        None,
    )


class PermissionTool:
    def __init__(self, name: str, options: SessionOptions, servers: Callable[[], McpServers | None]) -> None:
        """`servers` is called when a question comes: the session is built later."""
        from mainspring.mcp.base import START  # 5 ms; most sessions have no such tool

        if not name.startswith(START):
            stdio = "" if options.driven else f" ('stdio' needs '{options.spell('driven')}')"
            why = f" must be the full name of an MCP tool, 'mcp__server__tool'{stdio}"
            raise options.error("permission_prompt_tool_name", why, name)
        self.name = name
        self._options, self._told, self._servers = options, False, servers

    async def answer(self, question: CallQuestion) -> str:
        about: Any = question.about
        if not isinstance(about, dict) or "tool_name" not in about:
            raise ToolError("There is no user to ask in this session.")
        known = cast("dict[str, Any]", about)
        asked = {key: known[key] for key in ("tool_name", "input", "tool_use_id")}
        try:
            server, tool = self._found()
            return read_permission_answer(await server.call(tool, asked, cast("ToolContext", SilentContext())))
        except ToolError as error:
            return approval_to_text(Approval("deny", message=f"The permission tool '{self.name}' failed: {error}"))

    def _found(self) -> tuple[McpServerConnection, str]:
        from mainspring.mcp.base import make_tool_name

        servers = self._servers()
        for server in servers.servers.values() if servers is not None else ():
            for listed in server.tools.values():
                if make_tool_name(server.name, listed.name) == self.name:
                    return server, listed.name
        known = [
            make_tool_name(one.name, tool)
            for one in (servers.servers.values() if servers else ())
            for tool in one.tools
        ]
        words = f"no MCP server has the tool '{self.name}'. Available tools: {', '.join(known) or 'none'}"
        if not self._told:
            self._told = True
            self._options.tell(f"'{self._options.spell('permission_prompt_tool_name')}': {words}")
        raise ToolError(words)


class SilentContext:
    """Ignores progress."""

    def progress(self, text: str) -> None:
        pass


def read_permission_answer(result: dict[str, Any]) -> str:
    """The first text, if it is an answer; everything else denies."""
    parts = [cast("dict[str, Any]", part) for part in result.get("content") or () if isinstance(part, dict)]
    texts = [part.get("text", "") for part in parts if part.get("type") == "text"]
    said = str(texts[0]) if texts else ""
    try:
        return approval_to_text(msgspec.json.decode(said, type=Approval))
    except msgspec.MsgspecError:
        words = f"The permission tool returned no valid permission answer: '{said[:200]}'"
        return approval_to_text(Approval("deny", message=words))
