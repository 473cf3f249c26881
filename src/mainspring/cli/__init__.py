"""The command line. Start reading at `main.py`."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.cli.commands.models import ask_model_servers as ask_model_servers
    from mainspring.cli.commands.models import known_models as known_models
    from mainspring.cli.commands.models import server_at as server_at
    from mainspring.cli.commands.sessions import lines_of as lines_of
    from mainspring.cli.commands.trace import find_traced_session as find_traced_session
    from mainspring.cli.commands.trace import looked_at as looked_at
    from mainspring.cli.own_command import run_own_command as run_own_command
    from mainspring.cli.plain import print_greeting as print_greeting
    from mainspring.cli.plain_session_list import ask_for_session as ask_for_session
    from mainspring.cli.signals import defer_signals as defer_signals
    from mainspring.cli.stream_json import make_json_output as make_json_output
    from mainspring.cli.terminal_session import TerminalSession as TerminalSession
    from mainspring.cli.tui.board import show_board as show_board
    from mainspring.cli.tui.claude_code_offer import offer_claude_code as offer_claude_code
    from mainspring.cli.tui.diff_panel import choose_diff as choose_diff
    from mainspring.cli.tui.full_view import FullViews as FullViews
    from mainspring.cli.tui.history_picker import choose_past_prompt as choose_past_prompt
    from mainspring.cli.tui.history_view import put_past as put_past
    from mainspring.cli.tui.host import TerminalHost as TerminalHost
    from mainspring.cli.tui.image_paste import save_clipboard_image as save_clipboard_image
    from mainspring.cli.tui.input_help import helps_for as helps_for
    from mainspring.cli.tui.key_bindings import find_key_folders as find_key_folders
    from mainspring.cli.tui.key_bindings import load_own_keys as load_own_keys
    from mainspring.cli.tui.layout import Painter as Painter
    from mainspring.cli.tui.links import has_links as has_links
    from mainspring.cli.tui.notification import RESTORE_TITLE as RESTORE_TITLE
    from mainspring.cli.tui.notification import SAVE_TITLE as SAVE_TITLE
    from mainspring.cli.tui.notification import make_notification as make_notification
    from mainspring.cli.tui.notification import make_title as make_title
    from mainspring.cli.tui.panels import PANELS as PANELS
    from mainspring.cli.tui.panels import PanelContext as PanelContext
    from mainspring.cli.tui.panels import open_panel as open_panel
    from mainspring.cli.tui.rewind_panel import choose_rewind as choose_rewind
    from mainspring.cli.tui.run_view import RunView as RunView
    from mainspring.cli.tui.run_view import render_prompt as render_prompt
    from mainspring.cli.tui.session import CHOICES as CHOICES
    from mainspring.cli.tui.session import SessionController as SessionController
    from mainspring.cli.tui.session import ask_for_trust as ask_for_trust
    from mainspring.cli.tui.session_picker import choose_first_session as choose_first_session
    from mainspring.cli.tui.setup_screen import SetupScreen as SetupScreen
    from mainspring.cli.tui.status import SessionFacts as SessionFacts
    from mainspring.cli.tui.status import StatusCommand as StatusCommand
    from mainspring.cli.tui.status import StatusLine as StatusLine
    from mainspring.cli.tui.status import find_branch as find_branch
    from mainspring.cli.tui.status import next_mode as next_mode

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "CHOICES": "tui.session",
    "PANELS": "tui.panels",
    "Painter": "tui.layout",
    "FullViews": "tui.full_view",
    "PanelContext": "tui.panels",
    "has_links": "tui.links",
    "RESTORE_TITLE": "tui.notification",
    "RunView": "tui.run_view",
    "SAVE_TITLE": "tui.notification",
    "SessionController": "tui.session",
    "SessionFacts": "tui.status",
    "SetupScreen": "tui.setup_screen",
    "StatusCommand": "tui.status",
    "StatusLine": "tui.status",
    "TerminalHost": "tui.host",
    "TerminalSession": "terminal_session",
    "ask_for_trust": "tui.session",
    "ask_model_servers": "commands.models",
    "ask_for_session": "plain_session_list",
    "choose_first_session": "tui.session_picker",
    "choose_past_prompt": "tui.history_picker",
    "choose_diff": "tui.diff_panel",
    "choose_rewind": "tui.rewind_panel",
    "defer_signals": "signals",
    "find_key_folders": "tui.key_bindings",
    "load_own_keys": "tui.key_bindings",
    "save_clipboard_image": "tui.image_paste",
    "find_branch": "tui.status",
    "helps_for": "tui.input_help",
    "known_models": "commands.models",
    "find_traced_session": "commands.trace",
    "lines_of": "commands.sessions",
    "looked_at": "commands.trace",
    "make_json_output": "stream_json",
    "make_notification": "tui.notification",
    "make_title": "tui.notification",
    "next_mode": "tui.status",
    "offer_claude_code": "tui.claude_code_offer",
    "open_panel": "tui.panels",
    "print_greeting": "plain",
    "put_past": "tui.history_view",
    "render_prompt": "tui.run_view",
    "run_own_command": "own_command",
    "server_at": "commands.models",
    "show_board": "tui.board",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
