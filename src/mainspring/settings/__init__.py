"""Settings of the user, the project, the administrator and the command line, and which of them count.

settings = load_settings(cwd, environ)    # load.py; only reads files
settings.permissions.deny, settings.model, settings.problems
format_origins(settings)                  # effective.py; the effective settings, and where each comes from
is_trusted(home, folder)                  # trust.py
write_change(places, source, change)      # edit.py; changes rules, folders or the mode, keeps the rest of the file
SettingsWriter(cwd, environ).keep(source, change)    # persist.py; the same for front ends, raises nothing
"""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.settings.edit import ListChange as ListChange
    from mainspring.settings.edit import ModeChange as ModeChange
    from mainspring.settings.edit import ValueChange as ValueChange
    from mainspring.settings.hook_entries import unreadable_guards as unreadable_guards
    from mainspring.settings.load import expand_tilde as expand_tilde
    from mainspring.settings.mcp_servers import check_mcp_entries as check_mcp_entries
    from mainspring.settings.plugins import Plugin as Plugin
    from mainspring.settings.plugins import add_plugins as add_plugins
    from mainspring.settings.plugins import load_plugin as load_plugin
    from mainspring.settings.restrictions import is_denied as is_denied
    from mainspring.settings.trust import is_trusted as is_trusted

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "ListChange": "edit",
    "ModeChange": "edit",
    "ValueChange": "edit",
    "Plugin": "plugins",
    "add_plugins": "plugins",
    "check_mcp_entries": "mcp_servers",
    "expand_tilde": "load",
    "is_denied": "restrictions",
    "is_trusted": "trust",
    "load_plugin": "plugins",
    "unreadable_guards": "hook_entries",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
