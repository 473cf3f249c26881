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
    Word("resume", "The sessions of this folder; with an id or a title, go on with that one", "[session]"),
    Word("rewind", "The last prompts; with a number, go back to before that one", "[number]"),
    Word("rename", "Give this session a title", "TITLE"),
    Word("export", "Write the conversation to a file, as Markdown", "[file]"),
    Word("status", "Session, model, folders, sandbox, servers, settings: how things stand"),
    Word("context", "What fills the window", "", (PIPE, TERMINAL)),
    Word("cost", "What this session has cost so far, by model"),
    Word("model", "Which model is asked; with a name, ask that one from now on", "[name]"),
    Word("permissions", "The mode, and the rules in force with their sources"),
    Word("add-dir", "Let the tools work in one more folder", "FOLDER"),
    Word("memory", "The memory files that the model knows; 'edit' says how to change them", "[edit]"),
    Word("init", "Have the project looked at, and its memory file written or improved", "[wishes]"),
    Word("skills", "Skills and commands, and where they come from"),
    Word("agents", "Kinds of agents, and those that are at work"),
    Word("tasks", "What runs in the background; 'stop ID' ends one", "[stop ID]"),
    Word("mcp", "MCP servers; 'reconnect NAME' tries one again", "[reconnect NAME]"),
    Word("hooks", "Which hooks stand where, and which are held back"),
    Word("config", "Each setting that holds, and who said so"),
    Word("trust", "Trust this folder: what it brings takes effect; 'remove' takes that back", "[remove]"),
    Word("doctor", "Look whether everything that is needed is there"),
    Word("help", "This"),
    Word("exit", "Leave; so does Ctrl-D"),
    Word("quit", "The same"),
)


def words_at(door: str) -> tuple[Word, ...]:
    return tuple([word for word in WORDS if door in word.doors])


def names_at(door: str) -> tuple[str, ...]:
    return tuple([word.name for word in words_at(door)])
