"""Which servers a session has, and who may bring them (security T1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from settings.stage import Stage

from mainspring.agent.mcp import (
    McpConfig,
    McpConfigInput,
    load_mcp_config,
    read_seconds,
    read_tool_search,
    without_host_servers,
)
from mainspring.agent.options import StartError
from mainspring.cli.flags import parse_arguments
from mainspring.mcp.servers import ToolSearchUse
from mainspring.secrets import held
from mainspring.secrets.redaction import secrets_in

SHOP = {"command": "shop", "args": ["--big"], "env": {"A": "b"}}


def found(stage: Stage, *arguments: str, **environ: str) -> McpConfig:
    options = parse_arguments(list(arguments)).session
    settings = stage.load()
    place = McpConfigInput(
        options=options,
        settings=settings,
        environ=environ,
        cwd=str(stage.project),
        is_trusted=lambda: _trusts(stage),
    )
    assert settings.problems == ()
    return load_mcp_config(place)


def _trusts(stage: Stage) -> bool:
    from mainspring.settings.trust import is_trusted

    return is_trusted(str(stage.home), str(stage.project))


def given(servers: dict[str, Any]) -> str:
    return json.dumps({"mcpServers": servers})


def names(all_found: McpConfig) -> list[str]:
    return [one.name for one in all_found.servers]


@pytest.mark.covers("N-09")
def test_from_the_command_line_the_user_and_the_project(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.say("user", {"mcpServers": {"mine": SHOP, "both": {"type": "http", "url": "http://user/"}}})
    (stage.project / ".mcp.json").write_text(given({"theirs": SHOP, "both": {"command": "evil"}}))
    (tmp_path / "more.json").write_text(given({"filed": {"type": "sse", "url": "http://x/sse"}}))
    stage.trust()
    flags = ("--mcp-config", given({"inline": SHOP}), "--mcp-config", str(tmp_path / "more.json"))
    all_of_them = found(stage, *flags)
    assert names(all_of_them) == ["filed", "inline", "mine", "both", "theirs"]
    by_name = {one.name: one for one in all_of_them.servers}
    assert by_name["both"].url == "http://user/"  # a project does not take the place of the user's own
    assert "the MCP server 'both' is skipped: the user" in all_of_them.problems[0]
    mine = by_name["mine"]
    assert (mine.kind, mine.command, mine.args, mine.env) == ("stdio", "shop", ("--big",), {"A": "b"})
    assert names(found(stage, *flags, "--strict-mcp-config")) == ["filed", "inline"]
    assert names(found(stage, "--setting-sources", "user")) == ["mine", "both"]


@pytest.mark.covers("N-09")
def test_a_project_that_is_not_trusted_starts_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (stage.project / ".mcp.json").write_text(given({"theirs": SHOP}))
    nothing = found(stage)
    assert nothing.servers == ()
    (problem,) = nothing.problems
    assert problem == (
        f"{stage.project}/.mcp.json: MCP servers (theirs) are not started, because this directory is not trusted. "
        "Run 'mainspring trust' to trust it"
    )
    stage.trust()
    assert names(found(stage)) == ["theirs"]


def test_a_project_cannot_name_servers_in_its_settings(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.say("project", {"mcpServers": {"theirs": SHOP}})
    stage.trust()
    (problem,) = stage.load().problems
    assert "'mcpServers' is not used: a project may not set it" in str(problem)


@pytest.mark.setting("disabledMcpjsonServers", "enabledMcpjsonServers", "enableAllProjectMcpServers")
@pytest.mark.parametrize(
    ("said", "started"),
    [
        ({}, ["a", "b"]),
        ({"disabledMcpjsonServers": ["a"]}, ["b"]),
        ({"enabledMcpjsonServers": ["a"]}, ["a"]),
        ({"enabledMcpjsonServers": ["a"], "enableAllProjectMcpServers": True}, ["a", "b"]),
    ],
)
def test_the_user_chooses_among_a_projects_servers(tmp_path: Path, said: dict[str, Any], started: list[str]) -> None:
    stage = Stage(tmp_path)
    stage.say("user", said)
    (stage.project / ".mcp.json").write_text(given({"a": SHOP, "b": SHOP}))
    stage.trust()
    assert names(found(stage)) == started


def test_variables_are_filled_in(tmp_path: Path) -> None:
    entry = {
        "command": "${BIN:-shop}",
        "args": ["${A}-${B:-}", "$A"],
        "env": {"T": "${A:-x}", "D": "${CLAUDE_PROJECT_DIR}"},
    }
    web = {"type": "streamable-http", "url": "https://${HOST}/", "headers": {"Authorization": "Bearer ${A}"}}
    stage = Stage(tmp_path)
    (shop, far) = found(stage, "--mcp-config", given({"far": web, "shop": entry}), A="1", HOST="h", BIN="").servers[
        ::-1
    ]
    assert (shop.command, shop.args) == ("shop", ("1-", "$A"))
    assert shop.env == {"T": "1", "D": str(stage.project)}
    assert (far.kind, far.url, far.headers) == ("http", "https://h/", {"Authorization": "Bearer 1"})


BAD: list[tuple[dict[str, Any], str]] = [
    ({"command": "x", "args": "one"}, "field 'args': it must be a list of strings"),
    ({"command": "x", "args": [1]}, "field 'args[0]': it must be a string"),
    ({"command": ""}, "field 'command': a server of the type 'stdio' needs 'command'"),
    ({"type": "http"}, "field 'url': a server of the type 'http' needs 'url'"),
    ({"url": "http://x"}, "a server with a 'url' needs a 'type'"),
    ({"type": "http", "url": "ftp://x"}, "field 'url': it must begin with 'http://' or 'https://'"),
    ({"type": "http", "url": "http://x", "command": "y"}, "field 'command': a server of the type 'http' does not take"),
    (
        {"type": "http", "url": "http://x", "headers": {"a": "b\r\nc: d"}},
        "field 'headers.a': it must be a string without line breaks",
    ),
    ({"type": "http", "url": "http://x", "headers": {"a b": "c"}}, "field 'headers.a b': it is not a valid header"),
    ({"type": "studio", "command": "x"}, "field 'type': it must be one of stdio, http, sse. Did you mean 'stdio'?"),
    ({"type": "sdk", "command": "x"}, "field 'command': a server of the type 'sdk' does not take it"),
    ({"command": "${NONE}"}, "field 'command': the variable 'NONE' is not set: set it, or write '${NONE:-something}'"),
    (
        {"command": "x", "env": {"K": "${ANTHROPIC_API_KEY}"}},
        "field 'env.K': '${ANTHROPIC_API_KEY}' is mainspring's own key",
    ),
    (
        {"command": "x", "env": {"K": "${MAINSPRING_HOME:-x}"}},
        "field 'env.K': '${MAINSPRING_HOME}' is mainspring's own key",
    ),
    ("not a table", "it must be a table"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("entry", "said"), BAD)
def test_a_bad_entry_is_told_and_the_others_start(tmp_path: Path, entry: dict[str, Any], said: str) -> None:
    all_found = found(Stage(tmp_path), "--mcp-config", given({"bad": entry, "good": SHOP}), ANTHROPIC_API_KEY="key")
    assert names(all_found) == ["good"]
    (problem,) = all_found.problems
    assert problem.startswith("--mcp-config: the MCP server 'bad'")
    assert said in problem


WITHIN = {"type": "sdk", "name": "calculator"}  # as the client writes it
NO_DRIVER = "servers of the type 'sdk' need a host that drives mainspring ('mainspring help pipe'), and there is none"


def test_the_command_line_names_servers_within_the_driver(tmp_path: Path) -> None:
    """By the name in the table: the other one is the server's own. Where nobody drives us they are left out."""
    both = found(Stage(tmp_path), "--mcp-config", given({"calc": WITHIN, "shop": SHOP}))
    assert [(one.name, one.kind) for one in both.servers] == [("calc", "sdk"), ("shop", "stdio")]
    assert both.problems == ()
    alone = without_host_servers(both)
    assert names(alone) == ["shop"]
    assert alone.problems == (f"--mcp-config: the MCP server 'calc', field 'type': {NO_DRIVER}",)
    assert without_host_servers(alone) == alone


def test_nobody_else_names_servers_within_the_driver(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (stage.project / ".mcp.json").write_text(given({"theirs": WITHIN}))
    stage.trust()
    nothing = found(stage)
    assert nothing.servers == ()
    assert nothing.problems == (f"{stage.project}/.mcp.json: the MCP server 'theirs', field 'type': {NO_DRIVER}",)
    stage.say("user", {"mcpServers": {"mine": WITHIN}})
    settings = stage.load()
    assert settings.mcp.servers == ()
    (problem,) = settings.problems
    assert f"'mcpServers.mine.type' is not used as written: {NO_DRIVER}" in str(problem)


def test_an_odd_field_is_told_and_the_server_starts(tmp_path: Path) -> None:
    all_found = found(Stage(tmp_path), "--mcp-config", given({"odd": {**SHOP, "arg": [], "disabled": False}}))
    assert names(all_found) == ["odd"]
    assert "field 'arg': unknown field, ignored" in all_found.problems[0]
    assert len(all_found.problems) == 1


def test_one_that_is_switched_off(tmp_path: Path) -> None:
    all_found = found(Stage(tmp_path), "--mcp-config", given({"off": {**SHOP, "disabled": True}}))
    assert (all_found.servers, all_found.off, all_found.problems) == ((), ("off",), ())


def test_a_key_that_we_hold_goes_to_no_server(tmp_path: Path) -> None:
    held.hold_secrets("sk-held-0123456789abcdef")
    entry = {"type": "http", "url": "http://x", "headers": {"X": "Bearer ${COPY}"}}
    all_found = found(Stage(tmp_path), "--mcp-config", given({"thief": entry}), COPY="sk-held-0123456789abcdef")
    assert all_found.servers == ()
    assert "it contains one of mainspring's own keys" in all_found.problems[0]
    assert "sk-held" not in str(all_found)


def test_what_is_given_to_a_server_is_covered_like_our_own_keys(tmp_path: Path) -> None:
    """Two servers may have the same one; a short word in its place stays readable."""
    token = "ghp_0123456789abcdefghij"
    far = {"type": "http", "url": "http://x", "headers": {"Authorization": f"Bearer {token}", "X-Colour": "a" * 30}}
    near = {"command": "x", "env": {"GITHUB_TOKEN": token, "API_KEY": "test"}}
    both = found(Stage(tmp_path), "--mcp-config", given({"far": far, "near": near}))
    assert [set(secrets_in({**server.headers, **server.env})) for server in both.servers] == [{token}, {token}]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{", "'--mcp-config' cannot be read in line 1, column 2: "),
        ("missing.json", "'--mcp-config': there is no file 'missing.json'"),
    ],
)
def test_what_the_command_line_names_must_be_there(tmp_path: Path, said: str, why: str) -> None:
    with pytest.raises(StartError) as error:
        found(Stage(tmp_path), "--mcp-config", said)
    assert str(error.value).startswith(why)


@pytest.mark.parametrize("broken", ["{", '{"mcpServers": 1}', "[]", '{"mcpServers": {"a": 1}}'])
def test_a_broken_file_of_a_project_is_told(tmp_path: Path, broken: str) -> None:
    stage = Stage(tmp_path)
    (stage.project / ".mcp.json").write_text(broken)
    stage.trust()
    nothing = found(stage)
    assert nothing.servers == ()
    assert len(nothing.problems) == 1
    assert nothing.problems[0].startswith(f"{stage.project}/.mcp.json")


def test_bad_entries_of_settings_are_told_with_their_place(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.say("user", {"mcpServers": {"bad": {"command": "x", "args": 1}, "good": SHOP}})
    settings = stage.load()
    assert [one.name for one in settings.mcp.servers] == ["good"]
    (problem,) = settings.problems
    assert "'mcpServers.bad.args' is not used as written: it must be a list of strings" in str(problem)
    assert problem.line == 1


def test_limits_from_the_environment() -> None:
    assert read_seconds({}, "MCP_TIMEOUT", 30) == 30
    assert read_seconds({"MCP_TIMEOUT": "45000"}, "MCP_TIMEOUT", 30) == 45
    for wrong in ("x", "10", "-1", "1e9"):
        with pytest.raises(StartError, match="'MCP_TIMEOUT' must be"):
            read_seconds({"MCP_TIMEOUT": wrong}, "MCP_TIMEOUT", 30)


def test_tool_search_from_the_environment() -> None:
    uses = {
        "": (ToolSearchUse.BY_PRICE, 10),
        "auto": (ToolSearchUse.BY_PRICE, 10),
        "true": (ToolSearchUse.ALWAYS, 10),
        "FALSE": (ToolSearchUse.NEVER, 10),
        "auto:5": (ToolSearchUse.BY_SIZE, 5),
    }
    for said, use in uses.items():
        assert read_tool_search({"ENABLE_TOOL_SEARCH": said}) == use
    for wrong in ("yes", "auto:", "auto:101", "auto:-1", "5"):
        with pytest.raises(StartError, match="'ENABLE_TOOL_SEARCH' must be"):
            read_tool_search({"ENABLE_TOOL_SEARCH": wrong})
