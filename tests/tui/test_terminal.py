"""`mainspring` in a real terminal: what is seen, what keys do, how it ends, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from cli.stage import Serve, Stage
from cli.terminal import without_notes

from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from tui.person import CTRL_C, CTRL_D, CTRL_O, DOWN, ENTER, ESCAPE, PASTE, PASTED, SHIFT_TAB, TAB, UP, Person, SitAt

PANEL = "type to filter"
SLOW = Say.of("A reply that takes its time, and then some more of it.", pace_ms=500)


def tool_use(name: str, id: str = "", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id or f"toolu_{name}", "name": name, "input": input}


def texts(stage: Stage, number: int) -> list[str]:
    """What the user said, as the model was told in this request."""
    return [
        block["text"]
        for message in stage.requests[number].body["messages"]
        if message["role"] == "user"
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "text"
    ]


@pytest.mark.covers("A-18", "O-01", "O-07", "O-11", "K-07", "O-08")
def test_a_turn_with_a_question_a_change_and_a_thought(serve: Serve, sit_at: SitAt) -> None:
    thought = {"type": "thinking", "thinking": "It must say bye instead.", "signature": "c2ln"}
    stage = serve(
        Say.of(
            thought,
            "Let me **change** it.",
            tool_use("Read", file_path="a.py"),
            tool_use("Edit", file_path="a.py", old_string="hello", new_string="bye"),
            pace_ms=5,
        ),
        Say.of("It says bye now."),
    )
    without_notes(stage)
    (stage.folder / "a.py").write_text("print('hello')\n")
    person = sit_at(stage)
    person.say("say bye")
    person.see(
        "● Let me change it.",
        "● Read(a.py) · 1 line",
        "1 - print('hello')",
        "1 + print('bye')",
        "Make this edit to a.py?",
        "❯ 1. Yes",
    )
    assert (stage.folder / "a.py").read_text() == "print('hello')\n", "nobody has said yes"
    person.type(DOWN)
    person.until(lambda: any(line.startswith("❯ 2.") for line in person.screen))
    person.type(UP)
    person.answer(ENTER, "❯ 1. Yes")
    text = person.see("It says bye now.", "2 turns ·")
    assert (stage.folder / "a.py").read_text() == "print('bye')\n"
    order = ("❯ say bye", "✻ Thought for", "● Let me change it.", "● Read(a.py)", "● Edit(a.py)", "1 - print('hello')")
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "It must say bye" not in text, "a thought is shown while it is thought"
    person.type(CTRL_D)
    assert person.end() == 0
    assert person.is_as_before()
    assert len(stage.sessions()) == 1


def test_no_and_what_to_do_instead(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(tool_use("Bash", command="rm -r build")), Say.of("I see."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("clean up")
    person.see("rm -r build", "3. No, and tell the model what to do instead")
    person.type(DOWN + DOWN)
    person.until(lambda: any(line.startswith("❯ 3.") for line in person.screen))
    person.enter_words("move it away")
    person.answer(ENTER, "Run this command?")
    person.see("I see.")
    assert "The user said no: move it away" in str(stage.requests[1].body["messages"])


@pytest.mark.covers("O-04")
def test_what_is_said_meanwhile_goes_out_with_the_next_request(serve: Serve, sit_at: SitAt) -> None:
    fifo = "fifo"
    stage = serve(Say.of(tool_use("Bash", command=f"cat {fifo}")), Say.of("With tabs, then."), Say.of("Tested."))
    without_notes(stage)
    os.mkfifo(stage.folder / fifo)
    person = sit_at(stage, "--allowedTools", "Bash", "--permission-mode", "bypassPermissions")
    person.say("write it")
    person.see("Running Bash")
    person.say("use tabs")
    person.say("/cost")
    person.until(lambda: person.screen[-1:] != [""] or any("↳ /cost" in line for line in person.screen))
    (stage.folder / fifo).write_text("done\n")
    text = person.see("With tabs, then.", "API time")
    assert texts(stage, 1)[-1] == "use tabs"
    assert text.index("❯ use tabs") < text.index("With tabs") < text.index("❯ /cost") < text.index("API time")


@pytest.mark.covers("O-04")
def test_escape_interrupts_and_what_waits_is_said_next(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(SLOW, Say.of("Then this."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("hello")
    person.see("A reply")
    person.say("no, this")
    person.see("↳ no, this")
    person.type(ESCAPE)
    person.see("(interrupted)", "Then this.")
    assert texts(stage, 1)[-1] == "no, this"
    stage.until(lambda: stage.server.aborted == 1)


def test_what_waits_can_be_taken_back(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(f"A reply{' that goes on' * 50}.", pace_ms=500), Say.of("Nothing more."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("hello")
    person.see("A reply")
    person.say("first")
    person.say("second")
    person.until(lambda: {"↳ first", "↳ second (up to edit)", "❯"} <= {*person.screen})
    person.type(UP)
    person.until(lambda: "❯" not in person.screen, "the last one stands in the input")
    person.type(CTRL_C)  # the run
    person.see("(interrupted)", "Nothing more.")
    person.see_no("to interrupt")  # the reply is drawn before its run ends, and Ctrl-C would end that one, too
    person.type(CTRL_C)  # what stands in the input
    person.see_no("second")
    assert texts(stage, 1)[-1] == "first"
    assert "second" not in str(stage.requests[1].body["messages"])


def test_ctrl_c_at_rest_leaves_the_second_time(serve: Serve, sit_at: SitAt) -> None:
    stage = serve()
    person = sit_at(stage)
    person.see("? for shortcuts")
    person.type("half a word")
    person.see("half a word")
    person.type(CTRL_C)
    person.see_no("half a word")
    person.type(CTRL_C)
    person.see("Press Ctrl-C again to exit")
    person.type(CTRL_C)
    assert person.end() == 0
    assert person.is_as_before()


def test_a_mode_is_chosen_by_shift_tab_and_holds(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(
        Say.of(tool_use("Write", file_path="b.txt", content="one\n")),
        Say.of("Written."),
    )
    without_notes(stage)
    person = sit_at(stage)
    person.see("? for shortcuts")
    person.type(SHIFT_TAB * 4)
    person.see("accepting edits")
    person.say("write it")
    person.see("Written.")
    assert (stage.folder / "b.txt").read_text() == "one\n"


@pytest.mark.covers("O-03", "O-05")
def test_words_with_a_slash_and_files_are_completed(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("I see it."))
    without_notes(stage)
    (stage.folder / "notes.md").write_text("The magic word is xyzzy.\n")
    person = sit_at(stage)
    person.see("? for shortcuts")
    person.type("/perm")
    person.see("Show the permission mode and rules")
    person.type(TAB + ENTER)
    person.see("No allow rules.")  # a panel
    person.type(ESCAPE)
    person.see_no("No allow rules.")
    person.type("look at @not")
    person.see("  notes.md")
    person.type(TAB)
    person.until(lambda: any("@notes.md" in line for line in person.screen))
    person.type(ENTER)
    person.see("I see it.")
    assert "xyzzy" in str(stage.requests[0].body["messages"])


def test_a_long_paste_is_one_word_in_the_input_and_whole_for_the_model(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("A long one."), Say.of("Again."))
    without_notes(stage)
    pasted = "\n".join(f"line {number}" for number in range(40))
    person = sit_at(stage)
    person.see("? for shortcuts")
    person.type(f"look: {PASTE}{pasted}{PASTED}")
    person.until(lambda: "text #1, 40 lines]" in person.text)
    person.type(ENTER)
    person.see("A long one.")
    assert f"look: {pasted}" in texts(stage, 0)
    person.type(UP)
    person.until(lambda: any(line.startswith("❯ look:") for line in person.screen[-6:]))
    person.type(ENTER)
    person.see("Again.")
    assert texts(stage, 1).count(f"look: {pasted}") == 2


def test_the_whole_of_a_long_result_is_in_the_transcript(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(tool_use("Bash", command="seq 1 60")), Say.of("Sixty."))
    without_notes(stage)
    person = sit_at(stage, "--permission-mode", "bypassPermissions")
    person.say("count")
    text = person.see("Sixty.", "(ctrl+o)", "     60", "2 turns · ", "context left")
    assert "     37" not in text
    before = person.screen
    person.type(CTRL_O)
    person.see("Transcript", "     59")
    person.type("k" * 12)
    person.see("     37")
    person.type(ESCAPE)
    person.until(lambda: person.screen == before, "the screen is not as before")


def test_a_session_goes_on_where_a_kill_left_it(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hello."), SLOW, Say.of("Both of them."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("hi")
    person.see("Hello.")
    person.say("more")
    person.see("A reply")
    person.say("and this")
    person.until(lambda: {"↳ and this (up to edit)", "❯"} <= {*person.screen})
    person.process.kill()
    person.end()
    person = sit_at(stage, "--continue")
    person.see("Resumed session", "↳ and this")
    person.say("well?")
    person.see("Both of them.")
    assert texts(stage, 2)[-2:] == ["and this", "well?"]


def test_escape_twice_opens_the_rewind_panel(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("One."), SLOW)
    without_notes(stage)
    person = sit_at(stage)
    person.see("? for shortcuts")
    person.type(ESCAPE + ESCAPE + PASTE + "first" + PASTED)  # nothing to rewind; a paste, since Esc f is Alt-F
    person.see("❯ first")
    person.type(ENTER)
    person.see("One.")
    person.say("second")
    person.see("A reply")
    person.type(ESCAPE)
    person.see("(interrupted)")
    person.type(ESCAPE)  # the one that interrupted does not count
    person.see("Press Esc again to rewind")
    assert PANEL not in person.text
    person.see_no("Press Esc again")
    person.type("x" + ESCAPE + ESCAPE + PASTE + "y" + PASTED)  # with text in the input, they clear it
    person.see("❯ y")
    person.type("\x15" + ESCAPE + ESCAPE)
    person.see(PANEL)
    person.type(ESCAPE)
    person.see_no(PANEL)
    assert "❯ /rewind" not in person.text, "a key leaves no command in the scrollback"


def test_programs_of_the_user_have_the_terminal(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Yes."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("!read -p 'name? ' name; echo hello $name")
    person.until(lambda: "name?" in person.screen)
    person.type("Ann\r")
    person.see("hello Ann")
    person.until(lambda: person.screen[-2:] != [] and any(line == "❯" for line in person.screen))
    person.say("still there?")
    person.see("Yes.")
    assert "name? Ann\\nhello Ann\\n(exit code 0)" in str(stage.requests[0].body["messages"])


def test_another_size_is_drawn_anew(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("word " * 60))
    without_notes(stage)
    person = sit_at(stage)
    person.see("? for shortcuts")
    person.resize(30, 40)
    person.send(signal.SIGWINCH)
    person.say("go on")
    person.see("1 turn ·")
    assert max(len(line) for line in person.screen) <= 40
    said_and_input = "what was said, and the input"
    person.until(lambda: sum(line.startswith("❯") for line in person.screen) == 2, said_and_input)


@pytest.mark.parametrize("words", ["Part 2: some", "Part 3: some words that make", "Part 4:"])
def test_a_terminal_that_becomes_narrower_shows_nothing_twice(words: str, serve: Serve, sit_at: SitAt) -> None:
    parts = [f"Part {number}: " + "some words that make a long line " * 6 for number in range(1, 6)]
    person = sit_at(serve(Say.of("# What to change\n\n" + "\n\n".join(parts), pace_ms=25)), columns=120)
    person.say("go")
    person.see(words)
    person.narrow(80)
    person.see("1 turn ·")
    said = person.text
    assert [said.count(f"Part {number}:") for number in range(1, 6)] == [1] * 5, said
    conversation = said[said.index("❯ go") : said.index("1 turn ·")]
    assert "\n\n\n" not in conversation, said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(serve: Serve, sit_at: SitAt, number: signal.Signals) -> None:
    stage = serve(SLOW)
    without_notes(stage)
    person = sit_at(stage)
    person.say("hello")
    person.see("A reply")
    person.send(number)
    assert person.end() == 128 + number
    assert person.is_as_before()
    stage.until(lambda: stage.server.aborted == 1)


def test_stopped_and_taken_up_again(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Here."))
    without_notes(stage)
    person: Person = sit_at(stage)
    person.see("? for shortcuts")
    person.send(signal.SIGSTOP)
    os.waitpid(person.process.pid, os.WUNTRACED)
    person.as_before()  # as a shell does
    person.send(signal.SIGCONT)
    person.until(person.is_raw)
    person.say("are you there?")
    person.see("● Here.")


def test_the_terminal_goes_away(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(SLOW)
    without_notes(stage)
    person = sit_at(stage)
    person.say("hello")
    person.see("A reply")
    person.hang_up()
    assert person.process.wait(20) == 129
    stage.until(lambda: stage.server.aborted == 1)


@pytest.mark.setting("statusLine.command", "statusLine.type")
def test_a_command_of_the_user_has_the_last_line_and_tab_takes_what_is_suggested(serve: Serve, sit_at: SitAt) -> None:
    suggestion = Say.of("next: now run the tests\nname: none")
    stage = serve(Say.of("Done. " * 100), suggestion, Say.of("All of them pass."), Say.of("name: none"))
    stage.home.mkdir(parents=True)
    line = {"type": "command", "command": "printf '\\033[31mit '; grep -o 'total_cost_usd.:[0-9]*'"}
    (stage.home / "settings.json").write_text(json.dumps({"statusLine": line}))
    person = sit_at(stage)
    person.see('it total_cost_usd":0')
    person.say("do it")
    person.see("❯ now run the tests")
    person.type(TAB + ENTER)
    person.see("All of them pass.")
    assert "now run the tests" in texts(stage, 2)


@pytest.mark.setting("preferredNotifChannel")
@pytest.mark.parametrize("channel", ["terminal_bell", "notifications_disabled"])
def test_the_bell_rings_when_a_question_waits_if_the_user_wants_it(channel: str, serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(tool_use("Bash", command="touch made")), Say.of("Done."))
    stage.home.mkdir(parents=True)
    (stage.home / "settings.json").write_text(json.dumps({"preferredNotifChannel": channel}))
    person = sit_at(stage)
    person.say("make it")
    person.see("touch made", "❯ 1. Yes")
    assert (b"\x07" in person.raw) is (channel == "terminal_bell")


@pytest.mark.setting("promptSuggestionEnabled")
@pytest.mark.parametrize("enabled", [True, False])
def test_what_comes_next_is_asked_for_unless_switched_off(enabled: bool, serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Done. " * 100), Say.of("name: none"))
    stage.home.mkdir(parents=True)
    (stage.home / "settings.json").write_text(json.dumps({"promptSuggestionEnabled": enabled}))
    person = sit_at(stage)
    person.say("do it")
    stage.until(lambda: len(stage.requests) == 2)
    assert ("next: <what the user will probably say" in json.dumps(stage.requests[1].body)) is enabled


@pytest.mark.covers("B-31")
def test_a_batch_of_calls_becomes_one_line_and_ctrl_o_shows_it(serve: Serve, sit_at: SitAt) -> None:
    def choose(received: ReceivedRequest) -> Reply:
        if "haiku" in str(received.body["model"]):
            return Say.of("Looked at both files")
        if received.talk.results():
            return Say.of("All is well.", pace_ms=400)
        return Say.of(*[tool_use("Read", f"toolu_{name}", file_path=f"{name}.py") for name in "ab"])

    stage = serve(choose=choose)
    without_notes(stage)
    with (stage.home / "settings.toml").open("a") as file:
        file.write("[features]\ntoolUseSummaries = true\n")
    for name in "ab":
        (stage.folder / f"{name}.py").write_text("pass\n")
    person = sit_at(stage)
    person.say("look")
    person.see("● Looked at both files · 2x Read (ctrl+o)", "All is well.", "2 turns ·")
    assert not any("Read(a.py)" in line for line in person.screen)
    person.type(CTRL_O)
    person.see("Transcript", "● Read(a.py) · 1 line", "● Read(b.py) · 1 line")


def test_ctrl_c_at_one_of_several_questions_stops_the_run(serve: Serve, sit_at: SitAt) -> None:
    calls = [tool_use("Bash", f"toolu_{number}", command=f"touch made{number}") for number in range(4)]
    stage = serve(Say.of(*calls), Say.of("Still here."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("make them")
    person.see("touch made0", "❯ 1. Yes")
    person.type(CTRL_C)
    person.see("(interrupted)")
    person.say("and now?")
    person.see("Still here.")
    assert not list(stage.folder.glob("made*"))


def test_enter_takes_the_word_that_is_meant(serve: Serve, sit_at: SitAt) -> None:
    stage = serve()
    person = sit_at(stage)
    person.see("? for shortcuts")
    person.type("/perm")
    person.see("Show the permission mode and rules")
    person.type(ENTER)
    person.see("No allow rules.")  # a panel
    person.type(ESCAPE)
    person.see_no("No allow rules.")
    person.type(CTRL_D)
    assert person.end() == 0
    assert "--resume" not in person.text, "nothing was said"


def test_what_was_typed_before_a_crash_is_sent_by_enter(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(SLOW, Say.of("I see."))
    without_notes(stage)
    person = sit_at(stage)
    person.say("more")
    person.see("A reply")
    person.say("and this")
    person.until(lambda: {"↳ and this (up to edit)", "❯"} <= {*person.screen})
    person.process.kill()
    person.end()
    person = sit_at(stage, "--continue")
    person.see("Enter sends queued prompts")
    person.type(ENTER)
    person.see("I see.")
    assert texts(stage, 1)[-1] == "and this"
    person.type(CTRL_D)
    assert person.end() == 0
    person.see("mainspring --resume ")


def test_a_folder_that_brings_commands_is_trusted_by_choice(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Reviewed."))
    without_notes(stage)
    commands = stage.folder / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "review.md").write_text("Review all of it, please.\n")
    person = sit_at(stage)
    person.see("Do you trust this folder?", "commands (/review)")
    person.type(DOWN)
    person.until(lambda: any(line.startswith("❯ 2. Yes, trust") for line in person.screen))
    person.answer(ENTER, "Do you trust this folder?")
    person.say("/review")
    person.see("Reviewed.")
    assert "Review all of it, please." in str(stage.requests[0].body["messages"])
    person.type(CTRL_D)
    assert person.end() == 0
    person = sit_at(stage, "--continue")
    person.see("● Reviewed.", "? for shortcuts")
    assert "Do you trust" not in person.text


def test_no_part_of_the_first_prompt_stays_above_the_header(serve: Serve, sit_at: SitAt) -> None:
    """tmux keeps what is erased from the upper left corner on."""
    person = sit_at(serve())
    person.see("mode default", "? for shortcuts")
    assert [line[:10] for line in person.paper if line][:1] == ["mainspring"]
    assert len([line for line in person.paper if line.startswith("❯")]) == 1


@pytest.mark.parametrize("columns", [40, 80])
def test_the_header_fits_into_the_terminal(columns: int, serve: Serve, sit_at: SitAt) -> None:
    stage = serve()
    stage.folder /= "/".join(["a-folder-with-a-long-name"] * 5)
    stage.folder.mkdir(parents=True)
    person = sit_at(stage, columns=columns, HOME=str(stage.home.parent))
    person.see("/help for commands")
    person.until(lambda: any(line.startswith("❯") for line in person.screen))
    head = [line for line in person.paper if line]
    assert head[0].startswith("mainspring ")
    assert head[1].endswith("/help for commands")
    if columns == 80:
        assert head[0].endswith(" · …/a-folder-with-a-long-name")


def test_a_warning_about_a_server_comes_once_and_not_before_an_answer(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(*[Say.of("Hello.")] * 2)
    stage.home.mkdir(parents=True)
    servers = {"broken": {"command": "/nonexistent"}}
    (stage.folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    person = sit_at(stage, "--mcp-config", "servers.json", "say hello")
    person.see("Hello.", "'broken' cannot be used", "1 turn")
    person.say("/clear")
    person.see("Started a new conversation")
    person.say("again please")
    person.until(lambda: person.text.count("1 turn") == 2)
    assert person.text.count("'broken' cannot be used") == 1
    lines = [line for line in person.paper if line]
    assert lines[lines.index("❯ say hello") + 1] == "● Hello."
