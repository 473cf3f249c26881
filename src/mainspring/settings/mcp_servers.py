"""Entries of `mcpServers`, in settings, in `.mcp.json` and on the command line.

An entry is checked when it is read, and its `${VAR}` are expanded before the servers start. Our own keys are never
expanded: a server is a third-party program (security K2). Which sources may define servers is not decided here, except
for servers inside the host (`sdk`): only the host can name them, on the command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from mainspring.processes.environment import is_own_variable, sounds_secret
from mainspring.secrets.held import is_in
from mainspring.settings.keys import (
    CheckedValue,
    InvalidSetting,
    check_environment,
    check_table,
    check_text,
    check_texts,
)
from mainspring.settings.load import expand_tilde, users_folder
from mainspring.settings.values import McpEntry, McpServer
from mainspring.text import suggest_near_name

FILE = ".mcp.json"  # of a project
KEY = "mcpServers"
LOCAL_FILE = "mcp.json"  # in our folder: the user's servers for single projects,
PROJECTS = "projects"  # by their folders

# The fields that an entry of each type accepts, and the one it needs.
FIELDS: dict[str, tuple[str, ...]] = {
    "stdio": ("command", "args", "env"),
    "http": ("url", "headers"),
    "sse": ("url", "headers"),
    "sdk": (),
}
SDK = "sdk"
ANYWHERE = tuple([kind for kind in FIELDS if kind != SDK])  # types that any file may have
NO_DRIVER = "servers of the type 'sdk' need a host that drives mainspring ('mainspring help pipe'), and there is none"
NEEDED = {"stdio": "command", "http": "url", "sse": "url"}
OTHER_NAMES = {"streamable-http": "http", "streamableHttp": "http"}  # that other programs use
# Fields that other programs know and we do not: no mistake, so no warning.
PASSED_OVER = frozenset({"name", "description", "disabled", "alwaysAllow", "autoApprove"})

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
LONGEST_NAME = 40  # characters of a server's name: with its tool's it makes a name of 64, which rules must match
_NAME = re.compile(rf"[^\x00-\x1f\x7f]{{1,{LONGEST_NAME}}}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check_mcp_entries(value: object, kinds: Collection[str] = ANYWHERE) -> CheckedValue:
    """Checks the table. A wrong entry is left out, and the others are used; so is one with unknown fields."""
    good: dict[str, dict[str, object]] = {}
    wrong: list[InvalidSetting] = []
    for name, item in check_table(value).items():
        try:
            good[name] = check_mcp_entry(name, item, kinds)
            wrong += [InvalidSetting(odd.says, name, *odd.path) for odd in odd_fields(good[name])]
        except InvalidSetting as error:
            wrong.append(InvalidSetting(error.says, name, *error.path))
    return CheckedValue(good, tuple(wrong))


def check_mcp_entry(name: str, value: object, kinds: Collection[str] = ANYWHERE) -> dict[str, object]:
    """Returns it unchanged if its shape is valid."""
    if not _NAME.fullmatch(name):
        raise InvalidSetting(
            f"a server name has 1 to {LONGEST_NAME} characters and no control characters: choose another one"
        )
    given = check_table(value)
    kind = kind_of(given)
    if kind not in kinds:
        raise InvalidSetting(NO_DRIVER, "type")
    if kind in NEEDED and not given.get(NEEDED[kind]):
        raise InvalidSetting(f"a server of the type '{kind}' needs '{NEEDED[kind]}': {EXAMPLES[kind]}", NEEDED[kind])
    for field in CHECKS:
        if field in given and field not in FIELDS[kind]:
            raise InvalidSetting(
                f"a server of the type '{kind}' does not take it: remove it, or use another 'type'", field
            )
        if field in given:
            check_field(field, given[field])
    return given


def odd_fields(given: Mapping[str, object]) -> list[InvalidSetting]:
    known = ("type", *FIELDS[kind_of(given)])
    return [
        InvalidSetting(
            f"unknown field, ignored; known fields are {', '.join(known)}{suggest_near_name(name, known)}",
            name,
        )
        for name in given
        if name not in known and name not in PASSED_OVER
    ]


EXAMPLES = {
    "stdio": '{"command": "npx", "args": ["-y", "some-server"]}',
    "http": '{"type": "http", "url": "https://example.com/mcp"}',
    "sse": '{"type": "sse", "url": "https://example.com/sse"}',
}


def kind_of(given: Mapping[str, object]) -> str:
    kind = given.get("type")
    if kind is None:
        if "command" not in given and "url" in given:
            raise InvalidSetting("a server with a 'url' needs a 'type': \"http\", or \"sse\" for an old one")
        return "stdio"
    found = OTHER_NAMES.get(str(kind), str(kind))
    if found not in FIELDS:
        raise InvalidSetting(f"it must be one of {', '.join(ANYWHERE)}{suggest_near_name(str(kind), ANYWHERE)}", "type")
    return found


def check_field(field: str, value: object) -> object:
    try:
        found = CHECKS[field](value)
    except InvalidSetting as error:
        raise InvalidSetting(error.says, field, *error.path) from None
    if found.wrong:
        raise InvalidSetting(found.wrong[0].says, field, *found.wrong[0].path)
    return found.value


def check_headers(value: object) -> CheckedValue:
    for name, item in check_table(value).items():
        if not _HEADER.fullmatch(name):
            raise InvalidSetting("it is not a valid header name", name)
        if not isinstance(item, str) or any(ord(c) < 32 and c != "\t" for c in item):
            raise InvalidSetting("it must be a string without line breaks", name)
    return CheckedValue(value)


CHECKS: dict[str, Callable[[object], CheckedValue]] = {
    "command": check_text,
    "args": check_texts,
    "env": check_environment,
    "url": check_text,
    "headers": check_headers,
}


def read_local_table(tree: Mapping[str, object], folder: str) -> dict[str, object]:
    """The user's servers for this folder, as `LOCAL_FILE` has them."""
    found: Any = tree
    for key in (PROJECTS, folder, KEY):
        found = found.get(key) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


# --- ready to start -------------------------------------------------------------------------------------------------


def fill_server(found: McpEntry, environ: Mapping[str, str]) -> McpServer:
    """The server with its variables expanded. Raises `InvalidSetting`."""
    given = found.entry
    kind = kind_of(given)

    def filled(value: str, *path: str | int) -> str:
        return expand_variables(value, environ, *path)

    def each(field: str) -> dict[str, str]:
        if field not in given:
            return {}
        items = cast("dict[str, str]", check_field(field, given[field]))
        return {name: filled(value, field, name) for name, value in items.items()}

    args = cast("tuple[str, ...]", check_field("args", given.get("args", [])))
    made = McpServer(
        found.name,
        kind,
        found.origin,
        command=expand_tilde(filled(str(given.get("command", "")), "command"), users_folder(environ)),
        args=tuple([filled(word, "args", at) for at, word in enumerate(args)]),
        env=each("env"),
        url=filled(str(given.get("url", "")), "url"),
        headers=each("headers"),
    )
    if made.url and not made.url.startswith(("http://", "https://")):
        raise InvalidSetting("it must begin with 'http://' or 'https://'", "url")
    if is_in([made.command, made.args, made.env, made.url, made.headers], ours=True):
        raise InvalidSetting("it contains one of mainspring's own keys, which are never passed to servers: remove it")
    return made


def expand_variables(value: str, environ: Mapping[str, str], *path: str | int) -> str:
    """Expands `${VAR}` and `${VAR:-default}`."""

    def one(found: re.Match[str]) -> str:
        name, instead = found[1], found[2]
        if is_own_variable(name) and name not in SHARED:
            raise InvalidSetting(
                f"'${{{name}}}' is mainspring's own key and is never passed to servers: use another variable", *path
            )
        said = environ.get(name)
        if said is None and instead is None:
            raise InvalidSetting(f"the variable '{name}' is not set: set it, or write '${{{name}:-something}}'", *path)
        return said or (instead or "") if instead is not None else said or ""

    return _VARIABLE.sub(one, value)


def filled_secrets(found: McpEntry, environ: Mapping[str, str]) -> list[str]:
    """The values of variables with secret-sounding names, in any field of a server that can be started."""
    texts = [text for field in FIELDS[kind_of(found.entry)] for text in texts_in(found.entry.get(field))]
    variables = [match for text in texts for match in _VARIABLE.finditer(text) if sounds_secret(match[1])]
    return [expand_variables(match[0], environ) for match in variables]


def texts_in(value: object) -> list[str]:
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).values())
    found = cast("list[object]", value) if isinstance(value, list) else [value]
    return [one for one in found if isinstance(one, str)]


SHARED = frozenset({"CLAUDE_PROJECT_DIR"})  # the project's path is no secret
