"""An agent session: an engine session with tools, permissions, hooks, MCP servers and context. Front ends drive it."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.agent.approvals import HostQuestions as HostQuestions
    from mainspring.agent.approvals import PermissionTool as PermissionTool
    from mainspring.agent.background_tasks import list_tasks as list_tasks
    from mainspring.agent.background_tasks import make_task_notification as make_task_notification
    from mainspring.agent.background_tasks import message_subagent as message_subagent
    from mainspring.agent.background_tasks import move_to_background as move_to_background
    from mainspring.agent.checkpoints import FileCheckpoints as FileCheckpoints
    from mainspring.agent.checkpoints import RewindPermissions as RewindPermissions
    from mainspring.agent.clouds import cloud_remedies as cloud_remedies
    from mainspring.agent.clouds import find_cloud_endpoint as find_cloud_endpoint
    from mainspring.agent.clouds import make_cloud_provider as make_cloud_provider
    from mainspring.agent.config import resolve_config as resolve_config
    from mainspring.agent.config_checks import broken_rules as broken_rules
    from mainspring.agent.config_checks import explain_money_limit as explain_money_limit
    from mainspring.agent.config_checks import explain_unknown_model as explain_unknown_model
    from mainspring.agent.config_checks import slip_in_model as slip_in_model
    from mainspring.agent.config_checks import slips_in_rules as slips_in_rules
    from mainspring.agent.config_checks import tell_of_slips as tell_of_slips
    from mainspring.agent.context import get_notes_folder as get_notes_folder
    from mainspring.agent.context import new_model_context as new_model_context
    from mainspring.agent.context_usage import context_text as context_text
    from mainspring.agent.doctor import format_doctor_summary as format_doctor_summary
    from mainspring.agent.doctor import format_finding as format_finding
    from mainspring.agent.doctor import run_checks as run_checks
    from mainspring.agent.doctor_checks import CheckState as CheckState
    from mainspring.agent.doctor_checks import Finding as Finding
    from mainspring.agent.endpoints import build_router as build_router
    from mainspring.agent.endpoints import endpoint_of as endpoint_of
    from mainspring.agent.endpoints import explain_missing_endpoint_search as explain_missing_endpoint_search
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
    from mainspring.agent.model import choose_effort as choose_effort
    from mainspring.agent.model import chosen_model as chosen_model
    from mainspring.agent.model import find_model as find_model
    from mainspring.agent.model import is_elsewhere as is_elsewhere
    from mainspring.agent.model import patience_of as patience_of
    from mainspring.agent.open_session import wants_tool_summaries as wants_tool_summaries
    from mainspring.agent.permissions import resolve_folder as resolve_folder
    from mainspring.agent.results import make_outcome as make_outcome
    from mainspring.agent.resume import new_place as new_place
    from mainspring.agent.rewind import rewind_session as rewind_session
    from mainspring.agent.rewind import undo_rewind as undo_rewind
    from mainspring.agent.shell_output import ShellOutputs as ShellOutputs
    from mainspring.agent.side_question import ask_side_question as ask_side_question
    from mainspring.agent.slash.answer import find_local_command as find_local_command
    from mainspring.agent.slash_commands import expand_slash_command as expand_slash_command

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "context_text": "context_usage",
    "CheckState": "doctor_checks",
    "FileCheckpoints": "checkpoints",
    "Finding": "doctor_checks",
    "format_doctor_summary": "doctor",
    "format_finding": "doctor",
    "run_checks": "doctor",
    "RewindPermissions": "checkpoints",
    "wants_tool_summaries": "open_session",
    "HookListeners": "hooks",
    "find_model": "model",
    "HostQuestions": "approvals",
    "McpConfigInput": "mcp",
    "PermissionTool": "approvals",
    "SessionMcpServers": "mcp",
    "attach_hook_watcher": "hooks",
    "broken_rules": "config_checks",
    "build_router": "endpoints",
    "capped_effort": "model",
    "choose_effort": "model",
    "ShellOutputs": "shell_output",
    "ask_side_question": "side_question",
    "patience_of": "model",
    "chosen_model": "model",
    "cloud_remedies": "clouds",
    "endpoint_of": "endpoints",
    "explain_missing_endpoint_search": "endpoints",
    "expand_slash_command": "slash_commands",
    "find_cloud_endpoint": "clouds",
    "find_local_command": "slash.answer",
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
    "list_tasks": "background_tasks",
    "make_task_notification": "background_tasks",
    "message_subagent": "background_tasks",
    "move_to_background": "background_tasks",
    "names_in": "mcp",
    "new_model_context": "context",
    "new_place": "resume",
    "rewind_session": "rewind",
    "undo_rewind": "rewind",
    "new_servers": "mcp",
    "resolve_config": "config",
    "resolve_folder": "permissions",
    "explain_money_limit": "config_checks",
    "explain_unknown_model": "config_checks",
    "slip_in_model": "config_checks",
    "slips_in_rules": "config_checks",
    "taken_away": "mcp",
    "tell_of_slips": "config_checks",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
