"""Which MCP servers may start and which models may be used. Pure functions of values, which return a reason.

Servers: `allowedMcpServers` and `deniedMcpServers`. An entry names a server, its command with all arguments, or its
URL, in which `*` matches anything. As in Claude Code, if a list of allowed servers has commands, it allows programs by
their commands only, and likewise for URLs: a file can give a server any name.

Models: `availableModels`, `deniedModels` and related keys. An entry is a model's name, the beginning of one up to a
dash, or a family: `claude-opus-4-8`, `opus-4` or `opus`. Dates and `-fast` at the end of a name do not count; nor does
a provider before it, for `deniedModels`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mainspring.settings.values import McpServer, McpServerList, McpServerMatch, McpSettings, ModelRules, SettingsSource

_DEFAULT_PORT = re.compile(r"^(http://[^/]*):80(?=/|$)|^(https://[^/]*):443(?=/|$)")
_HOST = re.compile(r"^[a-zA-Z*]+://[^/?#]*")


def explain_server_refusal(server: McpServer, entry: Mapping[str, object], rules: McpSettings) -> str:
    """Why a server must not start; empty: it may. `entry` is as it was written: its variables are not expanded."""
    for one in rules.denied:
        if any(_is_denied(match, server, entry) for match in one.matches):
            return f"'deniedMcpServers' in {one.origin.place} has it"
    if server.kind == "sdk" or server.origin.source is SettingsSource.ADMINISTRATOR:
        return ""  # the host's own servers, and those that the administrator delivers, need not be listed
    if rules.allowed is not None:
        listed = [match for one in rules.allowed for match in one.matches]
        if not _is_allowed(listed, server):
            return _not_listed(rules.allowed)
    for one in rules.narrowed:
        if not _is_allowed(one.matches, server):
            return _not_listed((one,))
    return ""


def _not_listed(lists: Iterable[McpServerList]) -> str:
    places = dict.fromkeys([one.origin.place for one in lists])
    return f"'allowedMcpServers' in {', '.join(places)} does not list it"


def _is_denied(match: McpServerMatch, server: McpServer, entry: Mapping[str, object]) -> bool:
    if match.name:
        return match.name == server.name
    if match.command:
        args = entry.get("args")
        written = (str(entry.get("command", "")), *([str(arg) for arg in args] if isinstance(args, list) else []))  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        return match.command in (_command(server), written)
    return url_matches(match.url, server.url) or url_matches(match.url, str(entry.get("url", "")))


def _is_allowed(matches: Iterable[McpServerMatch], server: McpServer) -> bool:
    listed = tuple(matches)
    if server.kind == "stdio" and any(match.command for match in listed):
        return any(match.command == _command(server) for match in listed if match.command)
    if server.url and any(match.url for match in listed):
        return any(url_matches(match.url, server.url) for match in listed if match.url)
    return any(match.name == server.name for match in listed if match.name)


def _command(server: McpServer) -> tuple[str, ...]:
    return (server.command, *server.args)


def url_matches(pattern: str, url: str) -> bool:
    """Compares schemes and hosts without case; ignores default ports and user names. In the host `*` matches only
    characters of a host, so that no path poses as one.
    """
    if not url:
        return False
    host, path = _parts(pattern)
    wanted = "[^/]*".join(map(re.escape, host.split("*")))
    if not path and host.endswith("*"):
        wanted = wanted.removesuffix("[^/]*") + ".*"
    wanted += ".*".join(map(re.escape, (path or ("" if host.endswith("*") else "/")).split("*")))
    found = "".join(_parts(url))
    return any(re.fullmatch(wanted, one, re.DOTALL) for one in (found, f"{found}/", found.removesuffix("/")))


def _parts(url: str) -> tuple[str, str]:
    """Scheme and host; the rest."""
    found = _HOST.match(url.strip())
    host = found[0] if found else ""
    rest = url.strip()[len(host) :]
    scheme, mark, name = host.lower().partition("://")
    host = f"{scheme}{mark}{name.rpartition('@')[2]}"
    return _DEFAULT_PORT.sub(lambda port: port[1] or port[2], host), rest


# Aliases whose model depends on the release or the settings: in a list they name none.
MOVING = frozenset({"default", "best", "opusplan"})

_END = re.compile(r"(?:\[[^\]]*\]|-fast|-\d{8}|-v\d+:\d+|@\d{8})+$")
_PROVIDER = re.compile(r"^(?:[\w.-]+/)+|^(?:[a-z]{2,6}\.)?anthropic\.")


def explain_model_refusal(name: str, rules: ModelRules, *, default: bool = False) -> str:
    """Why a model may not be used; empty: it may. `default`: it is the default, not chosen by the user."""
    if is_denied(name, rules):
        return _says(name, "deniedModels", rules)
    lists = [names for names in (rules.available, *rules.narrowed) if names is not None]
    if not lists or (default and not rules.default_too):
        return ""
    if all(matches_model(name, names, exact=rules.exact) for names in lists):
        return ""
    if default and not any(lists):  # an empty list leaves the default
        return ""
    return _says(name, "availableModels", rules)


def is_denied(name: str, rules: ModelRules) -> bool:
    bare = _PROVIDER.sub("", name.lower())
    return matches_model(name, rules.denied, exact=False) or matches_model(bare, rules.denied, exact=False)


def matches_model(name: str, entries: Iterable[str], *, exact: bool) -> bool:
    return any(_fits(_stem(name), _stem(entry), exact=exact) for entry in entries if entry.strip() not in MOVING)


def first_available(rules: ModelRules) -> str | None:
    """The default if the usual one is not available."""
    return next((name for name in rules.available or () if name not in MOVING), None)


def _fits(name: str, entry: str, *, exact: bool) -> bool:
    if not entry:
        return False
    if re.fullmatch(r"[a-z]+", entry):  # a family
        return entry in re.split(r"[-/.]", name)
    whole = entry if entry.startswith("claude-") or "/" in entry else f"claude-{entry}"
    return any(name == one or (not exact and name.startswith(f"{one}-")) for one in (entry, whole))


def _stem(name: str) -> str:
    return _END.sub("", name.strip().lower())


def _says(name: str, key: str, rules: ModelRules) -> str:
    where = f" in {', '.join(rules.places)}" if rules.places else ""
    listed = [*(rules.available or ()), *[one for names in rules.narrowed for one in names]]
    others = f": choose one of {', '.join(listed)}" if key == "availableModels" and listed else ": choose another one"
    return f"the model '{name}' is not available because of '{key}'{where}{others}"
