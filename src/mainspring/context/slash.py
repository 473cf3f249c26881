"""What a word with a slash stands for: one list of skills and commands. A skill comes before a command of its name, as
in Claude Code; our own words, such as `/compact`, come before both, and are not in it."""

from __future__ import annotations

from mainspring.context.custom_commands import CustomCommands
from mainspring.context.skills import Skills
from mainspring.core.errors import ToolError
from mainspring.core.value import Bundle

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
