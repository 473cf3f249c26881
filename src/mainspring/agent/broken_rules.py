"""Rules for permissions in settings that cannot be read, for people: `mainspring config` and `mainspring doctor`.

Settings take a rule as a text, and only `permissions/` can read it. None of them is ever dropped in silence: a broken
allow rule allows nothing, and while a broken deny or ask rule stands, its tool is asked about.
"""

from __future__ import annotations

from mainspring.permissions.rules import Behavior, RuleError, parse_rule
from mainspring.secrets.redaction import redact
from mainspring.settings.values import ProblemKind, SettingEntry, Settings, SettingsProblem

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
