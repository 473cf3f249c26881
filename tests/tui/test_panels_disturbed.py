"""On a pty: random keys, resizes, stops and signals at panels, at the board and in the transcript. Whatever comes, the
program answers or ends in order: the terminal is as before, no traceback is shown, and the session is whole."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
from cli.stage import Serve, until
from tiers import long

from mainspring.core.messages import Assistant, User
from mainspring.sessions.resume import load_session
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from tui.person import CTRL_O, DOWN, ENTER, ESCAPE, PASTE, PASTED, SHIFT_TAB, TAB, UP, Person, SitAt
from tui.test_terminal import tool_use

PLACES = (
    "/config", "/permissions", "/mcp", "/memory", "/hooks", "/agents", "/model", "/tasks", "/diff", "/rewind", CTRL_O,
)  # fmt: skip
KEYS = (
    UP, DOWN, TAB, SHIFT_TAB, ENTER, ESCAPE, " ", *"/adenortuxy12Gg?", "\x7f",
    "\x1b[5~", "\x1b[6~", "\x1b[H", "\x1b[F", "\x1b[C", "\x1b[D", "\x01", "\x0c", "\x15", "\x1bOP", "\x1b[<0;5;5M",
    f"{PASTE}two\nlines{PASTED}", "wörter 漢字",
)  # fmt: skip
SIZES = ((24, 80), (36, 120), (12, 40), (8, 60), (50, 33), (24, 200), (4, 20))
TRIES = 30  # presses of Escape until every page of a panel is closed
ENDS = {"SIGTERM": 128 + signal.SIGTERM, "SIGHUP": 128 + signal.SIGHUP}


def choose(received: ReceivedRequest) -> Reply:
    """A command in the background, so that the board has a row; every other prompt gets an answer."""
    if "begin" in str(received.body["messages"][-1]):
        return Say.of(tool_use("Bash", command="sleep 1000", run_in_background=True))
    return Say.of("Hello. " + "A line.\n\n" * 30)


class RandomUser:
    def __init__(self, person: Person, seed: int) -> None:
        self.person, self.random, self.story = person, random.Random(seed), [f"seed {seed}"]

    def disturb(self, times: int) -> None:
        for _ in range(times):
            match self.random.randrange(8):
                case 0:
                    size = self.random.choice(SIZES)
                    self.story.append(f"resize {size}")
                    self.person.resize(*size)
                case 1:
                    self.stop_and_continue()
                case 2:
                    self.person.send(signal.SIGWINCH)
                case _:
                    self.type(self.random.choice(KEYS))
            self.person.read(self.random.choice((0, 0, 0.05, 0.3)))

    def stop_and_continue(self) -> None:
        """SIGTSTP, too, which the kernel drops for a process group whose session has no other."""
        self.story.append("stop")
        if self.random.random() < 0.5:
            self.person.send(signal.SIGTSTP)
        else:
            self.person.send(signal.SIGSTOP)
            stat = Path(f"/proc/{self.person.process.pid}/stat")
            until(lambda: stat.read_text().rpartition(") ")[2][0] == "T")
        self.person.send(signal.SIGCONT)

    def type(self, keys: str) -> None:
        self.story.append(f"type {keys!r}")
        self.person.type(keys)

    def open(self, place: str) -> None:
        self.type(place if place == CTRL_O else f"{place}{ENTER}")
        self.person.read(1)

    def come_back(self) -> None:
        """To the input, without a page over it: Escape closes whatever is open."""
        self.person.resize(24, 80)
        for _ in range(TRIES):
            self.person.read(0.7)  # more than a pause between two keys of a sequence
            if self.is_back:
                self.person.type(10 * "\x05\x15\x7f")  # what was typed into the input, line by line
                return
            self.type(ESCAPE)
        raise AssertionError("\n".join([*self.story, *self.person.screen]))

    @property
    def is_back(self) -> bool:
        lines = [line for line in self.person.screen if line]
        rules = [at for at, line in enumerate(lines) if set(line) == {"─"}]
        return bool(rules) and "esc" not in lines[-1] and lines[min(rules[-1] + 1, len(lines) - 1)].startswith("❯")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("seed", [long(0), long(1), long(2), long(3)])
def test_whatever_comes_it_ends_in_order(serve: Serve, sit_at: SitAt, seed: int, end: str) -> None:
    stage = serve(choose=choose)
    stage.home.mkdir(parents=True)
    (stage.home / "settings.toml").write_text('autoMemoryEnabled = false\npermissions = { allow = ["Bash"] }\n')
    person = sit_at(stage, EDITOR="/bin/true", VISUAL="/bin/true")
    person.say("hello")
    person.see("Hello.", "1 turn ·")
    person.say("begin")
    person.see("2 turns ·")
    user = RandomUser(person, seed)
    places = user.random.sample(PLACES, 4)
    for place in places[:-1]:
        user.open(place)
        user.disturb(25)
        user.come_back()
    user.open(places[-1])
    user.disturb(10)
    person.send(signal.Signals[end])
    code = person.end()
    story = "\n".join([*user.story, end, *person.paper[-40:]])
    assert code == ENDS[end], story
    assert "Traceback" not in person.text, story
    assert end == "SIGHUP" or person.is_as_before(), story
    kept = [message for file in stage.sessions() for message in load_session(file).state.history]
    assert any(isinstance(one, User) and "hello" in one.text for one in kept), story
    assert any(isinstance(one, Assistant) and one.text.startswith("Hello.") for one in kept), story
