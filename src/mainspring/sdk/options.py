"""What a program wants of a session. The names are those of `claude-agent-sdk`; what is ours stands at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mainspring.sdk.hooks import HookEvent, HookMatcher
from mainspring.sdk.permissions import CanUseTool, PermissionMode
from mainspring.sdk.stores import SessionStore
from mainspring.sdk.typed_dicts import SandboxSettings, TaskBudget, ThinkingConfig

if TYPE_CHECKING:
    from mainspring.providers.base import Provider
    from mainspring.tools.base import Tool

SettingSource = Literal["user", "project", "local"]
EffortLevel = Literal["low", "medium", "high", "xhigh", "max"]


@dataclass
class AgentDefinition:
    """A kind of agent. Its fields have the names that agent files have."""

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
    """Everything may be left out. What is wrong is told when the session begins, before anybody waits or pays."""

    # --- tools and rights ---
    tools: Sequence[str | Tool] | Mapping[str, str] | None = None  # those that exist; None, or a preset: all of ours
    allowed_tools: list[str] = field(default_factory=list[str])  # what is done without asking: names, or rules
    disallowed_tools: list[str] = field(default_factory=list[str])  # what is never done
    permission_mode: PermissionMode | None = None
    can_use_tool: CanUseTool | None = None  # asked about calls that no rule covers; None: they are denied
    permission_prompt_tool_name: str | None = None  # an MCP tool is asked instead
    hooks: dict[HookEvent, list[HookMatcher]] | None = None
    add_dirs: list[str | Path] = field(default_factory=list[str | Path])
    sandbox: SandboxSettings | None = None  # as in settings

    # --- the model ---
    model: str | None = None
    fallback_model: str | None = None
    effort: EffortLevel | None = None  # low for lookups, xhigh for code, max for what is hard
    thinking: ThinkingConfig | None = None  # {"type": "adaptive" | "enabled" | "disabled", ...}
    max_thinking_tokens: int | None = None
    betas: list[str] = field(default_factory=list[str])
    system_prompt: str | Mapping[str, Any] | None = None  # a preset is ours: {"type": "preset", "append": ...}
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
    enable_file_checkpointing: bool = False
    session_store: SessionStore | None = None
    session_store_flush: Literal["batched", "eager"] = "batched"
    load_timeout_ms: int = 60_000

    # --- where, and with what ---
    cwd: str | Path | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])  # over that of the process
    settings: str | None = None  # a file, or JSON
    setting_sources: list[SettingSource] | None = None  # None: all; with "project" come its memory, skills and hooks
    skills: list[str] | Literal["all"] | None = None
    agents: dict[str, AgentDefinition] | None = None
    mcp_servers: Mapping[str, Any] | str | Path = field(default_factory=dict[str, Any])
    strict_mcp_config: bool = False
    plugins: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])

    # --- what is shown ---
    include_partial_messages: bool = False
    include_hook_events: bool = False
    forward_subagent_text: bool = False
    verbatim_prompts: bool = False  # prompts are data: no command, no file is named in them
    stderr: Callable[[str], None] | None = None  # hears what a command would say on standard error

    # --- known from a client that starts a program, and of no use here ---
    cli_path: str | Path | None = None
    extra_args: dict[str, str | None] = field(default_factory=dict[str, str | None])
    max_buffer_size: int | None = None
    debug_stderr: Any = None
    user: str | None = None
    client_app: str | None = None

    # --- ours ---
    provider: Provider | None = None  # who is asked, whatever the settings say: a scripted model, one of your own


ClaudeAgentOptions = Options
