"""Rules beside a sandbox (security X5): it does not replace them, and leaving it is a question of its own."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import LEAVES, PermissionChecker, RuleText
from mainspring.permissions.policy import Decision, PermissionRequest


class Walls:
    def __init__(self, *, in_force: bool = True, auto_allow: bool = False) -> None:
        self.in_force, self.auto_allow = in_force, auto_allow

    def hides_denied(self, command: str, leave: bool) -> bool:
        return self.in_force and not leave and self.walls(command, leave) != "none"

    def walls(self, command: str, leave: bool) -> str:
        return "none" if command.startswith("docker") else "usual"

    def uncontained(self, command: str, leave: bool) -> str:
        return "it leaves" if leave or not self.in_force or self.walls(command, leave) == "none" else ""


def verdict(
    rules: tuple[str, ...],
    command: str,
    sandbox: Walls,
    mode: str = "default",
    hook: Decision | None = None,
    *,
    leaves: bool = False,
) -> str:
    written = [RuleText(kind, text, "user") for kind, _, text in [rule.partition(" ") for rule in rules]]
    gate = PermissionChecker(tuple(written), folders=("/work",))
    gate.sandbox = sandbox
    asked = PermissionRequest("Bash", {"command": command, LEAVES: leaves}, "/work", hook=hook)
    return asyncio.run(gate.verdict(asked, EnginePolicy(mode))).decision


ALLOW = ("allow Bash(make:*)",)


@pytest.mark.parametrize(
    ("rules", "mode", "hook", "in_force", "expected"),
    [
        (ALLOW, "default", None, True, "ask"),
        (("allow Bash",), "default", None, True, "ask"),
        (ALLOW, "acceptEdits", None, True, "ask"),
        (ALLOW, "dontAsk", None, True, "deny"),
        (ALLOW, "bypassPermissions", None, True, "allow"),
        (ALLOW, "default", "allow", True, "allow"),
        (ALLOW, "default", None, False, "allow"),
        ((), "default", None, True, "ask"),
        (("deny Bash(make:*)",), "bypassPermissions", None, True, "deny"),
    ],
)
def test_leaving_is_asked_and_never_granted_by_a_rule_for_the_command(
    rules: tuple[str, ...], mode: str, hook: Decision | None, in_force: bool, expected: str
) -> None:
    assert verdict(rules, "make test", Walls(in_force=in_force), mode, hook, leaves=True) == expected


@pytest.mark.parametrize(
    ("rules", "command", "mode", "expected"),
    [
        ((), "make test", "default", "allow"),
        ((), "make $(evil)", "default", "allow"),
        (("deny Bash(make:*)",), "make test", "default", "deny"),
        (("ask Bash(make:*)",), "make test", "default", "ask"),
        ((), "make test", "plan", "ask"),
        ((), "make test", "dontAsk", "deny"),
        ((), "docker run x", "default", "ask"),
        ((), "rm -rf /", "default", "ask"),
    ],
)
def test_what_runs_inside_is_allowed_only_if_the_user_wants_that_and_rules_hold(
    rules: tuple[str, ...], command: str, mode: str, expected: str
) -> None:
    assert verdict(rules, command, Walls(auto_allow=True), mode) == expected


def test_without_that_wish_or_without_walls_nothing_is_allowed_by_itself() -> None:
    assert verdict((), "make test", Walls()) == "ask"
    assert verdict((), "make test", Walls(auto_allow=True, in_force=False)) == "ask"
    assert verdict((), "make test", Walls(auto_allow=True), hook="ask") == "ask"
    assert verdict((), "make test", Walls(auto_allow=True), leaves=True) == "ask"


def test_who_is_asked_is_told_that_it_is_about_leaving() -> None:
    gate = PermissionChecker((), folders=("/work",))
    gate.sandbox = Walls()
    asked = PermissionRequest("Bash", {"command": "make install", LEAVES: True}, "/work")
    verdict = asyncio.run(gate.verdict(asked, EnginePolicy("default")))
    assert (verdict.decision, verdict.person, verdict.open) == ("ask", True, False)
    assert "outside of the sandbox" in verdict.reason
    assert "make install" in verdict.reason
