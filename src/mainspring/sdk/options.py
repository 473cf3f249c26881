"""`Options`, and the checks of their values. The names are those of `claude-agent-sdk`; our additions come last.

Options are checked before anything starts; the error names the option and what it accepts. Type checkers find most
mistakes, but not in values from an environment, a form or a file, and a guard that is silently off is worse than none.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

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
    check_choice,
    check_number,
    check_option,
    instance_of,
    is_list_of,
    is_table_of,
    shorten_repr,
)
from mainspring.agent.options import IDS, OptionError
from mainspring.core.errors import UsageError
from mainspring.sdk.errors import CanUseToolShadowedWarning
from mainspring.sdk.hooks import EVENTS, HookEvent, HookMatcher
from mainspring.sdk.permissions import CanUseTool, PermissionMode
from mainspring.sdk.typed_dicts import SandboxSettings, SdkPluginConfig, TaskBudget, ThinkingConfig
from mainspring.text import did_you_mean
from mainspring.tools.base import Tool
from mainspring.tools.catalog import SPECS

if TYPE_CHECKING:
    from pathlib import Path  # 3 ms to load

    from mainspring.providers.base import Provider
    from mainspring.sdk.stores import SessionStore


SettingSource = Literal["user", "project", "local"]
EffortLevel = Literal["low", "medium", "high", "xhigh", "max"]


@dataclass
class AgentDefinition:
    """An agent type. The fields have the names of agent files."""

    description: str
    prompt: str
    tools: list[str] | None = None
    disallowedTools: list[str] | None = None  # noqa: N815
    model: str | None = None  # a name, or "inherit"
    skills: list[str] | None = None
    memory: Literal["user", "project", "local"] | None = None
    mcpServers: list[str | dict[str, Any]] | None = None  # noqa: N815
    initialPrompt: str | None = None  # noqa: N815
    maxTurns: int | None = None  # noqa: N815
    background: bool | None = None
    effort: EffortLevel | int | None = None
    permissionMode: PermissionMode | None = None  # noqa: N815


@dataclass
class Options:
    """All fields are optional. Invalid values raise when the session begins, before any request costs money.

    Example:
        options = Options(model="haiku", max_turns=3, setting_sources=[])
        async for message in query(prompt="What is 2 + 3?", options=options):
            print(message)
    """

    # --- tools and permissions ---
    tools: Sequence[str | Tool] | Mapping[str, str] | None = None  # all that exist; None, or a preset: built-in ones
    allowed_tools: list[str] = field(default_factory=list[str])  # allowed without asking: names, or rules
    disallowed_tools: list[str] = field(default_factory=list[str])  # always denied: names, or rules
    permission_mode: PermissionMode | None = None
    can_use_tool: CanUseTool | None = None  # called for tool calls that no rule covers; None: they are denied
    permission_prompt_tool_name: str | None = None  # an MCP tool that is asked instead
    hooks: dict[HookEvent, list[HookMatcher]] | None = None
    add_dirs: list[str | Path] = field(default_factory=list["str | Path"])
    sandbox: SandboxSettings | None = None  # as in settings

    # --- the model ---
    model: str | None = None
    fallback_model: str | None = None
    effort: EffortLevel | None = None  # low for lookups, xhigh for code, max for hard problems
    thinking: ThinkingConfig | None = None  # {"type": "adaptive" | "enabled" | "disabled", ...}
    max_thinking_tokens: int | None = None
    betas: list[str] = field(default_factory=list[str])
    system_prompt: str | Mapping[str, Any] | None = None  # the preset is our prompt: {"type": "preset", "append": ...}
    output_format: Mapping[str, Any] | None = None  # {"type": "json_schema", "schema": {...}}

    # --- limits ---
    max_turns: int | None = None
    max_budget_usd: float | None = None
    task_budget: TaskBudget | None = None

    # --- the session ---
    session_id: str | None = None
    resume: str | None = None
    continue_conversation: bool = False
    fork_session: bool = False
    resume_session_at: str | None = None
    resume_drops_turn: str | None = None
    persist: bool = True  # False: nothing stays on disk after the session, and it cannot be resumed or forked
    enable_file_checkpointing: bool = False
    session_store: SessionStore | None = None
    session_store_flush: Literal["batched", "eager"] = "batched"
    load_timeout_ms: int = 60_000

    # --- environment ---
    cwd: str | Path | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])  # overrides that of the process
    settings: str | None = None  # a file, or JSON
    setting_sources: list[SettingSource] | None = None  # None: all; "project" also loads its memory, skills and hooks
    skills: list[str] | Literal["all"] | None = None
    agents: dict[str, AgentDefinition] | None = None
    mcp_servers: Mapping[str, Any] | str | Path = field(default_factory=dict[str, Any])
    strict_mcp_config: bool = False
    plugins: list[SdkPluginConfig] = field(default_factory=list[SdkPluginConfig])  # folders with commands, hooks, ...

    # --- output ---
    include_partial_messages: bool = False
    include_hook_events: bool = False
    forward_subagent_text: bool = False
    tool_use_summaries: bool | None = None  # a line about each batch of tool calls; None: as the settings say
    prompt_suggestions: bool = False  # a suggestion for the next prompt after each result
    tracing: bool | None = None  # spans and metrics of OpenTelemetry; None: if `mainspring.instrument()` was called
    verbatim_prompts: bool = False  # prompts are plain text: no slash commands, no mentions
    stderr: Callable[[str], None] | None = None  # receives what a command would print on standard error

    # --- accepted for programs that used claude-agent-sdk; no effect here ---
    cli_path: str | Path | None = None
    extra_args: dict[str, str | None] = field(default_factory=dict[str, str | None])
    max_buffer_size: int | None = None
    debug_stderr: Any = None
    user: str | None = None
    client_app: str | None = None

    # --- our additions ---
    provider: Provider | None = None  # overrides the settings: a scripted model, or your own provider
    retry: Literal["default", "unattended"] | None = None  # unattended: wait up to six hours for a busy server
    deps: object | None = field(default=None, repr=False)  # for your tools, hooks, 'can_use_tool'; never stored or sent

    if not TYPE_CHECKING:  # type checkers know the fields

        def __new__(cls, *_given: object, **named: object) -> Options:
            for name in named:
                if name not in cls.__dataclass_fields__:
                    raise TypeError(f"unknown option '{name}'{did_you_mean(name, cls.__dataclass_fields__)}")
            return super().__new__(cls)


ClaudeAgentOptions = Options


def is_skills(value: object) -> bool:
    return value == "all" or is_list_of(str)(value)


# None is allowed for each: the option is not set.
KINDS: dict[str, OptionCheck] = {
    "tools": OptionCheck("a list of names and tools, or a preset", instance_of(list, tuple, Mapping)),
    "allowed_tools": NAMES,
    "disallowed_tools": NAMES,
    "permission_mode": TEXT,
    "can_use_tool": FUNCTION,
    "permission_prompt_tool_name": TEXT,
    "hooks": TABLE,
    "add_dirs": PATHS,
    "sandbox": TABLE,
    "model": TEXT,
    "fallback_model": TEXT,
    "effort": TEXT,
    "thinking": TABLE,
    "max_thinking_tokens": NUMBER,
    "betas": NAMES,
    "system_prompt": OptionCheck("a string or a dict", instance_of(str, Mapping)),
    "output_format": TABLE,
    "max_turns": NUMBER,
    "max_budget_usd": MONEY,
    "task_budget": TABLE,
    "session_id": TEXT,
    "resume": TEXT,
    "continue_conversation": FLAG,
    "fork_session": FLAG,
    "resume_session_at": TEXT,
    "resume_drops_turn": TEXT,
    "enable_file_checkpointing": FLAG,
    "session_store": OptionCheck("a session store", able_to("append")),
    "session_store_flush": TEXT,
    "load_timeout_ms": NUMBER,
    "cwd": PATH,
    "env": TEXTS,
    "settings": TEXT,
    "setting_sources": NAMES,
    "skills": OptionCheck("a list of names, or 'all'", is_skills),
    "agents": OptionCheck("a dict of AgentDefinition", is_table_of(AgentDefinition)),
    "mcp_servers": OptionCheck("a dict of servers, a file or JSON", instance_of(str, os.PathLike, Mapping)),
    "strict_mcp_config": FLAG,
    "include_partial_messages": FLAG,
    "include_hook_events": FLAG,
    "forward_subagent_text": FLAG,
    "tool_use_summaries": FLAG,
    "prompt_suggestions": FLAG,
    "tracing": FLAG,
    "persist": FLAG,
    "verbatim_prompts": FLAG,
    "stderr": FUNCTION,
    "extra_args": TABLE,
    "provider": OptionCheck("a provider", able_to("stream")),
    "retry": TEXT,
}

# Options of a session that have the same name and the same values here.
CHECKED = ("permission_mode", "effort", "retry", "max_turns", "max_thinking_tokens", "max_budget_usd", *IDS)
LEAST = {"max_turns": 0}  # no limit
FLUSHES = ("batched", "eager")
TAKEN = ("Task", "ToolSearch", "StructuredOutput", "ListMcpResourcesTool", "ReadMcpResourceTool")


def check_options(given: object) -> None:
    if not isinstance(given, Options):
        raise UsageError(f"'options' must be an 'Options' object, not {shorten_repr(given)}")
    for name, kind in KINDS.items():
        if (value := getattr(given, name)) is not None and not kind.holds(value):
            raise UsageError(f"'{name}' must be {kind.words}, not {shorten_repr(value)}")
    try:
        check_values(given)
    except OptionError as error:
        raise UsageError(str(error)) from None
    if given.session_store is not None and not given.persist:
        raise UsageError("'session_store' needs a stored session, and 'persist=False' stores none")
    check_plugins(given.plugins)
    check_tools(given)
    check_hooks(given.hooks or {})
    check_servers(given)
    check_asking(given)


def check_values(given: Options) -> None:
    for name in CHECKED:
        if (value := getattr(given, name)) is not None:
            check_option(name, value, least=LEAST.get(name))
    if (flush := cast("str | None", given.session_store_flush)) is not None:
        check_choice("session_store_flush", flush, FLUSHES)
    if (patience := cast("int | None", given.load_timeout_ms)) is not None:
        check_number("load_timeout_ms", patience, 0)
    if given.task_budget:
        total = cast("Mapping[str, object]", given.task_budget).get("total")
        if not isinstance(total, int) or isinstance(total, bool):
            raise UsageError(f"'task_budget' needs 'total', a whole number, not {shorten_repr(total)}")
        check_option("task_budget", total)


def refuse_tool(one: Any) -> None:
    from mainspring.tools.sdk_mcp_tool import SdkMcpTool

    if isinstance(one, SdkMcpTool):
        raise UsageError(
            f"'tools' has '{one.name}', made by 'tool(name, description, schema)': pass it to 'create_sdk_mcp_server'; "
            "'@tool' on a typed function makes tools for this list"
        )


def check_tools(given: Options) -> None:
    tools: Sequence[Any] = () if given.tools is None or isinstance(given.tools, Mapping) else given.tools
    for one in tools:
        if isinstance(one, Tool) and (one.name in SPECS or one.name in TAKEN or one.name.startswith("mcp__")):
            raise UsageError(
                f"'tools' has a function named '{one.name}', but that name is taken: rename it with '@tool(name=...)'"
            )
        if not isinstance(one, str | Tool):
            refuse_tool(one)
            raise UsageError(f"'tools' has {shorten_repr(one)}: use names, and tools made by '@tool'")
    names = [one if isinstance(one, str) else one.name for one in tools]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"'tools' has '{twice[0]}' twice")


def check_plugins(plugins: object) -> None:
    if not is_list_of(Mapping)(plugins):
        raise UsageError(f"'plugins' must be a list of dicts, not {shorten_repr(plugins)}")
    for one in cast("Sequence[Mapping[str, object]]", plugins):
        if one.get("type") != "local" or not isinstance(one.get("path"), str | os.PathLike):
            raise UsageError(f"'plugins' has {shorten_repr(one)}: use {{'type': 'local', 'path': FOLDER}}")


def check_hooks(hooks: Mapping[Any, Any]) -> None:
    for event, matchers in hooks.items():
        if event not in EVENTS:
            raise UsageError(
                f"'hooks' has '{event}', which is not a hook event; use one of {', '.join(EVENTS)}"
                f"{did_you_mean(str(event).strip(), EVENTS)}"
            )
        for matcher in cast("list[object]", matchers) if isinstance(matchers, list | tuple) else (matchers,):
            if not isinstance(matcher, HookMatcher):
                raise UsageError(f"'hooks' has {shorten_repr(matcher)} at '{event}': use a list of HookMatcher")
            if matcher.on_failure not in (None, "continue", "block"):
                raise UsageError(
                    f"'on_failure' at '{event}' must be 'continue' or 'block', not {shorten_repr(matcher.on_failure)}"
                )
            for call in matcher.hooks:
                if not callable(call):
                    raise UsageError(f"'hooks' has {shorten_repr(call)} at '{event}', which is not a function")


def check_servers(given: Options) -> None:
    named: Mapping[str, object] = {} if isinstance(given.mcp_servers, str | os.PathLike) else given.mcp_servers
    for name, one in named.items():
        if not isinstance(one, Mapping):
            raise UsageError(f"'mcp_servers' has {shorten_repr(one)} for '{name}': use a dict")
        if cast("Mapping[str, object]", one).get("type") == "sdk" and "instance" not in one:
            raise UsageError(f"'mcp_servers' has no 'instance' for '{name}': 'create_sdk_mcp_server' makes one")


def check_asking(given: Options) -> None:
    """Warn that rules come before `can_use_tool`: the program may expect to be asked about every call. It may also be
    intended.
    """
    if given.can_use_tool is None:
        return
    if given.permission_prompt_tool_name:
        raise UsageError("'can_use_tool' and 'permission_prompt_tool_name' cannot be combined: leave one out")
    if given.permission_mode == "bypassPermissions":
        why = "'permission_mode' is 'bypassPermissions', so 'can_use_tool' is never called"
    else:
        whole = [rule for rule in given.allowed_tools if "(" not in rule or rule.endswith(("()", "(*)"))]
        why = f"'can_use_tool' is not called for {', '.join(whole)}: 'allowed_tools' allows them" if whole else ""
    if why:
        said = f"{why}. A 'PreToolUse' hook sees every call"
        warnings.warn(said, CanUseToolShadowedWarning, stacklevel=find_caller_level())


def find_caller_level() -> int:
    """The `stacklevel` of a warning for the line of the program that called us, through coroutines as well."""
    package, level, frame = f"{__file__.rsplit(os.sep, 2)[0]}{os.sep}", 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    return level
