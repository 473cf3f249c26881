"""`mainspring replay`, `fork`, `compare` and `what-if`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from viewer.stage import ID, write

from cli.stage import PATIENCE, Serve, Stage
from mainspring.agent.options import StartError
from mainspring.cli.subcommands import main
from mainspring.sessions.paths import folder_of
from mainspring.simulator.replies import Refuse, Say
from mainspring.testing import World, call, says

OTHER = "11119999-2222-4333-8444-555555555555"
FIGURES = ("turns", "calls", "outcome", "answer")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With two sessions of the folder that we are in, which differ in their last answer."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    folder = Path(folder_of(tmp_path / "home", work))
    folder.mkdir(parents=True)
    for name, answer in ((ID, "It is 5."), (OTHER, "It is 6.")):
        look = says("Let me look.", call("Read", "c1", text="old"))
        write(folder / f"{name}.jsonl", World([look, says(answer)]), "What is it?")
    return folder


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(list(words))
    return code, capsys.readouterr().out


def decoded(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code, out = printed(capsys, *words, "--json")
    return code, json.loads(out)


@pytest.mark.parametrize("name", [(), (ID,), (ID.upper(),), ("111111",), ("./{file}",), ("{file}",)])
def test_a_session_whose_decisions_are_the_same(
    home: Path, name: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home) if name and "{" in name[0] else None
    words = [one.format(file=f"{ID}.jsonl") for one in name]
    code, said = printed(capsys, "replay", *words)
    assert code == 0
    assert said.startswith("7 decisions of session 1111")
    assert said.endswith("replayed: all are the same.\n")


def test_a_session_whose_decisions_are_not(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / f"{ID}.jsonl"
    data = file.read_bytes()
    place = data.rindex(b'"checkpoint":')
    file.write_bytes(data[:place] + data[place:].replace(b'"turn":2', b'"turn":3', 1))
    code, said = printed(capsys, "replay", ID)
    assert (code, said.splitlines()) == (
        1,
        [
            f"7 decisions of session {ID} replayed: 1 difference.",
            "  step 7 (run 1, turn 2), HooksDone > Finish: the checkpoint has a different 'turn'",
        ],
    )
    code, report = decoded(capsys, "replay", ID)
    assert (code, report["same"], report["steps"], report["marks"]) == (1, False, 7, {"fits": 6, "differs": 1})
    assert [one["why"] for one in report["differences"]] == ["the checkpoint has a different 'turn'"]


def test_two_sessions_side_by_side(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = printed(capsys, "compare", ID, OTHER)
    lines = said.splitlines()
    assert code == 1
    assert lines[:3] == ["First difference, in turn 2:", "  A: reply: It is 5.", "  B: reply: It is 6."]
    assert [line.split() for line in lines[4:6]] == [["A", "B"], ["session", ID, OTHER]]
    assert ["cost", "$0.0008", "$0.0008"] in [line.split() for line in lines]
    assert max(map(len, lines)) <= 100
    code, found = decoded(capsys, "compare", ID, OTHER)
    assert (code, found["same"], found["first"]["b"], found["b"]["cost"]) == (1, False, "It is 6.", 800_000)
    code, said = printed(capsys, "compare", ID, ID)
    assert (code, said.splitlines()[0]) == (0, "No difference.")


def test_a_fork_after_a_turn(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "fork", ID, "--list") == (
        0,
        '❯ What is it?\n    1  Let me look. Read {"text":"old"}\n    2  It is 5.\n',
    )
    code, forked = decoded(capsys, "fork", ID, "--at", "1")
    assert (code, forked["turns"], forked["messages"], forked["source"]) == (0, 1, 3, ID)
    assert Path(forked["file"]).parent == home
    code, said = printed(capsys, "compare", ID, forked["id"])
    assert (code, said.splitlines()[:3]) == (
        1,
        ["Compared after 1 common turn.", "First difference, in turn 2:", "  A: reply: It is 5."],
    )
    assert ["outcome", "completed,", "end_turn", "-"] in [line.split() for line in said.splitlines()]
    _, listed = printed(capsys, "sessions")
    assert "What is it? (fork after turn 1)" in listed
    _, turns = decoded(capsys, "fork", ID, "--list")
    assert [row.get("turn") for row in turns] == [None, 1, 2]
    code, said = printed(capsys, "fork", ID, "--at", turns[1]["id"])
    assert (code, said.splitlines()[0].split(":")[0]) == (0, f"Forked session {ID}")


def test_a_file_from_elsewhere_is_forked_into_this_folder(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "copy.jsonl"
    elsewhere.write_bytes((home / f"{ID}.jsonl").read_bytes())
    _, forked = decoded(capsys, "fork", str(elsewhere), "--at=1")
    assert Path(forked["file"]).parent == home
    assert [one.name for one in tmp_path.glob("*.jsonl")] == ["copy.jsonl"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("replay", "11111112"),
            f"No conversation found with session ID: 11111112. Similar ids: '{ID}', '{OTHER}'. Run",
        ),
        (("replay", "zzzz"), "No conversation found with session ID: zzzz. Run 'mainspring sessions'"),
        (("replay", "1111"), "'1111' matches 2 sessions"),
        (("replay", "./none.jsonl"), "cannot read './none.jsonl': No such file or directory"),
        (("replay", "/"), "no sessions in '"),
        (("replay", "/dev/null"), "'/dev/null' has no decisions to replay"),
        (("compare", ID, "/dev/null"), "'/dev/null' contains no session"),
        (("compare", ID), "'mainspring compare': the following arguments are required: B"),
        (("fork", ID, "--at", "3"), f"turn 3 does not exist: session '{ID}' has 2 turns"),
        (("fork", ID, "--at", "last"), "'--at last': give the number of a turn"),
        (("fork", ID, "--at", OTHER), f"No message found with message.uuid of: {OTHER}"),
        (("what-if", ID), "nothing is changed: give another model, prompt or compaction"),
        (("what-if", ID, "--model=x", "--at", ID), f"'--at {ID}': give the number of a turn"),
        (("what-if", ID, "--compaction=maybe"), "invalid choice: 'maybe'"),
        (("what-if", ID, "--compaction=off"), "compaction 'off' changes no decision in 2 turns"),
        (("what-if", ID, "--model=opus", "--at=2"), "turn 2 is the last one: give a prompt, or an earlier turn"),
        (("what-if", ID, "--model=opus", "--max-turns=0"), "'--max-turns' must be a whole number of at least 1"),
    ],
)
def test_what_does_not_fit_is_an_error(home: Path, words: tuple[str, ...], said: str) -> None:
    """Exit code 2: 1 means a difference."""
    with pytest.raises(StartError) as raised:
        main(words)
    assert said in str(raised.value)
    assert (raised.value.code, raised.value.help) == (2, f"mainspring {words[0]} --help")
    assert len(list(home.glob("*.jsonl"))) == 2


# --- with a server ------------------------------------------------------------------------------------------------


def read_call(id: str, path: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": path}}


def record(stage: Stage) -> None:
    (stage.folder / "note.txt").write_text("the old text\n")
    done = stage.run("-p", "What is in note.txt?", f"--session-id={ID}")
    assert (done.returncode, done.stdout) == (0, b"It is old.\n")


def test_another_model_gets_the_recorded_results(serve: Serve, tmp_path: Path) -> None:
    note = str(tmp_path / "work" / "note.txt")
    stage = serve(
        Say.of("Let me look.", read_call("toolu_1", note)),
        Say.of("It is old."),
        Say.of("I look.", read_call("toolu_9", note)),
        Say.of("Old, it is."),
    )
    record(stage)
    (stage.folder / "note.txt").write_text("another text\n")
    done = stage.run("what-if", ID[:8], "--model", "opus", "--at", "0", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    asked, answered = [request.body for request in stage.requests[-2:]]
    assert asked["model"] == answered["model"] == found["comparison"]["b"]["models"][0]
    assert "the old text" in json.dumps(answered["messages"])
    assert "another text" not in json.dumps(answered["messages"])
    assert (found["recorded_calls"], found["other_calls"], found["after_turn"]) == (1, 0, 0)
    a, b = found["comparison"]["a"], found["comparison"]["b"]
    assert [a[name] for name in FIGURES] == [2, 1, "completed, end_turn", "It is old."]
    assert [b[name] for name in FIGURES] == [2, 1, "completed, end_turn", "Old, it is."]
    assert a["cost"] < b["cost"]
    shown = stage.run("sessions").stdout.decode()
    assert "What is in note.txt? (what if after turn 0)" in shown
    assert stage.run("replay", found["id"]).returncode == 0


def test_another_prompt_as_text_and_a_server_that_refuses(serve: Serve, tmp_path: Path) -> None:
    note = str(tmp_path / "work" / "note.txt")
    stage = serve(
        Say.of("Let me look.", read_call("toolu_1", note)),
        Say.of("It is old."),
        Say.of("Nothing."),
        Refuse(401, "authentication_error", "invalid key"),
    )
    record(stage)
    done = stage.run("what-if", ID, "--prompt", "What is not in it?", "--at", "1")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0] == "The past: 1 turn from the record."
    assert lines[1].startswith("The future: session ")
    assert lines[2:5] == [
        "First difference, in turn 2:",
        "  recorded: reply: It is old.",
        "  what if: prompt: What is not in it?",
    ]
    assert ["answer", "It", "is", "old.", "Nothing."] in [line.split() for line in lines]
    done = stage.run("what-if", ID, "--model", "opus")
    assert done.returncode == 1
    assert "The new run failed: " in done.stdout.decode()


def test_an_interrupt_ends_the_future(serve: Serve, tmp_path: Path) -> None:
    note = str(tmp_path / "work" / "note.txt")
    slow = Say.of("It will take a while to write all of this.", pace_ms=60_000)
    stage = serve(Say.of("Let me look.", read_call("toolu_1", note)), Say.of("It is old."), slow)
    record(stage)
    process = stage.start("what-if", ID, "--model", "opus")
    try:
        stage.until(lambda: len(stage.requests) == 3)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, out, error) == (130, b"", b"mainspring: interrupted\n")
    assert len(stage.sessions()) == 2  # what was recorded of it stays
