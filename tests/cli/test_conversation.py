"""`mainspring` in a terminal: turns, keys and signals, and what cannot be started."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Any

import pytest
from processes.traces import asleep, new_nap

from cli.stage import Serve, until
from cli.terminal import CTRL_C, CTRL_D, SitAt, sit_at, without_notes
from mainspring.simulator.replies import Refuse, Say

__all__ = ["sit_at"]  # a fixture

SLOW = Say.of("A reply that takes its time" + ", and then some more of it" * 50, pace_ms=50)  # six seconds


def tool_use(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input}


def test_turns_over_one_history(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Let me look.", tool_use("Read", file_path="a.py")), Say.of("It says hello."), Say.of("Two."))
    without_notes(stage)
    (stage.folder / "a.py").write_text("print('hello')\n")
    terminal = sit_at(stage)
    assert " · claude-sonnet-5-5 · " in terminal.see("mode default")
    terminal.say("what is in a.py?")
    shown = terminal.see("$0.00")
    lines = "Let me look.", "Tool: Read a.py", "Result: Read 1 line", "It says hello.", "[2 turns, "
    assert "\n".join(["", *lines]) in shown
    assert re.search(r"\n\[2 turns, \d+\.\d s, [\d,]+ tokens in, \d+ out, ", shown)
    terminal.say("and now?")
    terminal.see("Two.\n")
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert [message["role"] for message in stage.requests[2].body["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert len(stage.sessions()) == 1


def test_text_comes_as_it_streams(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("A reply that takes its time.", pace_ms=150))
    terminal = sit_at(stage)
    terminal.say("hello")
    terminal.see("A reply that")
    assert "its time." not in terminal.shown
    terminal.see("its time.")


def test_ctrl_c_interrupts_the_turn_and_the_conversation_goes_on(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(SLOW, Say.of("Still here."))
    terminal = sit_at(stage)
    terminal.say("hello")
    terminal.see("A reply")
    terminal.type(CTRL_C)
    terminal.see("(interrupted)")
    terminal.say("and now?")
    terminal.see("Still here.")
    terminal.say("/exit")
    assert terminal.end() == 0
    stage.until(lambda: stage.server.aborted == 1)
    assert "[Request interrupted by user]" in str(stage.requests[1].body["messages"])


def test_ctrl_c_ends_a_command_and_what_it_started(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(tool_use("Bash", command="bash hold.sh")))
    (stage.folder / "hold.sh").write_text("sleep 1000 >fifo; true")
    fifo = stage.folder / "fifo"
    os.mkfifo(fifo)
    terminal = sit_at(stage, "--allowedTools", "Bash")
    terminal.say("wait")
    with fifo.open() as held:
        terminal.type(CTRL_C)
        terminal.see("(interrupted)")
        assert held.read() == ""


def test_ctrl_c_at_the_prompt_says_how_to_leave_and_twice_leaves(serve: Serve, sit_at: SitAt) -> None:
    terminal = sit_at(serve())
    terminal.see("> ")
    terminal.type("half a thou")
    terminal.see("thou")
    terminal.press_ctrl_c()
    terminal.see("Press Ctrl-D")
    terminal.see("> ")
    terminal.press_ctrl_c()
    assert terminal.end() == 130


def test_two_ctrl_c_in_a_turn_end_the_process(serve: Serve, sit_at: SitAt) -> None:
    """Whether the turn is over by then or not."""
    terminal = sit_at(serve(SLOW))
    terminal.say("hello")
    terminal.see("A reply")
    terminal.type(CTRL_C)
    time.sleep(0.1)  # two that come at once are one
    terminal.type(CTRL_C)
    assert terminal.end() == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_told_to_end(number: signal.Signals, code: int, serve: Serve, sit_at: SitAt) -> None:
    idle = sit_at(serve())
    idle.see("> ")
    idle.send(number)
    assert idle.end() == code
    busy = sit_at(serve(SLOW))
    busy.say("hello")
    busy.see("A reply")
    busy.send(number)
    assert busy.end() == code


def test_what_goes_wrong_is_told_and_the_conversation_goes_on(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(
        Refuse(529, "overloaded_error", "Overloaded"),
        Refuse(400, "invalid_request_error", "no such thing"),
        Say.of("Hi."),
    )
    terminal = sit_at(stage)
    terminal.say("hello")
    assert "(529 overloaded: attempt 1 of 10 failed, retrying in 0." in terminal.see("API Error: 400: no such thing")
    terminal.say("again")
    terminal.see("Hi.")


def test_a_line_goes_on_after_a_backslash(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hi."))
    terminal = sit_at(stage)
    terminal.say("one\\")
    terminal.see("  ")
    terminal.type("two\r")
    terminal.see("Hi.")
    assert "one\\ntwo" in str(stage.requests[0].body["messages"])


def test_a_first_prompt_may_stand_on_the_command_line(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hi."))
    terminal = sit_at(stage, "say hello to me")
    terminal.see("Hi.")
    terminal.see("> ")
    assert "say hello to me" in str(stage.requests[0].body["messages"])


def test_who_goes_on_is_told_where(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("The answer\n\x1b[2Jis 42. " + "And more. " * 100), Say.of("Second."))
    without_notes(stage)
    first = sit_at(stage)
    first.say("hello")
    first.see("$0.0")
    first.say("/exit")
    assert first.end() == 0
    assert "Going on" not in first.shown
    [path] = stage.sessions()
    second = sit_at(stage, "--resume", path.stem[:6])
    second.see(f"Resumed session '{path.stem[:8]}'. Last reply: The answer [2Jis 42. And more.")
    second.say("and now?")
    second.see("Second.")
    assert len(stage.requests[1].body["messages"]) == 3


def test_a_model_cannot_give_orders_to_the_terminal(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(*[Say.of("a\x1b[2Jb\x9b31mc\x07d")] * 2)
    talk = sit_at(stage)
    talk.say("hello")
    talk.see("a[2Jb31mcd")
    sit_at(stage, "-p", "hello").see("a[2Jb31mcd")


def test_a_file_that_is_not_there_is_told_and_the_words_stay(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(*[Say.of("Hi.")] * 2)
    (stage.folder / "there.md").touch()
    terminal = sit_at(stage, "see @there.md and @first.md")
    terminal.see("File 'first.md' not found: '@first.md' is sent as text.\n+ there.md, empty\nHi.")
    terminal.say("see @there.md, @missing.md and ask @alice")
    shown = terminal.see("Hi.")
    assert shown.count("not found") == 1
    assert "File 'missing.md' not found: '@missing.md' is sent as text.\n" in shown
    assert "see @there.md, @missing.md and ask @alice" in str(stage.requests[1].body["messages"])


@pytest.mark.needs("bwrap")
@pytest.mark.setting("sandbox.network.allowedDomains")
def test_domains_that_the_user_allows_are_reached_from_a_conversation_too(serve: Serve, sit_at: SitAt) -> None:
    look = tool_use("Bash", command="echo way out: ${https_proxy:-none}.")
    stage = serve(Say.of(look), Say.of("Done."))
    stage.home.mkdir(parents=True)
    (stage.home / "settings.json").write_text('{"sandbox": {"network": {"allowedDomains": ["example.com"]}}}')
    terminal = sit_at(stage, "--allowedTools", "Bash")
    terminal.say("look")
    terminal.see("way out: http://")
    terminal.say("/exit")
    assert terminal.end() == 0


def test_a_command_may_have_words_on_the_next_line(serve: Serve, sit_at: SitAt) -> None:
    terminal = sit_at(serve())
    terminal.say("/unknown\x1b[200~\rmore\x1b[201~")
    terminal.see("There is no command and no skill '/unknown'. Type /help for a list of commands.")
    terminal.say("/help")
    terminal.see("/compact [instructions]")


def test_a_command_of_ones_own_is_run_at_once_and_the_model_is_told(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hi."))
    (stage.folder / "a.txt").write_text("some words")
    terminal = sit_at(stage)
    terminal.say("!cat a.txt; exit 3")
    assert "some words\n(exit code 3)\n(1 line goes to the model with your next prompt)\n" in terminal.see("prompt)\n")
    terminal.say("!!echo private")
    terminal.see("private\n")
    os.mkfifo(stage.folder / "fifo")
    nap = new_nap()
    terminal.say(f"!sleep {nap} >fifo")
    with (stage.folder / "fifo").open() as held:
        until(lambda: bool(asleep(nap)))  # a shell that is about to become it would lose the signal
        terminal.type(CTRL_C)  # for the command alone
        terminal.see("(ended by signal 2)\n")
        assert held.read() == ""
    terminal.say("!")
    terminal.see("Type a command after '!'")
    assert stage.requests == []
    terminal.say("hello")
    terminal.see("Hi.")
    sent = str(stage.requests[0].body)
    assert "$ cat a.txt; exit 3\\nsome words\\n(exit code 3)" in sent
    assert "private" not in sent


def test_a_paste_that_begins_like_a_command_is_a_prompt(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hi."))
    terminal = sit_at(stage)
    terminal.see("> ")
    terminal.type("\x1b[200~!touch made\rtouch too\x1b[201~\r")
    terminal.see("Hi.")
    assert "!touch made\ntouch too" in str(stage.requests[0].body["messages"][0]["content"][0]["text"])
    assert list(stage.folder.iterdir()) == []


def test_what_fills_the_window_is_told_in_the_conversation(serve: Serve, sit_at: SitAt) -> None:
    terminal = sit_at(serve(Say.of("Hi.")))
    terminal.say("/context")
    terminal.see("The conversation is empty.")
    terminal.say("hello")
    terminal.see("Hi.")
    terminal.say("/context")
    assert "200,000" in terminal.see("\n> ") or "1,000,000" in terminal.shown


def test_a_compaction_says_what_it_brought_and_nothing_of_turns(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(*[Say.of("Many words. " * 800)] * 4, Say.of("## Task\nmend it"))
    without_notes(stage)
    terminal = sit_at(stage)
    terminal.say("/compact")
    assert "[" not in terminal.see("The conversation was not compacted: it is empty\n> ")
    for _ in range(4):
        terminal.type("go on\r")
        terminal.see("]\n> ")
    terminal.type("/compact\r")
    said = terminal.see("]\n> ")
    assert re.search(r"\(context: summary, from [0-9,]+ to [0-9,]+ tokens\)\n\[[0-9.]+ s, ", said)


def test_the_way_to_trust_is_told_once(serve: Serve, sit_at: SitAt) -> None:
    stage = serve()
    for name in (".mainspring", ".claude"):
        (stage.folder / name).mkdir()
        (stage.folder / name / "settings.json").write_text('{"env": {"A": "b"}}')
    terminal = sit_at(stage)
    shown = terminal.see("mode default")
    assert shown.count("env: not used, because this directory is not trusted\n") == 2
    assert shown.count("'mainspring trust'") == 1


def test_colour_is_for_those_who_want_it(serve: Serve, sit_at: SitAt) -> None:
    plain, coloured = sit_at(serve()), sit_at(serve(), NO_COLOR="")
    for terminal in (plain, coloured):
        terminal.see("mode default")
    assert "\x1b[1m" not in plain.shown
    assert "\x1b[1m" in coloured.shown


# --- what cannot be started -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["talk"], "unknown command 'talk'. To send it as a prompt: 'mainspring -p talk'"),
        (["--output-format", "json"], "'--output-format' needs '-p'"),
        (["--resume", "x"], "No conversation found with session ID: x"),
    ],
)
def test_what_makes_no_sense_in_a_terminal(arguments: list[str], words: str, serve: Serve, sit_at: SitAt) -> None:
    terminal = sit_at(serve(), *arguments)
    terminal.see(words)
    assert terminal.end() == 1


def test_without_a_key_the_ways_out_are_told(serve: Serve, sit_at: SitAt) -> None:
    terminal = sit_at(serve(), ANTHROPIC_BASE_URL="")
    terminal.see("Welcome to mainspring. To start, connect a model.")
    terminal.see("Provider (1-")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert "No model is set up. Run 'mainspring' again when you have a key." in terminal.shown


def test_dash_p_without_a_prompt_does_not_wait_for_the_keyboard(serve: Serve, sit_at: SitAt) -> None:
    terminal = sit_at(serve(), "-p")
    terminal.see("no prompt")
    assert terminal.end() == 1


@pytest.mark.covers("N-21")
@pytest.mark.setting("autoMemoryEnabled")
@pytest.mark.parametrize("enabled", [True, False])
def test_after_a_turn_a_note_is_written_unless_switched_off(enabled: bool, serve: Serve, sit_at: SitAt) -> None:
    stage = serve()
    note = Say.of("name: deploy order\nabout: billing first\nnote:\nBilling first.")
    stage.server.choose = lambda asked: note if "haiku" in asked.body["model"] else Say.of("Done. " * 100)
    stage.home.mkdir(parents=True, exist_ok=True)
    (stage.home / "settings.toml").write_text(f"autoMemoryEnabled = {str(enabled).lower()}\n")
    terminal = sit_at(stage)
    terminal.say("go")
    terminal.see("$0.0")
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert len(stage.requests) == 1 + enabled
    assert [path.name for path in stage.home.glob("projects/*/memory/*")] == ["deploy-order.md"] * enabled
