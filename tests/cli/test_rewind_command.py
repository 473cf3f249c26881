"""`mainspring rewind` and `mainspring diff`: on stored sessions, from the outside."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from typing import Any

import pytest

from cli.stage import COMMAND, PATIENCE, Done, Serve, Stage
from mainspring.simulator.replies import Say

ON = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
ID = "abcd1234-1111-4111-8111-111111111111"
FREE = "--permission-mode=bypassPermissions"
DONE = Say.of("Done.")


def call(name: str, **input: Any) -> Say:
    return Say.of({"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input})


REPLIES = (
    call("Write", file_path="a", content="1\n"),
    DONE,
    call("Bash", command="echo 2 >> a; echo 2 > b"),
    DONE,
)


def asked(stage: Stage, *prompts: str, env: dict[str, str] | None = None) -> None:
    """One process for each prompt."""
    for prompt in prompts:
        how = f"--resume={ID}" if stage.sessions() else f"--session-id={ID}"
        done = stage.run("-p", prompt, how, FREE, env=ON if env is None else env)
        assert (done.returncode, done.stdout) == (0, b"Done.\n"), done.stderr


def files(stage: Stage) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(stage.folder.iterdir()) if path.is_file()}


def lines(done: Done) -> list[str]:
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    return done.stdout.decode().splitlines()


def refused(done: Done) -> str:
    assert (done.returncode, done.stdout) == (1, b"")
    return done.stderr.decode()


@pytest.fixture
def stage(serve: Serve) -> Stage:
    stage = serve(*REPLIES, DONE)
    stage.home.mkdir()
    (stage.home / "settings.toml").write_text("autoMemoryEnabled = false\n")
    asked(stage, "one", "two")
    assert files(stage) == {"a": "1\n2\n", "b": "2\n"}
    return stage


# --- what was changed -----------------------------------------------------------------------------------------------


def test_the_diff_is_by_prompt_and_plain_in_a_pipe(stage: Stage) -> None:
    shown = lines(stage.run("diff", ID[:8]))
    assert shown == [
        "Prompt 2: one (1 file, +1 -0)",
        "--- /dev/null",
        "+++ b/a",
        "@@ -0,0 +1,1 @@",
        "+1",
        "",
        "Prompt 1: two (2 files, +2 -0)",
        "--- a/a",
        "+++ b/a",
        "@@ -1,1 +1,2 @@",
        " 1",
        "+2",
        "--- /dev/null",
        "+++ b/b",
        "@@ -0,0 +1,1 @@",
        "+2",
    ]
    assert lines(stage.run("diff")) == shown, "the newest session of this folder"
    assert lines(stage.run("diff", "--stat")) == [
        "Prompt 2: one (1 file, +1 -0)",
        "  a  created, +1 -0",
        "",
        "Prompt 1: two (2 files, +2 -0)",
        "  a  +1 -0",
        "  b  created, +1 -0",
    ]


@pytest.mark.long
def test_the_diff_as_json(stage: Stage) -> None:
    first, second = map(json.loads, lines(stage.run("diff", "--json")))
    assert (first["prompt"], first["text"], second["prompt"], second["text"]) == (2, "one", 1, "two")
    [made] = first["files"]
    assert (made["path"], made["kind"], made["plus"], made["minus"]) == (str(stage.folder / "a"), "created", 1, 0)
    assert "+1\n" in made["diff"]
    assert [one["kind"] for one in second["files"]] == ["changed", "created"]


@pytest.mark.long
def test_the_diff_is_coloured_at_a_terminal(stage: Stage) -> None:
    ours, theirs = pty.openpty()
    try:
        env = stage.environment | {"TERM": "xterm", "NO_COLOR": ""}
        subprocess.run([*COMMAND, "diff"], stdout=theirs, cwd=stage.folder, env=env, timeout=PATIENCE, check=True)
        shown = os.read(ours, 65_536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "\x1b[32m+2\x1b[0m" in shown
    assert "\x1b[1m+++ b/b\x1b[0m" in shown


# --- back -----------------------------------------------------------------------------------------------------------


def test_the_list_names_what_a_rewind_takes(stage: Stage) -> None:
    shown = [re.sub(r"\((now|\d+ \w+ ago), ", "(", line) for line in lines(stage.run("rewind", ID, "--list"))]
    assert shown == ["   2  one  (1 file changed)", "   1  two  (2 files changed)"]
    rows = json.loads(stage.run("rewind", ID, "--list", "--json").stdout)
    assert [(row["to"], row["text"], row["changed"]) for row in rows] == [("1", "two", 2), ("2", "one", 1)]


@pytest.mark.long
def test_a_dry_run_changes_nothing(stage: Stage) -> None:
    before = files(stage), stage.sessions()
    assert lines(stage.run("rewind", ID, "--dry-run")) == [
        f"Would rewind session {ID} to before: two",
        "Would restore 2 files, +0 -2:",
        "  a  +0 -1",
        "  b  deleted, +0 -1",
        "The conversation would continue in a fork.",
    ]
    assert (files(stage), stage.sessions()) == before


def test_files_and_conversation_go_back_and_the_files_forth(stage: Stage) -> None:
    shown = lines(stage.run("rewind", ID))
    assert files(stage) == {"a": "1\n"}
    [fork] = [path.stem for path in stage.sessions() if path.stem != ID]
    assert shown[-1] == f"Continue the conversation: mainspring --resume {fork[:8]}"
    undo = re.fullmatch(rf"Undo it: mainspring rewind {ID[:8]} --to (checkpoint:\d+)", shown[-2])
    assert undo is not None, shown
    asked_again = stage.run("-p", "another two", f"--resume={fork}", FREE, env=ON)
    assert asked_again.stdout == b"Done.\n"
    said = str(stage.requests[-1].body["messages"])
    assert ("'one'" in said, "'two'" in said, "another two" in said) == (True, False, True)
    assert lines(stage.run("rewind", ID, "--to", undo[1]))[-1].startswith("Undo it: ")
    assert files(stage) == {"a": "1\n2\n", "b": "2\n"}


@pytest.mark.long
def test_only_one_of_both(stage: Stage) -> None:
    lines(stage.run("rewind", ID, "--to", "2", "--files"))
    assert (files(stage), len(stage.sessions())) == ({}, 1)
    shown = lines(stage.run("rewind", ID, "--to", "1", "--conversation"))
    assert (files(stage), len(stage.sessions())) == ({}, 2)
    assert len(shown) == 2
    shown = lines(stage.run("rewind", ID, "--to", "2", "--conversation"))
    assert shown[-1] == "It was the first prompt: start a new conversation with 'mainspring'."


@pytest.mark.long
def test_what_the_user_changed_is_kept_unless_included(stage: Stage) -> None:
    (stage.folder / "a").write_text("mine\n")
    shown = lines(stage.run("rewind", ID, "--files"))
    assert "1 file was kept, because you changed it since:" in shown
    assert files(stage) == {"a": "mine\n"}
    lines(stage.run("rewind", ID, "--files", "--include", "a"))
    assert files(stage) == {"a": "1\n"}


@pytest.mark.long
def test_the_report_as_json(stage: Stage) -> None:
    report = json.loads(stage.run("rewind", ID, "--files", "--json").stdout)
    assert [(one["path"], one["kind"]) for one in report["files"]] == [
        (str(stage.folder / "a"), "changed"),
        (str(stage.folder / "b"), "deleted"),
    ]
    assert (report["conversation"], report["session_before"], report["kept"]) == (False, ID, [])


@pytest.mark.long
def test_the_trace_shows_checkpoints_and_rewinds(stage: Stage) -> None:
    lines(stage.run("rewind", ID, "--files"))
    shown = lines(stage.run("trace", "--text", ID))
    runs = [line for line in shown if line.startswith("❯") or "file" in line]
    after = "     file checkpoint after the run"
    assert [line for line in runs if line != after] == [
        "❯ one",
        "     file checkpoint before this prompt, which changed 1 file",
        "❯ two",
        "     file checkpoint before this prompt, which changed 2 files",
        "     file checkpoint before a rewind",
        "     files rewound",
    ]
    kinds = [span["kind"] for span in map(json.loads, lines(stage.run("trace", "--json", ID))[1:])]
    assert (kinds.count("checkpoint") >= 3, kinds.count("rewind")) == (True, 1)


# --- what cannot be done --------------------------------------------------------------------------------------------


def test_errors_say_why_and_what_to_do(stage: Stage) -> None:
    said = refused(stage.run("rewind", "abcd1234-1111-4111-8111-111111111112"))
    assert f"No conversation found with session ID: abcd1234-1111-4111-8111-111111111112. Similar ids: '{ID}'." in said
    said = refused(stage.run("rewind", ID, "--to", "3"))
    assert f"'--to 3': session '{ID}' has no such prompt. 'mainspring rewind {ID[:8]} --list' lists them" in said
    said = refused(stage.run("rewind", ID, "--files", "--conversation"))
    assert "not allowed with argument" in said
    said = refused(stage.run("rewind"))
    assert "required: SESSION" in said
    assert files(stage) == {"a": "1\n2\n", "b": "2\n"}


def test_nothing_to_rewind(serve: Serve) -> None:
    """A stored session without a prompt; and one whose files are as they were."""
    stage = serve(DONE)
    folder = stage.home / "projects" / "p"
    folder.mkdir(parents=True)
    (folder / f"{ID}.jsonl").write_text(
        json.dumps({"type": "custom-title", "customTitle": "t", "sessionId": ID}) + "\n"
    )
    for words in ([], ["--list"], ["--dry-run"], ["--to", "1", "--files"]):
        assert f"nothing to rewind: session '{ID}' has no prompts" in refused(stage.run("rewind", ID, *words))
    (folder / f"{ID}.jsonl").unlink()
    asked(stage, "one")
    shown = lines(stage.run("rewind", ID, "--files"))
    assert shown == [f"Rewound session {ID} to before: one", "No files to restore: none has changed since."]


def test_a_session_in_use_is_left_alone(stage: Stage) -> None:
    import fcntl

    with stage.sessions()[0].open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for how in ("--files", "--conversation"):
            said = refused(stage.run("rewind", ID, how))
            assert f"session '{ID}' is open in process {os.getpid()}" in said
            assert "type /rewind there" in said
        assert stage.run("diff", ID).returncode == 0, "reading is allowed"
    assert files(stage) == {"a": "1\n2\n", "b": "2\n"}


@pytest.mark.long
def test_without_checkpoints_only_the_conversation_goes_back(serve: Serve) -> None:
    stage = serve(*REPLIES)
    stage.home.mkdir()
    (stage.home / "settings.toml").write_text("autoMemoryEnabled = false\nfileCheckpointingEnabled = false\n")
    asked(stage, "one", "two", env={})
    why = f"no file checkpoints are stored for session '{ID}': it ran with checkpoints off"
    assert why in refused(stage.run("diff", ID))
    assert why in refused(stage.run("rewind", ID, "--files"))
    shown = lines(stage.run("rewind", ID))
    assert "There is no file checkpoint for that prompt: the files stay as they are." in shown
    assert len(stage.sessions()) == 2
    assert files(stage) == {"a": "1\n2\n", "b": "2\n"}


@pytest.mark.long
def test_help_says_what_they_take(stage: Stage) -> None:
    shown = stage.run("rewind", "--help").stdout.decode()
    for flag in ("SESSION", "--to N", "--files", "--conversation", "--include PATH", "--list", "--dry-run", "--json"):
        assert flag in shown
    assert "--stat" in stage.run("diff", "--help").stdout.decode()
