"""Options of agents: their types, their checks, and their mapping to `SessionOptions`.

Type checkers find most mistakes; the checks here also find those in values from a file or a form. Nothing is read from
settings, memory or project files unless `setting_sources` says so.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from mainspring.agent.option_checks import (
    FLAG,
    FUNCTION,
    MONEY,
    NAMES,
    NUMBER,
    PATH,
    PATHS,
    TABLE,
    TEXT,
    TEXTS,
    OptionCheck,
    able_to,
    check_option,
    instance_of,
    is_list_of,
    shorten_repr,
)
from mainspring.agent.options import OptionError, SessionOptions
from mainspring.core.config import FORCED, FREE, Sampling
from mainspring.core.errors import UsageError
from mainspring.text import did_you_mean
from mainspring.tools.base import Approval, Tool
from mainspring.tools.catalog import SPECS
from mainspring.tools.custom import tool

if TYPE_CHECKING:
    from mainspring.agent.host import ApprovalRequest
    from mainspring.library.hooks import HookTable
    from mainspring.providers.base import Provider

Approve = Callable[["ApprovalRequest"], "bool | Approval | Awaitable[bool | Approval]"]
ToolLike = str | Tool | Callable[..., Any]
ModelLike = "str | Provider | ReplyFunction"
EffortName = Literal["low", "medium", "high", "xhigh", "max"]
ModeName = Literal["default", "acceptEdits", "plan", "bypassPermissions", "dontAsk", "auto"]
SourceName = Literal["user", "project", "local"]


class ModelSettings(TypedDict, total=False):
    """How the model answers; by default, as its server decides.

    Example:
        careful: ModelSettings = {"effort": "low", "max_output": 2_000}
        answer = await ask("What is 2 + 3?", model="haiku", **careful)
    """

    temperature: float
    top_p: float
    stop_sequences: Sequence[str]
    """Texts at which a reply ends. Not for OpenAI's Responses API."""
    seed: int
    """Only for chat completions, and there as far as the server can."""
    tool_choice: Literal["auto", "none", "required"] | str  # editors offer the three
    """`required`, or the name of a tool: the model must begin with a call."""
    effort: EffortName
    max_output: int
    """Tokens of one reply."""


class AgentOptions(ModelSettings, total=False):
    """Options of `Agent` and `ask`.

    Example:
        shared: AgentOptions = {"max_turns": 10, "max_budget_usd": 0.50, "persist": False}
        agent = Agent("haiku", **shared)
    """

    name: str
    """The agent's name, as a tool of another agent, too."""
    about: str
    """What it does, for the model that calls it as a tool."""
    system: str
    """The system prompt; empty: none."""
    tools: Sequence[ToolLike]
    """Your functions, and built-in tools by name. The model gets no others."""
    provider: Provider
    """Where the model is; else its name and the environment decide."""
    fallback_model: str | Sequence[str]
    max_turns: int
    max_budget_usd: float
    """Of a run, or of a whole `session()`."""
    approve: Approve
    """Called for calls that no rule decides; without it they are denied."""
    allowed_tools: Sequence[str]
    """Rules for calls that need no approval, such as `Bash(git status)`."""
    disallowed_tools: Sequence[str]
    permission_mode: ModeName
    setting_sources: Sequence[SourceName]
    """Whose settings, memory, skills, hooks and MCP servers are read; none by default."""
    hooks: HookTable
    """Functions that see prompts and calls, and may block them: `{"PreToolUse": [guard]}`."""
    settings: Mapping[str, Any]
    """Settings of this agent, as a settings file has them."""
    mcp_servers: Mapping[str, Mapping[str, Any]]
    cwd: str | os.PathLike[str]
    add_dirs: Sequence[str | os.PathLike[str]]
    env: Mapping[str, str]
    """Overrides the environment of the process: keys, addresses, `MAINSPRING_HOME`."""
    persist: bool
    """False: the session is not stored."""
    checkpoints: bool
    """True: store the workspace before each prompt, so that files can be rewound (`AgentChat.rewind`)."""
    tracing: bool
    """Spans and metrics of OpenTelemetry; by default, if `mainspring.instrument()` was called."""
    expand_prompts: bool
    """Expand mentions (`@path`) and slash commands in prompts. Off: prompts are plain text."""


NAMES_AND_TOOLS = OptionCheck("a list of names and functions", instance_of(list, tuple))
KINDS: dict[str, OptionCheck] = {
    "name": TEXT,
    "about": TEXT,
    "system": TEXT,
    "tools": NAMES_AND_TOOLS,
    "provider": OptionCheck("a provider", able_to("stream")),
    "fallback_model": OptionCheck("a name or a list of names", instance_of(str, list, tuple)),
    "max_turns": NUMBER,
    "max_budget_usd": MONEY,
    "approve": FUNCTION,
    "allowed_tools": NAMES,
    "disallowed_tools": NAMES,
    "permission_mode": TEXT,
    "setting_sources": NAMES,
    "hooks": OptionCheck("a dict of lists of functions", instance_of(Mapping)),
    "settings": TABLE,
    "mcp_servers": OptionCheck("a dict of dicts", instance_of(Mapping)),
    "cwd": PATH,
    "add_dirs": PATHS,
    "env": TEXTS,
    "persist": FLAG,
    "checkpoints": FLAG,
    "tracing": FLAG,
    "expand_prompts": FLAG,
    "temperature": MONEY,
    "top_p": MONEY,
    "stop_sequences": OptionCheck("a list of strings", is_list_of(str)),
    "seed": NUMBER,
    "tool_choice": TEXT,
    "effort": TEXT,
    "max_output": NUMBER,
}
CHECKED = ("permission_mode", "effort", "max_turns", "max_budget_usd")
SOURCES = ("user", "project", "local")
MOST = {"temperature": 2.0, "top_p": 1.0}  # the largest value of any server
RESERVED = ("Task", "ToolSearch", "StructuredOutput", "ListMcpResourcesTool", "ReadMcpResourceTool")


def check_agent_options(given: Mapping[str, Any], where: str) -> None:
    """`where`: the name of the class or function that was called. Raises `UsageError`."""
    for name, value in given.items():
        if name not in KINDS:
            raise UsageError(f"'{where}' has no option '{name}'{did_you_mean(name, KINDS)}")
        if not KINDS[name].holds(value):
            raise UsageError(f"'{name}' must be {KINDS[name].words}, not {shorten_repr(value)}")
    try:
        for name in CHECKED:
            if name in given:
                check_option(name, given[name])
    except OptionError as error:
        raise UsageError(str(error)) from None
    for name, most in MOST.items():
        if name in given and not 0 <= given[name] <= most:
            raise UsageError(f"'{name}' must be between 0 and {most:g}, not {given[name]}")
    if given.get("max_output", 1) < 1:
        raise UsageError(f"'max_output' must be a whole number of at least 1, not {given['max_output']}")
    if "hooks" in given:
        from mainspring.library.hooks import check_hook_table

        check_hook_table(given["hooks"])
    for source in given.get("setting_sources", ()):
        if source not in SOURCES:
            near = did_you_mean(source, SOURCES)
            raise UsageError(f"'setting_sources' has '{source}'; use {', '.join(SOURCES)}{near}")


def check_model(model: object) -> None:
    if model is None or isinstance(model, str) or callable(getattr(model, "stream", None)) or is_function(model):
        return
    raise UsageError(f"'model' must be a name such as 'haiku', a provider or a function, not {shorten_repr(model)}")


def is_function(model: object) -> bool:
    return callable(model) and not isinstance(model, type)


def make_tools(given: Sequence[ToolLike]) -> tuple[tuple[str, ...], tuple[Tool, ...]]:
    """Names of built-in tools, and the program's own. Raises `UsageError`."""
    names: list[str] = []
    own: list[Tool] = []
    for one in given:
        if isinstance(one, str):
            if one not in SPECS:
                near = did_you_mean(one, SPECS) or f". Built-in tools: {', '.join(SPECS)}"
                raise UsageError(f"'tools' has '{one}', which is no built-in tool{near}")
            names.append(one)
        elif isinstance(one, Tool):
            own.append(one)
        elif is_function(one):
            own.append(tool(one))
        else:
            raise UsageError(explain_tool(one))
    for found in own:
        if found.name in SPECS or found.name in RESERVED or found.name.startswith("mcp__"):
            raise UsageError(f"'tools' has a function named '{found.name}', but that name is taken: rename it")
    every = [*names, *[found.name for found in own]]
    if twice := [name for name in every if every.count(name) > 1]:
        raise UsageError(f"'tools' has '{twice[0]}' twice")
    return tuple(names), tuple(own)


def explain_tool(one: object) -> str:
    """Why an entry of `tools` is wrong."""
    from mainspring.tools.sdk_mcp_tool import SdkMcpTool

    if isinstance(one, SdkMcpTool):
        return f"'tools' has '{one.name}', a tool for an MCP server of 'mainspring.sdk': put '@tool' on a function"
    return f"'tools' has {shorten_repr(one)}: use functions, tools, and names of built-in tools"


def check_tool_choice(choice: str | None, tools: tuple[tuple[str, ...], tuple[Tool, ...]], *, typed: bool) -> None:
    names = [*tools[0], *[tool.name for tool in tools[1]], *(["StructuredOutput"] if typed else [])]
    if choice is None or choice in (*FREE, FORCED, *names) or choice.startswith("mcp__"):
        return
    known = [*FREE, FORCED, *names]
    near = did_you_mean(choice, known)
    raise UsageError(f"'tool_choice' must be one of {', '.join(known)}, not '{choice}'{near}")


def make_sampling(given: Mapping[str, Any]) -> Sampling | None:
    made = Sampling(
        given.get("temperature"),
        given.get("top_p"),
        tuple(given.get("stop_sequences", ())),
        given.get("seed"),
        given.get("tool_choice"),
    )
    return None if made == Sampling() else made


def make_session_options(  # noqa: PLR0913, PLR0917  # what an agent is made of
    given: AgentOptions,
    model: str | None,
    builtin: tuple[str, ...],
    own: tuple[str, ...],
    schema: Mapping[str, Any] | None,
    deps: object,
) -> SessionOptions:
    """The options must have been checked. `own`: names of the program's tools, which need no approval."""
    fallback = given.get("fallback_model", ())
    servers, sources = given.get("mcp_servers"), tuple(given.get("setting_sources", ()))
    return SessionOptions(
        in_process=True,
        driven=True,
        bare=True,
        cwd=os.fspath(given["cwd"]) if "cwd" in given else None,
        model=model,
        fallback_model=(fallback,) if isinstance(fallback, str) else tuple(fallback),
        effort=given.get("effort"),
        sampling=make_sampling(given),
        max_output=given.get("max_output"),
        system_prompt=given.get("system", ""),
        output_schema=schema,
        max_turns=given.get("max_turns"),
        max_budget_usd=given.get("max_budget_usd"),
        tools=builtin,
        own_tools=own,
        allowed_tools=(*given.get("allowed_tools", ()), *own),
        disallowed_tools=tuple(given.get("disallowed_tools", ())),
        permission_mode=given.get("permission_mode"),
        add_dirs=tuple([os.fspath(folder) for folder in given.get("add_dirs", ())]),
        deps=deps,
        persist=given.get("persist", True),
        checkpoints=given.get("checkpoints"),
        tracing=given.get("tracing"),
        settings=dict(given["settings"]) if "settings" in given else None,
        setting_sources=sources,
        mcp_servers=({"mcpServers": {name: dict(one) for name, one in servers.items()}},) if servers else (),
        strict_mcp_config=not sources,
        spell=spell_option,
    )


# Options of a session with another name here.
SPELLED = {"output_schema": "output", "system_prompt": "system", "fork_session": "fork"}


def spell_option(option: str, value: str = "") -> str:
    name = SPELLED.get(option, option)
    return f"{name}={value}" if value else name
