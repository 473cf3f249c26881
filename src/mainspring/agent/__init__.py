"""An agent session: an engine session with tools, permissions, hooks, MCP servers and context. Front ends drive it."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.agent.approvals import HostQuestions as HostQuestions
    from mainspring.agent.approvals import PermissionTool as PermissionTool
    from mainspring.agent.checkpoints import FileCheckpoints as FileCheckpoints
    from mainspring.agent.clouds import cloud_remedies as cloud_remedies
    from mainspring.agent.clouds import find_cloud_endpoint as find_cloud_endpoint
    from mainspring.agent.clouds import make_cloud_provider as make_cloud_provider
    from mainspring.agent.config import resolve_config as resolve_config
    from mainspring.agent.config_checks import broken_rules as broken_rules
    from mainspring.agent.config_checks import explain_unknown_model as explain_unknown_model
    from mainspring.agent.config_checks import slip_in_model as slip_in_model
    from mainspring.agent.config_checks import slips_in_rules as slips_in_rules
    from mainspring.agent.config_checks import tell_of_slips as tell_of_slips
    from mainspring.agent.context import get_notes_folder as get_notes_folder
    from mainspring.agent.context import new_model_context as new_model_context
    from mainspring.agent.context_usage import context_text as context_text
    from mainspring.agent.endpoints import build_router as build_router
    from mainspring.agent.endpoints import endpoint_of as endpoint_of
    from mainspring.agent.endpoints import key_of as key_of
    from mainspring.agent.find_session import describe_other_home as describe_other_home
    from mainspring.agent.find_session import find_session_by_name as find_session_by_name
    from mainspring.agent.find_session import format_no_session as format_no_session
    from mainspring.agent.find_session import list_sessions_of as list_sessions_of
    from mainspring.agent.hooks import HookListeners as HookListeners
    from mainspring.agent.hooks import attach_hook_watcher as attach_hook_watcher
    from mainspring.agent.hooks import hooks_of as hooks_of
    from mainspring.agent.hooks import host_hooks as host_hooks
    from mainspring.agent.mcp import McpConfigInput as McpConfigInput
    from mainspring.agent.mcp import SessionMcpServers as SessionMcpServers
    from mainspring.agent.mcp import hold_keys as hold_keys
    from mainspring.agent.mcp import list_servers_in as list_servers_in
    from mainspring.agent.mcp import load_mcp_config as load_mcp_config
    from mainspring.agent.mcp import names_in as names_in
    from mainspring.agent.mcp import new_servers as new_servers
    from mainspring.agent.mcp import taken_away as taken_away
    from mainspring.agent.media import medium_in as medium_in
    from mainspring.agent.model import capped_effort as capped_effort
    from mainspring.agent.model import chosen_model as chosen_model
    from mainspring.agent.model import is_elsewhere as is_elsewhere
    from mainspring.agent.model import patience_of as patience_of
    from mainspring.agent.permissions import resolve_folder as resolve_folder
    from mainspring.agent.results import make_outcome as make_outcome
    from mainspring.agent.resume import new_place as new_place
    from mainspring.agent.slash_commands import expand_slash_command as expand_slash_command

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "context_text": "context_usage",
    "FileCheckpoints": "checkpoints",
    "HookListeners": "hooks",
    "HostQuestions": "approvals",
    "McpConfigInput": "mcp",
    "PermissionTool": "approvals",
    "SessionMcpServers": "mcp",
    "attach_hook_watcher": "hooks",
    "broken_rules": "config_checks",
    "build_router": "endpoints",
    "capped_effort": "model",
    "patience_of": "model",
    "chosen_model": "model",
    "cloud_remedies": "clouds",
    "endpoint_of": "endpoints",
    "expand_slash_command": "slash_commands",
    "find_cloud_endpoint": "clouds",
    "describe_other_home": "find_session",
    "find_session_by_name": "find_session",
    "format_no_session": "find_session",
    "get_notes_folder": "context",
    "hold_keys": "mcp",
    "hooks_of": "hooks",
    "host_hooks": "hooks",
    "is_elsewhere": "model",
    "key_of": "endpoints",
    "list_sessions_of": "find_session",
    "load_mcp_config": "mcp",
    "make_cloud_provider": "clouds",
    "make_outcome": "results",
    "medium_in": "media",
    "list_servers_in": "mcp",
    "names_in": "mcp",
    "new_model_context": "context",
    "new_place": "resume",
    "new_servers": "mcp",
    "resolve_config": "config",
    "resolve_folder": "permissions",
    "explain_unknown_model": "config_checks",
    "slip_in_model": "config_checks",
    "slips_in_rules": "config_checks",
    "taken_away": "mcp",
    "tell_of_slips": "config_checks",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
