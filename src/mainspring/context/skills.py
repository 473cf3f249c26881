"""Skills: folders with a `SKILL.md`. The model is told names and descriptions; the rest when it loads one (N-22).

A project's skills are not there before the project is trusted, or a program drives us that has chosen it (security T1).
Commands in a skill's text are text: none is ever run here. A skill of the user cannot be replaced by one of the project
that has the same name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec.structs import replace

from mainspring.context.attachments import MANNERS, Attachment, AttachmentKind
from mainspring.context.folders import ConfigFolders
from mainspring.context.frontmatter import split_frontmatter
from mainspring.context.shelf import (
    MarkdownLibrary,
    checked_name,
    describe_entry,
    insert_arguments,
    list_folder,
    named_tools,
    shorten_body,
)
from mainspring.core.errors import ToolError
from mainspring.core.value import Value

NAME = "SKILL.md"
LONGEST_ABOUT = 300  # characters of a description in the list
NO = ("false", "no", "off", "")
SHORT_ABOUT = 80  # when there is not room for all


class Skill(Value):
    name: str
    about: str
    path: str  # of its SKILL.md
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    project: bool = False  # comes with the project, not from the user
    model_may: bool = True  # load it; else only a person may, by '/name'
    user_may: bool = True  # load it by '/name'

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)  # noqa: PTH120  # pathlib takes 8 ms to load


class LoadedSkill(Value):
    """What the model gets when it asks for a skill."""

    skill: Skill
    text: str


class Skills(MarkdownLibrary[Skill]):
    """The skills of a session."""

    noun = "skill"
    fields = frozenset({"name", "description", "allowed-tools", "disable-model-invocation", "user-invocable"})
    without_effect = frozenset(
        {"when_to_use", "argument-hint", "arguments", "model", "effort", "context", "agent", "hooks", "paths", "shell"}
    )

    def __init__(
        self, places: ConfigFolders, only: tuple[str, ...] | None = None, states: Mapping[str, str] | None = None
    ) -> None:
        """`only`: the model is told of these, by name or by folder, and can load no others; None: of all. `states`:
        of those that the settings hide (`skillOverrides`)."""
        self.only, self._states = only, states or {}
        super().__init__(places)

    def counts(self, one: Skill) -> bool:
        return self._state(one) != "off"

    def _state(self, skill: Skill) -> str:
        return self._states.get(skill.name) or self._states.get(skill.folder.rpartition("/")[2], "on")

    @property
    def told(self) -> dict[str, Skill]:
        """Those that the model knows of, by name."""
        only = self.only
        return {
            name: skill
            for name, skill in self.by_name.items()
            if (only is None or name in only or skill.folder.rpartition("/")[2] in only)
            and skill.model_may
            and self._state(skill) != "user-invocable-only"
        }

    @property
    def attachment(self) -> Attachment | None:
        """The list for the model; None: there are none."""
        skills = tuple(
            [replace(skill, about="") if self._state(skill) == "name-only" else skill for skill in self.told.values()]
        )
        return Attachment(AttachmentKind.SKILLS, "", format_skill_list(skills)) if skills else None

    def load(self, name: str, arguments: str = "") -> LoadedSkill:
        """For the model. Raises `ToolError`, in words for it."""
        known = self.told
        skill = known.get(name.removeprefix("/"))
        if skill is None:
            raise ToolError(f"There is no skill '{name}'. There are: {', '.join(known) or 'none'}.")
        return LoadedSkill(skill, self.text(skill, arguments))

    def text(self, skill: Skill, arguments: str = "") -> str:
        body = insert_arguments(self.body(skill), arguments)
        return f"Folder of this skill: {skill.folder}\n\n{shorten_body(body, skill.path)}"

    def files(self, folder: str, *, project: bool) -> list[str]:  # noqa: ARG002  # links are looked at with the file
        return [f"{folder}/{name}/{NAME}" for name in list_folder(folder)]

    def describe(self, path: str, folder: str, text: str, *, project: bool) -> Skill:  # noqa: ARG002
        head = split_frontmatter(text)
        fields = head.fields
        name = checked_name(fields.get("name") or path.rsplit("/", 2)[-2])
        return Skill(
            name,
            describe_entry(fields, head.body),
            path,
            named_tools(fields),
            fields.get("model", ""),
            project,
            model_may=fields.get("disable-model-invocation", "false").lower() in NO,
            user_may=fields.get("user-invocable", "true").lower() not in NO,
        )


def format_skill_list(skills: tuple[Skill, ...]) -> str:
    """All of them with their descriptions; with shorter ones, or none, where there is not room for that."""
    room = MANNERS[AttachmentKind.SKILLS].most
    for longest in (LONGEST_ABOUT, SHORT_ABOUT, 0):
        lines = [_line(skill, longest) for skill in skills]
        if sum(map(len, lines)) + len(lines) <= room:
            return "\n".join(lines)
    return "\n".join(lines)  # the names alone are too many: the limit of the kind cuts them, and says so


def _line(skill: Skill, longest: int) -> str:
    said = skill.about if len(skill.about) <= longest else f"{skill.about[:longest]}..."
    return f"- {skill.name}: {said}" if longest and said else f"- {skill.name}"
