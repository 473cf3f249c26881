"""Somebody who types without looking, at the questions that grant something, in a real terminal.

What they send holds no explicit choice: no number alone, no arrow, and no Enter alone after a pause.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from pathlib import Path

from cli.stage import Stage, until
from cli.terminal import Terminal, without_notes

from mainspring.settings.trust import is_trusted
from tui.person import ENTER, ESCAPE, PASTE, PASTED, Person, SitAt

LETTERS = "abcdefghijklmnopqrstuvwxyzHIY0123456789 .,"
WORDS = ("hi", "trust", "trust this folder", "yes", "just do it", "2 files are missing", "22", "12", "y 2", "jjj")
ASKED = b"Do you trust this folder?"
STRAY = ("\x1b[<0;10;3M\x1b[<0;10;3m", "\x1b[M !!", "\x1b[I", "\x1b[O", "\x1b[24;80R")  # mouse, focus, cursor


def token(random_: random.Random) -> str:
    """One burst of keys."""
    kind = random_.randrange(6)
    if kind == 0:
        return random_.choice(STRAY)
    if kind == 1:
        return PASTE + random_.choice(("2", "1", "yes", "2\r", "trust\r")) + PASTED
    if kind == 2:
        return "".join(random_.choices(LETTERS, k=random_.randrange(2, 30))) + ENTER
    if kind == 3:
        return "x" + ENTER * random_.randrange(1, 20)
    return random_.choice(WORDS) + ENTER * random_.randrange(2)


def types(person: Person, random_: random.Random, tokens: int) -> None:
    for _ in range(tokens):
        person.type(token(random_))
        if random_.random() < 0.4:
            person.type("x")  # a word begins: an Enter that follows ends it
            time.sleep(random_.random())  # between two keys of a person: what is tested is the pause
            person.type(ENTER)


def folder_with_hooks(stage: Stage) -> Path:
    """Whether they have run is seen by the file."""
    ran = stage.folder.parent / "hook-ran"
    settings = stage.folder / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    hook = f'{{"hooks": [{{"type": "command", "command": "touch {ran}"}}]}}'
    settings.write_text(f'{{"hooks": {{"SessionStart": [{hook}], "UserPromptSubmit": [{hook}]}}}}')
    return ran


def was_shown(person: Person, words: bytes) -> bool:
    """On the screen, or in what was written to it: some of the words may be there from what stood there before."""
    return words in person.raw or words.decode() in person.text


def is_interrupted(person: Person) -> bool:
    """On a busy machine the first byte of a stray sequence may come alone, and is then an Escape: the run ends before
    it asks."""
    return "(interrupted)" in person.text


def at_trust(stage: Stage, sit_at: SitAt, seed: int) -> None:
    random_, ran = random.Random(seed), folder_with_hooks(stage)
    without_notes(stage)
    person = sit_at(stage)
    types(person, random_, random_.randrange(3))  # before it has started
    if random_.random() < 0.5:
        person.until(lambda: was_shown(person, ASKED), "it was not asked")
    types(person, random_, 4)
    person.until(lambda: was_shown(person, ASKED), "it was not asked")
    person.type(ESCAPE)  # it may be gone by now: a sequence that no terminal sends begins with Escape
    person.see_no("Do you trust this folder?")
    assert not is_trusted(str(stage.home), str(stage.folder)), f"seed {seed}:\n{person.text}"
    assert not ran.exists(), f"seed {seed}"


def at_a_call(stage: Stage, sit_at: SitAt, seed: int, *, early: bool) -> None:
    """`stage`: its model wants to run 'touch made'."""
    random_ = random.Random(seed)
    without_notes(stage)
    person = sit_at(stage)
    person.say("go")
    if early:
        types(person, random_, 2)
    person.until(lambda: was_shown(person, b"1. Yes") or is_interrupted(person), "it was not asked")
    types(person, random_, 4)
    person.type(ESCAPE)
    if not is_interrupted(person):
        person.see("Declined")
    assert not (stage.folder / "made").exists(), f"seed {seed}:\n{person.text}"
    assert not (stage.folder / ".claude").exists(), "no rule was kept"


PLANNED = "# Plan\n\nChange everything."


def at_a_plan(stage: Stage, sit_at: SitAt, seed: int) -> None:
    """`stage`: its model shows PLANNED, and says more if it is told to."""
    random_ = random.Random(seed)
    without_notes(stage)
    person = sit_at(stage, "--permission-mode", "plan")
    person.say("plan it")
    if seed % 2:
        types(person, random_, 2)
    person.until(lambda: b"Carry out this plan?" in person.raw or is_interrupted(person), "it was not asked")
    types(person, random_, 4)
    person.type(ESCAPE)
    person.see_no("Carry out this plan?")
    if not is_interrupted(person):
        person.see("not approve")
    assert "The user approved" not in str(stage.requests), f"seed {seed}:\n{person.text}"
    assert "was approved" not in person.text


def at_a_plain_prompt(stage: Stage, seed: int) -> None:
    """Words and keys before the prompt for the answer is there, and words after it; no 'y', 'a' or 'p' alone then.
    `stage`: its model wants to run 'touch made'."""
    random_ = random.Random(seed)
    without_notes(stage)
    with closing(Terminal(stage)) as terminal:
        terminal.say("go")
        until(lambda: bool(stage.requests))
        for _ in range(random_.randrange(1, 6)):
            terminal.type(random_.choice(("y", "y\r", "a\r", "p\r", "yes", "yes\r", "1\r", "\r", "y y\r")))
            time.sleep(random_.random() * 0.3)  # between two keys of a person: what is tested is the pause
        terminal.see("Allow? [")
        terminal.type(random_.choice(("\r", "n\r", "x y\r", "yes please do not\r", "y a\r", "always ask me\r")))
        terminal.see("> ")
        assert not (stage.folder / "made").exists(), f"seed {seed}: {terminal.shown}"
