"""`mainspring trace`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from mainspring.agent.options import StartError
from mainspring.cli.commands.trace import write_whole
from mainspring.cli.subcommands import main
from mainspring.sessions.paths import draft_of, folder_of
from viewer.stage import ID, story


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With one session, of the folder that we are in."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    folder = Path(folder_of(tmp_path / "home", work))
    folder.mkdir(parents=True)
    story(folder)
    return folder


def command(*words: str, **flags: Any) -> int:
    given = [f"--{name}" if value is True else f"--{name}={value}" for name, value in flags.items()]
    return main(["trace", *words, *given])


@pytest.mark.parametrize("name", [(), (ID,), (ID[:4],), (ID.upper(),)])
def test_text_of_the_newest_or_the_named_session(
    home: Path, name: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*name, text=True) == 0
    said = capsys.readouterr().out
    assert "2 runs, 6 turns" in said
    assert "\x1b" not in said


def test_json_is_the_whole_and_then_a_span_a_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(json=True) == 0
    head, *spans = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (head["id"], head["spans"]) == (ID, len(spans))
    assert {span["kind"] for span in spans} >= {"run", "model", "tool", "question", "agent", "compaction", "retry"}


def test_html_is_not_written_through_a_link_that_lies_there(home: Path, tmp_path: Path) -> None:
    """A command in the sandbox can guess the name under which the file is begun."""
    file, mine = tmp_path / "trace.html", tmp_path / "mine"
    mine.write_text("mine")
    Path(draft_of(file)).symlink_to(mine)
    with pytest.raises(FileExistsError):
        write_whole(str(file), b"data")
    assert (mine.read_text(), file.exists()) == ("mine", False)


def test_html_is_written_whole_and_for_its_owner(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.html"
    file.write_text("old")
    assert command(html=str(file)) == 0
    assert file.read_bytes().startswith(b"<!doctype html>")
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.glob(".trace*")) == []
    assert "kilobyte" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "flags", "said"),
    [
        (
            ("nothing",),
            {"text": True},
            "No conversation found with session ID: nothing. Run 'mainspring sessions' to list",
        ),
        (("a", "b"), {}, "'mainspring trace': unknown argument 'b'"),
        ((), {"text": True, "json": True}, "'--json' and '--text' cannot be combined: choose one"),
        ((), {"json": True, "port": 1}, "'--port' cannot be combined with '--json'"),
        ((), {"html": "/nowhere/x.html"}, "No such file or directory"),
    ],
)
def test_what_cannot_be_done_says_why(home: Path, words: tuple[str, ...], flags: dict[str, Any], said: str) -> None:
    with pytest.raises(StartError) as raised:
        command(*words, **flags)
    assert said in str(raised.value)


def test_a_folder_without_sessions_says_how(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StartError, match="no sessions in"):
        command(text=True)


def test_a_port_that_is_taken_says_so(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=rf"cannot listen on port {port} \(Address already in use\): leave"):
            command(port=port)


def test_a_reader_that_has_seen_enough_is_no_trouble(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `mainspring trace --text | head -1`: the command's own end of it is in `main.py`."""
    out, into = os.pipe()
    os.close(out)
    with pytest.raises(BrokenPipeError), open(into, "w", buffering=1, encoding="utf-8") as pipe:  # noqa: PTH123  # a descriptor
        monkeypatch.setattr(sys, "stdout", pipe)
        command(text=True)


SERVE = """
from mainspring.cli.subcommands import main
raise SystemExit(main(["trace"]))
"""


def test_it_serves_until_it_is_told_to_end(home: Path) -> None:
    """In a process of its own: the address is the first line, Ctrl-C ends it, and no browser is opened."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True, env={**os.environ, "BROWSER": "false"}
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(f"{address}api/head", timeout=20) as answer:
            assert json.loads(answer.read())["id"] == ID
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
