"""Lists of sessions, and one as text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainspring.sessions.journal import FileJournal
from mainspring.sessions.listing import WINDOW, find_newest_session, list_sessions_in, render_session
from mainspring.testing import virtually
from sessions.scenes import SCENES
from sessions.stage import ENVELOPE, ID, OTHER, Remembering
from sessions.test_cuts import first_life

THIRD = "33333333-2222-4333-8444-555555555555"


def play(name: str, folder: Path, session_id: str, at: int) -> Path:
    file = folder / f"{session_id}.jsonl"
    virtually(first_life(SCENES[name], file, Remembering()))
    os.utime(file, (at, at))
    return file


def test_a_list(tmp_path: Path) -> None:
    play("text", tmp_path, ID, 1_000)
    titled = play("tool", tmp_path, OTHER, 2_000)
    with titled.open("ab") as file:
        file.write(b'{"type":"custom-title","customTitle":"Mine \\"and\\" yours","sessionId":"x"}\n')
    os.utime(titled, (2_000, 2_000))
    (tmp_path / f"{THIRD}.jsonl").write_text(
        '{"type":"user","uuid":"u","isSidechain":true,"message":{"content":"x"}}\n'
    )
    (tmp_path / "notes.jsonl").write_text("{}\n")
    (tmp_path / "00000000-2222-4333-8444-555555555555.jsonl").touch()
    found = [(e.session_id, e.title, e.cwd, e.turns, e.cost, e.changed) for e in list_sessions_in(tmp_path)]
    assert found == [
        (OTHER, 'Mine "and" yours', "/somewhere", 2, 800_000, 2_000_000),
        (ID, "go", "/somewhere", 2, 800_000, 1_000_000),  # by its first prompt, and not by its last
    ]
    assert [entry.session_id for entry in list_sessions_in(tmp_path, limit=1)] == [OTHER]


def test_the_first_prompt_is_a_title_when_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / f"{ID}.jsonl").write_text(
        '{"type":"user","uuid":"m","isMeta":true,"message":{"content":"hidden"}}\n'
        "torn {\n"
        '{"type":"user","uuid":"u","message":{"content":[{"type":"text","text":"fix  the\\n bug"}]}}\n'
    )
    assert [entry.title for entry in list_sessions_in(tmp_path)] == ["fix the bug"]


def test_the_last_prompt_is_a_title_where_the_first_one_is_too_far_behind(tmp_path: Path) -> None:
    hidden = '{"type":"user","uuid":"m","isMeta":true,"message":{"content":"%s"}}\n' % ("x" * WINDOW)
    said = '{"type":"user","uuid":"u","message":{"content":"fix"}}\n{"type":"last-prompt","lastPrompt":"and again"}\n'
    (tmp_path / f"{ID}.jsonl").write_text(hidden + said)
    assert [entry.title for entry in list_sessions_in(tmp_path)] == ["and again"]
    (tmp_path / f"{ID}.jsonl").write_text(hidden[:100] + '"}}\n' + said)
    assert [entry.title for entry in list_sessions_in(tmp_path)] == ["fix"]


def test_sessions_of_models_for_tests_and_of_the_demo_are_left_out_where_one_is_offered(tmp_path: Path) -> None:
    """What counts is the end: a demo may have become work."""
    line = '{"type":"user","uuid":"u","entrypoint":"%s","message":{"content":"fix"}}\n'
    reply = (
        '{"type":"assistant","uuid":"a","entrypoint":"%s","message":{"id":"r","content":[]}}\n'
        '{"type":"mainspring","v":1,"n":2,"event":{"type":"ContextReady","model":{"type":"Model","name":"%s"}}}\n'
    )
    files = [tmp_path / f"{number}1111111-2222-4333-8444-555555555555.jsonl" for number in range(4)]
    files[0].write_text(line % "cli" + reply % ("cli", "claude-x"))
    files[1].write_text(line % "cli" + reply % ("cli", "demo/tour") + reply % ("cli", "claude-x"))
    files[2].write_text(line % "cli" + reply % ("cli", "demo/tour"))
    files[3].write_text(line % "test" + reply % ("test", "claude-x"))
    for at, file in enumerate(files):
        os.utime(file, (at, at))
    assert [entry.is_trial for entry in list_sessions_in(tmp_path)] == [True, True, False, False]
    assert [entry.file for entry in list_sessions_in(tmp_path, 1, trials=False)] == [files[1]]
    assert find_newest_session(tmp_path) == files[3]
    assert find_newest_session(tmp_path, trials=False) == files[1]


@pytest.mark.covers("L-05")
def test_the_newest(tmp_path: Path) -> None:
    assert find_newest_session(tmp_path / "nowhere") is None
    assert find_newest_session(tmp_path) is None
    first = play("text", tmp_path, ID, 1_000)
    assert find_newest_session(tmp_path) == first
    second = play("text", tmp_path, OTHER, 2_000)
    assert find_newest_session(tmp_path) == second
    second.write_text('{"type":"user","uuid":"u","isSidechain":true,"message":{"content":"x"}}\n')
    assert find_newest_session(tmp_path) == first


def test_one_as_text(tmp_path: Path) -> None:
    file = play("parallel", tmp_path, ID, 1_000)
    with file.open("ab") as out:
        out.write(b"{torn\n")
    rows = file.read_bytes().count(b"\n")
    assert list(render_session(file)) == [
        "",
        "> go",
        "~ hm",
        "Three at once.",
        '  * Read {"ms":5}',
        '  * Read {"ms":1}',
        "  = Read is done",
        "  = Read is done",
        '  * Bash {"ms":2}',
        "  = Bash is done",
        "All done.",
        f"! line {rows}: DecodeError: JSON is malformed: object keys must be strings (byte 1), skipped",
    ]


def test_terminals_are_safe_from_what_is_shown(tmp_path: Path) -> None:
    file = tmp_path / f"{ID}.jsonl"
    file.write_text(
        '{"type":"user","uuid":"u","message":{"content":"\\u001b[31mred\\u202e sk-aaaaaaaaaaaaaaaaaaaaaaaa"}}\n'
    )
    assert list(render_session(file)) == ["", "> ?[31mred? [redacted]"]


def test_a_compaction_is_named(tmp_path: Path) -> None:
    file = play("compaction", tmp_path, ID, 1_000)
    lines = list(render_session(file))
    assert lines.count("--- the conversation was compacted here ---") == 2
    assert lines.index("First.") < lines.index("--- the conversation was compacted here ---") < lines.index("Fourth.")
    assert FileJournal.resume(file, ENVELOPE)[0].how == "checkpoint"
