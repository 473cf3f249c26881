"""`Bash`: what a model gets back, where the next command starts, and what is refused before anything runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest
from processes.traces import descriptors, new_nap, until, with_word, zombies

from mainspring.core.errors import ToolError
from mainspring.core.value import as_json
from mainspring.tools.background import SLEEP
from mainspring.tools.bash import BashInput
from tools.bash_hands import Hands, bash, play


@pytest.mark.covers("N-03")
def test_what_it_prints_comes_back_in_its_order(tmp_path: Path) -> None:
    answer = bash(tmp_path, "echo one; echo two >&2; printf three", description="counts")
    assert (answer.text, answer.is_error, answer.failed) == ("one\ntwo\nthree", False, False)
    assert answer.data == {
        "stdout": "one\ntwo\nthree", "stderr": "", "interrupted": False, "isImage": False, "exitCode": 0,
    }  # fmt: skip
    assert answer.shown is not None
    assert (answer.shown.summary, answer.shown.kind) == ("echo one; echo two >&2; printf three", "output")
    assert bash(tmp_path, "true").text == "(no output)"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo seen; exit 3", "seen\nExit code 3"),
        ("kill -9 $$", "Ended by signal SIGKILL: the memory may have run out"),
        ("exit 139", "Exit code 139 (SIGSEGV)"),
        ("true\nnot-there", "bash: line 2: not-there: command not found\nExit code 127"),
        ("false && grep x /dev/null", "Exit code 1"),
        ("set -e; false; echo no", "Exit code 1"),
    ],
)
def test_a_failure_is_told_with_its_code(tmp_path: Path, command: str, said: str) -> None:
    answer = bash(tmp_path, command)
    assert (answer.text, answer.is_error, answer.failed) == (said, True, True)


def test_a_syntax_error_is_bash_s_own_and_breaks_nothing_of_ours(tmp_path: Path) -> None:
    for command in ("echo 'open", "if true; then", "echo )", "cat <<EOF\nno end", "echo \\"):
        answer = bash(tmp_path, command)
        assert not any(word in answer.text for word in ("builtin", "ulimit", "_command", "set --"))
        assert "line 3" not in answer.text


# --- where the next one starts --------------------------------------------------------------------------------


@pytest.mark.covers("F-18")
def test_the_folder_stays_from_call_to_call(tmp_path: Path) -> None:
    (tmp_path / "a dir").mkdir()
    (tmp_path / "new\nline").mkdir()

    async def scene(hands: Hands) -> list[str]:
        seen: list[str] = []
        for command in (
            "cd 'a dir'",
            "cd ..; exit 3",
            "cd 'a dir' && false",
            "trap 'echo mine' EXIT; cd ..",
            "cd $'new\\nline'",
            "(cd ..)",
            "exec true",
            "x=1; set -e; cd ..; false",
        ):
            await hands.bash(command)
            seen.append(hands.place.cwd)
        return seen

    seen = [os.path.relpath(place, tmp_path) for place in play(tmp_path, scene)]
    assert seen == ["a dir", ".", "a dir", ".", "new\nline", "new\nline", "new\nline", "."]


def test_variables_do_not_stay_and_the_pipe_for_the_folder_is_not_handed_on(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> None:
        await hands.bash("export X=1; f() { :; }")
        assert (await hands.bash('echo "${X-none}"; type f')).text.startswith("none\n")
        listed = (await hands.bash("ls -l /proc/self/fd | grep -c pipe:; echo $# $0")).text
        assert listed == "2\n0 bash"

    play(tmp_path, scene)


def test_output_cannot_say_where_we_are(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()

    async def scene(hands: Hands) -> str:
        await hands.bash(
            f"for fd in 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo {tmp_path}/sub >&$fd; done 2>/dev/null; true"
        )
        return hands.place.cwd

    assert play(tmp_path, scene) == str(tmp_path)


def test_outside_of_the_working_folders_one_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "added").mkdir()
    (tmp_path / "work" / "way-out").symlink_to("/usr")

    async def scene(hands: Hands) -> None:
        hands.place.folders = (str(tmp_path / "added"),)
        await hands.bash("cd sub")
        for command in ("cd /", "cd ../way-out", f"cd {tmp_path}"):
            answer = await hands.bash(command)
            assert answer.text == f"Shell cwd was reset to {tmp_path / 'work'}"
            assert hands.place.cwd == str(tmp_path / "work")
            assert not answer.is_error
            await hands.bash("cd sub")
        await hands.bash(f"cd {tmp_path}/added")
        assert hands.place.cwd == str(tmp_path / "added")

    play(tmp_path / "work", scene)


def test_a_folder_that_is_a_link_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")

    async def scene(hands: Hands) -> None:
        await hands.bash("true")
        assert hands.place.cwd == str(tmp_path / "link")
        await hands.bash("cd sub")
        assert hands.place.cwd == str(tmp_path / "real" / "sub")

    play(tmp_path / "link", scene)


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "sub").mkdir(parents=True)

    async def scene(hands: Hands) -> None:
        await hands.bash("cd sub")
        shutil.rmtree(root / "sub")
        answer = await hands.bash("pwd")
        assert answer.text == f"{root}\n'{root}/sub' is gone; this ran in '{root}'"
        await hands.bash("mkdir x; cd x; rm -rf ../x")
        assert hands.place.cwd == str(root)
        shutil.rmtree(root)
        with pytest.raises(ToolError, match=f"'{root}' is gone"):
            await hands.bash("pwd")

    play(root, scene)


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("echo a\0b", "NUL"),
        ("echo \ud800", "half a character"),
        ("echo " + "x" * 200_000, "too long for this system: 200,005 bytes. Nothing was done: write it to a file"),
        ("#" * 3_000_000 + "\ntouch done", "too long"),
    ],
    ids=["empty", "blank", "NUL", "surrogate", "long", "longer"],
)
def test_what_cannot_be_run_is_refused_in_words(tmp_path: Path, command: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        bash(tmp_path, command)
    with pytest.raises(ToolError, match=why):
        bash(tmp_path, command, run_in_background=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "input",
    [
        {}, {"command": 1}, {"command": None}, {"command": ["ls"]}, {"command": "ls", "timeout": 0},
        {"command": "ls", "timeout": "1"}, {"command": "ls", "timeout": 1e300}, {"extra": 1},
        {"command": "ls", "run_in_background": "yes"},
    ],
)  # fmt: skip
def test_a_wrong_input_is_told(tmp_path: Path, input: dict[str, object]) -> None:
    async def scene(hands: Hands) -> None:
        with pytest.raises(ToolError, match=r"The input of 'Bash' is invalid: .*Nothing was done"):
            await hands.use(hands.tool, **input)

    play(tmp_path, scene)


def test_a_bash_of_the_project_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mainspring.processes import environment

    (tmp_path / "bash").write_text("#!/bin/sh\necho wrong\n")
    (tmp_path / "bash").chmod(0o755)
    monkeypatch.setattr(environment, "USUAL", ())
    monkeypatch.setenv("PATH", f"{tmp_path}:relative:/usr/bin")
    assert bash(tmp_path, "echo right").text == "right"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="'bash' not found outside of the working folders"):
        bash(tmp_path, "echo right")


# --- time, and those who watch --------------------------------------------------------------------------------


def test_a_timeout_is_told_with_a_way_out(tmp_path: Path) -> None:
    nap = new_nap()
    answer = bash(tmp_path, f"echo before; sleep {nap}", timeout=200)
    assert answer.text == (
        "before\nIt did not end within 0.2 seconds and was ended: use 'run_in_background', a longer 'timeout' "
        "(600000 at most), or do less at once."
    )
    assert (answer.is_error, answer.failed, answer.data["interrupted"]) == (True, True, True)
    assert with_word(nap) == []


def test_the_last_lines_are_shown_while_it_runs(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> None:
        task = asyncio.get_running_loop().create_task(hands.bash("seq 20; while ! [ -e go ]; do :; done; echo done"))
        await until(lambda: hands.shown)
        assert hands.shown[-1].splitlines()[-1] == "20"
        assert len(hands.shown[-1].splitlines()) == 5
        (tmp_path / "go").touch()
        assert (await task).text.endswith("20\ndone")

    play(tmp_path, scene)


def test_not_more_often_than_an_eye_can_follow(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> tuple[int, float]:
        before = time.monotonic()
        await hands.bash("for i in $(seq 200); do echo $i; sleep 0.001; done")
        return len(hands.shown), time.monotonic() - before

    times, seconds = play(tmp_path, scene)
    assert 1 <= times <= seconds / 0.1 + 2


def test_nothing_to_read_and_no_terminal(tmp_path: Path) -> None:
    answer = bash(tmp_path, "read x; echo $?; tty; (: </dev/tty) 2>/dev/null || echo none")
    assert answer.text == "1\nnot a tty\nnone"


def test_no_secret_is_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "BASH_ENV"):
        monkeypatch.setenv(name, "a-very-secret-value")
    monkeypatch.setenv("GOPATH", "/go")
    text = bash(tmp_path, "env").text
    assert "a-very-secret-value" not in text
    assert "GOPATH=/go" in text
    assert "CLAUDECODE=1" in text


# --- many of them ---------------------------------------------------------------------------------------------


def test_two_hundred_calls_leave_nothing_open(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> None:
        await hands.bash("true")
        before = descriptors()
        for number in range(200):
            await hands.bash(f"echo {number} | cat; sleep 100 >/dev/null 2>&1 & exit {number % 2}")
        assert (descriptors(), zombies()) == (before, [])

    play(tmp_path, scene)


def test_what_is_known_of_a_call_before_it_runs(tmp_path: Path) -> None:
    def reads(given: BashInput) -> bool:
        return given.command == "ls"

    async def scene(hands: Hands) -> None:
        tool = hands.tool
        assert [tool.is_concurrent(BashInput(command)) for command in ("ls", "rm x")] == [True, False]
        assert not tool.is_read_only(BashInput("ls", run_in_background=True))
        assert tool.line(BashInput("first\nsecond")) == "first ..."

    play(tmp_path, scene, read_only=reads)


def test_the_words_for_the_model_are_few(tmp_path: Path) -> None:
    async def scene(hands: Hands) -> list[int]:
        tools = (hands.tool, hands.output_tool, hands.kill_tool, SLEEP)
        return [len(as_json([tool.spec.name, tool.spec.description, tool.spec.schema])) for tool in tools]

    first, *others = play(tmp_path, scene)
    assert first <= 1_800
    assert max(others) <= 400


@pytest.mark.covers("F-04", "F-09")
@pytest.mark.parametrize(
    ("command", "moves"),
    [
        ("cd sub", True),
        ("cd sub && ls", True),
        ("ls;cd ..", True),
        ("pushd sub>/dev/null", True),
        ("popd", True),
        ("builtin cd sub", True),
        ("ls", False),
        ("cat abcd cd.txt", False),
        ("git log --cd-x", False),
    ],
)
def test_what_may_move_the_session_runs_alone(tmp_path: Path, command: str, *, moves: bool) -> None:
    """Else the next call of the same reply starts where this one has not been yet, or is not any more."""

    async def scene(hands: Hands) -> None:
        given = BashInput(command)
        assert hands.tool.is_read_only(given)  # nobody need be asked
        assert hands.tool.is_concurrent(given) is not moves

    play(tmp_path, scene, read_only=True)
