"""Completions of the shells and the manual page: written from the parsers, and tried in the real shells."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import completion_pages
import pytest
from programs import need

from cli.stage import Serve, Stage
from mainspring.cli.command_spec import describe_command_line, walk_commands
from mainspring.simulator.replies import Say

SHARE = completion_pages.SHARE
BASH = SHARE / "bash-completion/completions/mainspring"


def test_the_pages_are_those_of_the_parsers() -> None:
    for path, text in completion_pages.build().items():
        assert path.read_text("utf-8") == text, "run 'make docs'"


def test_every_flag_of_every_command_is_in_every_page() -> None:
    pages = {path.name: text for path, text in completion_pages.build().items()}
    for command in walk_commands(describe_command_line()):
        for flag in command.flags:
            name = flag.names[0]
            assert name in pages["mainspring"]
            assert f"{name}" in pages["_mainspring"]
            assert name.replace("-", "\\-") in pages["mainspring.1"]
            assert f"-l {name[2:]} " in pages["mainspring.fish"]


def environment(stage: Stage) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(stage.home), "MAINSPRING_HOME": str(stage.home)}


def complete_in_bash(stage: Stage, *words: str) -> list[str]:
    """What Tab offers after these words."""
    script = (
        f"source '{BASH}'; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _mainspring; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        [need("bash"), "--norc", "-c", script, "bash", "mainspring", *words],
        cwd=stage.folder,
        env=environment(stage),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_words_flags_and_values(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    assert complete_in_bash(stage, "doc") == ["doctor"]
    assert complete_in_bash(stage, "--output") == ["--output-format"]
    assert complete_in_bash(stage, "--output-format", "") == ["text", "json", "stream-json"]
    assert complete_in_bash(stage, "--output-format", "=", "s") == ["stream-json"]
    assert "acceptEdits" in complete_in_bash(stage, "-p", "--permission-mode", "")
    assert complete_in_bash(stage, "sessions", "pu") == ["purge"]
    assert complete_in_bash(stage, "sessions", "purge", "--d") == ["--dry-run"]
    assert complete_in_bash(stage, "completion", "f") == ["fish"]
    assert complete_in_bash(stage, "--max-turns", "") == []
    (stage.folder / "notes.json").touch()
    assert complete_in_bash(stage, "--mcp-config", "no") == ["notes.json"]


def test_models_and_sessions_are_asked_for_and_nothing_of_a_project_is_expanded(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    assert stage.run("-p", "hello $(touch of-a-title)").returncode == 0
    [file] = stage.sessions()
    stage.home.mkdir(exist_ok=True)
    models = {"model": "sonnet", "models": {"$(touch of-a-model)/x": {}}}
    (stage.folder / ".claude").mkdir()
    (stage.folder / ".claude" / "settings.json").write_text(json.dumps(models))
    assert complete_in_bash(stage, "--resume", "") == [file.stem]
    assert complete_in_bash(stage, "context", file.stem[:4]) == [file.stem]
    found = complete_in_bash(stage, "--model", "claude-opus")
    assert found
    assert all(name.startswith("claude-opus") for name in found)
    assert not list(stage.folder.glob("of-*"))
    done = stage.run("completion", "--values", "sessions")
    assert done.stdout.decode() == f"{file.stem}\thello $(touch of-a-title)\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_prints_what_a_package_installs(serve: Serve, shell: str) -> None:
    done = serve().run("completion", shell)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() in completion_pages.build().values()


def test_without_a_shell_it_says_which_there_are(serve: Serve) -> None:
    done = serve().run("completion")
    assert done.returncode == 1
    assert b"'mainspring completion bash', 'zsh' or 'fish'" in done.stderr


def test_zsh_reads_its_completions() -> None:
    file = SHARE / "zsh/site-functions/_mainspring"
    subprocess.run([need("zsh"), "-n", str(file)], check=True)
    script = f"autoload -Uz compinit; compinit -u -D; source '{file}' 2>/dev/null; whence -w _mainspring_sessions_purge"
    done = subprocess.run([need("zsh"), "-f", "-c", script], capture_output=True, text=True, check=False)
    assert "function" in done.stdout


def test_fish_completes_words_and_flags() -> None:
    file = SHARE / "fish/vendor_completions.d/mainspring.fish"
    script = f"source '{file}'; complete -C 'mainspring doc'; complete -C 'mainspring sessions purge --dry'"
    done = subprocess.run([need("fish"), "-N", "-c", script], capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["doctor", "--dry-run"]


def test_the_manual_page_has_no_warnings() -> None:
    page = str(SHARE / "man/man1/mainspring.1")
    command = [need("groff"), "-man", "-Tutf8", "-ww", page]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"GROFF_NO_SGR": "1"})
    assert done.stderr == ""
    assert "mainspring sessions purge" in re.sub(".\b", "", done.stdout)
