"""Files that were read before a session is resumed can be changed after it, by the real command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.stage import Serve, Stage
from mainspring.processes import read_log
from mainspring.processes.atomic_write import MOST_REMEMBERED, ReadSet, digest
from mainspring.processes.paths import resolve_path
from mainspring.simulator.replies import Say

ALLOWED = "--permission-mode=acceptEdits"
CHANGED = "changed since it was read"


def read(path: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_read", "name": "Read", "input": {"file_path": path}}


def edit(path: str, old: str, new: str, name: str = "toolu_edit") -> dict[str, Any]:
    given = {"file_path": path, "old_string": old, "new_string": new}
    return {"type": "tool_use", "id": name, "name": "Edit", "input": given}


def result(stage: Stage) -> str:
    (block,) = [one for one in stage.requests[-1].body["messages"][-1]["content"] if one["type"] == "tool_result"]
    return str(block["content"][0]["text"])


def begun(serve: Serve, *more: Say) -> tuple[Stage, str]:
    """A session that has read a file."""
    stage = serve(Say.of(read("a.txt")), Say.of("Read."), *more)
    (stage.folder / "a.txt").write_text("one\ntwo\n")
    assert stage.run("-p", "read it", ALLOWED).stdout == b"Read.\n"
    [file] = stage.sessions()
    return stage, file.stem


def test_a_file_that_was_read_can_be_edited_after_a_resume(serve: Serve) -> None:
    stage, session = begun(
        serve, Say.of(edit("a.txt", "two", "2")), Say.of("Done."), Say.of(edit("a.txt", "2", "three")), Say.of("Again.")
    )
    stage.run("-p", "edit it", "--resume", session, ALLOWED)
    assert (stage.folder / "a.txt").read_text() == "one\n2\n", result(stage)
    stage.run("-p", "edit it again", "--resume", session, ALLOWED)
    assert (stage.folder / "a.txt").read_text() == "one\nthree\n", result(stage)


def test_a_fork_knows_it_too(serve: Serve) -> None:
    stage, session = begun(serve, Say.of(edit("a.txt", "two", "2")), Say.of("Done."))
    stage.run("-p", "edit it", "--resume", session, "--fork-session", ALLOWED)
    assert (stage.folder / "a.txt").read_text() == "one\n2\n", result(stage)


def test_it_outlasts_a_summary(serve: Serve) -> None:
    stage, session = begun(
        serve, Say.of("## Task\nRead."), Say.of(edit("a.txt", "two", "2")), Say.of("Done."), Say.of("Done.")
    )
    done = stage.run("-p", "/compact", "--resume", session, ALLOWED, "--output-format=stream-json", "--verbose")
    assert b'"compact_boundary"' in done.stdout, done
    stage.run("-p", "edit it", "--resume", session, ALLOWED)
    assert (stage.folder / "a.txt").read_text() == "one\n2\n", result(stage)


@pytest.mark.parametrize("stamped", ["now", "as it was"])
def test_a_file_that_was_changed_meanwhile_is_refused(serve: Serve, stamped: str) -> None:
    stage, session = begun(serve, Say.of(edit("a.txt", "two", "2")), Say.of("Done."))
    file = stage.folder / "a.txt"
    before = file.stat()
    file.write_text("one\ntwo\nthree\n")
    if stamped != "now":
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    stage.run("-p", "edit it", "--resume", session, ALLOWED)
    assert CHANGED in result(stage)
    assert file.read_text() == "one\ntwo\nthree\n"


def test_a_file_that_was_written_anew_with_the_same_content_is_the_same(serve: Serve) -> None:
    stage, session = begun(serve, Say.of(edit("a.txt", "two", "2")), Say.of("Done."))
    file = stage.folder / "a.txt"
    file.unlink()
    file.write_text("one\ntwo\n")
    stage.run("-p", "edit it", "--resume", session, ALLOWED)
    assert file.read_text() == "one\n2\n", result(stage)


def test_a_file_that_was_never_read_is_read_first(serve: Serve) -> None:
    stage, session = begun(serve, Say.of(edit("b.txt", "x", "y")), Say.of("Done."))
    (stage.folder / "b.txt").write_text("x\n")
    stage.run("-p", "edit it", "--resume", session, ALLOWED)
    assert (stage.folder / "b.txt").read_text() == "y\n", result(stage)
    [file] = stage.sessions()
    assert "b.txt" in Path(read_log_of(file)).read_text()
    assert "is read first" in file.read_text()


@pytest.mark.parametrize("change", [False, True])
def test_what_another_program_has_shown_counts_until_it_is_touched(serve: Serve, change: bool) -> None:
    """Of those reads only the time is known."""
    stage, session = begun(serve, Say.of(edit("a.txt", "two", "2")), Say.of("Done."))
    [file] = stage.sessions()
    Path(read_log_of(file)).unlink()
    if change:
        (stage.folder / "a.txt").write_text("one\ntwo\nthree\n")
    stage.run("-p", "edit it", "--resume", session, ALLOWED)
    if change:
        assert CHANGED in result(stage)
    else:
        assert (stage.folder / "a.txt").read_text() == "one\n2\n", result(stage)


def read_log_of(file: Path) -> str:
    from mainspring.sessions.paths import read_log

    return read_log(file)


# --- the log itself ---


def test_a_log_is_bounded_and_survives_damage(tmp_path: Path) -> None:
    log = str(tmp_path / "side" / "log")
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    for number in range(8_000):
        read_log.append_to_read_log(log, f"{folder}/{number}", digest(b"x"))
    with Path(log).open("ab") as file:
        file.write(b"\xff\xfe torn\n\nno digest\n" + digest(b"y").encode() + b" /cut-of")
    found = read_log.load_read_log(log)
    assert list(found)[-1] == f"{folder}/7999"
    assert f"{folder}/0" not in found
    assert "/cut-of" not in found
    assert Path(log).stat().st_size < read_log.MOST_BYTES
    assert read_log.load_read_log(log)[f"{folder}/7999"] == digest(b"x")
    assert len(found) < MOST_REMEMBERED


def test_a_log_behind_a_link_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "log").symlink_to(target)
    path = tmp_path / "a.txt"
    path.write_text("a")
    seen = ReadSet(str(tmp_path / "log"))
    seen.remember(resolve_path(str(path), str(tmp_path)), b"a")
    assert target.read_text() == "mine"
    assert seen.of(resolve_path(str(path), str(tmp_path))) == digest(b"a")


def part(path: str) -> dict[str, Any]:
    given = {"file_path": path, "offset": 1, "limit": 1}
    return {"type": "tool_use", "id": "toolu_part", "name": "Read", "input": given}


def test_a_part_that_was_read_is_enough_as_before_the_resume(serve: Serve) -> None:
    stage = serve(Say.of(part("a.txt")), Say.of("Read."), Say.of(edit("a.txt", "two", "2")), Say.of("Done."))
    (stage.folder / "a.txt").write_text("one\ntwo\n")
    stage.run("-p", "read it", ALLOWED)
    [file] = stage.sessions()
    stage.run("-p", "edit it", "--resume", file.stem, ALLOWED)
    assert (stage.folder / "a.txt").read_text() == "one\n2\n", result(stage)


def test_a_file_that_was_read_through_a_link(serve: Serve) -> None:
    stage = serve(Say.of(read("link.txt")), Say.of("Read."), Say.of(edit("a.txt", "two", "2")), Say.of("Done."))
    (stage.folder / "a.txt").write_text("one\ntwo\n")
    (stage.folder / "link.txt").symlink_to("a.txt")
    stage.run("-p", "read it", ALLOWED)
    [file] = stage.sessions()
    stage.run("-p", "edit it", "--resume", file.stem, ALLOWED)
    assert (stage.folder / "a.txt").read_text() == "one\n2\n", result(stage)


def test_a_file_that_a_hook_changed_after_an_edit_is_refused(serve: Serve) -> None:
    stage, session = begun(
        serve, Say.of(edit("a.txt", "two", "2")), Say.of("Done."), Say.of(edit("a.txt", "2", "3")), Say.of("Done.")
    )
    hook = {
        "hooks": {"PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "echo x >> a.txt"}]}]}
    }
    (stage.home / "settings.json").write_text(json.dumps(hook))
    stage.run("-p", "edit it", "--resume", session, ALLOWED)
    assert (stage.folder / "a.txt").read_text() == "one\n2\nx\n"
    (stage.home / "settings.json").unlink()
    stage.run("-p", "edit it again", "--resume", session, ALLOWED)
    assert CHANGED in result(stage)


def test_a_notebook_that_was_read(serve: Serve) -> None:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "c1",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": "1",
    }
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    given = {"notebook_path": "a.ipynb", "cell_id": "c1", "new_source": "2"}
    change = {"type": "tool_use", "id": "toolu_nb", "name": "NotebookEdit", "input": given}
    stage = serve(Say.of(read("a.ipynb")), Say.of("Read."), Say.of(change), Say.of("Done."))
    (stage.folder / "a.ipynb").write_text(json.dumps(book))
    stage.run("-p", "read it", ALLOWED)
    [file] = stage.sessions()
    stage.run("-p", "edit it", "--resume", file.stem, ALLOWED)
    assert json.loads((stage.folder / "a.ipynb").read_text())["cells"][0]["source"] in ("2", ["2"]), result(stage)


def test_at_an_earlier_message(serve: Serve) -> None:
    """What was read before the message still counts; so does what was read after it: the digest is of what is there."""
    stage, session = begun(serve, Say.of("More."), Say.of(edit("a.txt", "two", "2")), Say.of("Done."))
    stage.run("-p", "more", "--resume", session, ALLOWED)
    lines = [json.loads(line) for line in stage.sessions()[0].read_text().splitlines()]
    first = [line["uuid"] for line in lines if line["type"] == "assistant"][1]
    stage.run("-p", "edit it", "--resume", session, "--resume-session-at", first, ALLOWED)
    assert (stage.folder / "a.txt").read_text() == "one\n2\n", result(stage)
