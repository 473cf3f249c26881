"""Undo in a real terminal: Escape twice, the panel, and what becomes of files, conversation and input."""

from __future__ import annotations

from cli.stage import Serve
from cli.terminal import without_notes

from mainspring.simulator.replies import Say
from tui.person import DOWN, ENTER, ESCAPE, SitAt
from tui.test_terminal import texts, tool_use

FREE = "--permission-mode=bypassPermissions"


def test_a_prompt_is_undone_and_the_undoing_too(serve: Serve, sit_at: SitAt) -> None:
    command = "echo two >> notes.md; mkdir d; echo made > d/new.py"
    stage = serve(
        Say.of(tool_use("Write", file_path="calc.py", content="def add(a, b):\n    return a + b\n")),
        Say.of("One."),
        Say.of(tool_use("Bash", command=command)),
        Say.of("Two."),
        Say.of("Another two."),
    )
    without_notes(stage)
    notes, made, calc = stage.folder / "notes.md", stage.folder / "d" / "new.py", stage.folder / "calc.py"
    notes.write_text("one\n")
    person = sit_at(stage, FREE, CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING="1")
    person.say("write a calculator")
    person.see("One.", "2 turns ·")
    person.say("take notes")
    person.see("Two.")
    person.until(lambda: "❯" in person.screen)
    calc.write_text("mine\n")
    person.type(ESCAPE + ESCAPE)
    person.see("Restore the code and the conversation", "write a calculator", "2 files changed", "1 file changed")
    person.answer(ENTER, "type to filter")
    person.see(
        "To the point before this prompt:",
        "│ take notes",
        "The code changes back in 2 files, +0 -2:",
        "d/new.py  deleted, +0 -1",
        "You changed 1 file since. Kept, unless you select it:",
        "☐ calc.py  +2 -1",
        "❯ 1. Restore code and conversation",
    )
    person.answer(ENTER, "4. Never mind")
    person.see("Restored 2 files, +0 -2:", "1 file was kept, because you changed it since:")
    person.until(lambda: any(line.startswith("❯ take notes") for line in person.screen[-4:]), "it is in the input")
    assert (notes.read_text(), made.parent.exists(), calc.read_text()) == ("one\n", False, "mine\n")
    person.type(" again" + ENTER)
    person.see("Another two.")
    said = texts(stage, -1)
    assert ("take notes" in said, "take notes again" in said) == (False, True)
    person.until(lambda: "❯" in person.screen)
    person.type("/rewind" + ENTER)
    person.see("undoes that rewind")
    person.type("undoes")
    person.until(lambda: any("before the rewind at" in line and "❯" in line for line in person.screen))
    person.answer(ENTER, "type to filter")
    person.see("To the point before that rewind:", "❯ 1. Restore code and conversation")
    person.type(DOWN + DOWN)
    person.see("❯ 3. Restore code only")
    person.answer(ENTER, "4. Never mind")
    person.until(made.exists, "the rewind is undone")
    person.see("Restored 2 files, +2 -0:")
    assert (notes.read_text(), made.read_text(), calc.read_text()) == ("one\ntwo\n", "made\n", "mine\n")


def test_the_way_back_from_the_files_is_the_list(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("One."))
    without_notes(stage)
    person = sit_at(stage, CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING="1")
    person.say("hello")
    person.see("One.")
    person.until(lambda: "❯" in person.screen)
    person.type(ESCAPE + ESCAPE)
    person.see("no files changed")
    person.answer(ENTER, "type to filter")
    person.see("The code has not changed since.", "❯ 1. Restore conversation", "2. Never mind", "esc back")
    person.type(ESCAPE)
    person.see("type to filter")
    person.answer(ENTER, "type to filter")
    person.see("2. Never mind")
    person.type(ESCAPE)
    person.answer(ESCAPE, "type to filter")
    person.until(lambda: "❯" in person.screen)
    assert len(stage.sessions()) == 1
