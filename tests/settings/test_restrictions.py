"""Lists that say what may be asked and started, as values: models, MCP servers, what only the administrator may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mainspring.agent import permissions
from mainspring.agent.model import new_config
from mainspring.cli.flags import parse_arguments
from mainspring.engine.shared_state import EnginePolicy
from mainspring.permissions.policy import PermissionRequest
from mainspring.settings.restrictions import explain_model_refusal, url_matches
from mainspring.settings.restrictions import explain_server_refusal as server_refusal
from mainspring.settings.values import McpServer, ModelRules, SettingOrigin, SettingsError, SettingsSource
from settings.stage import Stage, texts


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# --- models ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "name", "fits"),
    [
        ("opus", "claude-opus-4-8", True),
        ("opus", "claude-3-opus-20240229", True),
        ("opus", "claude-sonnet-5-5", False),
        ("opus", "openai/opus-like", True),
        ("opus-4", "claude-opus-4-8", True),
        ("opus-4", "claude-opus-48", False),
        ("claude-opus-4-8", "claude-opus-4-8-20260101", True),
        ("claude-opus-4-8-20260101", "claude-opus-4-8", True),
        ("claude-opus-4-8", "claude-opus-4-8-fast", True),
        ("claude-opus-4-8", "claude-opus-4-8[1m]", True),
        ("claude-opus-4-8", "claude-opus-4-80", False),
        ("openai/gpt-5", "openai/gpt-5-mini", True),
        ("openai/gpt-5", "gpt-5", False),
        ("CLAUDE-OPUS-4-8", "claude-opus-4-8", True),
        ("default", "claude-sonnet-5-5", False),
        ("", "claude-sonnet-5-5", False),
    ],
)
def test_entries_of_available_models(entry: str, name: str, fits: bool) -> None:
    assert (explain_model_refusal(name, ModelRules(available=(entry,))) == "") is fits


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("claude-sonnet-5", True),
        ("claude-sonnet-5-20260101", True),
        ("claude-sonnet-5-fast", True),
        ("claude-sonnet-5-5", False),
    ],
)
def test_exact_entries(name: str, fits: bool) -> None:
    assert (explain_model_refusal(name, ModelRules(available=("claude-sonnet-5",), exact=True)) == "") is fits


@pytest.mark.parametrize("name", ["claude-opus-4-8", "anthropic/claude-opus-4-8", "us.anthropic.claude-opus-4-8-v1:0"])
def test_a_denied_model_is_denied_in_every_spelling(name: str) -> None:
    rules = ModelRules(available=("opus",), denied=("claude-opus-4-8",))
    assert explain_model_refusal(name, rules).startswith(
        f"the model '{name}' is not available because of 'deniedModels'"
    )


def test_an_empty_list_leaves_the_default() -> None:
    rules = ModelRules(available=(), default_too=True)
    assert explain_model_refusal("claude-sonnet-5-5", rules, default=True) == ""
    assert explain_model_refusal("claude-sonnet-5-5", rules)


def test_whose_list_counts(stage: Stage) -> None:
    """Those of the user's side add up, the administrator's stands alone, and a project only narrows."""
    stage.say("user", {"availableModels": ["opus"]})
    stage.say("project", {"availableModels": ["haiku", "opus"]})
    rules = stage.load().model_rules
    assert (rules.available, rules.narrowed) == (("opus",), (("haiku", "opus"),))
    assert [bool(explain_model_refusal(name, rules)) for name in ("claude-opus-4-8", "claude-haiku-4-5")] == [
        False,
        True,
    ]
    stage.say("administrator", {"availableModels": ["haiku"]})
    assert stage.load().model_rules.available == ("haiku",)


def test_a_denied_small_model_is_not_asked_for_side_calls() -> None:
    from mainspring.agent.context import small_model
    from mainspring.core.models import MODELS

    main = next(model for name, model in MODELS.items() if "opus" in name)
    assert "haiku" in small_model(main, {}, ModelRules(available=("opus",))).name
    assert small_model(main, {}, ModelRules(denied=("haiku",))) == main


@pytest.mark.setting("autoCompactEnabled")
def test_compaction(stage: Stage) -> None:
    assert new_config(parse_arguments([]).session, stage.load()).auto_compact
    stage.say("user", {"autoCompactEnabled": False})
    assert not new_config(parse_arguments([]).session, stage.load()).auto_compact


# --- MCP servers ----------------------------------------------------------------------------------------------

USERS, MANAGED = SettingOrigin(SettingsSource.USER, "a file"), SettingOrigin(SettingsSource.ADMINISTRATOR, "another")


def shop(name: str = "shop", *, origin: SettingOrigin = USERS, **more: Any) -> McpServer:
    return McpServer(name, "stdio", origin, command="npx", args=("-y", "shop"), **more)


def remote(url: str, *, origin: SettingOrigin = USERS) -> McpServer:
    return McpServer("remote", "http", origin, url=url)


def started(stage: Stage, *servers: McpServer) -> list[bool]:
    mcp = stage.load().mcp
    return [server_refusal(server, {}, mcp) == "" for server in servers]


@pytest.mark.parametrize("who", ["user", "administrator", "project", "local"])
@pytest.mark.parametrize(
    "entry", [{"serverName": "shop"}, {"serverCommand": ["npx", "-y", "shop"]}, {"serverUrl": "https://*.evil.test/*"}]
)
def test_denied_servers(stage: Stage, who: str, entry: dict[str, Any]) -> None:
    stage.say(who, {"deniedMcpServers": [entry]})
    evil, fine = remote("https://a.evil.test/mcp"), remote("https://good.test/mcp")
    is_url = "serverUrl" in entry
    assert started(stage, shop(), shop(origin=MANAGED), evil, fine) == [is_url, is_url, not is_url, True]


def test_a_denied_command_is_denied_as_it_was_written(stage: Stage) -> None:
    stage.say("user", {"deniedMcpServers": [{"serverCommand": ["${HOME}/x"]}]})
    made = McpServer("x", "stdio", USERS, command="/home/me/x")
    assert server_refusal(made, {"command": "${HOME}/x"}, stage.load().mcp)


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], [False, False]),
        ([{"serverName": "shop"}], [True, False]),
        ([{"serverName": "shop"}, {"serverName": "remote"}], [True, True]),
        ([{"serverCommand": ["npx", "-y", "shop"]}], [True, False]),
        ([{"serverCommand": ["npx", "-y"]}], [False, False]),
        ([{"serverName": "shop"}, {"serverCommand": ["other"]}], [False, False]),  # a name alone does not pass
        ([{"serverName": "remote"}, {"serverUrl": "https://other.test/*"}], [False, False]),
        ([{"serverName": "x"}, {"serverUrl": "https://good.test/*"}], [False, True]),
    ],
)
def test_allowed_servers(stage: Stage, entries: list[dict[str, Any]], allowed: list[bool]) -> None:
    stage.say("user", {"allowedMcpServers": entries})
    assert started(stage, shop(), remote("https://good.test/mcp")) == allowed


def test_what_the_administrator_and_the_program_bring_needs_no_entry(stage: Stage) -> None:
    stage.say("user", {"allowedMcpServers": []})
    assert started(stage, shop(origin=MANAGED), McpServer("own", "sdk", USERS), shop()) == [True, True, False]


def test_lists_of_the_users_side_add_up_and_a_project_only_narrows(stage: Stage) -> None:
    stage.say("administrator", {"allowedMcpServers": [{"serverName": "a"}]})
    stage.say("user", {"allowedMcpServers": [{"serverName": "b"}]})
    assert started(stage, shop("a"), shop("b"), shop("c")) == [True, True, False]
    stage.say("project", {"allowedMcpServers": [{"serverName": "b"}, {"serverName": "c"}]})
    assert started(stage, shop("a"), shop("b"), shop("c")) == [False, True, False]


@pytest.mark.setting("allowManagedMcpServersOnly")
def test_the_administrators_list_alone(stage: Stage) -> None:
    stage.say("administrator", {"allowedMcpServers": [{"serverName": "a"}], "allowManagedMcpServersOnly": True})
    stage.say("user", {"allowedMcpServers": [{"serverName": "b"}], "deniedMcpServers": [{"serverName": "c"}]})
    assert started(stage, shop("a"), shop("b"), shop("c")) == [True, False, False]


@pytest.mark.parametrize(
    ("pattern", "url", "fits"),
    [
        ("https://a.test/*", "https://a.test/mcp", True),
        ("https://a.test/*", "HTTPS://A.test:443/mcp", True),
        ("https://a.test/*", "https://me:secret@a.test/mcp", True),
        ("https://a.test", "https://a.test/", True),
        ("https://a.test/", "https://a.test", True),
        ("https://a.test", "https://a.test/mcp", False),
        ("https://a.test*", "https://a.test/mcp", True),
        ("https://*.a.test/*", "https://x.a.test/mcp", True),
        ("https://*.a.test/*", "https://a.test/mcp", False),
        ("https://*.a.test/*", "https://evil.test/x.a.test/", False),
        ("https://*.a.test/*", "https://x.a.test@evil.test/", False),
        ("*://a.test/*", "http://a.test/mcp", True),
        ("*", "http://a.test/mcp", True),
        ("https://a.test/x?y", "https://a.test/x?y", True),
        ("https://a.test/x.y", "https://a.test/xzy", False),
        ("https://a.test/*", "", False),
    ],
)
def test_patterns_of_addresses(pattern: str, url: str, fits: bool) -> None:
    assert url_matches(pattern, url) is fits


@pytest.mark.setting("managedMcpServers")
def test_servers_of_the_administrator(stage: Stage) -> None:
    entry = {"type": "http", "url": "https://corp.test/mcp"}
    stage.say("administrator", {"managedMcpServers": {"corp": entry}, "allowedMcpServers": []})
    (server,) = stage.load().mcp.servers
    assert (server.name, server.entry, server.origin.source) == ("corp", entry, SettingsSource.ADMINISTRATOR)
    stage.say("administrator", {})
    stage.say("user", {"managedMcpServers": {"corp": entry}})
    assert stage.load().mcp.servers == ()


def test_a_project_only_hides_more_skills(stage: Stage) -> None:
    stage.say("administrator", {"skillOverrides": {"c": "name-only"}})
    stage.say("user", {"skillOverrides": {"a": "off", "b": "on", "c": "off"}})
    stage.say("project", {"skillOverrides": {"a": "on", "b": "off", "d": "user-invocable-only"}})
    assert stage.load().skill_states == {"a": "off", "b": "off", "c": "name-only", "d": "user-invocable-only"}


# --- what only the administrator may say ----------------------------------------------------------------------


@pytest.mark.setting("allowManagedPermissionRulesOnly")
def test_the_administrators_allow_rules_alone(stage: Stage) -> None:
    stage.say("user", {"permissions": {"allow": ["Bash(ls)"], "deny": ["Bash(rm)"]}})
    stage.say("administrator", {"permissions": {"allow": ["Read"]}, "allowManagedPermissionRulesOnly": True})
    options = parse_arguments(["--allowedTools", "Bash(pwd)", "--disallowedTools", "Bash(mv)"]).session
    written = permissions.collect_rules(options, stage.load(), "/")
    assert [(rule.behavior, rule.text) for rule in written] == [
        ("deny", "Bash(rm)"),
        ("allow", "Read"),
        ("deny", "Bash(mv)"),
    ]


def test_a_rule_of_the_session_is_no_rule_of_the_administrator(stage: Stage) -> None:
    """Such as one that a client adds with its answer, or one that a resumed session had."""
    stage.say("administrator", {"allowManagedPermissionRulesOnly": True, "permissions": {"allow": ["Bash(ls)"]}})
    gate = permissions.new_gate(parse_arguments([]).session, stage.load(), str(stage.project), str(stage.base), None)
    standing = EnginePolicy("default", rules=("allow Bash(touch x)", "deny Read"))
    found = gate.policy(standing).rules
    assert ([str(rule.text) for rule in found.allow], len(found.deny)) == (["Bash(ls)"], 1)
    asked = PermissionRequest("Bash", {"command": "touch x"}, str(stage.project))
    assert gate.suggestions(asked, standing) == ()


def test_a_host_that_the_session_allows_is_none_of_the_administrators(stage: Stage) -> None:
    stage.say("administrator", {"sandbox": {"network": {"allowManagedDomainsOnly": True}}})
    gate = permissions.new_gate(parse_arguments([]).session, stage.load(), str(stage.project), str(stage.base), None)
    standing = EnginePolicy("default", rules=("allow WebFetch(domain:x.test)", "allow Bash(ls)"))
    assert [str(rule.text) for rule in gate.policy(standing).rules.allow] == ["Bash(ls)"]


@pytest.mark.setting("sandbox.network.allowManagedDomainsOnly")
def test_the_administrators_domains_alone(stage: Stage) -> None:
    web = {"allow": ["WebFetch(domain:user.test)"]}
    stage.say(
        "user", {"sandbox": {"network": {"allowedDomains": ["user.test"], "deniedDomains": ["x"]}}, "permissions": web}
    )
    managed = {"allowedDomains": ["corp.test"], "allowManagedDomainsOnly": True}
    stage.say(
        "administrator", {"sandbox": {"network": managed}, "permissions": {"allow": ["WebFetch(domain:corp.test)"]}}
    )
    settings = stage.load()
    assert settings.sandbox.domains == ("corp.test",)
    assert [one.shown for one in settings.effective if one.name.endswith("allowedDomains")] == ["corp.test"]
    assert texts(settings.sandbox.denied_domains) == ["x"]
    options = parse_arguments(["--allowedTools", "WebFetch"]).session
    assert [rule.text for rule in permissions.collect_rules(options, settings, "/")] == [
        "WebFetch(domain:corp.test)",
        "WebFetch(domain:x)",
    ]


def test_the_status_line_goes_with_the_hooks(stage: Stage) -> None:
    line = {"statusLine": {"type": "command", "command": "line"}}
    stage.say("user", {**line, "disableAllHooks": True})
    assert stage.load().status_line is None
    assert [value.name for value in stage.load().effective] == ["disableAllHooks"]  # it is not shown as in force
    stage.say("administrator", line)
    assert stage.load().status_line == "line"  # the user cannot switch off the administrator's
    stage.say("administrator", {**line, "disableAllHooks": True})
    assert stage.load().status_line is None


@pytest.mark.parametrize("name", ["allowManagedMcpServersOnly", "managedMcpServers"])
def test_the_user_cannot_say_what_only_the_administrator_may(stage: Stage, name: str) -> None:
    stage.say("user", {name: {} if name == "managedMcpServers" else True})
    assert [str(one.kind) for one in stage.load().problems] == ["not its own"]


# --- what cannot be read --------------------------------------------------------------------------------------

UNREADABLE: list[dict[str, Any]] = [
    {"permissions": {"disableBypassPermissionsMode": True}},
    {"permissions": {"disableAutoMode": "yes"}},
    {"permissions": {"deny": {"Bash": True}}},
    {"permissions": {"ask": 7}},
    {"permissions": {"denyInsteadOfPrompting": "true"}},
    {"disableAllHooks": "true"},
    {"disableSideloadFlags": 1},
    {"sandbox": {"failIfUnavailable": "true"}},
    {"sandbox": {"allowUnsandboxedCommands": "no"}},
    {"disabledMcpjsonServers": "a"},
    {"api": {"maxCostUsd": "5"}},
    {"api": {"maxCostUsd": 0}},
    {"api": {"maxCostUsd": True}},
    {"limits": {"maxTurns": 1.5}},
    {"limits": {"maxTurns": 0}},
    {"limits": {"maxTokens": "3"}},
]


@pytest.mark.parametrize("said", UNREADABLE, ids=str)
@pytest.mark.parametrize("who", ["user", "administrator"])
def test_a_restriction_of_the_wrong_type_stops_the_start(stage: Stage, who: str, said: dict[str, Any]) -> None:
    stage.say(who, said)
    with pytest.raises(SettingsError, match="cannot be read"):
        stage.load()


@pytest.mark.parametrize("said", ['"deniedModels": ["opus"]', '"sandbox": {"filesystem": {"denyRead": ["x"]}}'])
@pytest.mark.parametrize("mistake", [", }", ', "model": 1, "model": 2}', "", ', "x": }'])
def test_a_broken_file_with_a_restriction_stops_the_start(stage: Stage, said: str, mistake: str) -> None:
    """The file is not used, so what it restricts would be free."""
    stage.say("user", "{" + said + mistake)
    with pytest.raises(SettingsError, match="in it is a restriction"):
        stage.load()


@pytest.mark.parametrize("text", ["denied_models = ['opus']\nx = ", "[sandbox.filesystem]\ndenyRead = ['x']\nx = "])
def test_a_broken_toml_file_with_a_restriction_stops_the_start(stage: Stage, text: str) -> None:
    stage.say("user toml", text)
    with pytest.raises(SettingsError, match="in it is a restriction"):
        stage.load()


def test_a_broken_file_of_an_untrusted_folder_takes_the_tools_away(stage: Stage) -> None:
    stage.say("project", '{"deniedModels": ["opus"], "disableSideloadFlags": true,')
    assert "Bash" in texts(stage.load().permissions.deny)
    stage.trust()
    with pytest.raises(SettingsError, match="'deniedModels' in it is a restriction"):
        stage.load()


def test_a_broken_file_without_a_restriction_is_a_warning(stage: Stage) -> None:
    stage.say("user", '{"model": "the key deniedModels", "permissions": {"deny": ["Bash"]},')
    assert texts(stage.load().permissions.deny) == ["Bash"]
