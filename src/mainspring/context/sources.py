"""All attachments of a session, and when they are sent: one object, called once a turn.

`attachments` is fast, and for the request that is about to be made. `recall` runs while the reply streams: it looks up
what takes longer, and the next request gets what is ready by then (B-30, N-20). What a compaction removed from the view
is sent again (D-37); what a resumed session still contains is not.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeGuard

from mainspring import context
from mainspring.context.attachments import (
    Attachment,
    format_today,
    make_date_attachment,
    make_repository_attachment,
    place_apart,
    render_attachment,
    select_missing_attachments,
)
from mainspring.context.memory import MemoryFiles, MemoryLocations
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Message, Origin, ToolCall, User
from mainspring.core.state import State
from mainspring.core.value import Bundle
from mainspring.core.view import Edit, replaced_since, view
from mainspring.permissions import READERS, WRITERS
from mainspring.processes.paths import PathRefused, resolve_path

if TYPE_CHECKING:
    from mainspring.context.custom_commands import CustomCommands, SlashCatalog
    from mainspring.context.file_changes import FileChanges
    from mainspring.context.mentions import MentionAttachment, MentionMedia, Verdict
    from mainspring.context.notes import MemoryNotes
    from mainspring.context.skills import Skills
    from mainspring.processes.atomic_write import ReadSet
    from mainspring.processes.children import Children

PATHS = READERS | WRITERS  # fields of tools that name a file or a directory


class ContextSourceOptions(Bundle):
    """What a session passes. Everything but the place is optional."""

    where: MemoryLocations
    notes: str = ""  # the directory of the project's notes; empty: none
    environ: Mapping[str, str] = {}  # only for git
    read: Callable[[], ReadSet] | None = None  # the files that the tools have read; called at the first file
    children: Callable[[], Children] | None = None  # starts programs; called at the first one
    skills: bool = True  # whether the model can load one
    tell: Callable[[str], object] | None = None  # called with each problem, once
    nonce: str = ""  # of the session's reminders
    told_cwd: str = ""  # the directory that the first prompt names; empty: the system prompt does
    bare: bool = False  # neither date nor repository


class ContextSources:
    def __init__(self, around: ContextSourceOptions) -> None:
        self._around = around
        self.nonce = around.nonce
        self.memory = MemoryFiles(around.where)
        self._place: Attachment | None = None
        if around.told_cwd:
            self._place = place_apart(around.told_cwd, git=self.memory.project.git)
        self._skills: Skills | None = None
        self._slash: SlashCatalog | None = None
        self._commands: CustomCommands | None = None
        self._changes: FileChanges | None = None
        self._notes: MemoryNotes | None = None
        self._git: Attachment | None = None
        self._index: Attachment | None = None
        self._looked = 0  # how much of the history was searched for calls
        self._prompt: User | None = None  # the last one,
        self._prompted = 0  # and the length of the history then
        self._unsure = True  # whether something may be missing from the view
        self._last: tuple[tuple[Edit, ...], str] | None = None  # the edits and the day of the last check of the view
        self._recalled = ""  # the prompt for which notes were looked up
        if self._has_notes():
            self._index = self._the_notes().index

    def tell(self, problem: str) -> None:
        if self._around.tell is not None:
            self._around.tell(problem)

    @property
    def problems(self) -> tuple[str, ...]:
        """For the user: what was left out, and why."""
        return (*self.memory.problems, *(self._skills.problems if self._skills is not None else ()))

    @property
    def tells_place(self) -> bool:
        """Whether the first prompt names the directory: then the system prompt is identical in all directories."""
        return self._place is not None

    @property
    def has_skills(self) -> bool:
        """Whether the model may see any."""
        return self._around.skills and self.memory.where.skills != () and self.memory.places("skills").are_there()

    @property
    def skills(self) -> context.Skills:
        if self._skills is None:
            self._skills = context.Skills(
                self.memory.places("skills"), self.memory.where.skills, self.memory.where.skill_states
            )
        return self._skills

    @property
    def has_words(self) -> bool:
        """Whether there may be slash commands besides the built-in ones."""
        return any(self.memory.places(sort).are_there() for sort in ("skills", "commands"))

    @property
    def slash(self) -> context.SlashCatalog:
        """The current catalog of slash commands."""
        if self._slash is None or self._commands is None:
            self._commands = context.CustomCommands(self.memory.places("commands"))
            self._slash = context.SlashCatalog(self.skills, self._commands)
        self._unsure |= self.skills.refresh()
        self._commands.refresh()
        return self._slash

    async def named(
        self,
        text: str,
        may: Callable[[str], Awaitable[Verdict]],
        medium: Callable[[int, str], MentionMedia | None] | None = None,
    ) -> tuple[MentionAttachment, ...]:
        """What a prompt mentions by `@path`. `may`: the decision of the rules about `Read` for a path. `medium`:
        returns the image or document in an open file."""
        if "@" not in text:
            return ()
        where, known = self.memory.where, self._around.read
        reach = context.MentionScope(
            where.cwd, where.user or None, may, where.may_read, known() if known else None, medium
        )
        found = await context.resolve_mentions(text, reach)
        for one in found:
            self._unsure |= self._touched(one.path.real)
        return found

    def attachments(self, state: State, now: int) -> tuple[User, ...]:
        """What the next request needs besides its view. Costs a few `lstat` calls when nothing happened."""
        changed = self._look_at_calls(state)
        news = self._changes.news() if self._changes is not None else None
        moved = self._has_moved(state.edits, format_today(now))
        again = changed or self.memory.refresh() or moved or self._unsure
        wanted = (
            select_missing_attachments(self._standing(now), view(state.history, state.edits), self.nonce)
            if again
            else ()
        )
        self._unsure = bool(wanted)  # an abort may lose them on their way: check once more
        return (*wanted, *([render_attachment(news, self.nonce)] if news is not None else []))

    def _has_moved(self, edits: tuple[Edit, ...], day: str) -> bool:
        """Whether something may have left the view since the last check, or another day has begun."""
        last, self._last = self._last, (edits, day)
        return last is None or last[1] != day or replaced_since(last[0], edits) is None

    def lost(self, state: State, now: int, sent: tuple[User, ...]) -> tuple[User, ...]:
        """What the layers have just removed from the view: `state` has their edits, `sent` is on its way already."""
        return select_missing_attachments(self._standing(now), (*view(state.history, state.edits), *sent), self.nonce)

    async def recall(self, state: State) -> tuple[User, ...]:
        """The notes that match the prompt. Also looks up git and new skills, which `attachments` then returns."""
        await self._ask_git()
        if self._skills is not None or self.has_skills:
            self._unsure |= self.skills.refresh()
        fitting = await self._fitting(state)
        return select_missing_attachments(fitting, view(state.history, state.edits), self.nonce) if fitting else ()

    def _standing(self, now: int) -> Iterable[Attachment]:
        """What applies all the time, the most general first."""
        skills = self._listed_skills() if self._skills is not None or self.has_skills else None
        date = None if self._around.bare else make_date_attachment(now)
        standing = (self._place, *self.memory.attachments, self._index, skills, date, self._git)
        return [attachment for attachment in standing if attachment is not None]

    def _listed_skills(self) -> Attachment | None:
        """Reports problems of a skill before the model could load it."""
        for problem in self.skills.news():
            self.tell(problem)
        return self.skills.attachment

    # --- what the model touched -------------------------------------------------------------------

    def _look_at_calls(self, state: State) -> bool:
        """Whether there are more memory files now, for a directory where the model works."""
        new = state.history.since(self._looked)
        self._looked = len(state.history)
        calls = [call for message in new if isinstance(message, Assistant) for call in message.calls]
        more = [self._touched(name) for call in calls if (name := _path_of(call))]
        return any(more)

    def _touched(self, name: str) -> bool:
        try:
            path = resolve_path(name, self.memory.where.cwd, home=self.memory.where.user or None)
        except PathRefused:
            return False
        if path.kind == "file" and self._around.read is not None:
            if self._changes is None:
                self._changes = context.FileChanges(self._around.read())
            self._changes.saw(path)
        return path.kind != "missing" and self.memory.touched(path.real)

    # --- looked up while the reply streams --------------------------------------------------------

    async def _ask_git(self) -> None:
        if self._around.bare or self._git is not None or not self.memory.project.git:
            return
        children = self._around.children() if self._around.children is not None else None
        found = await context.take_git_snapshot(
            self.memory.project.root, environ=self._around.environ, children=children
        )
        self._git, self._unsure = make_repository_attachment(found), True

    async def _fitting(self, state: State) -> tuple[Attachment, ...]:
        prompt = self._last_prompt(state.history)
        if prompt is None or prompt.id == self._recalled or not self._has_notes():
            return ()
        found = await self._the_notes().recall(prompt.text)
        self._recalled = prompt.id
        return found

    def _last_prompt(self, history: History) -> User | None:
        """Checks only what is new. Starts over with a shorter history."""
        new = history.since(self._prompted) if len(history) >= self._prompted else history.since(0)
        self._prompt = next((m for m in reversed(new) if is_prompt(m)), self._prompt)
        self._prompted = len(history)
        return self._prompt

    def _has_notes(self) -> bool:
        return os.path.isdir(self._around.notes)  # noqa: PTH112  # pathlib takes 8 ms to load

    def _the_notes(self) -> context.MemoryNotes:
        if self._notes is None:
            self._notes = context.MemoryNotes(self._around.notes, is_read=self._is_read)
        return self._notes

    def _is_read(self, path: str) -> bool:
        if self._around.read is None:
            return False
        return self._around.read().of(resolve_path(path, os.sep)) is not None


def _path_of(call: ToolCall) -> str:
    said = call.input.get(PATHS.get(call.name, ""))
    return said if isinstance(said, str) else ""


def is_prompt(message: Message) -> TypeGuard[User]:
    return isinstance(message, User) and message.origin is Origin.PROMPT
