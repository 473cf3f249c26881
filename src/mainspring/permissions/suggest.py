"""Suggests rules with a question: they cover exactly what is shown, and say what that is (security S10).

If no such rule exists, none is suggested: then only a single approval is possible.

`suggest_wider_rules` offers rules that cover similar calls, too, and says which: commands that start with the same
words, for programs in a table, and the folder of a file (decision 0078).
"""

from __future__ import annotations

import re
from typing import cast

from msgspec.structs import replace

from mainspring.core.value import Value
from mainspring.permissions import READERS, WRITERS, hosts
from mainspring.permissions.commands import find_working_directories
from mainspring.permissions.coverage import RuleCoverage
from mainspring.permissions.decide import NAMED_BY, decide
from mainspring.permissions.files import FileRules
from mainspring.permissions.policy import Mode, Paths, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import PermissionRules, RuleError, RuleSource, parse_rule
from mainspring.permissions.shell.analyze import analyze_command
from mainspring.permissions.shell.values import ShellWord, names
from mainspring.permissions.targets import redirect_ask
from mainspring.processes.paths import PathRefused
from mainspring.text import show_invisible

MOST = 5  # rules from one question; people read no more before they approve

_PLAIN = re.compile(r"[A-Za-z0-9_./@%+,=^-]+\Z", re.ASCII)
_SPECIAL = re.compile(r"([*?\[\]\\!])")
ESCAPED = r"\\\1"


# Programs, and the first arguments after which a rule may end in a wildcard. Not in the table: what removes or sends
# something, what installs, and what runs its arguments.
_STARTS: dict[str, frozenset[str]] = {
    "git": names("add commit fetch pull stash tag mv"),
    "cargo": names("build check test fmt clippy doc"),
    "go": names("build test vet fmt"),
    "ruff": names("check format"),
    "npm": names("test"),
    "pnpm": names("test"),
    "yarn": names("test"),
}
_ALONE = names("pytest mypy pyright basedpyright tsc mkdir touch")  # programs without such an argument
_SCRIPTS = names("npm pnpm yarn bun")  # `npm run NAME`: the rule names the script, too


class Suggestion(Value):
    rule: str
    covers: str  # in words, for the person who is asked
    file: str = ""  # the path, if the rule names one file


def suggest_rules(asked: PermissionRequest, policy: PermissionPolicy, paths: Paths) -> tuple[Suggestion, ...]:
    if decide(asked, replace(policy, mode=Mode.DEFAULT), paths).decision != "ask":
        return ()
    offered = _offered(replace(asked, tool="Agent") if asked.tool == "Task" else asked, policy, paths)
    return offered if _would_help(offered, asked, policy, paths) else ()


def suggest_wider_rules(asked: PermissionRequest, policy: PermissionPolicy, paths: Paths) -> tuple[Suggestion, ...]:
    """Rules that cover the call and similar ones; empty if there are none. All of them together are one offer."""
    exact = suggest_rules(asked, policy, paths)
    wider = tuple(dict.fromkeys(_widened(one, asked.cwd, policy.home) for one in exact))
    return wider if wider != exact and _would_help(wider, asked, policy, paths) else ()


def _would_help(
    offered: tuple[Suggestion, ...], asked: PermissionRequest, policy: PermissionPolicy, paths: Paths
) -> bool:
    """A rule that would not help, or that parses to something else, is not suggested."""
    if not offered or len(offered) > MOST or any(show_invisible(one.rule) != one.rule for one in offered):
        return False
    try:
        rules = PermissionRules(
            allow=tuple(parse_rule(one.rule, "allow", source=RuleSource.SESSION) for one in offered)
        )
    except RuleError:
        return False
    then = decide(asked, replace(policy, rules=policy.rules.and_also(rules), mode=Mode.DEFAULT), paths)
    return then.decision == "allow"


def _widened(one: Suggestion, cwd: str, home: str) -> Suggestion:
    tool, _, specifier = one.rule.removesuffix(")").partition("(")
    if tool == "Bash":
        start = _start(specifier.split(" "))
        return Suggestion(f"Bash({start}:*)", f"commands that start with `{start}`") if start else one
    if tool in ("Edit", "Read") and one.file:
        folder = one.file.rpartition("/")[0]
        if not _is_too_wide(folder, cwd, home):
            return Suggestion(f"{tool}(/{_SPECIAL.sub(ESCAPED, folder)}/**)", _describe_files(tool, f"{folder}/", cwd))
    if tool.startswith("mcp__") and tool.count("__") > 1:
        server = tool.split("__")[1]
        return Suggestion(f"mcp__{server}", f"all tools of the MCP server '{show_invisible(server)}'")
    return one


def _start(words: list[str]) -> str:
    """The words before the wildcard of a rule; empty: only the exact command is offered."""
    if not all(_PLAIN.match(word) for word in words[:3]):
        return ""
    if words[0] in _SCRIPTS and words[1:2] == ["run"] and len(words) > 2 and not words[2].startswith("-"):
        return " ".join(words[:3])
    if words[0] in _STARTS and words[1:] and words[1] in _STARTS[words[0]]:
        return " ".join(words[:2])
    return words[0] if words[0] in _ALONE else ""


def _is_too_wide(folder: str, cwd: str, home: str) -> bool:
    """A folder at the root, the home folder, and one that contains the working directory."""
    above = f"{cwd.rstrip('/')}/".startswith(f"{folder}/") and cwd != folder
    return folder.count("/") < 2 or folder == home or above


def _describe_files(tool: str, path: str, cwd: str) -> str:
    """A path that ends with a slash is a folder, with all that is in it."""
    near = path.removeprefix(f"{cwd.rstrip('/')}/")
    shown = f"'{show_invisible(near)}'" if near else "this folder"
    if path.endswith("/"):
        return f"reading files in {shown}" if tool == "Read" else f"edits in {shown}"
    return f"reading {shown}" if tool == "Read" else f"edits to {shown}"


def suggested_mode(asked: PermissionRequest, policy: PermissionPolicy, paths: Paths) -> Mode | None:
    """The mode that would cover this edit, and similar ones. None: it would not help, or it would lose a restriction of
    the current mode, as for a plan.
    """
    if asked.tool not in WRITERS or policy.mode is not Mode.DEFAULT:
        return None
    then = decide(asked, replace(policy, mode=Mode.ACCEPT_EDITS), paths)
    return Mode.ACCEPT_EDITS if then.decision == "allow" else None


def _offered(asked: PermissionRequest, policy: PermissionPolicy, paths: Paths) -> tuple[Suggestion, ...]:
    match asked.tool:
        case "Bash":
            return _commands(str(asked.input.get("command", "")), asked.cwd, policy, paths)
        case tool if tool in READERS or tool in WRITERS:
            path = asked.input.get(READERS.get(tool) or WRITERS[tool])
            one = _file(
                "Read" if tool in READERS else "Edit", path if isinstance(path, str) else asked.cwd, asked.cwd, paths
            )
            return (one,) if one is not None else ()
        case "WebFetch":
            return _host(str(asked.input.get("url", "")))
        case "WebSearch" if domains := asked.input.get("allowed_domains"):
            return _search_domains(domains)
        case tool:
            name = next((value for key in NAMED_BY.get(tool, ()) if isinstance(value := asked.input.get(key), str)), "")
            if name:
                return (Suggestion(f"{tool}({name})", f"all calls of '{tool}' for '{show_invisible(name)}'"),)
            return (Suggestion(tool, f"all calls of '{tool}'"),)


def _commands(text: str, cwd: str, policy: PermissionPolicy, paths: Paths) -> tuple[Suggestion, ...]:
    sight = analyze_command(text)
    if sight.script.unclear:
        return ()
    files = FileRules(policy, cwd, paths)
    coverage = RuleCoverage(sight, find_working_directories(sight, files), files)
    found = [
        None if command.assigns else _command(command.words)
        for command in sight.script.commands
        if not coverage.command(command).covered
    ]
    for redirect in sight.script.all_redirects:
        if not coverage.redirect(redirect).covered:
            ask = redirect_ask(redirect)
            found.append(
                None if ask is None else _file("Read" if ask.access == "read" else "Edit", ask.path, cwd, paths)
            )
    if None in found:
        return ()
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _command(words: tuple[ShellWord, ...]) -> Suggestion | None:
    if not words or not all(word.exact for word in words):
        return None
    specifier = " ".join(_quoted(word.text) for word in words)
    return Suggestion(f"Bash({specifier})", f"`{show_invisible(specifier)}`")


def _quoted(text: str) -> str:
    return text if _PLAIN.match(text) else "'" + text.replace("'", "'\\''") + "'"


def _file(tool: str, path: str, cwd: str, paths: Paths) -> Suggestion | None:
    try:
        found = paths(path, cwd)
    except PathRefused:
        return None
    if found.via or found.kind == "special":
        return None  # one rule cannot name all the names of a file behind links
    is_folder = found.kind == "folder"
    literal = _SPECIAL.sub(ESCAPED, found.real)
    covers = _describe_files(tool, f"{found.real.rstrip('/')}/" if is_folder else found.real, cwd)
    return Suggestion(f"{tool}(/{literal})", covers, "" if is_folder else found.real)


def _host(address: str) -> tuple[Suggestion, ...]:
    host = hosts.host_of(address)  # a question about an address implies a valid host
    return (Suggestion(f"WebFetch(domain:{host})", f"all pages of '{host}'"),)


def _search_domains(domains: object) -> tuple[Suggestion, ...]:
    """For a search that is limited to domains; none if they are not valid: the tool will refuse them."""
    try:
        named = [".".join(hosts.domain_pattern(str(domain))) for domain in cast("list[object]", domains)]
    except (TypeError, hosts.AddressError):
        return ()
    return tuple([Suggestion(f"WebSearch(domain:{name})", f"searches of '{name}'") for name in named])
