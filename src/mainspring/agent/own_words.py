"""The words with a slash that we understand ourselves: one table, from which every door takes what it needs.

No skill and no command of others takes their place. What each does is where it is done.
"""

from __future__ import annotations

ONCE, PIPE, TERMINAL = "once", "pipe", "terminal"  # `-p`, a driving program, a conversation


class SlashCommand:
    """A plain class: it is defined at every start, and a tuple with names takes half a millisecond for that."""

    def __init__(self, name: str, about: str, hint: str = "", doors: tuple[str, ...] = (TERMINAL,)) -> None:
        """`hint`: what may stand behind it."""
        self.name, self.about, self.hint, self.doors = name, about, hint, doors


WORDS = (
    SlashCommand("compact", "Sum the conversation up now", "[instructions]", (ONCE, PIPE, TERMINAL)),
    SlashCommand("clear", "Begin a new conversation", "", (PIPE, TERMINAL)),
    SlashCommand("resume", "The sessions of this folder; with an id or a title, go on with that one", "[session]"),
    SlashCommand("rewind", "The last prompts; with a number, go back to before that one", "[number]"),
    SlashCommand("rename", "Give this session a title", "TITLE"),
    SlashCommand("export", "Write the conversation to a file, as Markdown", "[file]"),
    SlashCommand("status", "Session, model, folders, sandbox, servers, settings: how things stand"),
    SlashCommand("context", "What fills the window", "", (PIPE, TERMINAL)),
    SlashCommand("cost", "What this session has cost so far, by model"),
    SlashCommand("model", "Which model is asked; with a name, ask that one from now on", "[name]"),
    SlashCommand("permissions", "The mode, and the rules in force with their sources"),
    SlashCommand("add-dir", "Let the tools work in one more folder", "FOLDER"),
    SlashCommand("memory", "The memory files that the model knows; 'edit' says how to change them", "[edit]"),
    SlashCommand("init", "Have the project looked at, and its memory file written or improved", "[wishes]"),
    SlashCommand("skills", "Skills and commands, and where they come from"),
    SlashCommand("agents", "Kinds of agents, and those that are at work"),
    SlashCommand("tasks", "What runs in the background; 'stop ID' ends one", "[stop ID]"),
    SlashCommand("mcp", "MCP servers; 'reconnect NAME' tries one again", "[reconnect NAME]"),
    SlashCommand("hooks", "Which hooks stand where, and which are held back"),
    SlashCommand("config", "Each setting that holds, and who said so"),
    SlashCommand("trust", "Trust this folder: what it brings takes effect; 'remove' takes that back", "[remove]"),
    SlashCommand("doctor", "Look whether everything that is needed is there"),
    SlashCommand("help", "This"),
    SlashCommand("exit", "Leave; so does Ctrl-D"),
    SlashCommand("quit", "The same"),
)


def words_at(door: str) -> tuple[SlashCommand, ...]:
    return tuple([word for word in WORDS if door in word.doors])


def names_at(door: str) -> tuple[str, ...]:
    return tuple([word.name for word in words_at(door)])
