"""The words with a slash that we understand ourselves: one table, from which every door takes what it needs.

No skill and no command of others takes their place. What each does is where it is done.
"""

from __future__ import annotations

ONCE, PIPE, TERMINAL = "once", "pipe", "terminal"  # `-p`, a driving program, a conversation


class Word:
    """A plain class: it is defined at every start, and a tuple with names takes half a millisecond for that."""

    def __init__(self, name: str, about: str, hint: str = "", doors: tuple[str, ...] = (TERMINAL,)) -> None:
        """`hint`: what may stand behind it."""
        self.name, self.about, self.hint, self.doors = name, about, hint, doors


WORDS = (
    Word("compact", "Sum the conversation up now", "[instructions]", (ONCE, PIPE, TERMINAL)),
    Word("clear", "Begin a new conversation", "", (PIPE, TERMINAL)),
    Word("context", "What fills the window", "", (PIPE, TERMINAL)),
    Word("cost", "What this session has cost so far, by model"),
    Word("model", "Which model is asked; with a name, ask that one from now on", "[name]"),
    Word("permissions", "The mode, and the rules in force with their sources"),
    Word("resume", "The sessions of this folder; with an id or a title, go on with that one", "[session]"),
    Word("help", "This"),
    Word("exit", "Leave; so does Ctrl-D"),
    Word("quit", "The same"),
)


def words_at(door: str) -> tuple[Word, ...]:
    return tuple([word for word in WORDS if door in word.doors])


def names_at(door: str) -> tuple[str, ...]:
    return tuple([word.name for word in words_at(door)])
