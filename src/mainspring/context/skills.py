"""Skills: directories with a `SKILL.md`. The model sees names and descriptions, and the text when it loads one (N-22).

A project's skills are not loaded before the project is trusted, or a host that has chosen it drives us (security T1).
Commands in a skill's text are not run. A project's skill cannot replace a skill of the user with the same name.

`MarkdownLibrary` is the base for what the user and the project keep in files of one sort, by name: skills, commands,
output styles. It does not read unchanged files again. Files that cannot be read are left out and named in `problems`,
for the user.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar, cast

from msgspec.structs import replace

from mainspring.context.attachments import MANNERS, Attachment, AttachmentKind, cut_with_note
from mainspring.context.frontmatter import split_frontmatter
from mainspring.context.project_files import ConfigFolders, FileStamp, read_text, settle_stamp, stat_file
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Value
from mainspring.processes.paths import PathRefused, resolve_path
from mainspring.text import did_you_mean

MOST = 200  # of a sort
MOST_ENTRIES = 1_000  # of a directory that are checked
LARGEST = 60_000  # characters of a loaded text
ARGUMENTS = "$ARGUMENTS"

_SPELLING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")


class LibraryEntry(Protocol):
    """The properties of a file that are known before its text is needed."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def project(self) -> bool:
        """It comes from the project, not from the user."""
        ...


Kept = TypeVar("Kept", bound=LibraryEntry)


PASSED_OVER = frozenset({"license", "version", "author", "metadata", "compatibility", "color", "tags"})


class MarkdownLibrary(Generic[Kept]):
    noun: str
    fields: frozenset[str]  # known frontmatter fields
    without_effect: frozenset[str] = frozenset()  # frontmatter fields that other programs use

    def __init__(self, places: ConfigFolders) -> None:
        self.places = places
        self._read: dict[str, tuple[FileStamp, Kept | None]] = {}
        self.by_name: dict[str, Kept] = {}
        self._left_out: dict[str, str] = {}  # why, by path
        self._second: dict[str, str] = {}  # the same, for those with a name that is taken
        self._odd: dict[str, list[str]] = {}  # frontmatter fields without effect, by path
        self._told: set[str] = set()
        self.refresh()

    @property
    def problems(self) -> list[str]:
        left_out = {**self._left_out, **self._second}
        odd = [f"the {self.noun} '{path}': {self._about(field)}" for path in self._odd for field in self._odd[path]]
        return [*[f"the {self.noun} '{path}' is left out: {why}" for path, why in left_out.items()], *odd]

    def news(self) -> tuple[str, ...]:
        """Problems that have not been reported yet."""
        new = [one for one in self.problems if one not in self._told]
        self._told.update(new)
        return tuple(new)

    def _about(self, field: str) -> str:
        """The message for a frontmatter field without effect."""
        if field in self.without_effect:
            return f"'{field}' has no effect here yet"
        return f"nobody knows '{field}'{did_you_mean(field, sorted(self.fields))}"

    def files(self, folder: str, *, project: bool) -> list[str]:
        """The candidates; a missing one is not a problem."""
        raise NotImplementedError

    def describe(self, path: str, folder: str, text: str, *, project: bool) -> Kept:
        """Raises `UsageError`."""
        raise NotImplementedError

    def counts(self, one: Kept) -> bool:  # noqa: ARG002  # for those that leave some out
        return True

    def refresh(self) -> bool:
        """Look again. Returns whether the list has changed."""
        found: dict[str, Kept] = {}
        self._second.clear()
        for folder, project in self.places.folders():
            for path in self.files(folder, project=project):
                one = self._kept(path, folder, project)
                if one is None or not self.counts(one):
                    continue
                if why := self._no_room(one, found):
                    self._second[path] = why
                else:
                    found.setdefault(one.name, one)
        changed = found != self.by_name
        self.by_name = found
        return changed

    def _no_room(self, one: Kept, found: dict[str, Kept]) -> str:
        """Why the entry is rejected; empty: it is accepted, or it is the same file by another path."""
        before = found.get(one.name)
        if before is not None:
            same = os.path.realpath(before.path) == os.path.realpath(one.path)
            return "" if same else f"'{before.path}' has the name '{one.name}', too"
        return f"at most {MOST} are supported" if len(found) >= MOST else ""

    def body(self, one: Kept) -> str:
        """Its current text without the frontmatter. Raises `ToolError` with a message for the model."""
        try:
            return split_frontmatter(self._text(one.path, one.project)).body.strip()
        except (PathRefused, UsageError) as error:
            raise ToolError(f"The {self.noun} '{one.name}' cannot be read: {error}.") from None
        except OSError as error:
            raise ToolError(f"The {self.noun} '{one.name}' cannot be read: {error.strerror}.") from None

    def _text(self, path: str, project: bool) -> str:
        found = resolve_path(path, "/")
        self.places.check(found, project=project)
        return read_text(found).text

    def _kept(self, path: str, folder: str, project: bool) -> Kept | None:
        mark = stat_file(path)
        known = self._read.get(path)
        if mark is None:
            self._odd.pop(path, None)
            return None  # many directories have no such file
        if known is not None and known[0] == mark:
            return known[1]
        self._left_out.pop(path, None)  # a file written just now is read more than once
        self._odd.pop(path, None)
        one: Kept | None = None
        try:
            text = self._text(path, project)
            one = self.describe(path, folder, text, project=project)
            if prefix := self.places.prefix_of(folder):
                one = cast("Kept", replace(cast("Any", one), name=f"{prefix}{one.name}"))
            if odd := sorted(split_frontmatter(text).fields.keys() - self.fields - PASSED_OVER):
                self._odd[path] = odd
        except (PathRefused, UsageError, OSError) as error:
            self._left_out[path] = (error.strerror or "") if isinstance(error, OSError) else str(error)
        self._read[path] = (settle_stamp(mark), one)
        return one


def list_folder(folder: str) -> list[str]:
    """The names in it, sorted."""
    try:
        with os.scandir(folder) as found:
            return sorted([entry.name for entry, _ in zip(found, range(MOST_ENTRIES), strict=False)])
    except OSError:  # most of these directories do not exist
        return []


def checked_name(name: str) -> str:
    if not _SPELLING.fullmatch(name):
        raise UsageError(f"its name '{name[:80]}' may only have letters, digits, '-', '_', '.' and ':', at most 64")
    return name


def named_tools(fields: dict[str, str]) -> tuple[str, ...]:
    """The tools that the frontmatter wants to be allowed. It grants no permission."""
    return tuple([tool.strip() for tool in fields.get("allowed-tools", "").split(",") if tool.strip()])


def describe_entry(fields: dict[str, str], body: str) -> str:
    """On one line: its description, or the beginning of its text."""
    return " ".join((fields.get("description") or _first_lines(body)).split())


def shorten_body(body: str, path: str) -> str:
    return cut_with_note(body, LARGEST, path)


def insert_arguments(body: str, arguments: str) -> str:
    if ARGUMENTS in body:
        return body.replace(ARGUMENTS, arguments)
    return f"{body}\n\nArguments: {arguments}" if arguments else body


def _first_lines(body: str) -> str:
    paragraphs = [part for part in body[:4_000].split("\n\n") if part.strip() and not part.lstrip().startswith("#")]
    return paragraphs[0] if paragraphs else ""


NAME = "SKILL.md"
LONGEST_ABOUT = 300  # characters of a description in the list
NO = ("false", "no", "off", "")
SHORT_ABOUT = 80  # if not all of them fit


class Skill(Value):
    name: str
    about: str
    path: str  # of its SKILL.md
    allowed_tools: tuple[str, ...] = ()
    model: str = ""
    project: bool = False  # comes from the project, not from the user
    model_may: bool = True  # load it; else only the user may, by '/name'
    user_may: bool = True  # load it by '/name'

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)  # noqa: PTH120  # pathlib takes 8 ms to load


class LoadedSkill(Value):
    """The result for a model that loads a skill."""

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
        """`only`: the model sees these, by name or by directory, and can load no others; None: all. `states`: of those
        that the settings hide (`skillOverrides`)."""
        self.only, self._states = only, states or {}
        super().__init__(places)

    def counts(self, one: Skill) -> bool:
        return self._state(one) != "off"

    def _state(self, skill: Skill) -> str:
        return self._states.get(skill.name) or self._states.get(skill.folder.rpartition("/")[2], "on")

    @property
    def told(self) -> dict[str, Skill]:
        """The skills that the model sees, by name."""
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
        """For the model. Raises `ToolError` with a message for it."""
        known = self.told
        skill = known.get(name.removeprefix("/"))
        if skill is None:
            raise ToolError(f"There is no skill '{name}'. There are: {', '.join(known) or 'none'}.")
        return LoadedSkill(skill, self.text(skill, arguments))

    def text(self, skill: Skill, arguments: str = "") -> str:
        body = insert_arguments(self.body(skill), arguments)
        return f"Folder of this skill: {skill.folder}\n\n{shorten_body(body, skill.path)}"

    def files(self, folder: str, *, project: bool) -> list[str]:  # noqa: ARG002  # links are looked at with the file
        one = [f"{folder}/{NAME}"] if self.places.prefix_of(folder) else []  # a plugin may name a single skill
        return [*one, *[f"{folder}/{name}/{NAME}" for name in list_folder(folder)]]

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
    """All skills with their descriptions; with shorter ones, or none, if those do not fit."""
    room = MANNERS[AttachmentKind.SKILLS].most
    for longest in (LONGEST_ABOUT, SHORT_ABOUT, 0):
        lines = [_line(skill, longest) for skill in skills]
        if sum(map(len, lines)) + len(lines) <= room:
            return "\n".join(lines)
    return "\n".join(lines)  # even the names are too many: the limit of the kind truncates them, with a note


def _line(skill: Skill, longest: int) -> str:
    said = skill.about if len(skill.about) <= longest else f"{skill.about[:longest]}..."
    return f"- {skill.name}: {said}" if longest and said else f"- {skill.name}"
