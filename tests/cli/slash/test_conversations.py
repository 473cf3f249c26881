"""`/rename`, `/rewind`, `/export`, `/add-dir`: what becomes of a conversation by a word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.slash.sitting import Sitting, here, sat
from cli.stage import Serve, Stage
from mainspring.cli.terminal_session import TerminalSession
from mainspring.core.messages import User
from mainspring.sessions.listing import list_sessions_in
from mainspring.sessions.resume import load_session
from mainspring.simulator.replies import Say


def tool_use(name: str, number: int = 0, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}_{number}", "name": name, "input": input}


def id_of(talk: TerminalSession) -> str:
    return talk.world.about.session_id


def sent(stage: Stage, number: int = -1) -> list[str]:
    """What the user said in a request, but for what belongs to every session."""
    messages = stage.requests[number].body["messages"]
    texts = [block.get("text", "") for one in messages if one["role"] == "user" for block in one["content"]]
    return [text for text in texts if text and not text.startswith("<")]


def long_answers(number: int) -> list[Say]:
    """Worth a summary."""
    return [Say.of(f"Answer {place}. " + f"{place} and more words. " * 1_000) for place in range(number)]


# --- a name -------------------------------------------------------------------------------------------------------


def test_a_name_is_kept_and_finds_the_session(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(*[Say.of("Hi.")] * 3)
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/rename") == "Usage: /rename TITLE"
        assert await sitting.said("/rename too early") == "Cannot rename: the session has no prompts yet."
        await sitting.asked("first words")
        assert await sitting.said("/rename") == "Title: 'first words'. Usage: /rename TITLE"
        shown = await sitting.said("/rename  The\x1b[31m  long   walk ")
        assert shown == "Renamed this session to 'The[31m long walk'. Resume it with /resume The[31m long walk."
        await sitting.said("/rename The long walk")
        await sitting.asked("second words")  # its own lines come behind the name

    sat(play)
    [file] = stage.sessions()
    [entry] = list_sessions_in(str(file.parent))
    assert (entry.title, load_session(file).standing.title) == ("The long walk", "The long walk")
    assert load_session(file).how == "checkpoint"

    async def again(sitting: Sitting) -> None:
        await sitting.said("/resume The long walk")
        assert id_of(sitting.talk) == file.stem

    sat(again)


# --- the way back -------------------------------------------------------------------------------------------------


def test_the_way_back_is_a_fork_and_the_old_one_stays(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(*[Say.of(f"Answer {number}.") for number in range(6)])
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        talk = sitting.talk
        assert await sitting.said("/rewind") == "Nothing to rewind yet."
        for words in ("one", "two", "three\nand more"):
            await sitting.asked(words)
        shown = (await sitting.said("/rewind")).split("\n")
        assert [row.partition("  (")[0] for row in shown[:3]] == ["   3  one", "   2  two", "   1  three and more"]
        for wrong in ("4", "0", "two"):
            answer = await sitting.said(f"/rewind {wrong}")
            assert answer == f"No prompt '{wrong}'. Type /rewind to list them; 1 is the last one."
        first, before = id_of(talk), stage.sessions()[0].read_bytes()
        await sitting.said("/model haiku")
        shown = (await sitting.said("/rewind 2")).split("\n")
        assert shown[0] == "There is no file checkpoint for that prompt: the files stay as they are."
        assert shown[1].startswith(f"Rewound the conversation to before that prompt. Type /resume {first[:8]} to go")
        assert shown[2:] == ["Your prompt was: two"]
        assert talk.draft == "two"
        assert id_of(talk) != first
        await sitting.asked("another two")
        assert sent(stage) == ["one", "another two"]
        assert stage.requests[-1].body["model"] == "claude-haiku-5-5"  # what was chosen stays
        old = next(file for file in stage.sessions() if file.stem == first)
        assert old.read_bytes().startswith(before)
        users = [one.text for one in load_session(old).state.history if isinstance(one, User)]
        assert [text for text in users if not text.startswith("<")] == ["one", "two", "three\nand more"]
        second = id_of(talk)
        await sitting.said("/rewind 1")  # of a fork, too
        assert (talk.draft, id_of(talk) != second) == ("another two", True)
        await sitting.asked("a third two")
        assert sent(stage) == ["one", "a third two"]
        await sitting.said(f"/resume {first}")
        await sitting.asked("four")
        assert sent(stage) == ["one", "two", "three\nand more", "four"]

    sat(play)


def test_before_the_first_prompt_is_a_new_conversation(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("Hi."), Say.of("Ho."))
    here(stage, monkeypatch)
    (stage.folder / "AGENTS.md").write_text("Be kind.")

    async def play(sitting: Sitting) -> None:
        await sitting.asked("one")
        await sitting.said("/rewind 1")
        assert sitting.talk.draft == "one"
        await sitting.asked("again")
        assert sent(stage) == ["again"]
        assert len(stage.requests[-1].body["messages"]) == 1

    sat(play)
    assert len(stage.sessions()) == 2


def test_the_way_back_keeps_calls_with_their_results(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server holds every request to the rules of the API: a call without its result would be a violation."""
    calls = [tool_use("Glob", number, pattern=f"*.{number}") for number in range(3)]
    stage = serve(Say.of("I look.", *calls), Say.of("Nothing."), Say.of("Two."), Say.of("Again."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        await sitting.asked("look")
        await sitting.asked("two")
        await sitting.said("/rewind 1")
        await sitting.asked("again")
        body = stage.requests[-1].body["messages"]
        blocks = [block for message in body for block in message["content"]]
        assert [block["type"] for block in blocks].count("tool_result") == 3
        assert sent(stage) == ["look", "again"]

    sat(play)


def test_the_way_back_after_a_summary(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """To what was said since, with the summary."""
    stage = serve(*long_answers(3), Say.of("<summary>Sum.</summary>"), *[Say.of("Later.")] * 4)
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        for words in ("one", "two", "three"):
            await sitting.asked(words)
        await sitting.summed_up()
        await sitting.asked("four")
        await sitting.asked("five")
        rows = (await sitting.said("/rewind")).split("\n")
        listed = ["   5  one", "   4  two", "   3  three", "   2  four", "   1  five"]  # also those before the summary
        assert [row.partition("  (")[0] for row in rows[:-1]] == listed
        await sitting.said("/rewind 1")
        assert sitting.talk.draft == "five"
        await sitting.asked("another five")
        said = json.dumps(stage.requests[-1].body["messages"])
        assert "Sum." in said
        assert "Answer 0." not in said
        assert [words in said for words in ("four", "another five", '"five"')] == [True, True, False]

    sat(play)


def test_money_that_was_spent_before_counts_after_the_way_back(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(*[Say.of("Hi.")] * 3)
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        await sitting.asked("one")
        await sitting.asked("two")
        spent = sitting.talk.world.session.shared.ledger.account.spent
        await sitting.said("/rewind 1")
        assert sitting.talk.world.session.shared.ledger.account.spent == spent > 0

    sat(play)


def test_a_long_conversation_lists_its_last_prompts(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(*[Say.of("Hi.")] * 23)
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        for number in range(23):
            await sitting.asked(f"prompt {number}")
        shown = (await sitting.said("/rewind")).split("\n")
        assert (shown[0], shown[1].partition("  (")[0]) == ("3 earlier not shown", "  20  prompt 3")
        assert len(shown) == 22
        await sitting.said("/rewind 23")
        assert sitting.talk.draft == "prompt 0"

    sat(play)


# --- as Markdown --------------------------------------------------------------------------------------------------


def test_an_export_has_prompts_answers_and_a_line_for_each_call(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    call = [tool_use("Glob", number, pattern=f"*.p`y{number}") for number in range(2)]
    stage = serve(Say.of("I look.", *call), Say.of("## Found\n\n\x1b[31mnothing"), Say.of("Bye."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        assert await sitting.said("/export") == "Nothing to export yet."
        await sitting.asked("look for\n/it/ please")
        shown = await sitting.said("/export")
        path = stage.folder / "look-for-it-please.md"
        assert shown == f"Exported 1 prompt and the replies to '{path}'."
        rows = path.read_text().split("\n")
        assert rows[0] == "# look for /it/ please"
        assert rows[2].startswith(f"Session {id_of(sitting.talk)} in {stage.folder}, with claude-sonnet-5-5. 2")
        assert rows[3:] == [
            *("", "> look for", "> /it/ please", "", "I look."),
            *("", "- Glob: `*.p'y0`", "- Glob: `*.p'y1`", "", "## Found", "", "[31mnothing", ""),
        ]
        before = path.read_bytes()
        shown = await sitting.said("/export")
        assert shown == f"'{path}' already exists. Choose another name with /export FILE."
        assert path.read_bytes() == before
        await sitting.asked("bye")
        await sitting.said("/export sub dir/x.md")
        assert sitting.paper.lines[-1].startswith(f"Cannot write '{stage.folder}/sub dir/x.md': No such file")
        assert await sitting.said("/export other.md") == (
            f"Exported 2 prompts and the replies to '{stage.folder}/other.md'."
        )
        (stage.folder / "sub").mkdir()
        await sitting.said("/export sub")
        assert "> bye" in (stage.folder / "sub" / path.name).read_text()  # by its first prompt, as lists call it
        (stage.folder / "link.md").symlink_to("nowhere")
        await sitting.said("/export link.md")
        assert not (stage.folder / "nowhere").exists()

    sat(play)


def test_an_export_also_has_what_was_summed_up(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(*long_answers(3), Say.of("<summary>Sum.</summary>"), Say.of("Later."))
    here(stage, monkeypatch)

    async def play(sitting: Sitting) -> None:
        for words in ("one", "two", "three"):
            await sitting.asked(words)
        await sitting.summed_up()
        await sitting.asked("four")
        await sitting.said("/export all.md")
        rows = (stage.folder / "all.md").read_text().split("\n")
        assert [row for row in rows if row.startswith(">")] == ["> one", "> two", "> three", "> four"]
        assert len([row for row in rows if row.startswith("Answer ")]) == 3
        assert "Sum." not in rows  # that is for the model

    sat(play)


def test_a_session_that_is_not_stored_can_be_exported(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve(Say.of("Hi.", tool_use("Glob", pattern="*")), Say.of("Ho."))
    here(stage, monkeypatch)
    (stage.home / "projects").write_text("no folder")

    async def play(sitting: Sitting) -> None:
        await sitting.asked("hello")
        await sitting.said("/export")
        rows = (stage.folder / f"{id_of(sitting.talk)}.md").read_text().split("\n")
        assert rows[3:] == ["", "> hello", "", "Hi.", "", "- Glob: `*`", "", "Ho.", ""]

    sat(play)


# --- one more folder ----------------------------------------------------------------------------------------------


def test_a_folder_is_added_for_the_tools_and_stays_after_a_clear(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = serve()
    here(stage, monkeypatch)
    more = stage.folder.parent / "more"

    async def play(sitting: Sitting) -> None:
        talk = sitting.talk
        assert (await sitting.said("/add-dir")).startswith("Usage: /add-dir FOLDER lets")
        assert await sitting.said("/add-dir ../more") == f"Folder '../more' not found (looked for '{more}')."
        more.mkdir()
        shown = await sitting.said("/add-dir ../more")
        assert shown.split("\n")[0].startswith(f"Tools can now work in '{more}'.")
        assert talk.world.kit.place.folders == (str(more),)
        await sitting.said("/permissions")
        assert any(line.endswith(f"Folders: {stage.folder}, {more}") for line in sitting.paper.lines)
        again = await sitting.said(f"/add-dir {more}")
        assert again == f"Tools can already work in '{more}': it is a working folder."
        (stage.folder / "in").mkdir()
        inner = await sitting.said("/add-dir in")
        assert inner == f"Tools can already work in '{stage.folder}/in': it is in '{stage.folder}'."
        await sitting.said("/clear")
        assert talk.world.kit.place.folders == (str(more),)

    sat(play)


def test_a_tool_writes_where_it_could_not_before(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    write = [Say.of(tool_use("Write", number, file_path="../more/a.txt", content="x")) for number in range(2)]
    stage = serve(write[0], Say.of("No."), write[1], Say.of("Yes."))
    here(stage, monkeypatch)
    more = stage.folder.parent / "more"
    more.mkdir()

    async def play(sitting: Sitting) -> None:
        await sitting.asked("write")
        assert not (more / "a.txt").exists()
        assert len(sitting.stern.asked) == 1
        await sitting.said("/add-dir ../more")
        await sitting.asked("write")
        assert (more / "a.txt").read_text() == "x"
        assert len(sitting.stern.asked) == 1

    sat(play, "--permission-mode", "acceptEdits")


def test_the_sandbox_lets_commands_write_there_after_a_clear(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its walls stand around the folders of the start: somebody who adds one is told so."""
    touch = [Say.of(tool_use("Bash", number, command=f"touch ../more/{number}")) for number in range(2)]
    stage = serve(touch[0], Say.of("No."), touch[1], Say.of("Yes."))
    here(stage, monkeypatch)
    more = stage.folder.parent / "more"
    more.mkdir()

    async def play(sitting: Sitting) -> None:
        if not sitting.talk.config.sandboxing.in_force:
            pytest.skip("there is no sandbox here")
        shown = await sitting.said("/add-dir ../more")
        told = "Sandboxed commands cannot write there until the next /clear or /resume."
        assert shown.split("\n")[1] == told
        await sitting.asked("touch")
        assert list(more.iterdir()) == []
        await sitting.said("/clear")
        await sitting.asked("touch")
        assert list(more.iterdir()) == [more / "1"]

    sat(play, "--dangerously-skip-permissions")
