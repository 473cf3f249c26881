"""Commands of the user and the project: `commands/*.md`, a prompt under a name, for people who say `/name words`.

`commands/git/fix.md` is `/git:fix`, and `/fix` as well where nothing else has that name. The model is not told of them:
a skill is what it finds by itself. No right comes of `allowed-tools`, and of `` !`command` `` nothing is run
(security T1).

What a word with a slash stands for: one list of skills and commands. A skill comes before a command of its name, as
in Claude Code; our own words, such as `/compact`, come before both, and are not in it.
"""

from __future__ import annotations

import re

from mainspring.context.frontmatter import split_frontmatter
from mainspring.context.skills import (
    MOST_ENTRIES,
    MarkdownLibrary,
    Skills,
    checked_name,
    describe_entry,
    insert_arguments,
    list_folder,
    named_tools,
    shorten_body,
)
from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle, Value
from mainspring.processes.paths import PathRefused, resolve_path

DEEPEST = 5  # folders within each other
SUFFIX = ".md"

_WORD = re.compile(r"\$ARGUMENTS|\$([1-9])(?!\d)")  # '$100' is money


class CustomCommand(Value):
    name: str
    about: str
    path: str
    hint: str = ""  # of its arguments, for people
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    project: bool = False


class CustomCommands(MarkdownLibrary[CustomCommand]):
    """The commands of a session."""

    noun = "command"
    fields = frozenset(
        {"name", "description", "allowed-tools", "argument-hint", "disable-model-invocation"}
    )  # the model is told of none, so the last one is always heeded
    without_effect = frozenset(
        {"when_to_use", "arguments", "model", "effort", "context", "agent", "hooks", "paths", "shell", "user-invocable"}
    )

    def find(self, name: str) -> CustomCommand | None:
        """By its whole name, or by the last part of it: then the first one counts, as everywhere."""
        if name in self.by_name:
            return self.by_name[name]
        return next((one for whole, one in self.by_name.items() if whole.rpartition(":")[2] == name), None)

    def text(self, command: CustomCommand, arguments: str = "") -> str:
        return shorten_body(fill_arguments(self.body(command), arguments), command.path)

    def files(self, folder: str, *, project: bool) -> list[str]:
        found: list[str] = []
        self._walk(folder, project, found, {self._folder(folder, project)}, DEEPEST)
        return found

    def _walk(self, folder: str, project: bool, found: list[str], seen: set[str], deeper: int) -> None:
        """Files before folders. A link may lead to a folder, but not in a circle."""
        folders: list[str] = []
        for name in list_folder(folder):
            if name.endswith(SUFFIX):
                found.append(f"{folder}/{name}")
            elif not name.startswith(".") and (real := self._folder(f"{folder}/{name}", project)) and real not in seen:
                seen.add(real)
                folders.append(f"{folder}/{name}")
        for inner in folders if deeper else ():
            if len(found) < MOST_ENTRIES:
                self._walk(inner, project, found, seen, deeper - 1)

    def _folder(self, path: str, project: bool) -> str:
        """Where it is; empty: it is no folder, or one that it should not lead to."""
        try:
            place = resolve_path(path, "/")
            self.places.check(place, project=project)
        except PathRefused:
            return ""
        return place.real if place.kind == "folder" else ""

    def describe(self, path: str, folder: str, text: str, *, project: bool) -> CustomCommand:
        head = split_frontmatter(text)
        fields = head.fields
        name = path[len(folder) + 1 : -len(SUFFIX)].replace("/", ":")
        hint = " ".join(fields.get("argument-hint", "").split())
        return CustomCommand(
            checked_name(name),
            describe_entry(fields, head.body),
            path,
            hint,
            named_tools(fields),
            fields.get("model", ""),
            project,
        )


def fill_arguments(body: str, arguments: str) -> str:
    """`$ARGUMENTS` is all that was said, `$1` its first word. What is put in is not looked at again."""
    if not _WORD.search(body):
        return insert_arguments(body, arguments)
    words = _words(arguments)

    def put(found: re.Match[str]) -> str:
        if found[1] is None:
            return arguments
        place = int(found[1])
        return words[place - 1] if place <= len(words) else ""

    return _WORD.sub(put, body)


def _words(arguments: str) -> list[str]:
    """As a shell takes them apart."""
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:  # a quote that is not closed, as in "don't"
        return arguments.split()


LONGEST_ABOUT = 300  # characters of a description; 400 of them have to fit into one line of a pipe (stream-json 1.4)
LONGEST_HINT = 100


class SlashEntry(Bundle):
    name: str
    about: str
    hint: str = ""
    project: bool = False


class SlashCatalog:
    def __init__(self, skills: Skills, commands: CustomCommands) -> None:
        self._skills, self._commands = skills, commands

    def entries(self) -> tuple[SlashEntry, ...]:
        """Skills that the model is not told of are here, too: it is a person who asks."""
        skills = [
            SlashEntry(one.name, _short(one.about), project=one.project)
            for one in self._skills.by_name.values()
            if one.user_may
        ]
        commands = [one for name, one in self._commands.by_name.items() if name not in self._skills.by_name]
        return (
            *skills,
            *[SlashEntry(one.name, _short(one.about), one.hint[:LONGEST_HINT], one.project) for one in commands],
        )

    def text(self, name: str, arguments: str = "") -> str:
        """The prompt that it stands for. Raises `ToolError`."""
        skill = self._skills.by_name.get(name)
        if skill is not None and skill.user_may:
            return self._skills.text(skill, arguments)
        command = self._commands.find(name)
        if command is None:
            raise ToolError(f"There is no command and no skill '/{name}'.")
        return self._commands.text(command, arguments)

    def news(self) -> tuple[str, ...]:
        """Problems that nobody was told of yet."""
        return (*self._skills.news(), *self._commands.news())


def _short(about: str) -> str:
    return about if len(about) <= LONGEST_ABOUT else f"{about[:LONGEST_ABOUT]}..."
