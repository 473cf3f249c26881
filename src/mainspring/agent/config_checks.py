"""Finds likely mistakes in options and settings: misspelled tool and model names, and permission rules that do not
parse.

A rule for a misspelled tool never matches, and a deny rule that denies nothing is dangerous. These are warnings when a
session begins, not errors: MCP servers add tools later, and Claude Code has tools that we do not have.

Settings take a rule as text, and only `permissions/` can parse it. No broken rule is ignored silently (`mainspring
config` and `mainspring doctor` list them): a broken allow rule allows nothing, and for a broken deny or ask rule every
call of its tool asks for approval.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.agent.config import looks_right
from mainspring.agent.options import SessionOptions
from mainspring.core.models import MODELS, Model
from mainspring.core.money import Price
from mainspring.permissions.rules import Behavior, RuleError, parse_rule
from mainspring.secrets.redaction import redact
from mainspring.settings.values import ProblemKind, SettingEntry, Settings, SettingsProblem
from mainspring.text import closest_name, did_you_mean
from mainspring.tools.catalog import SPECS

MOST_TOLD = 10
SERVERS = "mcp__"

# Beside those of the table: tools that only some sessions have, and tools that Claude Code has or had.
OTHER_TOOLS = frozenset((
    "Task", "ToolSearch", "StructuredOutput", "ListMcpResourcesTool", "ReadMcpResourceTool",
    "EnterWorktree", "ExitWorktree", "KillBash", "LS", "LSP", "MultiEdit", "NotebookRead", "PowerShell", "SlashCommand",
    "TaskGet", "TaskOutput", "TaskStop", "TodoRead", "TodoWrite",
))  # fmt: skip
OF_TOOLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest")  # hooks with a tool to match
ALIASES = ("sonnet", "opus", "haiku", "fable", "default")


def tell_of_slips(options: SessionOptions, settings: Settings) -> None:
    """Warns about likely mistakes. Raises `StartError` for certain ones."""
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
    """The built-in tools are a closed list."""
    for name in options.tools or ():
        if name not in SPECS and name != "default" and (near := closest_name(name, (*SPECS, "default"))):
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
    """A hook for a misspelled tool never runs. Patterns are not checked: they may match anything."""
    for hook in settings.hooks:
        names = hook.matcher.split("|")
        if hook.event not in OF_TOOLS or not all(name.replace("_", "").isalnum() for name in names):
            continue
        for slip in filter(None, [slip_in(name, options) for name in names]):
            yield f"{hook.origin.place}: the matcher '{hook.matcher}' of '{hook.entry}': {slip}"


def slip_in(rule: str, options: SessionOptions) -> str:
    """The likely mistake in the tool's name; empty: none."""
    name = rule.strip().partition("(")[0]
    if not looks_right(rule.strip()) or "*" in name or is_known(name) or name in options.own_tools:
        return ""
    return f"there is no tool '{name}'{did_you_mean(name, (*SPECS, *options.own_tools))}"


def is_known(tool: str) -> bool:
    return tool in SPECS or tool in OTHER_TOOLS or tool.startswith(SERVERS)


def explain_broken_rule(text: str, behavior: Behavior) -> str:
    """For rules in options; for settings, `broken_rules` does this."""
    try:
        parse_rule(text, behavior)
    except RuleError as error:
        return str(error)
    return ""


def slips_in_models(options: SessionOptions, settings: Settings) -> Iterator[str]:
    """Only warnings: a server may have models of any name."""
    fallback = options.spell("fallback_model")
    named = [(options.spell("model"), options.model), *[(fallback, name) for name in options.fallback_model]]
    named += [("model", settings.model)] if options.model is None else []
    for where, name in named:
        if name is not None and (slip := slip_in_model(name, settings)):
            yield f"'{where}': {slip}"


def slip_in_model(name: str, settings: Settings) -> str:
    """Empty, unless the name looks like another one. Another version number is no mistake: there are newer models."""
    mine = tuple([entry.name for entry in settings.models])
    if "/" in name or name in mine or name in ALIASES or is_listed(name):
        return ""
    near = closest_name(name, (*ALIASES, *mine, *MODELS))
    return (
        f"unknown model '{name}'. Did you mean '{near}'?" if near and letters_only(near) != letters_only(name) else ""
    )


def explain_unknown_model(model: Model, settings: Settings) -> str:
    """A server may have models of any name, so they are accepted; but the user should know what is assumed. Empty if
    there is another warning, because the name looks like a known one."""
    if slip_in_model(model.name, settings):
        return ""
    if any(entry.name == model.name for entry in settings.models):
        return f"the price of model '{model.name}' is unknown: set it under 'models' in your settings (0 if it is free)"
    return (
        f"unknown model '{model.name}': its price is unknown, and its context window is assumed to be "
        f"{model.window:,} tokens. Set both under 'models' in your settings"
    )


def explain_money_limit(model: Model) -> str:
    """What a money limit does with a model that has no known price. Empty: it has one."""
    if model.price == Price():
        return f"the money limit does not end runs of '{model.name}': this model costs nothing"
    if not model.price.estimated:
        return ""
    rates = f"${model.price.input / 1_000:g} per million input tokens and ${model.price.output / 1_000:g} per million"
    return f"the money limit assumes {rates} output tokens for '{model.name}', whose price is unknown"


def is_listed(name: str) -> bool:
    return any(name == listed or name.startswith(f"{listed}-20") for listed in MODELS)  # with a date suffix


def letters_only(name: str) -> str:
    return "".join([letter for letter in name.lower() if letter.isalpha()])


MEANWHILE: dict[Behavior, str] = {
    "allow": "until then it allows nothing",
    "ask": "until then every call of its tool asks for approval",
    "deny": "until then every call of its tool asks for approval",
}


def broken_rules(settings: Settings) -> list[tuple[SettingsProblem, str]]:
    """Each with what to do."""
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
                found.append((problem, f"fix the rule or remove it: {MEANWHILE[behavior]}"))
    return found
