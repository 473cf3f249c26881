"""Whose word counts, and how several of them combine (security T1, T2, T4, O-09)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.money import NANOS_PER_USD
from mainspring.settings.effective import format_origins
from mainspring.settings.keys import KEYS, NOT_OURS, SPELLINGS, to_snake_case
from mainspring.settings.load import SettingsRequest, home_folder, load_settings
from mainspring.settings.values import (
    HookSetting,
    McpEntry,
    ModelEntry,
    ProblemKind,
    SettingEntry,
    SettingOrigin,
    Settings,
    SettingsError,
    SettingsSource,
)
from settings.stage import Stage, kinds, texts

BROKEN, _, UNKNOWN, UNTRUSTED, NOT_ITS_OWN = list(ProblemKind)[:5]
HOOK = {"type": "command", "command": "check"}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# --- one file ---------------------------------------------------------------------------------------


@pytest.mark.covers("O-09", "H-13")
def test_the_toml_of_the_readme(stage: Stage) -> None:
    stage.say("user toml", '[api]\nmax_cost_usd = 5.0\n\n[permissions]\ndeny = ["Bash(rm:*)"]\ndefault_mode = "plan"\n')
    settings = stage.load()
    assert settings.problems == ()
    assert settings.api.max_cost == 5 * NANOS_PER_USD
    assert texts(settings.permissions.deny) == ["Bash(rm:*)"]
    assert settings.permissions.default_mode == "plan"


def test_a_whole_file(stage: Stage) -> None:
    file = stage.say(
        "user",
        {
            "$schema": "https://json.schemastore.org/claude-code-settings.json",
            "permissions": {
                "allow": ["Bash(git:*)", "Read"],
                "deny": ["Bash(rm:*)"],
                "ask": ["WebFetch"],
                "additionalDirectories": ["../docs"],
                "defaultMode": "acceptEdits",
                "disableBypassPermissionsMode": "disable",
            },
            "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [HOOK]}], "Stop": [{"hooks": [HOOK]}]},
            "env": {"NODE_ENV": "test", "DEBUG": True, "JOBS": 4},
            "model": "opus",
            "fallbackModel": "sonnet",
            "models": {"mine": {"window": 8_000, "maxOutput": 1_000, "input_usd": 0.5, "outputUsd": 1}},
            "mcpServers": {"shop": {"command": "shop"}},
            "effortLevel": "high",
            "alwaysThinkingEnabled": False,
            "autoCompactEnabled": False,
            "autoMemoryEnabled": False,
            "fileCheckpointingEnabled": False,
            "promptSuggestionEnabled": False,
            "preferredNotifChannel": "terminal_bell",
            "theme": "light",
            "editorMode": "vim",
            "maxThinkingTokens": 0,
            "outputStyle": "terse",
            "availableModels": ["opus"],
            "skillOverrides": {"a": "off"},
            "availableModelsMatch": "prefix",
            "enforceAvailableModels": True,
            "deniedModels": ["haiku"],
            "maxEffortLevel": "max",
            "claudeMdExcludes": ["**/x.md"],
            "allowedMcpServers": [{"serverName": "shop"}],
            "deniedMcpServers": [{"serverUrl": "https://x/*"}],
            "disableSideloadFlags": True,
            "disableAutoMode": "disable",
            "cleanupPeriodDays": 30,
            "apiKeyHelper": "/bin/key",
            "statusLine": {"type": "command", "command": "line"},
            "api": {"baseUrl": "http://localhost:1", "maxCostUsd": 0.1, "max_retries": 2},
            "limits": {"maxTurns": 3, "maxTokens": 4, "maxOutputTokens": 5},
            "sandbox": {
                "enabled": True,
                "failIfUnavailable": True,
                "autoAllowBashIfSandboxed": True,
                "allowUnsandboxedCommands": False,
                "excludedCommands": ["docker"],
                "network": {"allowedDomains": ["example.org"], "allowLocalBinding": False},
            },
            "enableAllProjectMcpServers": True,
            "enabledMcpjsonServers": ["a"],
            "disabledMcpjsonServers": ["b"],
            "includeCoAuthoredBy": False,
        },
    )
    settings = stage.load()
    origin = SettingOrigin(SettingsSource.USER, str(file))
    assert settings.problems == ()
    assert settings.permissions.allow == (SettingEntry("Bash(git:*)", origin), SettingEntry("Read", origin))
    assert settings.permissions.directories == (SettingEntry("../docs", origin),)
    assert settings.permissions.bypass_disabled
    assert settings.hooks == (
        HookSetting("PreToolUse", "Bash", dict(HOOK), origin, "hooks.PreToolUse[0].hooks[0]"),
        HookSetting("Stop", "", dict(HOOK), origin, "hooks.Stop[0].hooks[0]"),
    )
    assert settings.env == settings.own_env == {"NODE_ENV": "test", "DEBUG": "true", "JOBS": "4"}
    assert settings.fallback_models == ("sonnet",)
    assert settings.notifications == "terminal_bell"
    assert settings.theme == "light"
    assert settings.editor_mode == "vim"
    assert not settings.features.suggestions
    assert settings.models == (ModelEntry("mine", 8_000, 1_000, 0.5, 1.0),)
    assert (settings.api.base_url, settings.api.key_helper) == ("http://localhost:1", "/bin/key")
    assert (settings.api.max_cost, settings.api.max_retries) == (NANOS_PER_USD // 10, 2)
    assert (settings.limits.max_turns, settings.limits.max_tokens, settings.limits.max_output_tokens) == (3, 4, 5)
    assert settings.sandbox.enabled
    assert settings.sandbox.required
    assert settings.sandbox.auto_allow
    assert not settings.sandbox.may_be_left
    assert (settings.sandbox.excluded, settings.sandbox.domains) == (("docker",), ("example.org",))
    assert settings.mcp.servers == (McpEntry("shop", {"command": "shop"}, origin),)
    assert (settings.mcp.enable_all, settings.mcp.enabled, settings.mcp.disabled) == (True, ("a",), ("b",))
    assert (settings.model, settings.effort, settings.thinking, settings.max_thinking_tokens) == (
        "opus",
        "high",
        False,
        0,
    )
    assert (settings.output_style, settings.status_line, settings.cleanup_days) == ("terse", "line", 30)
    said = {value.name for value in settings.effective}
    assert said >= {key.name for key in KEYS if "." not in key.name} - {
        "allowManagedPermissionRulesOnly",
        "allowManagedHooksOnly",
        "allowManagedMcpServersOnly",
        "managedMcpServers",
        "disableAllHooks",
        "hooks",
        "env",
        "models",
        "mcpServers",
        "skillOverrides",
    }


def test_no_files_no_settings(stage: Stage) -> None:
    assert stage.load() == Settings()
    assert load_settings("/no/such/folder", {}, administrator=()) == Settings()


def test_both_spellings_are_one_key() -> None:
    assert SPELLINGS["permissions.default_mode"] == SPELLINGS["permissions.defaultMode"] == "permissions.defaultMode"
    assert to_snake_case("maxCostUsd") == "max_cost_usd"
    assert not {key.name for key in KEYS} & NOT_OURS


def test_one_key_in_both_spellings_is_a_mistake(stage: Stage) -> None:
    stage.say("user", '{"permissions": {"defaultMode": "plan",\n "default_mode": "bypassPermissions"}}')
    settings = stage.load()
    assert settings.permissions.default_mode == "plan"
    assert [(p.kind, p.line, p.column) for p in settings.problems] == [(BROKEN, 2, 2)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n "modle": "x"}', "2:2: unknown key 'modle'. Did you mean 'model'?"),
        ('{"permissions": {"allowed": []}}', "1:18: unknown key 'permissions.allowed'. Did you mean 'allow'?"),
        ('{"permission": {}}', "1:2: unknown key 'permission'. Did you mean 'permissions'?"),
        (
            '{"permissions.allow": ["Bash"]}',
            "1:2: unknown key 'permissions.allow'. Did you mean 'permissions'?",
        ),
        ('{"qqqq": 1}', "1:2: unknown key 'qqqq'"),
        ('{"Model": "x"}', "1:2: unknown key 'Model'. Did you mean 'model'?"),
    ],
)
def test_an_unknown_key_is_named(stage: Stage, text: str, says: str) -> None:
    file = stage.say("user", text)
    settings = stage.load()
    assert [str(problem) for problem in settings.problems] == [f"{file}:{says}"]
    assert kinds(settings) == [UNKNOWN]
    assert settings.permissions.allow == ()


WRONG = [
    ("permissions", []),
    ("permissions.allow", "Bash"),
    ("permissions.allow", {"Bash": True}),
    ("permissions.defaultMode", "yolo"),
    ("permissions.defaultMode", True),
    ("hooks", []),
    ("hooks", {"Stop": {}}),
    ("hooks", {"Stop": [{}]}),
    ("hooks", {"Stop": ["x"]}),
    ("hooks", {"Stop": [{"hooks": ["x"]}]}),
    ("hooks", {"Stop": [{"hooks": [{"type": "magic"}]}]}),
    ("hooks", {"Stop": [{"hooks": [{"type": "command"}]}]}),
    ("env", []),
    ("env", {"A B": "x"}),
    ("env", {"A": None}),
    ("env", {"A": ["x"]}),
    ("env", {"A": "a\0b"}),
    ("model", 5),
    ("model", "x" * 20_000),
    ("mcpServers", []),
    ("mcpServers", {"m": {"type": "http"}}),
    ("mcpServers", {"m": {"command": "x", "args": [5]}}),
    ("models", {"m": {"window": 0}}),
    ("models", {"m": {"windou": 5}}),
    ("models", {"m": 5}),
    ("effortLevel", "huge"),
    ("alwaysThinkingEnabled", "yes"),
    ("maxThinkingTokens", -1),
    ("maxThinkingTokens", False),
    ("statusLine", {"type": "text"}),
    ("sandbox", True),
    ("sandbox.enabled", "false"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_named_and_gives_nothing(stage: Stage, name: str, value: object) -> None:
    tree: object = value
    for part in reversed(name.split(".")):
        tree = {part: tree}
    stage.say("user", tree)
    settings = stage.load()
    assert kinds(settings) == [BROKEN]
    assert f"'{name}" in settings.problems[0].says
    assert settings.problems[0].line == 1
    careful = "default" if name == "permissions.defaultMode" else None
    assert settings.permissions.default_mode == careful
    assert settings.permissions.allow == ()
    assert (settings.hooks, settings.env, settings.models) == ((), {}, ())
    stage.place("user").unlink()
    with pytest.raises(SettingsError, match="mainspring does not start"):
        stage.load(SettingsRequest(cast("dict[str, Any]", tree)))
    stage.say("administrator", tree)
    with pytest.raises(SettingsError, match="mainspring does not start"):
        stage.load()


def test_toml_numbers_that_are_none(stage: Stage) -> None:
    for word in ("nan", "inf", "-inf", "1e400", "1979-05-27"):
        stage.say("user toml", f"[api]\nmax_cost_usd = {word}\n")
        with pytest.raises(SettingsError, match=r"config.toml:2:1: .*'api.maxCostUsd' is a restriction that"):
            stage.load()


def test_the_good_entries_beside_a_bad_one_hold(stage: Stage) -> None:
    stage.say(
        "user",
        {
            "permissions": {"allow": ["Read", 5, "Glob"], "deny": ["Bash(rm:*)", None], "ask": "WebFetch"},
            "env": {"GOOD": "1", "BAD": []},
            "hooks": {"Stop": [{"hooks": [HOOK]}, 7], "PreToolUse": 3},
            "models": {"good": {"window": 5}, "bad": 5},
        },
    )
    settings = stage.load()
    assert texts(settings.permissions.allow) == ["Read", "Glob"]
    assert texts(settings.permissions.deny) == ["Bash(rm:*)"]
    assert texts(settings.permissions.ask) == ["WebFetch"]
    assert settings.env == {"GOOD": "1"}
    assert [(hook.event, bool(hook.broken)) for hook in settings.hooks] == [("Stop", False), ("PreToolUse", True)]
    assert [model.name for model in settings.models] == ["good"]
    assert kinds(settings) == [BROKEN] * 7


# --- layers -----------------------------------------------------------------------------------------

ORDER = ["user", "project", "ours", "local", "our local", "environment", "command line", "administrator"]


@pytest.mark.parametrize("upto", range(1, len(ORDER) + 1))
def test_the_later_layer_wins_and_lists_add_up(stage: Stage, upto: int) -> None:
    stage.trust()
    asked, environ = SettingsRequest(), {}
    for who in ORDER[:upto]:
        said = {"model": who, "permissions": {"deny": ["all", who]}, "env": {"WHO": who, who.replace(" ", "_"): "1"}}
        if who == "environment":
            environ["ANTHROPIC_MODEL"] = who
        elif who == "command line":
            asked = SettingsRequest(said)
        else:
            stage.say(who, said)
    settings = stage.load(asked, **environ)
    files = [who for who in ORDER[:upto] if who != "environment"]
    assert settings.problems == ()
    assert settings.model == ORDER[upto - 1]
    assert texts(settings.permissions.deny) == ["all", *files]
    assert settings.env["WHO"] == files[-1]
    own = [who for who in files if who in ("user", "command line", "administrator")]
    assert settings.own_env == {"WHO": own[-1], **{who.replace(" ", "_"): "1" for who in own}}


def test_toml_stands_above_json_in_one_folder(stage: Stage) -> None:
    stage.say("user", {"model": "json"})
    stage.say("user toml", "model = 'toml'")
    assert stage.load().model == "toml"
    stage.trust()
    stage.say("ours", {"model": "json"})
    stage.say("ours toml", "model = 'project toml'")
    assert stage.load().model == "project toml"
    stage.say("administrator toml", "model = 'boss'")
    assert stage.load().model == "boss"


def test_setting_sources(stage: Stage) -> None:
    stage.trust()
    for who in ("user", "project", "local", "administrator"):
        stage.say(who, {"permissions": {"allow": [who]}})

    def allowed(*sources: str) -> list[str]:
        return texts(stage.load(SettingsRequest({"permissions": {"allow": ["flag"]}}, sources)).permissions.allow)

    assert allowed() == ["flag", "administrator"]
    assert allowed("user") == ["user", "flag", "administrator"]
    assert allowed("local", "project") == ["project", "local", "flag", "administrator"]
    assert texts(stage.load().permissions.allow) == ["user", "project", "local", "administrator"]
    with pytest.raises(SettingsError, match="'usr'"):
        allowed("usr")


def test_an_option_names_a_file_or_says_it_itself(stage: Stage) -> None:
    (stage.project / "mine.toml").write_text("model = 'x'")
    assert stage.load(SettingsRequest("mine.toml")).model == "x"
    assert stage.load(SettingsRequest(str(stage.project / "mine.toml"))).model == "x"
    assert stage.load(SettingsRequest({"model": "y"})).model == "y"
    with pytest.raises(SettingsError, match="does not exist"):
        stage.load(SettingsRequest("nothing.json"))
    (stage.project / "bad.json").write_text('{\n"model": }')
    with pytest.raises(SettingsError, match=r"bad\.json:2:10"):
        stage.load(SettingsRequest("bad.json"))
    with pytest.raises(SettingsError, match="regular"):
        stage.load(SettingsRequest("."))
    with pytest.raises(SettingsError, match="settings: 'model' is not used as written"):
        stage.load(SettingsRequest({"model": 1}))
    assert kinds(stage.load(SettingsRequest({"unknown": 1}))) == [UNKNOWN]  # no reason to stop


def test_limits_are_only_lowered_by_a_project_and_nobody_passes_the_administrator(stage: Stage) -> None:
    stage.trust()

    def cost(asked: float | None = None, **said: float) -> float | None:
        for who in ("user", "project", "local", "administrator"):
            stage.place(who).unlink(missing_ok=True)
            if who in said:
                stage.say(who, {"api": {"maxCostUsd": said[who]}})
        flag = SettingsRequest({"api": {"maxCostUsd": asked}} if asked else None)
        found = stage.load(flag).api.max_cost
        return None if found is None else found / NANOS_PER_USD

    assert cost() is None
    assert cost(user=5) == 5
    assert cost(project=5) == 5
    assert cost(user=5, project=3) == 3
    assert cost(user=5, project=9, local=7) == 5
    assert cost(user=5, project=3, asked=8) == 8
    assert cost(user=5, asked=8, administrator=6) == 6
    assert cost(user=5, administrator=6) == 5
    assert cost(administrator=6) == 6


def test_the_environment(stage: Stage) -> None:
    settings = stage.load(
        ANTHROPIC_BASE_URL="http://here", CLAUDE_CODE_MAX_RETRIES="3", MAX_THINKING_TOKENS="0", ANTHROPIC_MODEL=" "
    )
    assert (settings.api.base_url, settings.api.max_retries, settings.max_thinking_tokens) == ("http://here", 3, 0)
    assert settings.model is None
    wrong = stage.load(CLAUDE_CODE_MAX_RETRIES="many", MAX_THINKING_TOKENS="-5")
    assert wrong.api.max_retries is None
    assert [str(p) for p in wrong.problems] == [
        "CLAUDE_CODE_MAX_RETRIES: it must be an integer of at least 1",
        "MAX_THINKING_TOKENS: it must be an integer of at least 1",
    ]
    # A variable that the user's own file sets is one of ours, too.
    stage.say("user", {"env": {"ANTHROPIC_BASE_URL": "http://file"}})
    assert stage.load(ANTHROPIC_BASE_URL="http://here").api.base_url == "http://file"


def test_in_the_users_own_home_the_files_are_the_users(stage: Stage) -> None:
    stage.say("user", {"permissions": {"allow": ["Read"]}, "apiKeyHelper": "key"})
    home = str(stage.base / "home")
    settings = load_settings(home, {"HOME": home}, administrator=())
    assert [entry.origin.source for entry in settings.permissions.allow] == [SettingsSource.USER]
    assert settings.problems == ()


def test_the_home_folder() -> None:
    assert home_folder({"HOME": "/h/"}) == "/h/.mainspring"
    assert home_folder({"HOME": "/h"}, compatible=True) == "/h/.claude"
    assert home_folder({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}) == "/c"
    assert home_folder({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c", "MAINSPRING_HOME": "/m"}, compatible=True) == "/m"
    assert home_folder({"HOME": "relative"}) is None
    assert home_folder({"HOME": "/e\u0301"}) == "/\u00e9/.mainspring"
    assert str(home_folder({})).endswith("/.mainspring")
    with pytest.raises(SettingsError, match="absolute"):
        home_folder({"MAINSPRING_HOME": ".mainspring"})


# --- security T1: before trust ----------------------------------------------------------------------

EVERYTHING: dict[str, object] = {
    "permissions": {
        "allow": ["Bash"],
        "deny": ["Bash(rm:*)"],
        "ask": ["WebFetch"],
        "additionalDirectories": ["/"],
        "defaultMode": "acceptEdits",
    },
    "hooks": {"PreToolUse": [{"hooks": [HOOK]}]},
    "env": {"A": "1"},
    "statusLine": {"type": "command", "command": "evil"},
    "model": "dear",
    "outputStyle": "x",
    "fallbackModel": ["x"],
    "sandbox": {"enabled": True},
    "disabledMcpjsonServers": ["x"],
    "api": {"maxCostUsd": 1},
}


@pytest.mark.parametrize("who", ["project", "ours", "local", "our local"])
def test_an_untrusted_project_only_takes_rights_away(stage: Stage, who: str) -> None:
    file = stage.say(who, EVERYTHING)
    settings = stage.load()
    source = SettingsSource.PROJECT if who in ("project", "ours") else SettingsSource.LOCAL
    origin = SettingOrigin(source, str(file))
    assert settings.permissions.deny == (SettingEntry("Bash(rm:*)", origin),)
    assert settings.permissions.ask == (SettingEntry("WebFetch", origin),)
    rest = Settings(
        permissions=type(settings.permissions)(deny=settings.permissions.deny, ask=settings.permissions.ask),
        effective=settings.effective,
        problems=settings.problems,
        written=settings.written,  # for redaction alone
    )
    assert settings == rest  # nothing else took effect
    assert {value.name for value in settings.effective} == {"permissions.deny", "permissions.ask"}
    assert kinds(settings) == [UNTRUSTED]
    assert "mainspring trust" in settings.problems[0].says
    stage.trust()
    trusted = stage.load()
    assert trusted.problems == ()
    assert (texts(trusted.permissions.allow), trusted.env, trusted.model) == (["Bash"], {"A": "1"}, "dear")
    assert trusted.status_line == "evil"
    assert len(trusted.hooks) == 1


def test_a_project_that_only_takes_away_needs_no_trust_and_no_notice(stage: Stage) -> None:
    stage.say("project", {"permissions": {"deny": ["Bash(rm:*)"]}})
    assert stage.load().problems == ()


def test_headless_never_trusts_by_itself(stage: Stage) -> None:
    stage.say("project", EVERYTHING)
    for _ in range(3):
        assert kinds(stage.load()) == [UNTRUSTED]
    assert not (stage.home / "trusted.json").exists()
    assert kinds(stage.load(SettingsRequest({"permissions": {"allow": ["Bash"]}}))) == [UNTRUSTED]
    assert kinds(load_settings(str(stage.project), {"HOME": "none"}, administrator=())) == [UNTRUSTED]


# --- security T2: the user's side only --------------------------------------------------------------

USERS_OWN: list[tuple[dict[str, object], str]] = [
    ({"api": {"baseUrl": "http://evil"}}, "api.baseUrl"),
    ({"apiKeyHelper": "evil"}, "apiKeyHelper"),
    ({"permissions": {"defaultMode": "bypassPermissions"}}, "permissions.defaultMode"),
    ({"permissions": {"defaultMode": "auto"}}, "permissions.defaultMode"),
    ({"sandbox": {"enabled": False}}, "sandbox.enabled"),
    ({"sandbox": {"failIfUnavailable": False}}, "sandbox.failIfUnavailable"),
    ({"sandbox": {"allowUnsandboxedCommands": True}}, "sandbox.allowUnsandboxedCommands"),
    ({"sandbox": {"autoAllowBashIfSandboxed": True}}, "sandbox.autoAllowBashIfSandboxed"),
    ({"sandbox": {"excludedCommands": ["sh"]}}, "sandbox.excludedCommands"),
    ({"sandbox": {"network": {"allowedDomains": ["evil"]}}}, "sandbox.network.allowedDomains"),
    ({"disableAllHooks": True}, "disableAllHooks"),
    ({"enableAllProjectMcpServers": True}, "enableAllProjectMcpServers"),
    ({"enabledMcpjsonServers": ["evil"]}, "enabledMcpjsonServers"),
    ({"models": {"claude-opus-5-5": {"input_usd": 0.001}}}, "models"),
    ({"env": {"ANTHROPIC_BASE_URL": "http://evil"}}, "env"),
    ({"env": {"anthropic_api_key": "x"}}, "env"),
    ({"env": {"HTTPS_PROXY": "http://evil"}}, "env"),
    ({"env": {"https_proxy": "http://evil"}}, "env"),
    ({"env": {"NODE_EXTRA_CA_CERTS": "evil.pem"}}, "env"),
    ({"env": {"SSL_CERT_FILE": "evil.pem"}}, "env"),
    ({"env": {"CLAUDE_CONFIG_DIR": "."}}, "env"),
    ({"env": {"IS_SANDBOX": "1"}}, "env"),
]


@pytest.mark.parametrize(("tree", "name"), USERS_OWN)
@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("who", ["project", "local"])
def test_what_no_project_may_choose(stage: Stage, tree: dict[str, object], name: str, trusted: bool, who: str) -> None:
    if trusted:
        stage.trust()
    stage.say(who, tree)
    settings = stage.load()
    assert NOT_ITS_OWN in kinds(settings)
    assert f"'{name}'" in settings.problems[0].says
    assert settings == Settings(problems=settings.problems, written=settings.written)  # written: for redaction alone
    stage.place(who).unlink()
    for side in ("user", "administrator"):
        stage.say(side, tree)
        assert stage.load().problems == ()
        assert stage.load().effective != ()
        stage.place(side).unlink()
    assert stage.load(SettingsRequest(tree)).effective != ()


def test_what_a_trusted_project_may_choose_of_them(stage: Stage) -> None:
    """An over-strict reader fails, too."""
    stage.trust()
    stage.say("user", {"sandbox": {"enabled": False}})
    stage.say(
        "project",
        {
            "sandbox": {"enabled": True, "failIfUnavailable": True, "allowUnsandboxedCommands": False},
            "permissions": {"defaultMode": "acceptEdits"},
            "env": {"NODE_ENV": "test", "PATH": "/x", "AWS_PROFILE": "dev", "PROXY_PORT": "1"},
        },
    )
    settings = stage.load()
    assert settings.problems == ()
    assert (settings.sandbox.enabled, settings.sandbox.required, settings.sandbox.may_be_left) == (True, True, False)
    assert settings.permissions.default_mode == "acceptEdits"
    assert len(settings.env) == 4
    assert settings.own_env == {}


@pytest.mark.parametrize("who", ["user", "project", "command line"])
@pytest.mark.parametrize("name", ["allowManagedPermissionRulesOnly", "allowManagedHooksOnly"])
def test_what_only_the_administrator_may_choose(stage: Stage, who: str, name: str) -> None:
    stage.trust()
    if who == "command line":
        settings = stage.load(SettingsRequest({name: True}))
    else:
        stage.say(who, {name: True})
        settings = stage.load()
    assert kinds(settings) == [NOT_ITS_OWN]
    assert settings.effective == ()


@pytest.mark.setting("allowManagedHooksOnly")
def test_the_administrators_rules_alone(stage: Stage) -> None:
    stage.trust()
    everybody = {"permissions": {"allow": ["x"], "deny": ["y"]}, "hooks": {"Stop": [{"hooks": [HOOK]}]}}
    stage.say("user", everybody)
    stage.say("project", everybody)
    boss = {"permissions": {"allow": ["z"]}, "hooks": {"Stop": [{"hooks": [HOOK]}]}}
    stage.say("administrator", boss)
    assert texts(stage.load().permissions.allow) == ["x", "z"]
    assert len(stage.load().hooks) == 3
    stage.say("administrator", {**boss, "allowManagedPermissionRulesOnly": True, "allowManagedHooksOnly": True})
    settings = stage.load()
    assert texts(settings.permissions.allow) == ["z"]
    assert texts(settings.permissions.deny) == ["y"]  # takes rights away, so it holds
    assert [hook.origin.source for hook in settings.hooks] == [SettingsSource.ADMINISTRATOR]


def test_hooks_are_switched_off_by_who_may(stage: Stage) -> None:
    hooks = {"hooks": {"Stop": [{"hooks": [HOOK]}]}}
    stage.say("user", {**hooks, "disableAllHooks": True})
    stage.say("administrator", hooks)
    assert [hook.origin.source for hook in stage.load().hooks] == [SettingsSource.ADMINISTRATOR]
    stage.say("administrator", {**hooks, "disableAllHooks": True})
    assert stage.load().hooks == ()
    stage.say("administrator", {**hooks, "disableAllHooks": False})
    assert len(stage.load().hooks) == 2


# --- security T4: broken files ----------------------------------------------------------------------

JSON_FILE = json.dumps({**EVERYTHING, "env": {"A": '"deny": ["no"'}, "model": "é"}, indent=1, ensure_ascii=False)
TOML_FILE = """\
model = "é"
[permissions]
allow = ["Bash", 'Read']
deny = [
  "Bash(rm:*)",  # why
  'Bash(curl:*)',
]
ask = ["WebFetch"]
additional_directories = ["/"]
default_mode = "acceptEdits"
[env]
A = "1"
[[hooks.PreToolUse]]
hooks = [{type = "command", command = "check"}]
[api]
max_cost_usd = 15.0
"""


def rights(settings: Settings) -> set[tuple[str, str]]:
    """What a file can give."""
    given = {("allow", text) for text in texts(settings.permissions.allow)}
    given |= {("directory", text) for text in texts(settings.permissions.directories)}
    given |= {("env", f"{name}={value}") for name, value in settings.env.items()}
    given |= {("hook", json.dumps(hook.command)) for hook in settings.hooks if not hook.broken}  # those only refuse
    given |= {("mode", settings.permissions.default_mode or "default")} - {("mode", "default")}
    return given


@pytest.mark.parametrize("who", ["user", "project", "user toml", "ours toml"])
def test_cut_at_every_byte(stage: Stage, who: str) -> None:
    stage.trust()
    text = TOML_FILE if "toml" in who else JSON_FILE
    data = text.encode()
    stage.say(who, data)
    whole = stage.load()
    assert whole.problems == ()
    most = 0
    for size in range(len(data)):
        stage.say(who, data[:size])
        settings = stage.load(SettingsRequest(shows_refused=True))
        assert rights(settings) <= rights(whole), size
        cost = settings.api.max_cost
        assert cost is None or cost <= (whole.api.max_cost or 0)
        for name in ("deny", "ask"):
            rules = texts(getattr(settings.permissions, name))
            meant = texts(getattr(whole.permissions, name))
            complete = [rule for rule in meant if end_of(rule, data) <= size]
            assert rules == complete, (size, name)  # what is whole holds, and nothing is made up
            most = max(most, len(rules))
        if who in ("user", "project") and data[:size].strip():
            assert [kind for kind in kinds(settings) if kind is not ProblemKind.REFUSED] == [BROKEN]
            assert rights(settings) == set()
            assert settings.problems[0].line >= 1
    assert most


def end_of(rule: str, data: bytes) -> int:
    """Where the closing quote of a rule stands, in whichever quotes."""
    places = [data.find(quote + rule.encode() + quote) for quote in (b'"', b"'")]
    return max(places) + len(rule.encode()) + 2


@given(st.integers(0, len(JSON_FILE) - 1), st.integers(0, 3), st.text(st.sampled_from('{}[]",:\\x0 \n'), max_size=3))
def test_a_mistake_anywhere_gives_no_right(at: int, gone: int, put: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        stage.trust()
        text = JSON_FILE[:at] + put + JSON_FILE[at + gone :]
        stage.say("project", text)
        settings = stage.load(SettingsRequest(shows_refused=True))
        try:
            said = json.loads(text)
        except ValueError:
            assert rights(settings) == set()
            assert kinds(settings)[0] is BROKEN
            assert settings.model is None
            return
        if isinstance(said, dict) and BROKEN not in kinds(settings):
            allowed = said.get("permissions", {}).get("allow", [])
            assert texts(settings.permissions.allow) == list(dict.fromkeys(allowed))


@pytest.mark.parametrize("who", ["administrator", "administrator toml"])
def test_a_broken_file_of_the_administrator_stops_the_start(stage: Stage, who: str) -> None:
    for text in ("{", "x", b"\xff", '{"permissions": 5}' if who == "administrator" else "permissions = 5", b"[" * 999):
        stage.say(who, text)
        with pytest.raises(SettingsError, match="managed-settings"):
            stage.load()
    stage.place(who).unlink()
    os.mkfifo(stage.place(who))
    with pytest.raises(SettingsError, match="regular"):
        stage.load()


def test_beside_a_broken_file_no_other_file_widens_the_mode(stage: Stage) -> None:
    stage.trust()
    stage.say("user", {"permissions": {"defaultMode": "acceptEdits"}})
    stage.say("local", '{"permissions": {"defaultMode": "plan"')
    settings = stage.load()
    assert settings.permissions.default_mode == "default"
    assert kinds(settings) == [BROKEN, BROKEN]
    assert "acceptEdits" in settings.problems[1].says
    assert (
        stage.load(SettingsRequest({"permissions": {"defaultMode": "acceptEdits"}})).permissions.default_mode
        == "acceptEdits"
    )
    stage.say("user", {"permissions": {"defaultMode": "dontAsk"}})
    assert stage.load().permissions.default_mode == "dontAsk"


def test_a_file_that_is_none_is_named(stage: Stage) -> None:
    (stage.project / ".claude").mkdir()
    (stage.project / ".claude/settings.json").symlink_to("/dev/zero")
    os.mkfifo(stage.project / ".claude/settings.local.json")
    settings = stage.load()
    assert [problem.says for problem in settings.problems] == ["it is not a regular file. The file is not used"] * 2


def test_a_file_that_cannot_be_looked_up_is_named(stage: Stage) -> None:
    (stage.project / ".claude").mkdir()
    (stage.project / ".claude/settings.json").symlink_to("settings.json")
    assert "cannot be read" in stage.load().problems[0].says


def test_a_message_never_quotes_a_file(stage: Stage) -> None:
    (stage.project / ".claude").mkdir()
    secret = stage.base / "secret"
    secret.write_text("root:hunter2:secret\nmore")
    (stage.project / ".claude/settings.json").symlink_to(secret)
    assert "hunter2" not in str(stage.load().problems[0])


# --- people -----------------------------------------------------------------------------------------


def test_origins(stage: Stage) -> None:
    user = stage.say("user", {"model": "opus", "env": {"TOKEN": "hunter22"}, "api": {"max_cost_usd": 2.5}, "modle": 1})
    stage.trust()
    project = stage.say(
        "project", {"permissions": {"deny": ["Bash(rm:*)"]}, "disabledMcpjsonServers": ["a", "b"], "model": "haiku"}
    )
    assert format_origins(stage.load()) == [
        f"api.maxCostUsd          2.5  (user: {user})",
        f"disabledMcpjsonServers  a, b  (project: {project})",
        f"env.TOKEN               set  (user: {user})",
        f"model                   haiku  (project: {project})",
        f"permissions.deny        Bash(rm:*)  (project: {project})",
        f"unknown: {user}:1:79: unknown key 'modle'. Did you mean 'model'?",
    ]
    assert format_origins(Settings()) == []


def test_origins_hide_a_password(stage: Stage) -> None:
    stage.say("user", {"api": {"baseUrl": "https://me:hunter22@host/"}})
    assert "hunter22" not in "".join(format_origins(stage.load()))


# --- the start path ---------------------------------------------------------------------------------

HEAVY = {
    "json",
    "pathlib",
    "tomllib",
    "difflib",
    "hashlib",
    "ctypes",
    "unicodedata",
    "asyncio",
    "subprocess",
    "tempfile",
}


def test_reading_settings_loads_nothing_heavy(stage: Stage) -> None:
    stage.say("user", {"model": "x", "permissions": {"allow": ["Read"]}})
    script = (
        "import sys; from mainspring.settings.load import load_settings\n"
        f"settings = load_settings({str(stage.project)!r}, {stage.environ!r}, administrator=())\n"
        "assert settings.model == 'x'"
    )
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", script],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "mainspring.settings.load" in loaded
    assert loaded & HEAVY == set()


def test_without_files_almost_nothing_is_loaded(stage: Stage) -> None:
    script = (
        "import sys; from mainspring.settings.load import load_settings\n"
        f"load_settings({str(stage.project)!r}, {stage.environ!r}, administrator=())\n"
        "print(*sorted(name for name in sys.modules if name.startswith('mainspring.settings.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={}, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [f"mainspring.settings.{name}" for name in ("load", "values")]


def test_no_files_cost_next_to_nothing(stage: Stage) -> None:
    best = 1.0
    for _ in range(50):
        start = time.thread_time()
        stage.load()
        best = min(best, time.thread_time() - start)
    assert best < 0.005  # 0.0002 on a quiet machine
