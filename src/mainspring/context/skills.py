"""Skills: folders with a `SKILL.md`. The model is told names and descriptions; the rest when it loads one (N-22).

A project's skills are not there before the project is trusted (T1). Commands in a skill's text are text: none is ever
run here. A skill of the user cannot be replaced by one of the project that has the same name.
"""

from __future__ import annotations

import os
import re

from mainspring.context.attachments import MANNERS, Attachment, Kind, cut
from mainspring.context.folders import Places
from mainspring.context.frontmatter import split
from mainspring.context.texts import Mark, look, read_text, steady
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Value
from mainspring.processes.paths import PathRefused, resolve

NAME = "SKILL.md"
MOST = 200  # skills
MOST_ENTRIES = 1_000  # of a folder that are looked at
LONGEST_ABOUT = 300  # characters of a description in the list
SHORT_ABOUT = 80  # when there is not room for all
LARGEST = 60_000  # characters of a skill that is loaded
ARGUMENTS = "$ARGUMENTS"

_SPELLING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")


class Skill(Value):
    name: str
    about: str
    path: str  # of its SKILL.md
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    project: bool = False  # comes with the project, not from the user


class Loaded(Value):
    """What the model gets when it asks for a skill."""

    skill: Skill
    text: str


class Skills:
    """The skills of a session."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._read: dict[str, tuple[Mark, Skill | None]] = {}
        self.by_name: dict[str, Skill] = {}
        self.problems: list[str] = []
        self.refresh()

    def refresh(self) -> bool:
        """Look again; whether the list is another one now. Files that did not change are not read again."""
        found: dict[str, Skill] = {}
        for folder, project in self._places.folders():
            for path in _files(folder):
                skill = self._skill(path, project)
                if skill is not None and len(found) < MOST:
                    found.setdefault(skill.name, skill)
        changed = found != self.by_name
        self.by_name = found
        return changed

    @property
    def attachment(self) -> Attachment | None:
        """The list for the model; None: there are none."""
        if not self.by_name:
            return None
        return Attachment(Kind.SKILLS, "", listing(tuple(self.by_name.values())))

    def load(self, name: str, arguments: str = "") -> Loaded:
        """Raises `ToolError`, in words for the model."""
        skill = self.by_name.get(name.removeprefix("/"))
        if skill is None:
            raise ToolError(f"There is no skill '{name}'. There are: {', '.join(self.by_name) or 'none'}.")
        try:
            body = split(read_text(resolve(skill.path, "/")).text).body.strip()
        except (PathRefused, UsageError) as error:
            raise ToolError(f"The skill '{name}' cannot be read: {error}.") from None
        except OSError as error:
            raise ToolError(f"The skill '{name}' cannot be read: {error.strerror}.") from None
        if ARGUMENTS in body:
            body = body.replace(ARGUMENTS, arguments)
        elif arguments:
            body += f"\n\nArguments: {arguments}"
        folder = os.path.dirname(skill.path)  # noqa: PTH120  # pathlib takes 8 ms to load
        return Loaded(skill, f"Folder of this skill: {folder}\n\n{cut(body, LARGEST, skill.path)}")

    def _skill(self, path: str, project: bool) -> Skill | None:
        mark = look(path)
        known = self._read.get(path)
        if mark is None:
            return None  # as with many folders
        if known is not None and known[0] == mark:
            return known[1]
        skill: Skill | None = None
        try:
            skill = read_skill(path, project=project)
        except (PathRefused, UsageError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self.problems.append(f"the skill '{path}' is left out: {why}")
        self._read[path] = (steady(mark), skill)
        return skill


def read_skill(path: str, *, project: bool = False) -> Skill:
    head = split(read_text(resolve(path, "/")).text)
    fields = head.fields
    folder = path.rsplit("/", 2)[-2]
    name = fields.get("name") or folder
    if not _SPELLING.fullmatch(name):
        raise UsageError(f"its name '{name[:80]}' is not made of letters, digits, '-', '_', '.' and ':', 64 at most")
    about = fields.get("description") or _first_lines(head.body)
    tools = [tool.strip() for tool in fields.get("allowed-tools", "").split(",") if tool.strip()]
    return Skill(name, _one_line(about), path, tuple(tools), fields.get("model", ""), project)


def listing(skills: tuple[Skill, ...]) -> str:
    """All of them with their descriptions; with shorter ones, or none, where there is not room for that."""
    room = MANNERS[Kind.SKILLS].most
    for longest in (LONGEST_ABOUT, SHORT_ABOUT, 0):
        lines = [_line(skill, longest) for skill in skills]
        if sum(map(len, lines)) + len(lines) <= room:
            return "\n".join(lines)
    return "\n".join(lines)  # the names alone are too many: the limit of the kind cuts them, and says so


def _line(skill: Skill, longest: int) -> str:
    about = skill.about if len(skill.about) <= longest else f"{skill.about[:longest]}..."
    return f"- {skill.name}: {about}" if longest else f"- {skill.name}"


def _files(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST_ENTRIES), strict=False)]
    except OSError:  # as with most of them
        return []
    return [f"{folder}/{name}/{NAME}" for name in sorted(names)]


def _first_lines(body: str) -> str:
    paragraphs = [part for part in body[:4_000].split("\n\n") if part.strip() and not part.lstrip().startswith("#")]
    return paragraphs[0] if paragraphs else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
