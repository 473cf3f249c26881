"""Rules that the user removed from their file while a session runs."""

from __future__ import annotations

from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker, RuleText


def test_a_rule_that_was_removed_from_its_file_no_longer_counts() -> None:
    written = tuple(
        [RuleText("allow", text, source) for text in ("Read", "Bash(ls)") for source in ("user", "project")]
    )
    checker, standing = PermissionChecker(written), EnginePolicy("default")
    assert len(checker.policy(standing).rules.allow) == 4
    checker.forget_rule("allow", "Read", "user")
    left = [(rule.text, str(rule.source)) for rule in checker.policy(standing).rules.allow]
    assert left == [("Read", "project"), ("Bash(ls)", "user"), ("Bash(ls)", "project")]
