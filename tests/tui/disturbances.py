"""Every dialog of the terminal, in the worst of circumstances: keys that came too early, words, pastes, mouse reports,
resizes, stops, signals. What is sent holds no explicit choice, so that nothing may be granted; and what was typed as
text is in the input afterwards."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

from cli.stage import Stage
from mcp_servers.stage import LIBRARY

from mainspring.cli.signals import DOUBLE
from mainspring.settings.trust import is_trusted
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from tui.person import CTRL_C, DOWN, ENTER, ESCAPE, PASTE, PASTED, TAB, UP, Person
from tui.test_terminal import tool_use
from tui.typist import PLANNED, STRAY

LETTERS = "abcdefghijklmnopqrstuvwxyz"
OLD, NEW = "one\ntwo\nthree\n", "TWO"
OPTIONS = [{"label": "Red", "description": "like roses"}, {"label": "Blue", "description": ""}]
QUESTION = {"question": "Which colour?", "header": "Colour", "options": OPTIONS, "multiSelect": False}
KEYS = (UP, DOWN, TAB, "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F", "\x1b[C", "\x1b[D", "\x7f", "\x0b", "\x01", "\x0c")
BY_SIGNAL = "signal"
ESC = "esc "  # in the last line of every dialog
SIZES = ((24, 80), (36, 120), (12, 40), (8, 60), (50, 33), (24, 200))


class Asking(NamedTuple):
    prompt: str  # what makes the dialog open
    shown: str  # a part of it
    takes_text: bool = False  # a filter: text that is typed there is not for the input
    then: str = ""  # keys that lead to a second page,
    second: str = ""  # and a part of that
    clears: bool = False  # Escape clears the filter, if there is one; the next Escape closes


COMMAND = Asking("the command", "Run this command?")
EDIT = Asking("the edit", "Make this edit to file.txt?")
WRITE = Asking("the new file", "Write made?")
RULES = Asking(COMMAND.prompt, COMMAND.shown, then="4" + ENTER, second="Which calls should not need approval?")
QUESTIONS = Asking("the question", "Which colour?")
FORM = Asking("the form", "Answer it?")  # of an MCP server
PLAN = Asking("the plan", "Carry out this plan?")
MODEL = Asking("/model", "In use:", takes_text=True, clears=True)
RESUME = Asking("/resume", "Resume a session", takes_text=True)
REWIND = Asking("/rewind", "Restore the code and", takes_text=True)
TRUST = Asking("", "Do you trust this folder?")  # asked at the start
ALL = (COMMAND, RULES, EDIT, WRITE, QUESTIONS, MODEL, REWIND, RESUME)


def answer(request: ReceivedRequest) -> Reply:
    """One call for each prompt."""
    talk = request.talk
    last = talk.messages[-1]["content"]
    number = len(talk.messages)

    def use(name: str, **given: object) -> Say:
        return Say.of(tool_use(name, f"toolu_{number}", **given))

    if last[-1]["type"] == "tool_result":
        return Say.of("I see.")
    calls: dict[str, Callable[[], Say]] = {
        COMMAND.prompt: lambda: use("Bash", command="touch made"),
        EDIT.prompt: lambda: use("Edit", file_path="file.txt", old_string="two", new_string=NEW),
        WRITE.prompt: lambda: use("Write", file_path="made", content="hello\n" * 40),
        QUESTIONS.prompt: lambda: use("AskUserQuestion", questions=[QUESTION]),
        FORM.prompt: lambda: use("mcp__library__join"),
        PLAN.prompt: lambda: use("ExitPlanMode", plan=PLANNED + "\n\n" + "- a step\n" * 40),
    }
    return next((call() for prompt, call in calls.items() if talk.prompt.endswith(prompt)), Say.of("Hello."))


class Disturber:
    """`kept`: the text that must be in the input in the end."""

    def __init__(self, person: Person, stage: Stage, seed: int) -> None:
        self.person, self.stage, self.seed = person, stage, seed
        self.random = random.Random(seed)
        self.kept = ""
        self._done: list[str] = []
        self._signalled = -inf
        self._filtered = False  # words were typed for a filter

    def word(self) -> str:
        return "".join(self.random.choices(LETTERS, k=self.random.randrange(2, 6))) + " "

    def type_words(self, *, kept: bool) -> None:
        word = self.word()
        self._note(f"type {word!r}")
        self.person.type(word)
        self.kept += word if kept else ""
        self._filtered |= not kept

    def disturb(self, asking: Asking, times: int, *, moves: bool = False, before_signal: bool = False) -> None:
        """`moves`: also keys that move in the dialog, so that text may go to a field in it. `before_signal`: the signal
        may arrive before the keys and close the dialog: then Enter sends the text, and a filter's words are text."""
        for _ in range(times):
            kind = self.random.randrange(8 if moves else 7)
            if kind < 2 and not (before_signal and asking.takes_text):
                self.type_words(kept=not asking.takes_text)
            elif kind == 2:
                self.resize()
            elif kind == 3:
                self.stop_and_continue()
            elif kind == 4:
                self._type(self.random.choice(STRAY[2:4]))
            elif kind == 5 and not before_signal and not asking.takes_text:
                self._type("x" + ENTER * self.random.randrange(1, 5))  # an Enter that ends a word is no answer
                self.kept += "x"
            elif kind == 6 and not asking.takes_text:
                self.paste()
            elif kind == 7:
                self._type(self.random.choice(KEYS))
            if self.random.random() < 0.3:
                time.sleep(self.random.random() / 2)  # between two keys of a person: what is tested is the pause

    def paste(self) -> None:
        word = self.word().strip()
        self._type(PASTE + word + PASTED)
        self.kept += word

    def resize(self) -> None:
        rows, columns = self.random.choice(SIZES)
        self._note(f"resize {rows} x {columns}")
        self.person.resize(rows, columns)

    def stop_and_continue(self) -> None:
        """As a shell does with 'kill -STOP', or with a Ctrl-Z that it got."""
        self._note("stop")
        self.person.send(self.random.choice((signal.SIGSTOP, signal.SIGTSTP)))
        time.sleep(0.02)
        self.person.send(signal.SIGCONT)

    def open(self, asking: Asking, *, early: bool) -> None:
        """`early`: words that are typed before the dialog is drawn. Behind '/model', they may be for its filter."""
        self._note(f"open {asking.prompt!r}")
        self._filtered = False
        self.person.say(asking.prompt)
        if early and not asking.takes_text:
            self.type_words(kept=True)
        self.until(lambda: self.is_open(asking), "it is not asked")
        if asking.then:
            time.sleep(0.6)  # the guard
            self._type(asking.then)
            self.until(lambda: self.is_open(asking, asking.second), "there is no second page")

    def choose_way_out(self) -> str:
        """Two SIGINT within a second end the program."""
        ways = (ESCAPE, CTRL_C, BY_SIGNAL) if time.monotonic() - self._signalled > 2 * DOUBLE else (ESCAPE, CTRL_C)
        return self.random.choice(ways)

    def leave(self, by: str, asking: Asking) -> None:
        self._note(f"leave by {by}")
        if by == BY_SIGNAL:
            self._signalled = time.monotonic()
            self.person.send(signal.SIGINT)
        else:
            self._type(by)
        self.person.resize(24, 80)
        if asking.clears and by == ESCAPE and self._filtered:
            self.until(lambda: "Filter:" not in self.input, "the filter stays")
            self._type(by)
        self.until(lambda: bool(self._last_line) and ESC not in self._last_line, "it stays open")

    def see_kept(self) -> None:
        """All that was typed, and nothing else; then it is taken away again."""
        wanted = "".join(self.kept.split())
        self.until(lambda: "".join(self.input.split()) == wanted, f"the input is not {wanted!r}")
        if wanted:
            self._type("\x05\x15")  # Ctrl-C would stop a run that is about to end
        self.until(lambda: not self.input, "the input is not empty")
        self.kept = ""

    @property
    def input(self) -> str:
        """The text below the last rule, without the status line."""
        lines = [line for line in self.person.screen if line]
        rules = [at for at, line in enumerate(lines) if set(line) == {"─"}]
        if not rules:
            return "(none)"
        return "".join([line.removeprefix("❯ ").removeprefix("❯") for line in lines[rules[-1] + 1 : -1]])

    def until(self, condition: Callable[[], bool], why: str) -> None:
        story = "\n".join(self._done)
        self.person.until(condition, f"seed {self.seed}: {why}\n{story}\ninput {self.input!r}")

    def check_nothing_granted(self) -> None:
        folder, story = self.stage.folder, f"seed {self.seed}\n" + "\n".join(self._done)
        assert (folder / "file.txt").read_text() == OLD, story
        assert not (folder / "made").exists(), story
        assert not (folder / ".claude").exists(), f"a rule was kept: {story}"
        assert not (folder / ".mainspring").exists(), f"a rule was kept: {story}"
        said = str([request.talk.results() for request in self.stage.requests if request.body.get("messages")])
        assert "approved" not in said.replace("did not approve", ""), story
        assert "Red" not in said, story
        assert "name" not in said.replace("tool_name", ""), story  # in the form's answer

    def is_open(self, asking: Asking, shown: str = "") -> bool:
        """By its last line, too: a resize may leave a part of an earlier drawing above."""
        return ESC in self._last_line and any((shown or asking.shown) in line for line in self.person.screen)

    @property
    def _last_line(self) -> str:
        """The keys of a dialog, or the status line. Below the keys is what was typed and is no answer."""
        return ([line for line in self.person.screen if line and not line.startswith("Input: ")] or [""])[-1]

    def _type(self, keys: str) -> None:
        self._note(f"type {keys!r}")
        self.person.type(keys)

    def _note(self, words: str) -> None:
        self._done.append(words)


def library_server() -> tuple[str, str]:
    """The flag for a real MCP server that asks the user."""
    server = {"command": sys.executable, "args": [LIBRARY]}
    return "--mcp-config", json.dumps({"mcpServers": {"library": server}})


def set_stage(stage: Stage) -> None:
    """A file, and a session to resume."""
    stage.folder.joinpath("file.txt").write_text(OLD)
    stage.home.mkdir(parents=True)
    rules = 'permissions = { allow = ["Read", "mcp__library"] }'
    (stage.home / "settings.toml").write_text(f"autoMemoryEnabled = false\n{rules}\n")
    stage.run("-p", "hello")
    stage.requests.clear()


def say_hello(person: Person) -> None:
    """So that there is a prompt to rewind to."""
    person.say("hello")
    person.see("Hello.", "1 turn ·")


def disturb_one_after_the_other(person: Person, stage: Stage, seed: int, asked: Sequence[Asking]) -> None:
    """In one session, each dialog ended by Escape, Ctrl-C or SIGINT, and the last by SIGTERM: the text that was typed
    is in the input each time."""
    disturber = Disturber(person, stage, seed)
    say_hello(person)
    for asking in asked:
        disturber.open(asking, early=disturber.random.random() < 0.7)
        by = disturber.choose_way_out()
        disturber.disturb(asking, 4, before_signal=by == BY_SIGNAL)
        disturber.leave(by, asking)
        disturber.see_kept()
        disturber.check_nothing_granted()
    disturber.open(asked[0], early=True)
    disturber.disturb(asked[0], 3, before_signal=True)
    end_by_signal(disturber)


def disturb_wildly(person: Person, stage: Stage, seed: int, asking: Asking) -> None:
    """With keys that move in the dialog; ended by SIGTERM."""
    disturber = Disturber(person, stage, seed)
    say_hello(person)
    disturber.open(asking, early=seed % 2 == 0)
    disturber.disturb(asking, 12, moves=True)
    end_by_signal(disturber)


def end_by_signal(disturber: Disturber) -> None:
    person = disturber.person
    person.send(signal.SIGTERM)
    assert person.end() == 128 + signal.SIGTERM
    assert person.is_as_before()
    disturber.check_nothing_granted()


def disturb_trust(person: Person, stage: Stage, seed: int, hook_ran: Path) -> None:
    """`hook_ran`: made by a hook of the folder."""
    disturber = Disturber(person, stage, seed)
    if seed % 2:
        disturber.type_words(kept=True)
    disturber.until(lambda: disturber.is_open(TRUST), "it is not asked")
    by = disturber.choose_way_out()
    disturber.disturb(TRUST, 4, before_signal=by == BY_SIGNAL)
    disturber.leave(by, TRUST)
    disturber.see_kept()
    assert not is_trusted(str(stage.home), str(stage.folder)), f"seed {seed}"
    assert not hook_ran.exists(), f"seed {seed}"


def disturb_palette(person: Person, stage: Stage, seed: int) -> None:
    """Nothing is sent, and the text stays as it was typed."""
    disturber = Disturber(person, stage, seed)
    say_hello(person)
    person.type("/")
    disturber.kept = "/"
    person.see("/compact")
    for _ in range(6):
        if disturber.random.random() < 0.5:
            letter = disturber.random.choice(LETTERS)
            person.type(letter)
            disturber.kept += letter
        else:
            disturber.random.choice((disturber.resize, disturber.stop_and_continue))()
    person.resize(24, 80)
    person.type(ESCAPE)
    disturber.see_kept()
    assert len(stage.requests) == 1
