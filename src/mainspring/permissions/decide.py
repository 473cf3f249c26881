"""Decides whether a call may run. Pure: the same call and policy give the same decision; only paths are looked up.

The order is fixed, and a more specific rule has no priority (security S4): deny rules, a hook's deny, ask rules and
calls that always need a person, a hook's allow or ask, the mode, allow rules, calls that only read, else ask.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import cast

from msgspec.structs import replace

from mainspring import permissions
from mainspring.permissions import READERS, WRITERS
from mainspring.permissions.files import FileAccessRequest, FileRules
from mainspring.permissions.policy import (
    Decision,
    Findings,
    Mode,
    Paths,
    PermissionDecision,
    PermissionPolicy,
    PermissionRequest,
)
from mainspring.permissions.rules import (
    BrokenRule,
    FieldRule,
    PermissionRule,
    SortedRules,
    glob_matches,
    names_tool,
)
from mainspring.permissions.shell.values import names
from mainspring.text import format_call_input, show_invisible

# Nothing to protect in them: they concern the session itself, talk to the person, or start an agent, each of whose
# calls is decided by itself.
FREE_TOOLS = names(
    """TodoWrite TaskCreate TaskUpdate TaskList TaskGet EnterPlanMode ExitPlanMode AskUserQuestion StructuredOutput
    ToolSearch ListMcpResourcesTool BashOutput TaskOutput KillShell Sleep Recall Agent"""
)
NO_RULE = "no rule covers"  # the beginning of the reasons that are the default
_WILD = re.compile(r"[*?\[{]")
_LISTED = re.compile(r"[{,]")
NAMED_BY = {
    "Agent": ("subagent_type",),
    "Skill": ("skill", "command", "name"),
    "ReadMcpResourceTool": ("server",),
}
UNNAMED = {"Agent": "general-purpose"}  # the default agent type: see `tools/agent.py`


def decide(asked: PermissionRequest, policy: PermissionPolicy, paths: Paths) -> PermissionDecision:
    asked = replace(asked, tool="Agent") if asked.tool == "Task" else asked
    if policy.closed and (why := permissions.find_closed_access(asked, policy, paths)):
        return PermissionDecision("deny", why, shown=format_call_input(asked.tool, asked.input))
    files = FileRules(policy, asked.cwd, paths)
    found = findings(asked.tool, asked.input, files)
    if asked.before is not None:
        found = _stricter(found, findings(asked.tool, asked.before, files))
    if asked.reads and policy.mode is Mode.PLAN:
        found = replace(found, reads=True)
    verdict = _in_order(asked, policy, found)
    if verdict.decision == "ask" and policy.mode is Mode.DONT_ASK:
        verdict = replace(
            verdict, decision="deny", reason=f"{verdict.reason}; in mode dontAsk nothing is asked", open=False
        )
    return replace(verdict, reason=show_invisible(verdict.reason), shown=format_call_input(asked.tool, asked.input))


def _stricter(now: Findings, before: Findings) -> Findings:
    """Deny and ask apply to the input as the model sent it and as a hook left it; allow to what will run."""
    return replace(
        now, deny=now.deny or before.deny, refused=now.refused or before.refused, ask=now.ask or before.ask,
        never=now.never or before.never,
    )  # fmt: skip


def _in_order(asked: PermissionRequest, policy: PermissionPolicy, found: Findings) -> PermissionDecision:
    if found.deny is not None:
        return _by(found.deny, "deny", "a deny rule")
    if found.refused:
        return PermissionDecision("deny", found.refused)
    if asked.hook == "deny":
        return PermissionDecision("deny", asked.hook_reason or "a hook refused it")
    if found.ask is not None:
        return _by(found.ask, "ask", "an ask rule")
    broken = _broken(asked.tool, policy)
    if broken is not None:
        return PermissionDecision(
            "ask", f"the {broken.behavior} rule cannot be read: {broken.reason}", broken.text, broken.source
        )
    if found.never:
        return PermissionDecision("ask", found.never, person=True)
    if asked.hook == "ask":
        return PermissionDecision("ask", asked.hook_reason or "a hook wants it asked")
    if asked.hook == "allow":
        return PermissionDecision("allow", asked.hook_reason or "a hook allowed it")
    return _by_mode(asked.tool, policy.mode, found) or _by_allow(asked.tool, policy.mode, found)


def _by_mode(tool: str, mode: Mode, found: Findings) -> PermissionDecision | None:
    if mode is Mode.DEFAULT:
        return None
    match mode:
        case Mode.BYPASS:
            return PermissionDecision("allow", "mode bypassPermissions")
        case Mode.PLAN if found.reads:
            return PermissionDecision("allow", "it only reads")
        case Mode.PLAN if tool in WRITERS:
            return PermissionDecision("deny", "in mode plan nothing is edited: finish the plan first")
        case Mode.PLAN if tool == "Bash":
            return PermissionDecision("ask", "in mode plan only commands that read run by themselves")
        case Mode.ACCEPT_EDITS if found.edits and not found.covered:
            return PermissionDecision("allow", "mode acceptEdits: a change of files in the working folders")
        case _:
            return None


def _by_allow(tool: str, mode: Mode, found: Findings) -> PermissionDecision:
    if found.covered and found.allow:
        texts = ", ".join(rule.text for rule in found.allow)
        return PermissionDecision("allow", f"allowed by {texts}", texts, found.allow[0].source)
    if found.covered or found.reads:
        return PermissionDecision(
            "allow", "it only reads, where reading is free" if found.reads else "it needs no permission"
        )
    why = found.why or f"{NO_RULE} it"
    verdict = PermissionDecision("ask", why, open=mode is Mode.AUTO, is_default=why.startswith(NO_RULE))
    return keep_from_classifier(verdict, _find_uncontained(tool, found)) if mode is Mode.AUTO else verdict


def keep_from_classifier(verdict: PermissionDecision, why: str) -> PermissionDecision:
    """In mode auto, leaves a call to the user if nothing contains what it does. `why`: empty if something does."""
    if not why:
        return verdict
    return replace(
        verdict, reason=f"{verdict.reason}; the classifier is not asked: {why}", open=False, is_default=False
    )


def _find_uncontained(tool: str, found: Findings) -> str:
    """Why only the user may approve the call. Tools that are not named here have effects that we do not know."""
    if tool == "Bash":
        return found.uncontained  # the rest depends on the sandbox: see `checker.py`
    if tool in WRITERS:
        return "" if found.edits else "it writes outside of the working folders"
    return "it reads outside of the working folders" if tool in READERS else "nothing contains its effects"


def _by(rule: PermissionRule, decision: Decision, kind: str) -> PermissionDecision:
    return PermissionDecision(decision, f"{kind} of source '{rule.source}': {rule.text}", rule.text, rule.source)


def _broken(tool: str, policy: PermissionPolicy) -> BrokenRule | None:
    for one in policy.rules.broken:
        if one.behavior != "allow" and (one.tool == tool or not one.tool):
            return one
    return None


# --- findings of the rules --------------------------------------------------------------------------------------


def findings(tool: str, input: Mapping[str, object], files: FileRules) -> Findings:
    by_value = _by_value(tool, input, files.rules)
    if by_value is not None and by_value.deny is not None:
        return by_value
    found = _findings(tool, input, files)
    return found if by_value is None else replace(found, ask=found.ask or by_value.ask)


def _findings(tool: str, input: Mapping[str, object], files: FileRules) -> Findings:
    if tool == "Bash":
        command = input.get("command")
        if not isinstance(command, str):
            return Findings(refused="'command' is no text")
        return _checker()(command, files)
    if tool in READERS or tool in WRITERS:
        return _file(tool, input, files)
    if tool == "WebFetch":
        return _fetch(input, files.policy)
    if tool == "WebSearch":
        return _search_web(input, files.policy)
    return _named(tool, input, files.policy)


@cache
def _checker() -> Callable[[str, FileRules], Findings]:
    """Loaded with the first command: it takes longer than all the rest."""
    return permissions.check_bash_command


def _file(tool: str, input: Mapping[str, object], files: FileRules) -> Findings:
    field = READERS.get(tool) or WRITERS[tool]
    path = input.get(field)
    if path is None and tool in ("Grep", "Glob", "LS"):
        path = files.cwd
    if not isinstance(path, str):
        return Findings(refused=f"'{field}' is no text")
    if tool in ("Grep", "Glob"):
        return _search(tool, path, input.get("pattern" if tool == "Glob" else "glob"), files)
    return files.check(FileAccessRequest("read" if tool in READERS else "write", path, tool))


def _search(tool: str, path: str, pattern: object, files: FileRules) -> Findings:
    """A pattern of names is a path, too: the part before its wildcards says where the search begins (security F6)."""
    if pattern is None:
        return files.check(FileAccessRequest("read", path, tool))
    if not isinstance(pattern, str):
        return Findings(refused="the pattern is no text")
    start = _WILD.split(pattern, maxsplit=1)[0]
    whole = start == pattern
    place = start if whole else start.rpartition("/")[0] + "/" if "/" in start else ""
    if ".." in pattern[len(place) :].replace("{", "/").replace(",", "/").replace("}", "/").split("/") and not whole:
        return Findings(why=f"the pattern '{pattern}' may lead to a folder above")
    if any(one.startswith(("/", "~/")) for one in _LISTED.split(pattern)[1:]):
        return Findings(why=f"the pattern '{pattern}' may lead to another folder")
    found = files.check(FileAccessRequest("read", path, tool))
    if not place or found.deny is not None or found.refused:
        return found
    further = files.check(
        FileAccessRequest("read", place if place.startswith(("/", "~/")) else f"{path}/{place}", tool)
    )
    return further if further.deny is not None or further.refused or not further.reads else found


def _fetch(input: Mapping[str, object], policy: PermissionPolicy) -> Findings:
    from mainspring.permissions import hosts

    address = input.get("url")
    try:
        host = hosts.host_of(address if isinstance(address, str) else "")
    except hosts.AddressError as error:
        return Findings(refused=str(error))

    def matches(rule: PermissionRule) -> bool:
        if not names_tool(rule, "WebFetch"):
            return False
        if rule.specifier is None:
            return True
        try:
            return hosts.domain_matches(hosts.domain_pattern(rule.specifier.removeprefix("domain:")), host)
        except hosts.AddressError:
            return False

    return _by_match(policy, matches, f"no rule covers the host '{host}'")


def _search_web(input: Mapping[str, object], policy: PermissionPolicy) -> Findings:
    """A rule for a domain decides about searches that are limited to it. Pages of a denied domain are also left out of
    the results of other searches (`web/search.py`)."""
    from mainspring.permissions import hosts

    query, given = input.get("query"), input.get("allowed_domains")
    domains = cast("list[object]", given) if isinstance(given, list | tuple) else []
    named = [domain.strip().lower().removesuffix(".") for domain in domains if isinstance(domain, str)]

    def covered(rule: PermissionRule) -> list[str]:
        """The domains of the search that the rule names."""
        pattern = hosts.search_domain(rule)
        return [name for name in named if pattern is not None and hosts.domain_matches(pattern, name)]

    def is_about_all(rule: PermissionRule) -> bool:
        return names_tool(rule, "WebSearch") and (rule.specifier is None or rule.specifier == query)

    def may_ask(rule: PermissionRule) -> bool:
        is_of_domain = names_tool(rule, "WebSearch") and hosts.search_domain(rule) is not None
        return is_about_all(rule) or (is_of_domain and (not named or bool(covered(rule))))

    rules = policy.rules
    deny = next((rule for rule in rules.deny if is_about_all(rule) or covered(rule)), None)
    ask = next((rule for rule in rules.ask if may_ask(rule)), None)
    allow = [rule for rule in rules.allow if is_about_all(rule)][:1]
    if named and not allow:
        of_domains = [rule for rule in rules.allow if names_tool(rule, "WebSearch") and covered(rule)]
        if set(named) <= {name for rule in of_domains for name in covered(rule)}:
            allow = of_domains
    why = "no rule covers 'WebSearch'"
    return Findings(deny=deny, ask=ask, allow=tuple(allow), covered=bool(allow), why=why)


def _named(tool: str, input: Mapping[str, object], policy: PermissionPolicy) -> Findings:
    """Tools without their own rule syntax: the whole tool, or for agents and skills, one of them."""
    named = [value for key in NAMED_BY.get(tool, ()) if isinstance(value := input.get(key), str)]
    name = named[0] if named else UNNAMED.get(tool, "")

    def matches(rule: PermissionRule) -> bool:
        if not names_tool(rule, tool):
            return False
        if rule.specifier is None:
            return True
        wanted = rule.specifier.strip()
        start = wanted.removesuffix(":*").removesuffix(" *")
        if start != wanted:
            return tool == "Skill" and (name == start or name.startswith((f"{start} ", f"{start}:")))
        return bool(name) and name == wanted

    found = _by_match(policy, matches, f"no rule covers '{tool}'")
    return replace(found, covered=True, reads=True) if tool in FREE_TOOLS else found


def _by_match(policy: PermissionPolicy, matches: object, why: str) -> Findings:
    assert callable(matches)
    rules = policy.rules
    deny = next((rule for rule in rules.deny if matches(rule)), None)
    ask = next((rule for rule in rules.ask if matches(rule)), None)
    allow = next((rule for rule in rules.allow if matches(rule)), None)
    return Findings(deny=deny, ask=ask, allow=() if allow is None else (allow,), covered=allow is not None, why=why)


_OWN_SYNTAX: dict[str, str] = {"Bash": "command", "WebFetch": "url", **READERS, **WRITERS}


def _by_value(tool: str, input: Mapping[str, object], rules: SortedRules) -> Findings | None:
    """`Agent(model:opus)`: deny and ask rules about one field of the input."""
    if not rules.deny_values and not rules.ask_values:
        return None
    deny = next((one.rule for one in rules.deny_values if one.field in input and _holds(one, tool, input)), None)
    ask = next((one.rule for one in rules.ask_values if one.field in input and _holds(one, tool, input)), None)
    return Findings(deny=deny, ask=ask) if deny is not None or ask is not None else None


def _holds(wanted: FieldRule, tool: str, input: Mapping[str, object]) -> bool:
    if wanted.field == _OWN_SYNTAX.get(tool) or not names_tool(wanted.rule, tool):
        return False
    value = input[wanted.field]
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        return False
    return glob_matches(wanted.wanted, text)
