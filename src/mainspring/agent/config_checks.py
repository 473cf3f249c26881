"""Slips of the pen in options and settings, told when a session begins: names that match nothing and look like others.

A rule for a tool that is not there is silently never matched, and a deny that forbids nothing is dangerous. It is no
error: tools of servers come later, and others have tools that we have not.

Rules for permissions in settings that cannot be read, for people: `mainspring config` and `mainspring doctor`.

Settings take a rule as a text, and only `permissions/` can read it. None of them is ever dropped in silence: a broken
allow rule allows nothing, and while a broken deny or ask rule stands, its tool is asked about.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.agent.config import looks_right
from mainspring.agent.options import SessionOptions
from mainspring.core.models import MODELS
from mainspring.permissions.rules import Behavior, RuleError, parse_rule
from mainspring.secrets.redaction import redact
from mainspring.settings.values import ProblemKind, SettingEntry, Settings, SettingsProblem
from mainspring.tools.catalog import SPECS

MOST_TOLD = 10
SERVERS = "mcp__"

# Beside those of the table: tools that are there only at times, and what Claude Code has or had, under its names.
OTHER_TOOLS = frozenset((
    "Task", "ToolSearch", "StructuredOutput", "ListMcpResourcesTool", "ReadMcpResourceTool",
    "EnterWorktree", "ExitWorktree", "KillBash", "LS", "LSP", "MultiEdit", "NotebookRead", "PowerShell", "SlashCommand",
    "TaskGet", "TaskOutput", "TaskStop", "TodoRead", "TodoWrite",
))  # fmt: skip
OF_TOOLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest")  # hooks with a tool to match
ALIASES = ("sonnet", "opus", "haiku", "fable", "default")


def tell_of_slips(options: SessionOptions, settings: Settings) -> None:
    """Raises `StartError` where it can be nothing else."""
    check_tools(options)
    told = [
        *slips_in_rules(options, settings),
        *slips_in_matchers(options, settings),
        *slips_in_models(options, settings),
    ]
    for words in told[:MOST_TOLD]:
        options.tell(words)
    if len(told) > MOST_TOLD:
        options.tell(f"and {len(told) - MOST_TOLD} more like these")


def check_tools(options: SessionOptions) -> None:
    """The tools that exist are ours alone: a list that is closed."""
    for name in options.tools or ():
        if name not in SPECS and name != "default":
            from mainspring.text import closest_name

            if near := closest_name(name, (*SPECS, "default")):
                raise options.error("tools", f": there is no such tool. Did you mean '{near}'?", name)


def slips_in_rules(options: SessionOptions, settings: Settings) -> Iterator[str]:
    given = settings.permissions
    lists: tuple[tuple[str, tuple[SettingEntry, ...]], ...] = (
        ("deny", given.deny),
        ("ask", given.ask),
        ("allow", given.allow),
    )
    for behavior, entries in lists:
        for entry in entries:
            if slip := slip_in(entry.text, options):
                yield f"{entry.origin.place}: 'permissions.{behavior}' has '{entry.text}', and {slip}"
    by_option: tuple[tuple[str, Behavior, tuple[str, ...]], ...] = (
        ("disallowed_tools", "deny", options.disallowed_tools),
        ("allowed_tools", "allow", options.allowed_tools),
    )
    for option, behavior, texts in by_option:
        for text in texts:
            if slip := slip_in(text, options) if looks_right(text) else explain_broken_rule(text, behavior):
                yield f"'{options.spell(option, text)}': {slip}"


def slips_in_matchers(options: SessionOptions, settings: Settings) -> Iterator[str]:
    """A guard for a tool that is not there guards nothing. Patterns are left alone: they may mean anything."""
    for hook in settings.hooks:
        names = hook.matcher.split("|")
        if hook.event not in OF_TOOLS or not all(name.replace("_", "").isalnum() for name in names):
            continue
        for slip in filter(None, [slip_in(name, options) for name in names]):
            yield f"{hook.origin.place}: the matcher '{hook.matcher}' of '{hook.entry}': {slip}"


def slip_in(rule: str, options: SessionOptions) -> str:
    """What is wrong with the name of the tool; empty: nothing, as far as one can know."""
    name = rule.strip().partition("(")[0]
    if not looks_right(rule.strip()) or "*" in name or is_known(name) or name in options.own_tools:
        return ""
    from mainspring.text import did_you_mean

    return f"there is no tool '{name}'{did_you_mean(name, (*SPECS, *options.own_tools))}"


def is_known(tool: str) -> bool:
    return tool in SPECS or tool in OTHER_TOOLS or tool.startswith(SERVERS)


def explain_broken_rule(text: str, behavior: Behavior) -> str:
    """Of settings, `mainspring config` and the start itself tell; of options nobody else does."""
    try:
        parse_rule(text, behavior)
    except RuleError as error:
        return str(error)
    return ""


def slips_in_models(options: SessionOptions, settings: Settings) -> Iterator[str]:
    """A server may have models of any name, so this is only told."""
    fallback = options.spell("fallback_model")
    named = [(options.spell("model"), options.model), *[(fallback, name) for name in options.fallback_model]]
    named += [("model", settings.model)] if options.model is None else []
    for where, name in named:
        if name is not None and (slip := slip_in_model(name, settings)):
            yield f"'{where}': {slip}"


def slip_in_model(name: str, settings: Settings) -> str:
    """Empty, unless the name looks like another one. A number of its own is no slip: models come after our table."""
    mine = tuple([entry.name for entry in settings.models])
    if "/" in name or name in mine or name in ALIASES or is_listed(name):
        return ""
    from mainspring.text import closest_name

    near = closest_name(name, (*ALIASES, *mine, *MODELS))
    return (
        f"we know no model '{name}'. Did you mean '{near}'?"
        if near and letters_only(near) != letters_only(name)
        else ""
    )


def is_listed(name: str) -> bool:
    return any(name == listed or name.startswith(f"{listed}-20") for listed in MODELS)  # with a date behind it


def letters_only(name: str) -> str:
    return "".join([letter for letter in name.lower() if letter.isalpha()])


MEANWHILE: dict[Behavior, str] = {
    "allow": "until then it allows nothing",
    "ask": "until then every use of its tool is asked about",
    "deny": "until then every use of its tool is asked about",
}


def broken_rules(settings: Settings) -> list[tuple[SettingsProblem, str]]:
    """Each with the way out."""
    given = settings.permissions
    lists: tuple[tuple[Behavior, tuple[SettingEntry, ...]], ...] = (
        ("deny", given.deny),
        ("ask", given.ask),
        ("allow", given.allow),
    )
    found: list[tuple[SettingsProblem, str]] = []
    for behavior, entries in lists:
        for entry in entries:
            try:
                parse_rule(entry.text, behavior)
            except RuleError as error:
                says = redact(f"'permissions.{behavior}': {error}")
                problem = SettingsProblem(ProblemKind.BROKEN, entry.origin.place, says)
                found.append((problem, f"mend the rule there, or remove it: {MEANWHILE[behavior]}"))
    return found
