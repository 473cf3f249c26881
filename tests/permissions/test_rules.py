"""The grammar of rules: what is read, what is refused, and that what is refused never gives more rights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.flags import split_list
from mainspring.permissions.rules import (
    LONGEST,
    PermissionRules,
    RuleError,
    RuleSource,
    glob_matches,
    names_tool,
    parse_rule,
    parse_rules,
)
from permissions.deciding import bash, call


@pytest.mark.parametrize(
    ("text", "tool", "specifier"),
    [
        ("Bash", "Bash", None),
        ("Bash()", "Bash", None),
        ("Bash(*)", "Bash", None),
        ("Bash( * )", "Bash", None),
        ("Bash(npm run:*)", "Bash", "npm run:*"),
        ("Bash(echo (a))", "Bash", "echo (a)"),
        ("Bash(echo \\(a\\))", "Bash", "echo (a)"),
        ("Edit(./Finance (2024)/**)", "Edit", "./Finance (2024)/**"),
        ("mcp__github", "mcp__github", None),
        ("mcp__github__get_*", "mcp__github__get_*", None),
        ("Task(Explore)", "Agent", "Explore"),
        ("  Read(.env)  ", "Read", ".env"),
    ],
)
def test_a_rule_is_read(text: str, tool: str, specifier: str | None) -> None:
    rule = parse_rule(text, "allow", source=RuleSource.USER, base="/x")
    assert (rule.tool, rule.specifier, rule.text, rule.source, rule.base) == (
        tool,
        specifier,
        text,
        RuleSource.USER,
        "/x",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(x)",
        "Bash(x",
        "Bash(x) y",
        "Ba sh(x)",
        "1x",
        "Bash(:*)",
        "*",
        "B*",
        "mcp__*",
        "mcp__a__b(x)",
        "WebFetch(example.com)",
        "Read(!x)",
        "Bash(\0)",
        "Bash(\x1f)",
        "Bash)x(",
        "a" * (LONGEST + 1),
    ],
)
def test_what_cannot_be_read_is_named_and_allows_nothing(text: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule(text, "allow")
    assert text.strip()[:40] in str(caught.value)
    rules = parse_rules(allow=[text])
    assert rules.allow == ()
    assert rules.broken[0].text == text
    assert bash("npm x", allow=[text]) == "ask"


@pytest.mark.parametrize("text", ["Bash(x", "(x)", "Bash(x) y", "Bash(\0)", "a b*"])
def test_a_broken_deny_or_ask_rule_leads_to_a_question(text: str) -> None:
    assert bash("npm x", allow=["Bash"], deny=[text]) == "ask"
    assert bash("npm x", allow=["Bash"], ask=[text], mode="bypassPermissions") == "ask"
    assert call("Bash", {"command": "npm x"}, allow=["Bash"], deny=[text]).rule == text
    other = call("WebFetch", {"url": "http://x.com"}, allow=["WebFetch"], deny=["Bash(x"])
    assert other.decision == "allow"  # it names its tool


def test_what_is_no_text_is_broken() -> None:
    rules = parse_rules(deny=[5, "Bash"], allow=[None])
    assert [one.reason for one in rules.broken] == ["a rule must be a string", "a rule must be a string"]
    assert len(rules.deny) == 1
    assert bash("ls", deny=[5], allow=["Bash"]) == "ask"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("Bash,Read", ["Bash", "Read"]),
        ("Bash Read\tEdit\nWrite", ["Bash", "Read", "Edit", "Write"]),
        ("Bash(git log:*),Read(a b, c)", ["Bash(git log:*)", "Read(a b, c)"]),
        ("Bash(echo (a, b)) Read", ["Bash(echo (a, b))", "Read"]),
        ("Bash(echo \\(, a) Read", ["Bash(echo \\(, a)", "Read"]),
        ("Bash(x, y", ["Bash(x, y"]),
        (" , ,", []),
        (")Bash, Read", [")Bash", "Read"]),
        ("Bash\\", ["Bash\\"]),
    ],
)
def test_lists_are_split_outside_parentheses(text: str, rules: list[str]) -> None:
    assert list(split_list(text)) == rules


@given(st.lists(st.from_regex(r"[A-Za-z]{1,5}(\([a-z ,.*:]{1,8}\))?", fullmatch=True), max_size=5))
def test_a_list_that_was_joined_is_split_again(rules: list[str]) -> None:
    assert list(split_list(", ".join(rules))) == rules
    assert list(split_list(" ".join(rules))) == rules


@pytest.mark.parametrize(
    ("rule", "tool", "wanted"),
    [
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("mcp__a", "mcp__a__x", True),
        ("mcp__a", "mcp__ab__x", False),
        ("mcp__a", "mcp__a", True),
        ("mcp__a__x", "mcp__a__x", True),
        ("mcp__a__x", "mcp__a__xy", False),
        ("mcp__a__*", "mcp__a__xy", True),
        ("mcp__a__*", "mcp__b__xy", False),
        ("mcp__a__get_*", "mcp__a__set_x", False),
        ("mcp__*", "mcp__b__xy", True),
        ("*", "Anything", True),
    ],
)
def test_rules_name_tools(rule: str, tool: str, wanted: bool) -> None:
    assert names_tool(parse_rule(rule, "deny"), tool) is wanted
    decision = call(tool, {}, deny=[rule]).decision
    assert (decision == "deny") is wanted or tool == "Bash"


def test_rules_of_several_sources_are_put_together() -> None:
    user, project = (
        parse_rules(allow=["Read"], source=RuleSource.USER),
        parse_rules(deny=["Bash"], ask=["Edit"], allow=["x y"]),
    )
    both = user.and_also(project)
    assert both == PermissionRules(project.deny, project.ask, user.allow, project.broken)


@given(st.lists(st.text("ab*", max_size=4), min_size=1, max_size=4), st.text("ab", max_size=12))
def test_globs_match_as_their_expressions_do(parts: list[str], text: str) -> None:
    import re

    plain = [part.replace("*", "") for part in parts]
    assert glob_matches(plain, text) == bool(re.fullmatch(".*".join(plain), text))
