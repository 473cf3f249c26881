"""Rules for web searches: queries, domains of a search, and pages that a search may not show."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.checker import PermissionChecker, RuleText
from mainspring.permissions.policy import PermissionRequest
from mainspring.permissions.rules import RuleError, parse_rule
from mainspring.permissions.suggest import suggest_rules
from mainspring.processes.paths import resolve_path
from permissions.deciding import CWD, HOME, call, policy

DOCS, BOTH = (
    {"query": "new", "allowed_domains": ["Docs.a.test."]},
    {"query": "new", "allowed_domains": ["a.test", "b.test"]},
)


@pytest.mark.parametrize(
    ("input", "rules", "decision"),
    [
        (DOCS, {"allow": ["WebSearch(domain:*.a.test)"]}, "allow"),
        (BOTH, {"allow": ["WebSearch(domain:a.test)"]}, "ask"),
        (BOTH, {"allow": ["WebSearch(domain:a.test)", "WebSearch(domain:b.test)"]}, "allow"),
        ({"query": "new"}, {"allow": ["WebSearch(domain:a.test)"]}, "ask"),
        ({"query": "new"}, {"allow": ["WebSearch(new)"]}, "allow"),
        (BOTH, {"allow": ["WebSearch"], "deny": ["WebSearch(domain:b.test)"]}, "deny"),
        (DOCS, {"allow": ["WebSearch"], "deny": ["WebSearch(domain:b.test)"]}, "allow"),
        (DOCS, {"allow": ["WebSearch"], "ask": ["WebSearch(domain:*.a.test)"]}, "ask"),
        ({"query": "new"}, {"allow": ["WebSearch"], "ask": ["WebSearch(domain:a.test)"]}, "ask"),
        (DOCS, {"allow": ["WebSearch"], "deny": ["WebSearch(domain:a b)"]}, "ask"),
        ({"query": "new", "allowed_domains": "a.test"}, {"allow": ["WebSearch(domain:a.test)"]}, "ask"),
        ({"query": "new", "allowed_domains": [1]}, {"allow": ["WebSearch(domain:a.test)"]}, "ask"),
    ],
)
def test_a_search_is_decided_by_its_query_and_its_domains(
    input: dict[str, Any], rules: dict[str, Any], decision: str
) -> None:
    assert call("WebSearch", input, **rules).decision == decision


@pytest.mark.parametrize(
    ("specifier", "words"),
    [
        ("domain:a b", "the rule 'WebSearch(domain:a b)' names no domain"),
        ("new*", "the rule 'WebSearch(new*)' needs the exact query, or the form 'WebSearch(domain:example.com)'"),
    ],
)
def test_a_rule_for_searches_that_means_nothing_is_refused(specifier: str, words: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule(f"WebSearch({specifier})", "allow")
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("domains", "rules"),
    [
        (["a.test", "*.b.test"], ["WebSearch(domain:a.test)", "WebSearch(domain:*.b.test)"]),
        (["a b"], []),
        (5, []),
    ],
)
def test_a_search_of_domains_offers_rules_for_them(domains: object, rules: list[str]) -> None:
    asked = PermissionRequest("WebSearch", {"query": "new", "allowed_domains": domains}, CWD)
    assert [one.rule for one in suggest_rules(asked, policy(), partial(resolve_path, home=HOME))] == rules


def test_pages_that_may_not_be_read_are_left_out_of_results() -> None:
    texts = (
        "WebFetch(domain:a.test)",
        "WebSearch(domain:*.b.test)",
        "WebFetch(domain:a b)",
        "Bash(domain:c.test)",
        "WebSearch",
    )
    checker = PermissionChecker(tuple([RuleText("deny", text, "user") for text in texts]), folders=("/work",))
    assert checker.denied_search_domains(EnginePolicy("default")) == (("a", "test"), ("*", "b", "test"))
