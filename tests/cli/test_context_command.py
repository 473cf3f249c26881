"""`mainspring context`: over sessions that the command itself has written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli.stage import Serve, Stage
from mainspring.agent.options import StartError
from mainspring.cli.subcommands import main
from mainspring.core.money import Usage
from mainspring.simulator.replies import Reply, Say

Show = Callable[..., str]

FIXED = 9_000  # tokens that this server counts for system text and tools


def read(n: int, prompt: int) -> Say:
    call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": {"file_path": f"{n}.txt"}}
    return Say.of(f"Look {n}.", call, usage=Usage(input=prompt, output=40))


def reads(times: int, each: int) -> list[Reply]:
    """A session that reads files of the same length, and a server that counts `each` tokens for every turn."""
    replies: list[Reply] = [read(n, FIXED + 500 + each * n) for n in range(times)]
    return [*replies, Say.of("All read.", usage=Usage(input=FIXED + 500 + each * times, output=10))]


def files(stage: Stage, number: int, lines: int) -> None:
    for n in range(number):
        (stage.folder / f"{n}.txt").write_text(f"file {n}\n" + "words and words\n" * lines)


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Stage], Show]:
    """The command, in the folder and with the home of a stage; what it prints."""

    def of(stage: Stage) -> Show:
        monkeypatch.chdir(stage.folder)
        monkeypatch.setenv("MAINSPRING_HOME", str(stage.home))

        def run(*words: str, given: tuple[str, ...] = ()) -> str:
            capsys.readouterr()
            assert main(["context", *words, *given]) == 0
            return capsys.readouterr().out

        return run

    return of


def figures(show: Show, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(show(*words, given=("--json",)))
    return found


def test_what_fills_the_window_of_the_newest_session(serve: Serve, show: Callable[[Stage], Show]) -> None:
    stage = serve(*reads(3, 2_600))
    files(stage, 3, 500)
    (stage.folder / "AGENTS.md").write_text("Always speak Dutch.\n" * 20)
    assert stage.run("-p", "read all", "--model=claude-sonnet-4-5").returncode == 0
    text = show(stage)()
    assert max(map(len, text.splitlines())) <= 80
    assert f"Session {stage.sessions()[0].stem}, claude-sonnet-4-5" in text
    assert "compacted at 167,000: 1" in text
    assert "blocked at 177,000: 1" in text
    assert "No layer has removed anything yet." in text
    found = figures(show(stage))
    assert found["counted"] is True
    assert found["tokens"] == pytest.approx(FIXED + 500 + 3 * 2_600 + 10, rel=0.01)
    parts = {part["part"]: part for part in found["parts"]}
    assert list(parts) == [
        "system text", "tools", "memory", "environment", "the user's words", "replies", "calls", "results: Read"
    ]  # fmt: skip
    assert parts["system text"]["tokens"] + parts["tools"]["tokens"] == pytest.approx(FIXED, rel=0.05)
    assert parts["results: Read"]["blocks"] == 3
    assert sum(part["share"] for part in found["parts"]) == pytest.approx(1)
    assert found["cached"] == found["tokens"] * 300  # nano-dollars; a tenth of three dollars a million
    assert found["fresh"] == found["tokens"] * 3_750
    assert [(block["turn"], block["tool"]) for block in found["largest"][:3]] == [(1, "Read"), (2, "Read"), (3, "Read")]
    assert found["largest"][0]["about"] == "0.txt"
    assert found["to_compaction"] == 167_000 - found["tokens"]
    assert found["to_block"] == 177_000 - found["tokens"]


def test_what_the_layers_took_out_of_a_long_session(serve: Serve, show: Callable[[Stage], Show]) -> None:
    """A small window, and a server that counts nothing we could rely on: layers act, and their work is told."""
    stage = serve(*[read(n, 0) for n in range(30)], Say.of("All read.", usage=Usage()))
    files(stage, 30, 500)
    assert stage.run("-p", "read all", "--context-window=40000").returncode == 0
    found = figures(show(stage))
    removed = {one["layer"]: one for one in found["removed"]}
    assert removed["microcompact"]["times"] >= 1
    assert removed["microcompact"]["freed"] > 5_000
    assert found["window"] == 40_000
    assert found["counted"] is False
    text = show(stage)()
    assert "estimated" in text
    assert "Removed during the session:\nlayer" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_compaction_that_was_asked_for_is_told_with_its_kind(serve: Serve, show: Callable[[Stage], Show]) -> None:
    summary = Say.of("## Task\nread", usage=Usage(input=30_000, output=20))
    stage = serve(*reads(12, 2_600), summary)
    files(stage, 12, 500)
    assert stage.run("-p", "read all", "--model=claude-sonnet-4-5").returncode == 0
    before = figures(show(stage))
    assert stage.run("-p", "/compact", "--continue", "--model=claude-sonnet-4-5").returncode == 0
    after = figures(show(stage))
    [made] = [one for one in after["removed"] if one["layer"] == "summary"]
    assert (made["times"], made["failed"]) == (1, 0)
    assert made["cost"] == 30_000 * 3_000 + 20 * 15_000
    assert "summaries" in [part["part"] for part in after["parts"]]
    assert after["tokens"] < before["tokens"] - made["freed"] // 2
    assert after["counted"] is False  # nobody has counted what is left of it
    assert figures(show(stage), stage.sessions()[0].stem) == after  # by its id, too


def test_as_a_command(serve: Serve) -> None:
    stage = serve(*reads(2, 2_600))
    files(stage, 2, 500)
    none = stage.run("context")
    assert (none.returncode, none.stdout) == (1, b"")
    assert none.stderr.startswith(b"mainspring: no sessions in '")
    stage.run("-p", "read all")
    shown = stage.run("context", stage.sessions()[0].stem)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert shown.stdout.startswith(b"Session ")
    assert json.loads(stage.run("context", "--json").stdout)["session_id"] == stage.sessions()[0].stem
    odd = stage.run("context", "--keep")
    assert odd.returncode == 1
    assert b"unknown argument '--keep'" in odd.stderr


def test_a_damaged_journal_is_reckoned_as_far_as_it_goes(serve: Serve, show: Callable[[Stage], Show]) -> None:
    stage = serve(*reads(3, 2_600))
    files(stage, 3, 500)
    stage.run("-p", "read all")
    [file] = stage.sessions()
    lines = file.read_bytes().splitlines(keepends=True)
    first_event = next(n for n, line in enumerate(lines) if b'"event":' in line)
    file.write_bytes(b"".join(lines[:first_event] + lines[first_event + 1 :]))
    found = figures(show(stage))
    assert "results: Read" in [part["part"] for part in found["parts"]]


def test_text_of_others_cannot_steer_the_terminal(serve: Serve, show: Callable[[Stage], Show]) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "\x1b[31m\u202ered.txt"}}
    stage = serve(Say.of(call), Say.of("No such file. " * 500))
    stage.run("-p", "\x1b]0;title\x07 read it")
    text = show(stage)()
    assert "[31mred.txt" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert [block["about"] for block in figures(show(stage))["largest"] if block["tool"]] == ["[31mred.txt"] * 2


def test_without_a_session_it_says_so_and_the_way_out(
    serve: Serve, show: Callable[[Stage], Show], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve()
    run = show(stage)
    with pytest.raises(StartError, match=r"no sessions in '.*Run 'mainspring sessions' to list"):
        run()
    with pytest.raises(StartError, match=r"No conversation found with session ID: nobody\. Run 'mainspring sessions'"):
        run("nobody")
    with pytest.raises(StartError, match="'mainspring context': unknown argument 'more'"):
        run("one", "more")
    monkeypatch.delenv("MAINSPRING_HOME")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", "nowhere")
    with pytest.raises(StartError, match="set MAINSPRING_HOME"):
        run()


def test_the_text_of_an_output_style_counts(serve: Serve, show: Callable[[Stage], Show]) -> None:
    stage = serve(Say.of("Hi.", usage=Usage(input=FIXED, output=1)))
    stage.run("-p", "hi")
    before = [part for part in figures(show(stage))["parts"] if part["part"] == "system text"]
    (stage.home / "output-styles").mkdir()
    (stage.home / "output-styles/long.md").write_text("Say arr. " * 2_000)
    (stage.home / "settings.json").write_text('{"outputStyle": "long"}')
    after = [part for part in figures(show(stage))["parts"] if part["part"] == "system text"]
    assert after[0]["tokens"] > before[0]["tokens"]
