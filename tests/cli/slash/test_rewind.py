"""`/rewind` and `/diff`: back to before a prompt, the files, the conversation or both; and what was changed."""

from __future__ import annotations

import re

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.slash.test_conversations import id_of, long_answers, sent, tool_use
from cli.stage import Serve, Stage
from mainspring.agent.slash.lines import SlashCommandError
from mainspring.agent.slash.rewind import RewindArguments, parse_rewind_arguments
from mainspring.agent.updates import Idle
from mainspring.simulator.replies import Say

ON = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
FREE = "--permission-mode=bypassPermissions"
DONE = Say.of("Done.")


def write(name: str, content: str) -> Say:
    return Say.of(tool_use("Write", file_path=name, content=content))


def bash(command: str) -> Say:
    return Say.of(tool_use("Bash", command=command))


def files(stage: Stage) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(stage.folder.iterdir()) if path.is_file()}


async def ask(sitting: Sitting, prompt: str) -> None:
    """Until the session is idle: what changes from then on is the user's."""
    session = sitting.talk.session
    await session.submit(prompt)
    async for update in session.updates():
        if isinstance(update, Idle) and not session.queued:
            break
    await session.checkpoints()  # waits until the one after the run is complete


def without_ages(shown: str) -> list[str]:
    return [re.sub(r"\((now|\d+ \w+ ago), ", "(", line) for line in shown.split("\n")]


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("", RewindArguments()),
        ("2", RewindArguments("2")),
        ("2 --files", RewindArguments("2", conversation=False)),
        ("--conversation checkpoint:7", RewindArguments("checkpoint:7", files=False)),
        (
            "1 --include 'my notes.md' --include b --dry-run",
            RewindArguments("1", include=("my notes.md", "b"), dry_run=True),
        ),
    ],
)
def test_arguments(words: str, given: RewindArguments) -> None:
    assert parse_rewind_arguments(words) == given


@pytest.mark.parametrize("words", ["1 2", "--all", "1 --include", "'1", "1 --files --conversation"])
def test_wrong_arguments_are_refused(words: str) -> None:
    with pytest.raises(SlashCommandError, match=r"Cannot read|exclude each other"):
        parse_rewind_arguments(words)


# --- a rewind -------------------------------------------------------------------------------------------------------


def test_files_and_conversation_go_back_and_forth(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(write("a", "1\n"), DONE, bash("echo 2 >> a; echo 2 > b"), DONE, DONE)
    here(stage, monkeypatch, **ON)

    async def play(sitting: Sitting) -> None:
        talk = sitting.talk
        assert await sitting.said("/rewind") == "Nothing to rewind yet."
        await ask(sitting, "one")
        await ask(sitting, "two")
        both = files(stage)
        assert both == {"a": "1\n2\n", "b": "2\n"}
        shown = without_ages(await sitting.said("/rewind"))
        assert shown[:2] == ["   2  one  (1 file changed)", "   1  two  (2 files changed)"]
        assert shown[2].startswith("Type /rewind N to go back to before that prompt")
        assert await sitting.said("/rewind 3") == "No prompt '3'. Type /rewind to list them; 1 is the last one."
        shown = (await sitting.said("/rewind 1 --dry-run")).split("\n")
        assert shown == [
            "Would restore 2 files, +0 -2:",
            "  a  +0 -1",
            "  b  deleted, +0 -1",
            "Would rewind the conversation to before that prompt.",
        ]
        assert files(stage) == both
        first = id_of(talk)
        shown = (await sitting.said("/rewind 1")).split("\n")
        assert files(stage) == {"a": "1\n"}
        assert shown[0] == "Restored 2 files, +0 -2:"
        assert re.fullmatch(r"To undo this, type /rewind checkpoint:\d+\.", shown[3])
        assert shown[4].endswith(f"Type /resume {first[:8]} to go back to the full conversation.")
        assert (shown[5], talk.draft) == ("Your prompt was: two", "two")
        assert id_of(talk) != first
        shown = without_ages(await sitting.said("/rewind"))
        assert shown[0] == "   1  one  (1 file changed)"
        assert re.fullmatch(r"checkpoint:\d+  before the rewind at \d\d:\d\d  \(undoes that rewind\)", shown[1])
        undo = shown[1].split()[0]
        assert "two" not in await sitting.said("/diff"), "that prompt is not in this conversation"
        await sitting.said(f"/rewind {undo}")
        assert (files(stage), id_of(talk)) == (both, first), "the files and the conversation are back"
        await ask(sitting, "three")
        assert [text for text in sent(stage) if text in ("one", "two", "three")] == ["one", "two", "three"]

    sat(play, FREE)


def test_only_files_and_only_the_conversation(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(write("a", "1\n"), DONE, write("b", "2\n"), DONE)
    here(stage, monkeypatch, **ON)

    async def play(sitting: Sitting) -> None:
        await ask(sitting, "one")
        await ask(sitting, "two")
        before = id_of(sitting.talk)
        await sitting.said("/rewind 1 --files")
        assert (files(stage), id_of(sitting.talk), sitting.talk.draft) == ({"a": "1\n"}, before, "")
        await sitting.said("/rewind 2 --conversation")
        assert (files(stage), sitting.talk.draft) == ({"a": "1\n"}, "one")
        assert id_of(sitting.talk) != before

    sat(play, FREE)


def test_what_the_user_changed_since_is_kept_unless_it_is_included(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve(write("a", "1\n"), DONE, DONE)
    here(stage, monkeypatch, **ON)
    (stage.folder / "my notes").write_text("before\n")

    async def play(sitting: Sitting) -> None:
        await ask(sitting, "one")
        (stage.folder / "my notes").write_text("after\n")
        await ask(sitting, "two")
        shown = await sitting.said("/rewind 2 --files")
        assert "1 file was kept, because you changed it since:\n  my notes  +1 -1" in shown
        assert files(stage) == {"my notes": "after\n"}
        await sitting.said("/rewind 2 --files --include 'my notes'")
        assert files(stage) == {"my notes": "before\n"}

    sat(play, FREE)


def test_across_a_compaction_and_a_resume(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: the prompts before a summary can be rewound to, also in another process."""
    stage = serve(write("a", "1\n"), *long_answers(1), DONE, Say.of("A summary."), Say.of("New."))
    here(stage, monkeypatch, **ON)
    ids: list[str] = []

    async def first(sitting: Sitting) -> None:
        await ask(sitting, "one")
        await ask(sitting, "two")
        await ask(sitting, "/compact")
        ids.append(id_of(sitting.talk))

    async def second(sitting: Sitting) -> None:
        shown = without_ages(await sitting.said("/rewind"))
        assert shown[:2] == ["   2  one  (1 file changed)", "   1  two  (no files changed)"]
        await sitting.said("/rewind 2")
        assert (files(stage), sitting.talk.draft) == ({}, "one")
        await ask(sitting, "another one")
        assert sent(stage) == ["another one"]

    sat(first, FREE)
    sat(second, FREE, f"--resume={ids[0]}")


def test_without_checkpoints_the_conversation_goes_back(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(write("a", "1\n"), DONE)
    here(stage, monkeypatch)
    stage.home.joinpath("settings.json").write_text('{"fileCheckpointingEnabled": false}')

    async def play(sitting: Sitting) -> None:
        await ask(sitting, "one")
        assert without_ages(await sitting.said("/rewind"))[0] == "   1  one  (no file checkpoint)"
        assert "no file checkpoint" in await sitting.said("/rewind 1 --files")
        await sitting.said("/rewind 1")
        assert (files(stage), sitting.talk.draft) == ({"a": "1\n"}, "one")

    sat(play, FREE)


# --- what was changed -----------------------------------------------------------------------------------------------


def test_the_diff_is_by_prompt(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(write("a", "1\n"), DONE, DONE, bash("echo 2 >> a; chmod 700 a; printf '\\0' > c"), DONE)
    here(stage, monkeypatch, **ON)

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/diff") == "This session has not changed any files."
        for words in ("one", "two", "three"):
            await ask(sitting, words)
        assert (await sitting.said("/diff")).split("\n") == [
            "Prompt 3: one (1 file, +1 -0)",
            "--- /dev/null",
            "+++ b/a",
            "@@ -0,0 +1,1 @@",
            "+1",
            "",
            "Prompt 1: three (2 files, +1 -0)",
            "--- a/a",
            "+++ b/a",
            "@@ -1,1 +1,2 @@",
            " 1",
            "+2",
            "c: created, binary",
        ]
        assert await sitting.said("/diff 1 --stat") == (
            "Prompt 1: three (2 files, +1 -0)\n  a  +1 -0, permissions\n  c  created, binary"
        )
        assert await sitting.said("/diff 2") == "This session has not changed any files."
        assert await sitting.said("/diff 9") == "No prompt '9' with a file checkpoint. 1 is the last one."
        assert await sitting.said("/diff all") == "Cannot read 'all'. Usage: /diff [N] [--stat]"

    sat(play, FREE)
