"""Trust in the working folder (security T1): add and remove it, and list what is ignored without it.

Used by `mainspring trust`, by `/trust`, and by the question at the start of a conversation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainspring import agent, context
from mainspring.agent.options import StartError
from mainspring.agent.slash.held_back import held_words, project_folders_only
from mainspring.settings import trust
from mainspring.settings.load import home_folder
from mainspring.settings.read import UnreadableSettings, parse_settings_text, read_file
from mainspring.settings.values import ProblemKind
from mainspring.text import as_list, as_object, strip_control_characters, truncate

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.context.sources import ContextSources
    from mainspring.settings.values import Settings

MOST_NAMES = 5  # per group
LONGEST_NAME = 40  # columns
LONGEST_COMMAND = 80

# Settings keys of a project, as shown to users; the rest are "settings".
SORTS = {
    "hooks": "hooks",
    "permissions.allow": "allow rules",
    "permissions.additionalDirectories": "additional folders",
}


# --- adding and removing ------------------------------------------------------------------------------------------


def trust_folder(folder: str, environ: Mapping[str, str]) -> str:
    """Returns the real path that is now trusted. Raises `StartError`, `UsageError` and `OSError`."""
    at = time.time_ns() // 1_000_000
    places = [trust.add_trusted_folder(home, folder, at=at) for home in list_config_homes(environ)]
    return places[0]


def take_back(folder: str, environ: Mapping[str, str]) -> bool:
    """Returns whether the folder was trusted."""
    was = [trust.remove_trusted_folder(home, folder) for home in list_config_homes(environ)]
    return any(was)


def list_config_homes(environ: Mapping[str, str]) -> list[str]:
    """Our home and, if it exists, that of hosts that drive us as Claude Code (docs/pipe.md): trust is for both."""
    ours = home_folder(environ, compatible=False)
    if ours is None:
        raise StartError("no home folder to store trust in: set MAINSPRING_HOME")
    theirs = home_folder(environ, compatible=True)
    return [ours, *([theirs] if theirs is not None and theirs != ours and os.path.isdir(theirs) else [])]  # noqa: PTH112


# --- untrusted content ----------------------------------------------------------------------------------------------


def list_untrusted_content(talk: TerminalSession) -> list[str]:
    """What the folder contains that is ignored without trust, such as 'hooks' and 'commands (/review)'. Empty: it is
    trusted, or has nothing of the kind. Reads a few folders and runs nothing from them."""
    found = talk.world.around
    if found.memory.where.trusted:
        return []
    return [
        *list_untrusted_settings(talk.config.settings),
        *list_untrusted_servers(talk),
        *list_untrusted_texts(found),
        *list_untrusted_memory(found),
    ]


def list_untrusted_settings(settings: Settings) -> list[str]:
    """From the problems that `mainspring config` prints: each begins with the ignored keys."""
    told = [one.says.partition(":")[0] for one in settings.problems if one.kind is ProblemKind.UNTRUSTED]
    keys = dict.fromkeys([key for names in told for key in names.split(", ")])
    others = [key for key in keys if key not in SORTS]
    return [*[words for key, words in SORTS.items() if key in keys], *format_untrusted_names("settings", others)]


def list_untrusted_servers(talk: TerminalSession) -> list[str]:
    sources, path = talk.config.options.setting_sources, f"{talk.config.cwd}/.mcp.json"
    if not os.path.lexists(path) or (sources is not None and "project" not in sources):
        return []
    try:
        data = read_file(path)
        tree = parse_settings_text(data).tree if data is not None else {}
    except UnreadableSettings:
        return []  # trust would not help
    return [describe_server(name, config) for name, config in agent.list_servers_in(tree)]


def describe_server(name: str, config: object) -> str:
    """One server, with what it runs or where it is. The text comes from the folder, so it is sanitized here."""
    found = as_object(config)
    words = [found.get("command"), *as_list(found.get("args"))]
    runs = " ".join([one for one in words if isinstance(one, str)]) or str(found.get("url", ""))
    where = f" ({clean_name(runs, LONGEST_COMMAND)})" if runs else ""
    return f"MCP server '{clean_name(name, LONGEST_NAME)}'{where}"


def clean_name(text: str, most: int) -> str:
    return truncate(" ".join(strip_control_characters(text[: 4 * most]).split()), most)


def list_untrusted_texts(found: ContextSources) -> list[str]:
    """Agents, skills, commands."""
    skills, commands = held_words(found)
    words = [
        *format_untrusted_names("skills", [f"/{name}" for name in skills]),
        *format_untrusted_names("commands", [f"/{name}" for name in commands]),
    ]
    return [*format_untrusted_names("agents", held_agents(found)), *words]


def list_untrusted_memory(found: ContextSources) -> list[str]:
    leads_out = any(problem.endswith(context.TRUST) for problem in found.memory.problems)
    return ["memory files outside the folder"] if leads_out else []


def format_untrusted_names(sort: str, names: list[str]) -> list[str]:
    """The names come from the folder, so they are sanitized here."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    shown = ", ".join([clean_name(name, LONGEST_NAME) for name in names[:MOST_NAMES]])
    return [f"{sort} ({shown}{more})"] if names else []


def held_agents(found: ContextSources) -> list[str]:
    places = project_folders_only(found.memory.places("agents"))
    if places is None:
        return []
    return [name for name in context.find_agent_types(places).kinds if name not in context.BUILTIN_AGENT_TYPES]
