"""A set-up of Claude Code in the user's home: what it has that mainspring does not read, and copying it.

mainspring reads `~/.claude/CLAUDE.md`, commands, skills and agents there, and lists its sessions, without being asked.
It does not read `settings.json` there and the MCP servers in `~/.claude.json`. The first start in a terminal offers to
copy them into the user's own settings, where a value that is set already stays. The answer is remembered in a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from mainspring.agent.options import StartError
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.processes.atomic_write import digest, write_atomically
from mainspring.processes.paths import PathRefused, resolve_path
from mainspring.processes.safe_open import read_resolved_file
from mainspring.settings.load import home_folder, load_settings, other_homes, users_folder
from mainspring.settings.read import LARGEST, UnreadableSettings, parse_settings_text
from mainspring.text import as_object

ANSWERED = "claude-code-offered"  # in our folder: the answer
SERVERS = "mcpServers"
SETTINGS, BOTH, NOTHING = "settings", "both", "no"  # answers; SERVERS is one, too
LARGEST_STATE = 64 << 20  # bytes: Claude Code keeps much else in the file that has its servers


class ClaudeCodeSetup(Bundle):
    """The parts that can be copied, and those that are read anyway."""

    folder: str
    settings: dict[str, Any]
    servers: dict[str, Any]
    has_memory: bool = False
    sessions: int = 0


def find_claude_code(environ: Mapping[str, str]) -> ClaudeCodeSetup | None:
    """None: there is nothing to copy, the user has answered already, or a variable names another home."""
    home, user = home_folder(environ), users_folder(environ).rstrip("/")
    folder = f"{user}/.claude"
    if home is None or home == folder or not other_homes(environ)[1] or os.path.lexists(f"{home}/{ANSWERED}"):
        return None
    if not os.path.isfile(f"{folder}/settings.json") and not os.path.isfile(f"{user}/.claude.json"):  # noqa: PTH113
        return None
    settings = read_table(f"{folder}/settings.json", LARGEST)
    servers = as_object(read_table(f"{user}/.claude.json", LARGEST_STATE).get(SERVERS))
    servers |= as_object(settings.pop(SERVERS, None))
    if not settings and not servers:
        return None
    return ClaudeCodeSetup(
        folder, settings, servers, os.path.isfile(f"{folder}/CLAUDE.md"), count_sessions(f"{folder}/projects")  # noqa: PTH113
    )  # fmt: skip


def read_table(path: str, limit: int) -> dict[str, Any]:
    """Empty: there is no such file, or it cannot be read."""
    with suppress(OSError, PathRefused, UnreadableSettings, msgspec.MsgspecError):
        found = resolve_path(path, "/")
        if found.kind == "file":
            return as_object(msgspec.json.decode(read_resolved_file(found, limit=limit)))
    return {}


def count_sessions(folder: str) -> int:
    count = 0
    with suppress(OSError), os.scandir(folder) as projects:
        for project in projects:
            with suppress(OSError):
                count += sum(name.endswith(".jsonl") for name in os.listdir(project.path))  # noqa: PTH208
    return count


def describe_parts(found: ClaudeCodeSetup) -> dict[str, str]:
    """What can be copied, by answer."""
    parts: dict[str, str] = {}
    if found.settings:
        parts[SETTINGS] = f"Settings: {', '.join(found.settings)}"
    if found.servers:
        parts[SERVERS] = f"MCP servers: {', '.join(found.servers)}"
    return parts


def describe_read_anyway(found: ClaudeCodeSetup) -> str:
    """Parts that need no copy. Empty: there are none."""
    parts = ["CLAUDE.md"] if found.has_memory else []
    if found.sessions:
        parts.append("1 session" if found.sessions == 1 else f"{found.sessions} sessions (/resume)")
    return " and ".join(parts)


def copy_claude_code(found: ClaudeCodeSetup, answer: str, environ: Mapping[str, str]) -> str:
    """Copies the parts that the answer names, and remembers the answer. Returns a line for the user. If it raises
    `StartError`, the settings are as they were."""
    home = home_folder(environ)
    assert home is not None  # else nothing is found
    chosen = (SETTINGS, SERVERS) if answer == BOTH else (answer,)
    words = ""
    if chosen != (NOTHING,):
        wanted = dict(found.settings) if SETTINGS in chosen else {}
        if SERVERS in chosen:
            wanted[SERVERS] = found.servers
        words = merge_into_settings(wanted, home, environ)
    remember_answer(answer, home)
    return words


def merge_into_settings(wanted: dict[str, Any], home: str, environ: Mapping[str, str]) -> str:
    os.makedirs(home, 0o700, exist_ok=True)  # noqa: PTH103  # 8 ms
    file = resolve_path(f"{home}/settings.json", "/")
    try:
        old = read_resolved_file(file, limit=LARGEST) if file.kind != "missing" else None
        ours = parse_settings_text(old).tree if old is not None else {}
        servers = {**as_object(wanted.get(SERVERS)), **as_object(ours.get(SERVERS))}
        merged = {**wanted, **ours, **({SERVERS: servers} if servers else {})}
        data = msgspec.json.format(msgspec.json.encode(merged), indent=2) + b"\n"
        written = write_atomically(file, data, before=digest(old) if old is not None else None, mode=0o600)
    except (UnreadableSettings, PathRefused, OSError) as error:
        raise StartError(f"'{file.real}' was not changed: {error}") from None
    try:
        load_settings("/", environ)  # such as a restriction that we cannot enforce
    except UsageError as error:
        undo(file.real, old, written)
        raise StartError(f"your settings of Claude Code were not copied: {error}") from None
    added = [name for name in wanted if name not in ours]
    return f"Copied to '{file.real}': {', '.join(added)}." if added else "Your own settings have all of it already."


def undo(path: str, old: bytes | None, written: str) -> None:
    file = resolve_path(path, "/")
    if old is None:
        os.unlink(file.real)  # noqa: PTH108  # 8 ms
    else:
        write_atomically(file, old, before=written, mode=0o600)


def remember_answer(answer: str, home: str) -> None:
    os.makedirs(home, 0o700, exist_ok=True)  # noqa: PTH103
    with suppress(OSError):
        fd = os.open(f"{home}/{ANSWERED}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(f"{answer}\n")
