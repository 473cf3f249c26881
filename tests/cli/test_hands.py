"""The tools are real: they touch files, run commands, and keep to where they may go."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from mainspring.cli import shell
from mainspring.cli.demo_tools import demo_shell
from mainspring.cli.hands import NAMES, SPECS, Reach, tools
from mainspring.cli.shell import Shell
from mainspring.core.errors import ToolError


def use(folder: Path, name: str, /, anywhere: bool = False, **input: Any) -> str:
    roots = None if anywhere else (os.path.realpath(folder),)
    made = tools(dict.fromkeys(NAMES, Reach(str(folder), roots)), new_shell(folder))
    [tool] = [tool for tool in made if tool.name == name]

    async def run() -> str:
        text = await tool.run(**input)
        assert isinstance(text, str)
        return text

    return asyncio.run(run())


def new_shell(folder: Path) -> Shell:
    return Shell(str(folder), {"PATH": os.defpath})


# --- files ------------------------------------------------------------------------------------------


def test_each_tool_is_told_to_the_model_with_its_schema() -> None:
    assert NAMES == ("Read", "Edit", "Write", "Bash")
    for spec in SPECS.values():
        assert set(spec.schema["required"]) <= set(spec.schema["properties"])


def test_read_numbers_the_lines_and_says_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("".join(f"line {number}\n" for number in range(1, 3_001)))
    text = use(tmp_path, "Read", file_path="x.txt")
    assert text.splitlines()[:2] == ["  1  line 1", "  2  line 2"]
    assert text.splitlines()[-1] == "... 1,000 more lines"
    assert use(tmp_path, "Read", file_path="x.txt", offset=2_999, limit=1) == "2999  line 2999"


def test_a_long_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("y" * 1_000_000)
    assert len(use(tmp_path, "Read", file_path="x.txt")) < 110_000


@pytest.mark.parametrize("name", ["../outside.txt", "link.txt", "/etc/passwd"])
def test_what_lies_outside_is_out_of_reach(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (inside / "link.txt").symlink_to(tmp_path / "outside.txt")
    inputs: dict[str, Any] = {"Read": {}, "Write": {"content": "x"}, "Edit": {"old_string": "s", "new_string": "t"}}
    for tool, more in inputs.items():
        with pytest.raises(ToolError, match="lies outside of the working folder"):
            use(inside, tool, file_path=name, **more)
    assert (tmp_path / "outside.txt").read_text() == "secret"


def test_a_folder_with_a_similar_name_is_not_the_working_folder(tmp_path: Path) -> None:
    for name in ("work", "work-2"):
        (tmp_path / name).mkdir()
    (tmp_path / "work-2/x.txt").write_text("x")
    with pytest.raises(ToolError, match="lies outside"):
        use(tmp_path / "work", "Read", file_path="../work-2/x.txt")
    assert use(tmp_path / "work", "Read", anywhere=True, file_path="../work-2/x.txt") == "  1  x"


def test_a_pipe_or_a_device_does_not_make_us_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "/dev/zero", "."):
        with pytest.raises(ToolError, match=r"no ordinary file|Is a directory"):
            use(tmp_path, "Read", anywhere=True, file_path=name)


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(ToolError, match="'x' cannot be read: it is not text in UTF-8"):
        use(tmp_path, "Read", file_path="x")


def test_write_replaces_the_file_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "x.sh"
    path.write_text("old")
    path.chmod(0o755)
    use(tmp_path, "Write", file_path="x.sh", content="new\r\n")
    assert path.read_bytes() == b"new\r\n"
    assert path.stat().st_mode & 0o777 == 0o755
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="'none/x' cannot be written: No such file or directory"):
        use(tmp_path, "Write", file_path="none/x", content="new")
    with pytest.raises(ToolError, match="half a character"):
        use(tmp_path, "Write", file_path="x", content="\ud800")
    assert list(tmp_path.iterdir()) == []


def test_edit_keeps_line_ends_and_can_replace_all(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\r\na\n")
    use(tmp_path, "Edit", file_path="x", old_string="a", new_string="b", replace_all=True)
    assert (tmp_path / "x").read_bytes() == b"b\r\nb\n"


@pytest.mark.parametrize(
    ("input", "words"),
    [
        ({}, "missing required field `file_path`"),
        ({"file_path": 3}, r"Expected `str`, got `int` - at `\$\.file_path`"),
        ({"file_path": "x", "colour": "red"}, "unknown field `colour`"),
    ],
)
def test_input_that_does_not_fit_is_told_to_the_model(input: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=words):
        use(tmp_path, "Read", **input)


@pytest.mark.parametrize(("old", "times"), [("a", 2), ("c", 0)])
def test_edit_wants_a_text_that_occurs_once(old: str, times: int, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("a b a")
    with pytest.raises(ToolError, match=f"'{old}' occurs {times} times in 'x.txt'"):
        use(tmp_path, "Edit", file_path="x.txt", old_string=old, new_string="z")
    assert path.read_text() == "a b a"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"'none\.txt' cannot be read: No such file or directory"):
        use(tmp_path, "Read", file_path="none.txt")


# --- commands ---------------------------------------------------------------------------------------


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^oh\nexit code 3$"):
        use(tmp_path, "Bash", command="echo oh; exit 3")


def test_the_demo_gives_commands_a_small_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "s3cret")
    assert "s3cret" not in asyncio.run(demo_shell(tmp_path).run("env", 60))


def test_a_command_without_end_is_ended_with_all_it_started(tmp_path: Path) -> None:
    """`sleep` holds the output open: had it been left alive, this would not return."""
    with pytest.raises(ToolError, match=r"^begun\nno end after 0\.1 seconds$"):
        use(tmp_path, "Bash", command="echo begun; sleep 1000; true", timeout=100)


def test_what_a_command_leaves_running_ends_with_it(tmp_path: Path) -> None:
    assert use(tmp_path, "Bash", command="sleep 1000 & echo done") == "done\n"


def test_of_much_output_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    text = use(tmp_path, "Bash", command="echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo last")
    assert text.startswith("first\n")
    assert text.endswith("xlast\n")
    assert f"\n... {1_000_000 + 11 - 2 * shell.SHOWN:,} bytes left out ...\n" in text


def test_a_command_that_is_cancelled_is_ended_with_all_it_started(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def cancelled() -> str:
        command = asyncio.create_task(new_shell(tmp_path).run("sleep 1000 >fifo; true", 60))
        held = await asyncio.to_thread(fifo.open)  # it runs
        command.cancel()
        await asyncio.wait({command})
        assert command.cancelled()
        with held:
            return await asyncio.to_thread(held.read)

    assert asyncio.run(cancelled()) == ""  # the end of the file: nobody holds it any more


@pytest.mark.parametrize("rounds", range(6))
def test_a_command_that_is_cancelled_while_it_starts(rounds: int, tmp_path: Path) -> None:
    """Whenever the cancellation comes, nothing is left that asyncio would complain about."""

    async def cancelled() -> None:
        command = asyncio.create_task(new_shell(tmp_path).run("sleep 1000; true", 60))
        for _ in range(rounds):
            await asyncio.sleep(0)
        command.cancel()
        await asyncio.wait({command})
        assert command.cancelled()

    asyncio.run(cancelled())
