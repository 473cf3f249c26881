"""Custom commands and the catalog of slash commands: `commands/*.md` of the user and the project.

A custom command is a prompt that a user enters as `/name arguments`. `commands/git/fix.md` is `/git:fix`, and also
`/fix` if nothing else has that name. The model does not see custom commands: for that there are skills. `allowed-tools`
grants no permission, and `` !`command` `` is not run (security T1).

`SlashCatalog` is one list of skills and custom commands. A skill takes precedence over a custom command of the same
name, as in Claude Code; built-in slash commands, such as `/compact`, take precedence over both, and are not in it.
"""

from __future__ import annotations

import re
import shlex

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

DEEPEST = 5  # nested directories
SUFFIX = ".md"

_WORD = re.compile(r"\$ARGUMENTS|\$([1-9])(?!\d)")  # '$100' is money


class CustomCommand(Value):
    name: str
    about: str
    path: str
    hint: str = ""  # for its arguments, for the user
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    project: bool = False


class CustomCommands(MarkdownLibrary[CustomCommand]):
    """The commands of a session."""

    noun = "command"
    fields = frozenset(
        {"name", "description", "allowed-tools", "argument-hint", "disable-model-invocation"}
    )  # the model sees none of them, so the last one has no effect
    without_effect = frozenset(
        {"when_to_use", "arguments", "model", "effort", "context", "agent", "hooks", "paths", "shell", "user-invocable"}
    )

    def find(self, name: str) -> CustomCommand | None:
        """By its full name, or by the last part of it: then the first match counts."""
        if name in self.by_name:
            return self.by_name[name]
        return next((one for whole, one in self.by_name.items() if whole.rpartition(":")[2] == name), None)

    def text(self, command: CustomCommand, arguments: str = "") -> str:
        return shorten_body(fill_arguments(self.body(command), arguments), command.path)

    def files(self, folder: str, *, project: bool) -> list[str]:
        if folder.endswith(SUFFIX):
            return [folder]  # a file that a plugin names
        found: list[str] = []
        self._walk(folder, project, found, {self._folder(folder, project)}, DEEPEST)
        return found

    def _walk(self, folder: str, project: bool, found: list[str], seen: set[str], deeper: int) -> None:
        """Files before directories. A link may lead to a directory, but not in a cycle."""
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
        """The real path; empty: not a directory, or one that it must not lead to."""
        try:
            place = resolve_path(path, "/")
            self.places.check(place, project=project)
        except PathRefused:
            return ""
        return place.real if place.kind == "folder" else ""

    def describe(self, path: str, folder: str, text: str, *, project: bool) -> CustomCommand:
        head = split_frontmatter(text)
        fields = head.fields
        inner = path.rpartition("/")[2] if path == folder else path[len(folder) + 1 :]
        name = inner.removesuffix(SUFFIX).replace("/", ":")
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
    """`$ARGUMENTS` is all of the arguments, `$1` the first one. Inserted text is not expanded again."""
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
    """Split as a shell does."""
    try:
        return shlex.split(arguments)
    except ValueError:  # an unclosed quote, as in "don't"
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
        """Includes skills that the model does not see: the user asks."""
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
        """The prompt that it expands to. Raises `ToolError`."""
        skill = self._skills.by_name.get(name)
        if skill is not None and skill.user_may:
            return self._skills.text(skill, arguments)
        command = self._commands.find(name)
        if command is None:
            raise ToolError(f"There is no command and no skill '/{name}'.")
        return self._commands.text(command, arguments)

    def news(self) -> tuple[str, ...]:
        """Problems that have not been reported yet."""
        return (*self._skills.news(), *self._commands.news())


def _short(about: str) -> str:
    return about if len(about) <= LONGEST_ABOUT else f"{about[:LONGEST_ABOUT]}..."
