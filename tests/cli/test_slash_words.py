"""The words with a slash that we understand ourselves, in a real terminal."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest

from cli.stage import Serve, Stage, frames
from cli.terminal import SitAt, Terminal, sit_at, without_notes
from mainspring.agent.slash.answer import load_slash_command as load_text_form
from mainspring.agent.slash_commands import ONCE, PIPE, TERMINAL, WORDS, names_at
from mainspring.cli.slash.table import DOES, load_slash_command
from mainspring.simulator.replies import Say

__all__ = ["sit_at"]  # a fixture

NEW = (("/stauts", "status"), ("/rewnd 1", "rewind"), ("/ad-dir x", "add-dir"), ("/doktor", "doctor"))
COST = re.compile(r"\[.*?, ([\d,]+) tokens in, ([\d,]+) out, \$([\d.]+)\]")  # of a turn
ROW = re.compile(r"  (claude-\S+): ([\d,]+) tokens in(?: \(([\d,]+) cached\))?, ([\d,]+) out, \$([\d.]+)\n")


def tool_use(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input}


def roles(stage: Stage, request: int) -> list[str]:
    return [message["role"] for message in stage.requests[request].body["messages"]]


def asked(terminal: Terminal, stage: Stage, prompt: str) -> str:
    """One turn to its end; what was shown of it."""
    before = len(stage.requests)
    terminal.say(prompt)
    shown = terminal.see("]\n")
    assert len(stage.requests) == before + 1
    return shown


def number(text: str) -> int:
    return int(text.replace(",", ""))


def leave(terminal: Terminal) -> None:
    terminal.say("/exit")
    assert terminal.end() == 0


# --- one table ------------------------------------------------------------------------------------------------


@pytest.mark.covers("O-03")
def test_every_door_tells_of_its_words(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hi."), Say.of("Ho."))
    once = frames(stage.run("-p", "hello", "--output-format=stream-json").stdout)
    assert once[0]["slash_commands"] == list(names_at(ONCE))
    lines = [
        {"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}},
        {"type": "user", "message": {"role": "user", "content": "hello"}},
    ]
    driven = stage.run(
        "--input-format=stream-json", "--output-format=stream-json", input="\n".join(map(json.dumps, lines)).encode()
    )
    [answer] = [frame for frame in frames(driven.stdout) if frame["type"] == "control_response"]
    [init] = [frame for frame in frames(driven.stdout) if frame.get("subtype") == "init"]
    commands = answer["response"]["response"]["commands"]
    assert [command["name"] for command in commands] == init["slash_commands"] == list(names_at(PIPE))
    assert commands == [
        {"name": word.name, "description": word.about, "argumentHint": word.hint}
        for word in WORDS
        if not word.needs_screen
    ]
    terminal = sit_at(stage)
    terminal.say("/help")
    shown = terminal.see("\nA paste")
    for name in names_at(TERMINAL):
        assert f"\n/{name} " in shown


def test_every_word_is_done_somewhere() -> None:
    """But for those that the loop takes up before they come here."""
    here = [word for word in WORDS if word.text or word.name in DOES]
    assert {word.name for word in WORDS} - {word.name for word in here} == {"compact", "exit", "quit"}
    assert DOES.keys() <= {*names_at(TERMINAL)}
    for word in here:
        assert inspect.iscoroutinefunction(load_slash_command(word)), word.name
    for word in WORDS:
        if word.text:
            assert inspect.iscoroutinefunction(load_text_form(word)), word.name


def test_a_slip_is_told_and_costs_nothing(serve: Serve, sit_at: SitAt) -> None:
    stage = serve()
    (stage.home / "commands").mkdir(parents=True)
    (stage.home / "commands" / "deploy.md").write_text("Deploy it.")
    terminal = sit_at(stage)
    for said, meant in (("/claer", "clear"), ("/compct it", "compact"), ("/depoly", "deploy"), ("/exti", "exit"), *NEW):
        terminal.say(said)
        terminal.see(f"There is no command and no skill '{said.split()[0]}'. Did you mean /{meant}?\n")
    terminal.say("/clear everything")
    terminal.see("/clear takes no arguments.\n")
    leave(terminal)
    assert stage.requests == []


# --- what it costs, and which model -----------------------------------------------------------------------------


def test_what_the_session_has_cost_by_model(serve: Serve, sit_at: SitAt) -> None:
    """The rows add up to the turns, in tokens and in money; also after the session was taken up again."""
    stage = serve(*[Say.of("Hi.")] * 4)
    without_notes(stage)
    terminal = sit_at(stage)
    terminal.say("/cost")
    terminal.see("Nothing spent yet. API time 0.0 s, ")
    turns = [asked(terminal, stage, "one"), asked(terminal, stage, "two")]
    terminal.say("/model haiku")
    terminal.see("Switched to claude-haiku-5-5.\n")
    turns.append(asked(terminal, stage, "three"))
    terminal.say("/cost")
    shown = terminal.see("\n> ")
    terminal.type("/exit\r")
    assert terminal.end() == 0
    spent = [COST.search(turn) for turn in turns]
    told = [(number(one[1]), number(one[2]), float(one[3])) for one in spent if one]
    sonnet, haiku = ROW.findall(shown)
    assert (sonnet[0], haiku[0]) == ("claude-sonnet-5-5", "claude-haiku-5-5")
    assert number(sonnet[1]) == told[0][0] + told[1][0]
    assert number(sonnet[3]) == told[0][1] + told[1][1]
    assert (number(haiku[1]), number(haiku[3])) == told[2][:2]
    [total] = re.findall(r"\n\$([\d.]+)\. API time [\d.]+ s, session time [\d.]+ s\.\n", shown)
    assert float(total) == pytest.approx(sum(one[2] for one in told), abs=2e-4)
    assert float(total) == pytest.approx(float(sonnet[4]) + float(haiku[4]), abs=1e-4)
    again = sit_at(stage, "--continue")
    again.say("/cost")
    assert ROW.findall(again.see("\n> ")) == [sonnet, haiku]


def test_another_model_from_now_on(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(*[Say.of("Hi.")] * 3)
    without_notes(stage)
    terminal = sit_at(stage)
    terminal.say("/model")
    terminal.see("claude-sonnet-5-5. Type /model NAME to switch")
    asked(terminal, stage, "one")
    terminal.say("/model opus")
    terminal.see("Switched to claude-opus-5-5.\n")
    asked(terminal, stage, "two")
    terminal.say("/model sonet")
    terminal.see("Model not changed: unknown model 'sonet'. Did you mean 'sonnet'?\n")
    terminal.say("/model ollama/llama")
    terminal.see("Model not changed: ")
    terminal.say("/model")
    terminal.see("claude-opus-5-5. ")
    terminal.say("/model default")
    terminal.see("Switched to claude-sonnet-5-5.\n")
    asked(terminal, stage, "three")
    leave(terminal)
    models = [request.body["model"] for request in stage.requests]
    assert models == ["claude-sonnet-5-5", "claude-opus-5-5", "claude-sonnet-5-5"]
    assert [len(roles(stage, request)) for request in range(3)] == [1, 3, 5]  # one conversation


# --- permissions ------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-10")
def test_the_rules_in_force_and_where_they_come_from(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of(tool_use("Bash", command="touch made")), Say.of("Done."))
    without_notes(stage)
    said = {"permissions": {"deny": ["Read(./secret)"], "allow": ["Bash(git log:*)", "Bash(oops"]}}
    (stage.home / "settings.json").write_text(json.dumps(said))
    plain = sit_at(stage, "--setting-sources", "")
    plain.say("/permissions")
    plain.see("No rules. The mode decides every call.\n")
    terminal = sit_at(
        stage, "--disallowedTools", "Bash(rm:*)", "--permission-mode", "plan", "--add-dir", str(stage.home)
    )
    terminal.say("/permissions")
    shown = terminal.see("\nRun 'mainspring permissions explain")
    assert f"Mode: plan. Folders: {stage.folder}, {stage.home}\n" in shown
    assert "\ndeny  Read(./secret)  (your settings)\ndeny  Bash(rm:*)  (command line)\n" in shown
    assert "\nallow Bash(git log:*)  (your settings)\n" in shown
    assert "\nerror Bash(oops  (your settings): the rule 'Bash(oops' has no closing parenthesis" in shown
    terminal.say("go")
    terminal.see("Allow? [")
    terminal.type("a\r")
    terminal.see("Done.")
    terminal.say("/permissions")
    assert "\nallow Bash(touch made)  (this session)\n" in terminal.see("\nRun 'mainspring permissions explain")


# --- another conversation ---------------------------------------------------------------------------------------


def test_a_new_conversation_and_the_way_back(serve: Serve, sit_at: SitAt) -> None:
    """Under a new id; what somebody chose stays; the old one is on the disk as it was, and can be gone on with."""
    stage = serve(*[Say.of(word) for word in ("One.", "Two.", "Three.", "Four.")])
    without_notes(stage)
    terminal = sit_at(stage)
    asked(terminal, stage, "first words")
    [first] = stage.sessions()
    terminal.say("/model haiku")
    terminal.see("Switched to")
    terminal.say("/clear")
    terminal.see(f"Started a new conversation. Type /resume {first.stem[:8]} to go back to the previous one.\n")
    terminal.say("/cost")
    terminal.see("Nothing spent yet.")
    terminal.say("/context")
    terminal.see("The conversation is empty.")
    asked(terminal, stage, "second words")
    assert roles(stage, 1) == ["user"]
    assert "first words" not in str(stage.requests[1].body)
    assert stage.requests[1].body["model"] == "claude-haiku-5-5"
    assert len(stage.sessions()) == 2
    terminal.say("/resume")
    shown = terminal.see("Type /resume ID to resume one.\n")
    assert "first words" in shown
    assert "second words" not in shown  # it is the one that goes on
    terminal.say(f"/resume {first.stem[:8]}")
    terminal.see(f"Resumed session '{first.stem[:8]}'. Last reply: One.\n")
    asked(terminal, stage, "third words")
    assert roles(stage, 2) == ["user", "assistant", "user"]
    assert "second words" not in str(stage.requests[2].body)
    terminal.say(f"/resume {first.stem}")
    terminal.see("Cannot resume: this session is already open\n")
    terminal.say("/resume nowhere")
    terminal.see("Cannot resume: No conversation found with session ID: nowhere\n")
    asked(terminal, stage, "fourth words")
    assert len(roles(stage, 3)) == 5
    leave(terminal)
    assert len(stage.sessions()) == 2


def test_money_that_was_spent_counts_after_a_clear(serve: Serve, sit_at: SitAt) -> None:
    """The limit is for all that is asked for here."""
    stage = serve(Say.of("One."), Say.of("Two."))
    without_notes(stage)
    terminal = sit_at(stage, "--max-budget-usd", "0.05")
    spent = COST.search(asked(terminal, stage, "one"))
    assert spent is not None
    terminal.say("/clear")
    terminal.see("Started a new conversation.")
    asked(terminal, stage, "two")
    first, second = [request.body["max_tokens"] for request in stage.requests]
    assert second < first  # less is left
    leave(terminal)


def test_settings_that_were_broken_meanwhile_leave_the_conversation_as_it_is(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("One."), Say.of("Two."))
    without_notes(stage)
    (stage.folder / "more").mkdir()
    terminal = sit_at(stage, "--add-dir", "more")
    asked(terminal, stage, "one")
    (stage.folder / "more").rmdir()
    terminal.say("/clear")
    terminal.see("Cannot start a new conversation: '--add-dir more': there is no such directory\n")
    asked(terminal, stage, "two")
    assert len(roles(stage, 1)) == 3
    leave(terminal)


@pytest.mark.covers("O-03")
def test_back_to_before_a_prompt_and_what_stands_there_then(serve: Serve, sit_at: SitAt) -> None:
    """As somebody does it: a look at the prompts, the way back, and the words said again in another way."""
    stage = serve(*[Say.of(word) for word in ("One.", "Two.", "Three.")])
    without_notes(stage)
    terminal = sit_at(stage)
    asked(terminal, stage, "first words")
    asked(terminal, stage, "wrong words")
    terminal.say("/rewind")
    terminal.see("\n   2  first words  (")
    terminal.see("\n   1  wrong words  (")
    [first] = stage.sessions()
    terminal.say("/rewind 1")
    terminal.see(f"Type /resume {first.stem[:8]} to go back to the full conversation.\n")
    terminal.see("Your prompt was: wrong words\n")
    asked(terminal, stage, "right words")
    assert "wrong words" not in str(stage.requests[2].body)
    assert "first words" in str(stage.requests[2].body)
    terminal.say("/rename The right way")
    terminal.see("Renamed this session to 'The right way'")
    terminal.say("/export way.md")
    terminal.see("Exported 2 prompts and the replies to ")
    terminal.say("/status")
    shown = terminal.see(" used (details: /context)\n")
    assert ", 'The right way'\n" in shown
    leave(terminal)
    text = (stage.folder / "way.md").read_text()
    assert text.startswith("# The right way\n")
    assert text.endswith("\n> first words\n\nOne.\n\n> right words\n\nThree.\n")
    assert len(stage.sessions()) == 2


def test_init_costs_a_turn_and_goes_out_as_a_prompt(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Written."))
    without_notes(stage)
    terminal = sit_at(stage)
    asked(terminal, stage, "/init in German")
    [request] = stage.requests
    said = request.body["messages"][0]["content"][0]["text"]
    assert said.startswith(f"Write '{stage.folder}/AGENTS.md'")
    assert said.endswith("in German")
    leave(terminal)
