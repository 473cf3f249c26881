"""The command line. Start reading at `main.py`."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.cli.commands.config import format_server_state as format_server_state
    from mainspring.cli.commands.doctor import format_doctor_summary as format_doctor_summary
    from mainspring.cli.commands.doctor import format_finding as format_finding
    from mainspring.cli.commands.doctor import run_checks as run_checks
    from mainspring.cli.commands.doctor_checks import CheckState as CheckState
    from mainspring.cli.commands.doctor_checks import Finding as Finding
    from mainspring.cli.commands.models import ask_model_servers as ask_model_servers
    from mainspring.cli.commands.models import known_models as known_models
    from mainspring.cli.commands.models import server_at as server_at
    from mainspring.cli.commands.sessions import format_session_rows as format_session_rows
    from mainspring.cli.commands.sessions import lines_of as lines_of
    from mainspring.cli.plain import print_greeting as print_greeting
    from mainspring.cli.plain import tell_of_last as tell_of_last
    from mainspring.cli.signals import defer_signals as defer_signals
    from mainspring.cli.slash.session import list_user_prompts as list_user_prompts
    from mainspring.cli.slash.table import run_own as run_own
    from mainspring.cli.stream_json import make_json_output as make_json_output
    from mainspring.cli.terminal_session import TerminalSession as TerminalSession
    from mainspring.cli.trust import is_held_back as is_held_back
    from mainspring.cli.tui.history_view import put_past as put_past
    from mainspring.cli.tui.host import TerminalHost as TerminalHost
    from mainspring.cli.tui.input_help import helps_for as helps_for
    from mainspring.cli.tui.layout import Painter as Painter
    from mainspring.cli.tui.links import has_links as has_links
    from mainspring.cli.tui.notification import RESTORE_TITLE as RESTORE_TITLE
    from mainspring.cli.tui.notification import SAVE_TITLE as SAVE_TITLE
    from mainspring.cli.tui.notification import make_notification as make_notification
    from mainspring.cli.tui.notification import make_title as make_title
    from mainspring.cli.tui.run_view import RunView as RunView
    from mainspring.cli.tui.run_view import render_prompt as render_prompt
    from mainspring.cli.tui.session import CHOICES as CHOICES
    from mainspring.cli.tui.session import SessionController as SessionController
    from mainspring.cli.tui.session import ask_for_trust as ask_for_trust
    from mainspring.cli.tui.status import SessionFacts as SessionFacts
    from mainspring.cli.tui.status import StatusCommand as StatusCommand
    from mainspring.cli.tui.status import StatusLine as StatusLine
    from mainspring.cli.tui.status import find_branch as find_branch
    from mainspring.cli.tui.status import next_mode as next_mode

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "CHOICES": "tui.session",
    "CheckState": "commands.doctor_checks",
    "Finding": "commands.doctor_checks",
    "Painter": "tui.layout",
    "has_links": "tui.links",
    "RESTORE_TITLE": "tui.notification",
    "RunView": "tui.run_view",
    "SAVE_TITLE": "tui.notification",
    "SessionController": "tui.session",
    "SessionFacts": "tui.status",
    "StatusCommand": "tui.status",
    "StatusLine": "tui.status",
    "TerminalHost": "tui.host",
    "TerminalSession": "terminal_session",
    "ask_for_trust": "tui.session",
    "ask_model_servers": "commands.models",
    "defer_signals": "signals",
    "find_branch": "tui.status",
    "format_doctor_summary": "commands.doctor",
    "format_finding": "commands.doctor",
    "format_server_state": "commands.config",
    "format_session_rows": "commands.sessions",
    "helps_for": "tui.input_help",
    "is_held_back": "trust",
    "known_models": "commands.models",
    "lines_of": "commands.sessions",
    "list_user_prompts": "slash.session",
    "make_json_output": "stream_json",
    "make_notification": "tui.notification",
    "make_title": "tui.notification",
    "next_mode": "tui.status",
    "print_greeting": "plain",
    "put_past": "tui.history_view",
    "render_prompt": "tui.run_view",
    "run_checks": "commands.doctor",
    "run_own": "slash.table",
    "server_at": "commands.models",
    "tell_of_last": "plain",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
