"""Options of a session: what is wrong is spelled as each front end does, and nothing that is said is passed over."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import mainspring
from agent.stage import Stage
from mainspring.agent.options import Fields, OptionError, SessionOptions, StartError, by_name
from mainspring.agent.resume import open_journal
from mainspring.cli.flags import FLAGS, parse_arguments
from mainspring.cli.flags import spell_option as flag
from mainspring.core.errors import UsageError
from mainspring.sdk import AgentDefinition, HookMatcher, Options
from mainspring.sdk.hooks import host_hooks
from mainspring.sdk.option_mapping import make_environment, session_options
from mainspring.sdk.option_mapping import spell_sdk_option as option
from mainspring.simulator.server import ModelServer

ID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


class Nowhere(ModelServer):
    @property
    def url(self) -> str:
        return "http://127.0.0.1:9"  # nobody is asked


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(Nowhere([]), tmp_path)


# --- each in its own words ----------------------------------------------------------------------------------------

# What is wrong, which option is to blame, and what the command and a program are told.
WRONG: list[tuple[dict[str, Any], str, str, str]] = [
    (
        {"add_dirs": ("/nope",)}, "add_dirs",
        "'--add-dir /nope': there is no such directory", "'add_dirs=/nope': there is no such directory",
    ),
    ({"tools": ("Raed",)}, "tools", "'--tools Raed': there is no such tool", "'tools=Raed': there is no such tool"),
    ({"tools": ("Xyzzy",)}, "tools", "'--tools Xyzzy': there is no such tool. Available", "'tools=Xyzzy': there is no"),
    (
        {"model": "opus", "fallback_model": ("opus",)}, "fallback_model",
        "'--fallback-model claude-opus-", "'fallback_model=claude-opus-",
    ),
    (
        {"output_schema": {"type": "array"}}, "output_schema",
        "'--json-schema' is not valid: ", "'output_format' is not valid: ",
    ),
    (
        {"system_prompt": "a", "system_prompt_file": "b"}, "system_prompt",
        "'--system-prompt' and '--system-prompt-file' cannot be combined",
        "'system_prompt' and 'system_prompt' cannot",  # an SDK has one option for both: nobody can say that there
    ),
    (
        {"system_prompt_file": "/nope"}, "system_prompt_file",
        "'--system-prompt-file /nope' cannot be read: No such file",
        "'system_prompt=/nope' cannot be read: No such file",
    ),
    (
        {"settings": "/nope"}, "settings",
        "'--settings' names '/nope', which does not exist", "'settings' names '/nope', which does not exist",
    ),
    (
        {"setting_sources": ("mine",)}, "setting_sources",
        "'--setting-sources' has 'mine'; valid values are user, project, local", "'setting_sources' has 'mine'; valid",
    ),
    (
        {"mcp_servers": ("/nope",)}, "mcp_servers",
        "'--mcp-config': there is no file '/nope'", "'mcp_servers': there is no file '/nope'",
    ),
    (
        {"fork_session": True}, "fork_session",
        "'--fork-session' needs '--resume ID' or '--continue'",
        "'fork_session' needs 'resume=ID' or 'continue_conversation'",
    ),
    (
        {"resume_drops_turn": ID}, "resume_drops_turn",
        "'--resume-drops-turn' needs '--resume-session-at UUID'",
        "'resume_drops_turn' needs 'resume_session_at=UUID'",
    ),
    (
        {"session_id": ID, "resume": ID}, "session_id",
        "'--session-id' sets the id of a new session: with '--resume' or '--continue', add '--fork-session'",
        "'session_id' sets the id of a new session: with 'resume' or 'continue_conversation', add 'fork_session'",
    ),
    (
        {"agents": {"a": {}}}, "agents",
        "'--agents' is not valid: the agent 'a': ", "'agents' is not valid: the agent 'a': ",
    ),
    (
        {"permission_prompt_tool_name": "ask"}, "permission_prompt_tool_name",
        "'--permission-prompt-tool ask' must be the full name of an MCP tool, 'mcp__server__tool' ('stdio' needs '-",
        "'permission_prompt_tool_name=ask' must be the full name of an MCP tool",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "named", "command", "program"), WRONG)
def test_what_is_wrong_is_told_in_the_words_of_the_front_end(
    given: dict[str, Any], named: str, command: str, program: str, stage: Stage
) -> None:
    fronts: list[tuple[str, dict[str, Any]]] = [
        (command, {"spell": flag}),
        (program, {"spell": option, "driven": True}),
    ]
    for words, more in fronts:
        with pytest.raises(OptionError) as raised:
            stage.open(**given, **more)
        assert str(raised.value).startswith(words)
        assert raised.value.option == named
        assert raised.value.value in str(raised.value)


@pytest.mark.parametrize(("given", "named"), [({"agents": {}}, "agents"), ({"plugin_dirs": ("x",)}, "plugin_dirs")])
def test_what_an_administrator_refuses_is_told_alike(given: dict[str, Any], named: str, stage: Stage) -> None:
    (stage.home / "settings.toml").write_text("disableSideloadFlags = true\n")
    for spell in (flag, option):
        with pytest.raises(OptionError, match=rf"^'{spell(named)}' is disabled by 'disableSideloadFlags'"):
            stage.open(spell=spell, **given)


def test_servers_of_the_program_are_none_from_elsewhere(stage: Stage) -> None:
    (stage.home / "settings.toml").write_text("disableSideloadFlags = true\n")
    inner = {"mcpServers": {"a": {"type": "sdk", "name": "a"}}}
    assert stage.resolved(SessionOptions(cwd=str(stage.folder), driven=True, mcp_servers=(inner,))).servers is not None
    for other in ("file.json", {"mcpServers": {"a": {"command": "a"}}}, {"mcpServers": 1}):
        with pytest.raises(OptionError, match=r"^'mcp_servers' is disabled"):
            stage.open(mcp_servers=(inner, other))


@pytest.mark.parametrize(("spell", "name"), [(flag, "--disallowedTools Raed"), (option, "disallowed_tools=Raed")])
def test_notices_name_options_in_the_same_words(spell: Any, name: str, stage: Stage) -> None:
    stage.open(spell=spell, disallowed_tools=("Raed",), model="sonet")
    assert f"'{name}': there is no tool 'Raed'. Did you mean 'Read'?" in stage.told
    assert f"'{spell('model')}': unknown model 'sonet'. Did you mean 'sonnet'?" in stage.told


@pytest.mark.parametrize("name", ["--settings", "--mcp-config", "--json-schema", "--agents"])
def test_json_that_cannot_be_read_is_told_when_the_session_is_made(name: str) -> None:
    arguments = parse_arguments(
        [name, '{"a": }']
    )  # a program that drives us hears of it as a result: `cli/stream_json.py`
    with pytest.raises(OptionError, match=f"^'{name}' cannot be (read in line 1, column 7|understood): "):
        _ = arguments.session
    if name == "--mcp-config":  # it may be the name of a file, which need not be text
        with pytest.raises(OptionError, match=r"^'--mcp-config' cannot be read in line 1, column 8: it is not valid"):
            _ = parse_arguments([name, '{"a": "\udcff"}']).session


def test_an_agent_that_is_described_twice(capsys: pytest.CaptureFixture[str]) -> None:
    one = '{"description": "d", "prompt": "p"}'
    options = parse_arguments(["--agents", f'{{"a": {one}, "b": {one}, "a": {one}}}']).session
    assert list(options.agents or ()) == ["a", "b"]
    assert capsys.readouterr().err == "mainspring: '--agents' defines 'a' twice: using the last one\n"


# --- nothing is passed over ---------------------------------------------------------------------------------------


def read_in_sources() -> set[str]:
    """Names of attributes that are read of something called options, beside where options are made."""
    found: set[str] = set()
    top = Path(mainspring.__file__).parent
    for file in top.rglob("*.py"):
        if file.relative_to(top).as_posix() in ("sdk/option_mapping.py", "sdk/options.py", "cli/flags.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
                is_own = owner == "self" and file.name == "options.py" and file.parent.name == "agent"
                found |= {node.attr} if owner in ("options", "_options", "session") or is_own else set()
    return found


def test_every_option_of_a_session_is_read_by_somebody() -> None:
    assert set(SessionOptions.__annotations__) - read_in_sources() == set()


SERVER = {"type": "stdio", "command": "shop"}
PLAIN = {**SERVER, "args": ["-v"]}
MAPPED_DEPS = object()

# A value for each option of the SDK, and what it is in a session.
MAPPED: dict[str, tuple[Any, dict[str, Any]]] = {
    "tools": (["Read", "Task"], {"tools": ("Read", "Agent")}),
    "allowed_tools": (["Read"], {"allowed_tools": ("Read",)}),
    "disallowed_tools": (["Bash"], {"disallowed_tools": ("Bash",)}),
    "permission_mode": ("manual", {"permission_mode": "default"}),
    "can_use_tool": (len, {"permission_prompt_tool_name": "stdio"}),
    "permission_prompt_tool_name": ("mcp__a__b", {"permission_prompt_tool_name": "mcp__a__b"}),
    "add_dirs": ([Path("/tmp")], {"add_dirs": ("/tmp",)}),
    "sandbox": ({"enabled": True}, {"settings": {"sandbox": {"enabled": True}}}),
    "model": ("opus", {"model": "opus"}),
    "fallback_model": ("a, b", {"fallback_model": ("a", "b")}),
    "effort": ("low", {"effort": "low"}),
    "thinking": ({"type": "adaptive", "display": "omitted"}, {"thinking": "adaptive", "thinking_display": "omitted"}),
    "max_thinking_tokens": (5, {"max_thinking_tokens": 5}),
    "betas": (["x"], {"betas": ("x",)}),
    "system_prompt": (
        {"type": "preset", "append": "a", "exclude_dynamic_sections": True},
        {"system_prompt": None, "append_system_prompt": "a", "exclude_dynamic_sections": True},
    ),
    "output_format": ({"type": "json_schema", "schema": {"enum": ("a",)}}, {"output_schema": {"enum": ["a"]}}),
    "max_turns": (3, {"max_turns": 3}),
    "retry": ("unattended", {"retry": "unattended"}),
    "max_budget_usd": (0.5, {"max_budget_usd": 0.5}),
    "task_budget": ({"total": 9}, {"task_budget": 9}),
    "session_id": (ID.upper(), {"session_id": ID}),
    "resume": (ID, {"resume": ID}),
    "continue_conversation": (True, {"continue_conversation": True}),
    "fork_session": (True, {"fork_session": True}),
    "resume_session_at": (ID, {"resume_session_at": ID}),
    "resume_drops_turn": (ID, {"resume_drops_turn": ID}),
    "cwd": (Path("/tmp"), {"cwd": "/tmp"}),
    "settings": ('{"model": "x"}', {"settings": {"model": "x"}}),
    "setting_sources": (["user"], {"setting_sources": ("user",)}),
    "skills": (["a"], {"skills": ("a",), "allowed_tools": ("Skill(a)",), "setting_sources": ("user", "project")}),
    "agents": ({"a": AgentDefinition("d", "p")}, {"agents": {"a": {"description": "d", "prompt": "p"}}}),
    "mcp_servers": ({"shop": {**SERVER, "args": ("-v",)}}, {"mcp_servers": ({"mcpServers": {"shop": PLAIN}},)}),
    "strict_mcp_config": (True, {"strict_mcp_config": True}),
    "plugins": ([{"type": "local", "path": "/p"}], {"plugin_dirs": ("/p",)}),
    "include_partial_messages": (True, {"include_partial_messages": True}),
    "include_hook_events": (True, {"include_hook_events": True}),
    "forward_subagent_text": (True, {"forward_subagent_text": True}),
    "tool_use_summaries": (True, {"tool_use_summaries": True}),
    "prompt_suggestions": (True, {"prompt_suggestions": True}),
    "tracing": (True, {"tracing": True}),
    "persist": (False, {"persist": False}),
    "extra_args": ({"require-journal": None}, {"require_journal": True}),
    "deps": (MAPPED_DEPS, {"deps": MAPPED_DEPS}),
}  # fmt: skip
ELSEWHERE = {
    "hooks",  # below
    "env", "enable_file_checkpointing", "client_app",  # in the environment: below
    "provider",  # is handed over as it is
    "session_store", "session_store_flush", "load_timeout_ms",  # the connected session mirrors its file
    "verbatim_prompts",  # of each prompt
    "stderr",  # is what the session tells
    "cli_path", "max_buffer_size", "debug_stderr", "user",  # documented as without use
}  # fmt: skip


def test_every_option_of_the_sdk_is_in_one_of_the_tables() -> None:
    assert {field.name for field in fields(Options)} == MAPPED.keys() | ELSEWHERE
    assert not MAPPED.keys() & ELSEWHERE


@pytest.mark.parametrize("name", MAPPED)
def test_the_sdk_maps_its_options_field_by_field(name: str) -> None:
    value, wanted = MAPPED[name]
    usual, made = vars(session_options(Options())), vars(session_options(Options(**{name: value})))
    changed = {key: made[key] for key in made if made[key] != usual[key] and key not in ("notice", "remark")}
    assert changed == wanted


@pytest.mark.parametrize("value", [{"a": object()}, {"a": [Path]}, {1: "a"}])
def test_what_json_cannot_hold_is_named(value: dict[Any, Any]) -> None:
    with pytest.raises(UsageError, match=r"^'output_format' has a value that JSON cannot represent: "):
        session_options(Options(output_format={"type": "json_schema", "schema": value}))


def test_hooks_and_the_environment_of_the_sdk() -> None:
    async def hook(*_: object) -> dict[str, Any]:
        return {}

    calls: dict[str, Any] = {}
    [made] = host_hooks({"Stop": [HookMatcher("x", [hook], timeout=2, on_failure="block")]}, calls)
    assert (made.event, made.matcher, made.seconds, made.blocks) == ("Stop", "x", 2, True)
    assert calls == {made.id: hook}
    assert session_options(Options(), (made,)).host_hooks == (made,)
    given = make_environment(Options(env={"A": "b"}, enable_file_checkpointing=True, client_app="c"))
    assert given.items() >= {"A": "b", "CLAUDE_AGENT_SDK_CLIENT_APP": "c"}.items()


@pytest.mark.parametrize("one", FLAGS, ids=lambda one: one.name)
def test_every_flag_of_a_session_is_spelled_back(one: Any) -> None:
    if one.field in SessionOptions.__annotations__ and one.name != "--dangerously-skip-permissions":
        assert flag(one.field) == one.name
        assert flag(one.field, "x") == f"{one.name} x"


# --- values -------------------------------------------------------------------------------------------------------


def test_options_are_values() -> None:
    options = SessionOptions(model="a")
    assert (options.replace(model="b").model, options.model) == ("b", "a")
    with pytest.raises(AttributeError, match="'model' cannot be set"):
        options.model = "b"  # type: ignore[misc]
    makers: tuple[Any, ...] = (SessionOptions, options.replace)
    for make in makers:
        with pytest.raises(TypeError, match="SessionOptions has no 'modell'"):
            make(modell="a")
    assert issubclass(OptionError, StartError)
    assert issubclass(SessionOptions, Fields)
    assert by_name("model") == "model"


def test_a_folder_that_is_added_stays_when_the_settings_are_read_anew(stage: Stage, tmp_path: Path) -> None:
    session = stage.open()
    before = session.config.options
    session.add_directory(str(tmp_path))
    assert before.add_dirs == ()
    assert session.config.options.add_dirs == (str(tmp_path),)
    assert str(tmp_path) in session.world.kit.place.folders
    assert open_journal(stage.resolved(session.config.options)).journal is not None
