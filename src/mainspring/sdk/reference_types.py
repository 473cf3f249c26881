"""Shapes and names of `claude-agent-sdk` for things that sessions here do not have, so that type hints keep working.

Hook events, modes and messages that only Claude Code has; `Transport`, which nothing here needs. Nothing is checked at
run time. What sessions here do have is in `typed_dicts.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, Literal, NotRequired, TypedDict

from mainspring.sdk.permissions import PermissionMode
from mainspring.sdk.typed_dicts import McpHttpServerConfig, McpStdioServerConfig


class Transport(ABC):
    """The connection to a process in `claude-agent-sdk`. Sessions run in this process, so `query()` and `Client` refuse
    one; the name exists for programs that import it."""

    @abstractmethod
    async def connect(self) -> None: ...

    @abstractmethod
    async def write(self, data: str) -> None: ...

    @abstractmethod
    def read_messages(self) -> AsyncIterator[dict[str, Any]]: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def is_ready(self) -> bool: ...

    @abstractmethod
    async def end_input(self) -> None: ...


# --- literals ---------------------------------------------------------------------------------------

FastModeState = Literal["off", "cooldown", "on"]
FastModeDisabledReason = Literal[
    "free",
    "preference",
    "extra_usage_disabled",
    "network_error",
    "unknown",
    "not_first_party",
    "disabled_by_env",
    "model_not_allowed",
    "sdk_opt_in_required",
    "pending",
]
MessageOriginKind = Literal[
    "human",
    "channel",
    "peer",
    "task-notification",
    "coordinator",
    "unclassified",
    "observer",
    "auto-continuation",
    "observer-activity",
]
TaskNotificationOriginSubkind = Literal["scheduled-trigger", "peer-send-message"]
RateLimitStatus = Literal["allowed", "allowed_warning", "rejected"]
RateLimitType = Literal["five_hour", "seven_day", "seven_day_opus", "seven_day_sonnet", "overage"]
ServerToolName = Literal[
    "advisor",
    "web_search",
    "web_fetch",
    "code_execution",
    "bash_code_execution",
    "text_editor_code_execution",
    "tool_search_tool_regex",
    "tool_search_tool_bm25",
]
SandboxIgnoreViolations = dict[str, list[str]]

# --- servers ----------------------------------------------------------------------------------------


class McpSdkServerConfigStatus(TypedDict):
    type: Literal["sdk"]
    name: str


class McpClaudeAIProxyServerConfig(TypedDict):
    type: Literal["claudeai-proxy"]
    url: str
    id: str


McpServerStatusConfig = (
    McpStdioServerConfig | McpHttpServerConfig | McpSdkServerConfigStatus | McpClaudeAIProxyServerConfig
)

# --- `SystemMessage.data` of the first message of a session ---------------------------------------------


class SystemInitMcpServer(TypedDict):
    """One MCP server in `SystemInitData`."""

    name: str
    status: str
    source: NotRequired[str]


class SystemInitPlugin(TypedDict):
    """One plugin in `SystemInitData`."""

    name: str
    path: str
    version: NotRequired[str]


class SystemInitPluginError(TypedDict):
    """A plugin in `SystemInitData` that was not loaded, and why."""

    plugin: str
    type: str
    message: str
    path: NotRequired[str]


class SystemInitData(TypedDict):
    """`SystemMessage.data`, if its `subtype` is `init`."""

    type: Literal["system"]
    subtype: Literal["init"]
    uuid: str
    session_id: str
    agents: NotRequired[list[str]]
    apiKeySource: str
    betas: NotRequired[list[str]]
    claude_code_version: str
    cwd: str
    tools: list[str]
    mcp_servers: list[SystemInitMcpServer]
    model: str
    permissionMode: PermissionMode
    slash_commands: list[str]
    terminal_slash_commands: NotRequired[list[str]]
    output_style: str
    skills: list[str]
    plugins: list[SystemInitPlugin]
    plugin_errors: NotRequired[list[SystemInitPluginError]]
    fast_mode_state: NotRequired[FastModeState]
    fast_mode_disabled_reason: NotRequired[FastModeDisabledReason]
    capabilities: NotRequired[list[str]]


# --- hook input and output --------------------------------------------------------------------------


class HookEffort(TypedDict):
    """The effort of the model, as a hook sees it."""

    level: str


class BackgroundTaskSummary(TypedDict):
    """A background task, as hooks and messages list it."""

    id: str
    type: str
    status: str
    description: str
    command: NotRequired[str]
    agent_type: NotRequired[str]
    server: NotRequired[str]
    tool: NotRequired[str]
    name: NotRequired[str]


class SessionCronSummary(TypedDict):
    """A scheduled task of a session."""

    id: str
    schedule: str
    recurring: bool
    prompt: str


class SessionStartHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `SessionStart`."""

    hookEventName: Literal["SessionStart"]
    additionalContext: NotRequired[str]
    initialUserMessage: NotRequired[str]
    sessionTitle: NotRequired[str]
    watchPaths: NotRequired[list[str]]
    reloadSkills: NotRequired[bool]


class UserPromptExpansionHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `UserPromptExpansion`."""

    hookEventName: Literal["UserPromptExpansion"]
    additionalContext: NotRequired[str]
    suppressOriginalPrompt: NotRequired[bool]


class PermissionDeniedHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `PermissionDenied`."""

    hookEventName: Literal["PermissionDenied"]
    retry: NotRequired[bool]


class PostToolBatchHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `PostToolBatch`."""

    hookEventName: Literal["PostToolBatch"]
    additionalContext: NotRequired[str]


class PreModelSwitchHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `PreModelSwitch`."""

    hookEventName: Literal["PreModelSwitch"]
    permissionDecision: NotRequired[Literal["allow", "deny", "ask"]]
    permissionDecisionReason: NotRequired[str]


class PostModelSwitchHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `PostModelSwitch`."""

    hookEventName: Literal["PostModelSwitch"]
    additionalContext: NotRequired[str]


class MessageDisplayHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `MessageDisplay`."""

    hookEventName: Literal["MessageDisplay"]
    displayContent: NotRequired[str]


class ElicitationHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `Elicitation`."""

    hookEventName: Literal["Elicitation"]
    action: NotRequired[Literal["accept", "decline", "cancel"]]
    content: NotRequired[dict[str, Any]]


class ElicitationResultHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `ElicitationResult`."""

    hookEventName: Literal["ElicitationResult"]
    action: NotRequired[Literal["accept", "decline", "cancel"]]
    content: NotRequired[dict[str, Any]]


class CwdChangedHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `CwdChanged`."""

    hookEventName: Literal["CwdChanged"]
    watchPaths: NotRequired[list[str]]


class FileChangedHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `FileChanged`."""

    hookEventName: Literal["FileChanged"]
    watchPaths: NotRequired[list[str]]


class WorktreeCreateHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `WorktreeCreate`."""

    hookEventName: Literal["WorktreeCreate"]
    worktreePath: str
