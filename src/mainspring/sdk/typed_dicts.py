"""The shapes of dicts, for type checkers: settings, servers, hook output, status.

Names are those of `claude-agent-sdk`. Nothing here is checked at run time.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

# --- options ----------------------------------------------------------------------------------------


class SystemPromptPreset(TypedDict):
    """The system prompt of Claude Code, with an optional addition."""

    type: Literal["preset"]
    preset: Literal["claude_code"]
    append: NotRequired[str]
    exclude_dynamic_sections: NotRequired[bool]  # text that depends on the directory goes with the first prompt


class SystemPromptCustom(TypedDict):
    """A system prompt in several blocks."""

    type: Literal["custom"]
    prompt: str


class SystemPromptFile(TypedDict):
    """A system prompt from a file."""

    type: Literal["file"]
    path: str


class ToolsPreset(TypedDict):
    """All built-in tools, for `Options.tools`."""

    type: Literal["preset"]
    preset: Literal["claude_code"]


class TaskBudget(TypedDict):
    """A budget of tokens that the model knows of."""

    total: int


class ThinkingConfigAdaptive(TypedDict):
    """The model decides how much to think."""

    type: Literal["adaptive"]
    display: NotRequired[Literal["summarized", "omitted"]]


class ThinkingConfigEnabled(TypedDict):
    """The model thinks, up to a number of tokens."""

    type: Literal["enabled"]
    budget_tokens: int
    display: NotRequired[Literal["summarized", "omitted"]]


class ThinkingConfigDisabled(TypedDict):
    """The model does not think."""

    type: Literal["disabled"]


ThinkingConfig = ThinkingConfigAdaptive | ThinkingConfigEnabled | ThinkingConfigDisabled
SdkBeta = str


class SdkPluginConfig(TypedDict):
    """A plugin to load: a local folder."""

    type: Literal["local"]
    path: str


class SandboxNetworkConfig(TypedDict, total=False):
    """The network of sandboxed commands."""

    allowedDomains: list[str]
    deniedDomains: list[str]
    allowUnixSockets: list[str]
    allowLocalBinding: bool
    httpProxyPort: int
    socksProxyPort: int


class SandboxSettings(TypedDict, total=False):
    """docs/sandbox.md says what each does here."""

    enabled: bool
    required: bool
    autoAllowBashIfSandboxed: bool
    excludedCommands: list[str]
    allowUnsandboxedCommands: bool
    network: SandboxNetworkConfig


# --- servers ----------------------------------------------------------------------------------------


class McpStdioServerConfig(TypedDict):
    """An MCP server that is started as a process."""

    type: NotRequired[Literal["stdio"]]
    command: str
    args: NotRequired[list[str]]
    env: NotRequired[dict[str, str]]


class McpHttpServerConfig(TypedDict):
    """An MCP server that is reached by HTTP."""

    type: Literal["http", "sse"]
    url: str
    headers: NotRequired[dict[str, str]]


class McpSdkServerConfig(TypedDict):
    """An MCP server in this process, made by `create_sdk_mcp_server`."""

    type: str
    name: str
    instance: Any


McpServerConfig = McpStdioServerConfig | McpHttpServerConfig | McpSdkServerConfig
McpServerConnectionStatus = Literal["connected", "failed", "needs-auth", "pending", "disabled"]


class McpToolAnnotations(TypedDict, total=False):
    """What an MCP server says about one of its tools; a hint, never a permission."""

    readOnly: bool
    destructive: bool
    openWorld: bool


class McpToolInfo(TypedDict):
    """One tool of an MCP server."""

    name: str
    description: NotRequired[str]
    annotations: NotRequired[McpToolAnnotations]


class McpServerInfo(TypedDict):
    """The name and version that an MCP server gives itself."""

    name: str
    version: str


class McpServerStatus(TypedDict):
    """One MCP server: whether it is connected, and its tools."""

    name: str
    status: McpServerConnectionStatus
    serverInfo: NotRequired[McpServerInfo]
    error: NotRequired[str]
    config: NotRequired[dict[str, Any]]
    scope: NotRequired[str]
    tools: NotRequired[list[McpToolInfo]]


class McpStatusResponse(TypedDict):
    """All MCP servers: the result of `Client.get_mcp_status`."""

    mcpServers: list[McpServerStatus]


# --- status -----------------------------------------------------------------------------------------


class ContextUsageCategory(TypedDict):
    """One row of `ContextUsageResponse`: a part of the context and its tokens."""

    name: str
    tokens: int
    color: str
    isDeferred: NotRequired[bool]


class ContextUsageResponse(TypedDict):
    """What fills the context window: the result of `Client.get_context_usage`."""

    categories: list[ContextUsageCategory]
    totalTokens: int
    maxTokens: int
    rawMaxTokens: int
    percentage: float
    model: str
    isAutoCompactEnabled: bool
    memoryFiles: list[dict[str, Any]]
    mcpTools: list[dict[str, Any]]
    agents: list[dict[str, Any]]
    gridRows: list[list[dict[str, Any]]]
    autoCompactThreshold: NotRequired[int]
    apiUsage: NotRequired[dict[str, Any] | None]


class ModelUsage(TypedDict):
    """Tokens and cost of one model in a result."""

    inputTokens: int
    outputTokens: int
    cacheReadInputTokens: int
    cacheCreationInputTokens: int
    webSearchRequests: int
    costUSD: float
    contextWindow: int
    maxOutputTokens: int


# --- hook output, in `hookSpecificOutput` -----------------------------------------------------------


class PreToolUseHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `PreToolUse`."""

    hookEventName: Literal["PreToolUse"]
    permissionDecision: NotRequired[Literal["allow", "deny", "ask", "defer"]]
    permissionDecisionReason: NotRequired[str]
    updatedInput: NotRequired[dict[str, Any]]
    additionalContext: NotRequired[str]


class PostToolUseHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `PostToolUse`."""

    hookEventName: Literal["PostToolUse"]
    additionalContext: NotRequired[str]
    updatedToolOutput: NotRequired[Any]
    updatedMCPToolOutput: NotRequired[Any]


class PostToolUseFailureHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `PostToolUseFailure`."""

    hookEventName: Literal["PostToolUseFailure"]
    additionalContext: NotRequired[str]


class UserPromptSubmitHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `UserPromptSubmit`."""

    hookEventName: Literal["UserPromptSubmit"]
    additionalContext: NotRequired[str]


class NotificationHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `Notification`."""

    hookEventName: Literal["Notification"]
    additionalContext: NotRequired[str]


class SubagentStartHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `SubagentStart`."""

    hookEventName: Literal["SubagentStart"]
    additionalContext: NotRequired[str]


class StopHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `Stop`."""

    hookEventName: Literal["Stop"]
    additionalContext: NotRequired[str]


class SubagentStopHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `SubagentStop`."""

    hookEventName: Literal["SubagentStop"]
    additionalContext: NotRequired[str]


class PermissionRequestHookSpecificOutput(TypedDict):
    """`hookSpecificOutput` of a hook for `PermissionRequest`."""

    hookEventName: Literal["PermissionRequest"]
    decision: dict[str, Any]
