"""The flags that the real SDKs may pass to the program: each is one of ours, or is refused with its reason."""

from __future__ import annotations

import re
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest

from mainspring.agent.options import StartError
from mainspring.cli.flags import BY_NAME, FLAGS, REFUSED, parse_arguments
from mainspring.simulator.replies import Say
from pipe.raw import Frame, prompt
from pipe.stage import Serve, bash
from pipe.typescript import Client, package

FLAG = re.compile(r"""["'](--[A-Za-z][A-Za-z-]*)["'=]""")
FREE = "bypassPermissions"
ALLOWED = "--allow-dangerously-skip-permissions"


def flags_of_python() -> set[str]:
    """Read from where it is installed: the name may stand for another client (conftest.py)."""
    [source] = [file for file in files("claude-agent-sdk") or () if file.name == "subprocess_cli.py"]
    return set(FLAG.findall(source.read_text()))


def flags_of_typescript() -> set[str]:
    """Those of the function that makes the command line: other strings of the bundle are flags of git."""
    text = (package() / "sdk.mjs").read_text()
    begins = text.index('"--output-format","stream-json"')
    return set(FLAG.findall(text[begins : text.index("spawnLocalProcess(", begins)])) | {"--settings"}


@pytest.mark.parametrize(
    ("list_flags", "some"),
    [
        (flags_of_python, {"--output-format", "--allowedTools", "--max-turns", "--session-mirror", "--thinking"}),
        (flags_of_typescript, {"--output-format", "--tools", "--no-session-persistence", "--agent", ALLOWED}),
    ],
)
def test_every_flag_of_a_real_sdk_is_known_or_has_its_own_message(list_flags: Any, some: set[str]) -> None:
    flags = list_flags()
    assert flags >= some
    assert len(flags) > 30, "the sources are read as they are written"
    assert flags - BY_NAME.keys() - REFUSED.keys() == set()


@pytest.mark.parametrize("name", REFUSED)
def test_a_flag_that_we_do_not_take_says_why(name: str) -> None:
    assert name not in BY_NAME
    with pytest.raises(StartError, match=f"^'{name}' is not supported: "):
        parse_arguments([f"{name}=x"])
    named = re.findall(r"--[a-z-]+", REFUSED[name])
    assert set(named) <= {flag.name for flag in FLAGS}


def test_flags_of_the_typescript_sdk() -> None:
    given = parse_arguments(["--no-session-persistence", ALLOWED, "--debug", "--debug-file=x", "--workload=x"])
    session = given.session
    assert (given.debug_file, "api" in given.debug) == ("x", True)
    assert (session.persist, session.allow_dangerously_skip_permissions) == (False, True)
    assert (session.permission_mode, session.ignored) == (None, ())
    asking = ["--permission-prompt-tool=stdio", "--permission-prompts"]
    tools = [parse_arguments([*asking, who]).session.permission_prompt_tool_name for who in ("host", "none")]
    assert tools == ["stdio", None]


def test_a_session_may_switch_to_bypass_only_if_it_was_started_so(serve: Serve) -> None:
    """It does not start in the mode, and a setting that forbids the mode still does."""
    stage = serve(Say.of(bash("touch a")), Say.of("No."), Say.of(bash("touch b", "2")), Say.of("Done."))
    disabled = '{"permissions": {"disableBypassPermissionsMode": "disable"}}'
    answers: list[Frame] = []
    for flags in ((), (ALLOWED, "--settings", disabled), (ALLOWED,)):
        with stage.pipe(*flags) as pipe:
            pipe.initialize()
            if flags == (ALLOWED,):
                assert [denied["tool_name"] for denied in pipe.turn("go")["permission_denials"]] == ["Bash"]
                assert pipe.of("system/init")[0]["permissionMode"] == "default"
            answers.append(pipe.control("set_permission_mode", mode=FREE))
            if flags == (ALLOWED,):
                pipe.turn("go on")
                assert pipe.of("system/init")[-1]["permissionMode"] == FREE
    assert [answer["subtype"] for answer in answers] == ["error", "error", "success"]
    assert "was not launched with --dangerously-skip-permissions" in answers[0]["error"]
    assert "it is disabled by 'permissions.disableBypassPermissionsMode'" in answers[1]["error"]
    assert [(stage.folder / name).exists() for name in ("a", "b")] == [False, True]


@pytest.mark.long
@pytest.mark.of_the_pipe
def test_the_typescript_sdk_passes_the_flag_and_a_refused_one_ends_with_its_message(
    serve: Serve, tmp_path: Path
) -> None:
    stage = serve(Say.of(bash("touch a")), Say.of("Done."))
    options: dict[str, Any] = {"permissionMode": FREE, "allowDangerouslySkipPermissions": True, "persistSession": False}
    with Client(stage, tmp_path, "go", **options) as client:
        assert client.read_all()[-1]["subtype"] == "success"
    assert (client.code, (stage.folder / "a").exists(), stage.transcripts()) == (0, True, [])
    with Client(stage, tmp_path, None, agent="reviewer") as client:
        client.send(prompt("go"))
        assert client.read_all() == []
    assert client.code == 3
    assert b"'--agent' is not supported: a session cannot run as an agent type" in client.stderr
