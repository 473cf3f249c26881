"""`Agent`, a reusable description of a model with tools, limits and a type of answer; and `ask`, for one question.

    from mainspring import Agent, ask

    answer = await ask("What is 2 + 3?", tools=[add])

    agent = Agent("haiku", system="Be brief.", tools=[add], max_budget_usd=0.50)
    answer = await agent.run("What is 2 + 3?")

An agent holds no conversation and no connection: it can be a global, and serve many runs at once.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast, overload

from mainspring import library
from mainspring.core.errors import CallerMistakes, UsageError
from mainspring.core.updates import Update
from mainspring.core.value import Bundle
from mainspring.library.answer import Answer, OutputT
from mainspring.library.options import (
    AgentOptions,
    ToolLike,
    check_agent_options,
    check_model,
    check_tool_choice,
    is_function,
    make_session_options,
    make_tools,
)
from mainspring.library.session import AgentChat, AgentStream, PromptLike, SessionPlan, pick_text
from mainspring.tools.base import Tool

if TYPE_CHECKING:
    import typing_extensions
    from typing_extensions import TypeForm

    from mainspring.agent.host import HostHook
    from mainspring.engine.shared_state import Ledger
    from mainspring.library.hooks import HookFunction
    from mainspring.library.output import OutputType
    from mainspring.providers.base import Provider
    from mainspring.providers.scripted import ReplyFunction

    DepsT = typing_extensions.TypeVar("DepsT", default=None)
else:
    DepsT = TypeVar("DepsT")

ItemT = TypeVar("ItemT")


class Overrides(Bundle):
    """What `Agent.override` replaces; None: nothing."""

    model: Any = None
    deps: Any = None
    tools: tuple[tuple[str, ...], tuple[Tool, ...]] | None = None


_overrides: ContextVar[dict[int, Overrides] | None] = ContextVar("mainspring_overrides", default=None)


class Agent(Generic[DepsT, OutputT]):
    """A model with tools, limits, and a type of answer. All options are checked when it is made.

    Example:
        agent = Agent("haiku", tools=[temperature], output=Weather, max_budget_usd=0.50)
        answer = await agent.run("Weather in Bonn?")
        print(answer.output.celsius)
    """

    @overload
    def __init__(
        self,
        model: str | Provider | ReplyFunction | None = None,
        *,
        output: type[OutputT] = ...,
        deps: type[DepsT] = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        model: str | Provider | ReplyFunction | None = None,
        *,
        output: TypeForm[OutputT],
        deps: type[DepsT] = ...,
        **options: Unpack[AgentOptions],
    ) -> None: ...

    def __init__(
        self,
        model: str | Provider | ReplyFunction | None = None,
        *,
        output: Any = str,
        deps: Any = NoneType,
        **options: Unpack[AgentOptions],
    ) -> None:
        """`model`: a name such as `haiku`, `openai/gpt-5` or `ollama/qwen3`, a provider, or a function; None: by the
        environment. `output`: the type of the answer. `deps`: the type of the object that a run passes to the tools."""
        with CallerMistakes():
            check_model(model)
            check_agent_options(options, "Agent")
            self._model, self._deps_type, self._options = model, deps, options
            self._tools = make_tools(options.get("tools", ()))
            self._output_type = output
            self._output = make_output(output, options)
            check_tool_choice(options.get("tool_choice"), self._tools, typed=self._output is not None)
        self.name = options.get("name", "")

    def __repr__(self) -> str:
        return (
            f"Agent({', '.join([part for part in (repr(self._model), self.name and f'name={self.name!r}') if part])})"
        )

    def with_options(
        self, model: str | Provider | ReplyFunction | None = None, **options: Unpack[AgentOptions]
    ) -> Self:
        """The same agent with some options changed; `model` None: its own."""
        given = cast("AgentOptions", {**self._options, **options})
        chosen = self._model if model is None else model
        return type(self)(chosen, output=self._output_type, deps=self._deps_type, **given)

    # --- runs ---

    @overload
    async def run(self: Agent[None, OutputT], prompt: PromptLike, *, deps: None = None) -> Answer[OutputT]: ...

    @overload
    async def run(self, prompt: PromptLike, *, deps: DepsT) -> Answer[OutputT]: ...

    async def run(self, prompt: PromptLike, *, deps: Any = None) -> Answer[OutputT]:
        """Run one prompt to its answer, in a session of its own. Raises `AgentError` and `UsageError`."""
        with CallerMistakes():
            async with AgentChat[OutputT](self.plan(deps, once=True, deltas=False)) as chat:
                return await chat.run(prompt)

    @overload
    def run_sync(self: Agent[None, OutputT], prompt: PromptLike, *, deps: None = None) -> Answer[OutputT]: ...

    @overload
    def run_sync(self, prompt: PromptLike, *, deps: DepsT) -> Answer[OutputT]: ...

    def run_sync(self, prompt: PromptLike, *, deps: Any = None) -> Answer[OutputT]:
        """`run` for plain code, Django and notebooks; also works where an event loop runs, which it blocks."""
        with CallerMistakes():
            return library.run_blocking(self.run(prompt, deps=deps))

    @overload
    def stream(
        self: Agent[None, OutputT], prompt: PromptLike, *, deps: None = None
    ) -> AgentStream[Update, OutputT]: ...

    @overload
    def stream(self, prompt: PromptLike, *, deps: DepsT) -> AgentStream[Update, OutputT]: ...

    def stream(self, prompt: PromptLike, *, deps: Any = None) -> AgentStream[Update, OutputT]:
        """Every update of one run: replies, tool calls, retries, the result."""
        found: list[Answer[OutputT]] = []
        return AgentStream(stream_once(self.plan(deps, once=True), prompt, found), found)

    @overload
    def stream_text(
        self: Agent[None, OutputT], prompt: PromptLike, *, deps: None = None
    ) -> AgentStream[str, OutputT]: ...

    @overload
    def stream_text(self, prompt: PromptLike, *, deps: DepsT) -> AgentStream[str, OutputT]: ...

    def stream_text(self, prompt: PromptLike, *, deps: Any = None) -> AgentStream[str, OutputT]:
        """The model's text of one run, piece by piece."""
        found: list[Answer[OutputT]] = []
        return AgentStream(pick_text(stream_once(self.plan(deps, once=True), prompt, found)), found)

    @overload
    def session(
        self: Agent[None, OutputT], *, deps: None = None, resume: str | None = None, fork: bool = False
    ) -> AgentChat[OutputT]: ...

    @overload
    def session(self, *, deps: DepsT, resume: str | None = None, fork: bool = False) -> AgentChat[OutputT]: ...

    def session(self, *, deps: Any = None, resume: str | None = None, fork: bool = False) -> AgentChat[OutputT]:
        """A session for several prompts: `async with agent.session() as chat`. `resume`: the id of a stored session;
        `fork`: continue it as a new one. `max_budget_usd` is that of the whole session."""
        return AgentChat[OutputT](self.plan(deps, resume=resume, fork=fork))

    # --- parts of another agent, and of tests ---

    def as_tool(self, *, name: str = "", about: str = "") -> Tool:
        """This agent as a tool of another one, which pays for it."""
        return library.make_agent_tool(self, name or self.name, about or self._options.get("about", ""))

    @contextmanager
    def override(
        self,
        *,
        model: str | Provider | ReplyFunction | None = None,
        deps: object = None,
        tools: Sequence[ToolLike] | None = None,
    ) -> Generator[None]:
        """Within the block, runs of this agent use another model, other deps or other tools: for tests.

        with agent.override(model=Scripted(["4"])):
            assert agent.run_sync("2 + 2?").text == "4"
        """
        check_model(model)
        every = _overrides.get() or {}
        before, found = every.get(id(self), Overrides()), None if tools is None else make_tools(tools)
        made = Overrides(
            before.model if model is None else model,
            before.deps if deps is None else deps,
            before.tools if found is None else found,
        )
        token = _overrides.set({**every, id(self): made})
        try:
            yield
        finally:
            _overrides.reset(token)

    def plan(  # noqa: PLR0913  # keywords, most of them
        self,
        deps: object,
        *,
        once: bool = False,
        deltas: bool = True,
        resume: str | None = None,
        fork: bool = False,
        caller: AgentChat[Any] | None = None,
        ledger: Ledger | None = None,
    ) -> SessionPlan:
        """What a session of this agent is opened with; for the parts of this package. `caller`: the session that calls
        this agent as a tool, and that `ledger` belongs to. Its approvals apply if this agent has none, and nothing is
        stored if nothing of the caller is."""
        if fork and resume is None:
            raise UsageError("'fork' needs 'resume', the id of the session to continue as a new one")
        given, changed = self._options, (_overrides.get() or {}).get(id(self)) or Overrides()
        deps = self._check_deps(deps if changed.deps is None else changed.deps)
        builtin, own = self._tools if changed.tools is None else changed.tools
        name, provider = split_model(self._model if changed.model is None else changed.model)
        if provider is None and (changed.model is None or isinstance(changed.model, str)):
            provider = given.get("provider")
        schema = self._output.schema if self._output is not None else None
        options = make_session_options(given, name, builtin, tuple([tool.name for tool in own]), schema, deps)
        approve = given.get("approve") or (caller.plan.approve if caller is not None else None)
        hooks = name_agent_hooks(given)
        return SessionPlan(
            options=options.replace(
                resume=resume,
                fork_session=fork,
                persist=options.persist and (caller is None or caller.plan.options.persist),
                permission_prompt_tool_name="stdio" if approve is not None else None,
                host_hooks=tuple([hook for hook, _ in hooks.values()]),
            ),
            environment=make_environment(given),
            bind=lambda chat: bind_tools(own, chat),
            provider=provider,
            output=self._output,
            approve=approve,
            hooks={name: function for name, (_, function) in hooks.items()},
            expand=given.get("expand_prompts", False),
            deltas=deltas,
            once=once,
            ledger=ledger,
            depth=caller.plan.depth + 1 if caller is not None else 0,
        )

    @property
    def takes_deps(self) -> bool:
        return self._deps_type is not NoneType

    def _check_deps(self, deps: object) -> object:
        if not self.takes_deps and deps is not None:
            raise UsageError("this agent has no deps: make it with 'Agent(deps=...)', the type of the object")
        if self.takes_deps and deps is None:
            kind = getattr(self._deps_type, "__name__", str(self._deps_type))
            raise UsageError(f"this agent needs deps: pass 'deps=...', a {kind}")
        return deps


@overload
async def ask(
    prompt: PromptLike,
    *,
    model: str | Provider | ReplyFunction | None = None,
    deps: object = None,
    **options: Unpack[AgentOptions],
) -> Answer[str]: ...


@overload
async def ask(
    prompt: PromptLike,
    *,
    model: str | Provider | ReplyFunction | None = None,
    output: type[OutputT],
    deps: object = None,
    **options: Unpack[AgentOptions],
) -> Answer[OutputT]: ...


@overload
async def ask(
    prompt: PromptLike,
    *,
    model: str | Provider | ReplyFunction | None = None,
    output: TypeForm[OutputT],
    deps: object = None,
    **options: Unpack[AgentOptions],
) -> Answer[OutputT]: ...


async def ask(
    prompt: PromptLike,
    *,
    model: str | Provider | ReplyFunction | None = None,
    output: Any = str,
    deps: object = None,
    **options: Unpack[AgentOptions],
) -> Answer[Any]:
    """Ask a model once: `Agent(...).run(prompt)`. The options are those of `Agent`; `deps` is the object itself.

    Example:
        answer = await ask("Weather in Bonn?", tools=[temperature], output=Weather)
        print(answer.output, answer.cost_usd)
    """
    with CallerMistakes():
        check_agent_options(options, "ask")
        agent = Agent[Any, Any](model, output=output, deps=object if deps is not None else NoneType, **options)
        return await agent.run(prompt, deps=deps)


async def stream_once(
    plan: SessionPlan, prompt: PromptLike, found: list[Answer[OutputT]]
) -> AsyncGenerator[Update, None]:
    async with AgentChat[OutputT](plan) as chat, aclosing(chat.updates(prompt, found)) as updates:
        async for update in updates:
            yield update


def make_output(output: Any, options: AgentOptions) -> OutputType | None:
    if output is str:
        return None
    if options.get("tool_choice") == "none":
        raise UsageError("'output' needs a tool call, so 'tool_choice' cannot be 'none'")
    return library.OutputType(output)


def name_agent_hooks(given: AgentOptions) -> dict[str, tuple[HostHook, HookFunction]]:
    hooks = given.get("hooks")
    if not hooks:
        return {}
    return library.name_hooks(hooks)


def split_model(model: Any) -> tuple[str | None, Provider | None]:
    """The name and the provider of a model; None: by the environment."""
    if model is None or isinstance(model, str):
        return model, None
    if is_function(model) and not callable(getattr(model, "stream", None)):
        from mainspring.providers.scripted import FunctionModel

        return None, FunctionModel(model)
    return None, cast("Provider", model)


def make_environment(given: AgentOptions) -> dict[str, str]:
    env = given.get("env", {})
    found = {**os.environ, **env}
    if "CLAUDECODE" not in env:
        found.pop("CLAUDECODE", None)  # a variable of a session that may run this program
    return found


def bind_tools(tools: tuple[Tool, ...], chat: AgentChat[Any]) -> tuple[Tool, ...]:
    """Agents among the tools get the session that pays for them."""
    return tuple([tool.bind(chat) if isinstance(tool, library.AgentTool) else tool for tool in tools])
