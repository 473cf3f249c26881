"""A session with a file: on the virtual clock, on a disk that remembers every write, crashed and taken up again."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from mainspring.context.attachments import Summary
from mainspring.core.config import Config
from mainspring.core.effects import Compact, Request
from mainspring.core.messages import Assistant, Origin, Text, ToolResult, User, user
from mainspring.core.pairing import find_unpaired_ids
from mainspring.core.state import State
from mainspring.core.updates import (
    Appended,
    BlockDone,
    BlockKind,
    CallDone,
    CallStarted,
    Delta,
    Injected,
    Update,
)
from mainspring.core.view import Fold, view
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.shared_state import EnginePolicy, InboxPrompt
from mainspring.providers.base import Batch
from mainspring.sessions.decoder import LoadedSession, TranscriptDecoder
from mainspring.sessions.journal import Durability, FileJournal, JournalOptions
from mainspring.sessions.line_format import Envelope
from mainspring.sessions.reader import JournalReader
from mainspring.testing import World

ID = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
ENVELOPE = Envelope(ID, "/somewhere", "0.1")
CONFIG = Config()


class Wrote(NamedTuple):
    name: str  # of the file
    data: bytes


class Cut(NamedTuple):
    name: str


class Got(NamedTuple):
    update: Update


class Remembering:
    """A disk that keeps a list of what happened to it, beside what the consumer saw."""

    def __init__(self) -> None:
        self.log: list[Wrote | Cut | Got] = []
        self.fails: Callable[[bytes], int | OSError | None] = lambda _: None
        self._names: dict[int, str] = {}

    def _name(self, fd: int) -> str:
        return Path(f"/proc/self/fd/{fd}").readlink().name

    def write(self, fd: int, data: bytes, /) -> int:
        answer = self.fails(data)
        if isinstance(answer, OSError):
            raise answer
        part = data if answer is None else data[:answer]
        self.log.append(Wrote(self._name(fd), part))
        return os.write(fd, part)

    def truncate(self, fd: int, /) -> None:
        self.log.append(Cut(self._name(fd)))
        os.ftruncate(fd, 0)


class CheckedWorld(World):
    """Looks at every request before the model does; folds what it is told to sum up."""

    offset = 0
    keep = 2  # messages that a summary leaves in view

    def stream(self, request: Request, state: State, policy: EnginePolicy) -> AsyncGenerator[Batch, None]:
        seen = view(state.history, state.edits)
        assert find_unpaired_ids(seen) == (), find_unpaired_ids(seen)
        assert isinstance(seen[0], User), seen[0]
        ids = [message.id for message in seen]
        assert len(set(ids)) == len(ids), "a message stands twice"
        return super().stream(request, state, policy)

    async def summarize(self, state: State, effect: Compact) -> Summary:
        messages = list(state.history)
        last = max(n for n, m in enumerate(messages) if isinstance(m, User | ToolResult) and n <= len(messages) - 1)
        if self.keep:
            starts = [n for n, m in enumerate(messages) if isinstance(m, Assistant)]
            last = starts[-1] - 1 if starts else last
        fold = Fold(
            messages[0].id,
            messages[last].id,
            replace(user("What happened before.", Origin.SUMMARY), id=self.new_id(), at=self.now()),
        )
        return Summary(edits=(fold,), before=100_000, after=1_000)

    def new_id(self) -> str:
        return f"{int(super().new_id()[:8], 16) + self.offset:08x}-0000-4000-8000-000000000000"


Meanwhile = Callable[[EngineSession, Run, Update], Awaitable[None]]


async def nothing(session: EngineSession, run: Run, update: Update) -> None:
    pass


def stored(world: World, journal: FileJournal, config: Config = CONFIG, state: State | None = None) -> EngineSession:
    world._journal = journal
    return EngineSession(world, config, state=state, side_jobs=world.side_jobs)


async def consume(
    session: EngineSession,
    prompt: str = "go",
    *,
    log: list[Wrote | Cut | Got] | None = None,
    meanwhile: Meanwhile = nothing,
) -> list[Update]:
    updates: list[Update] = []
    async with session.run(prompt) as run:
        async for update in run:
            updates.append(update)
            if log is not None:
                log.append(Got(update))
            await meanwhile(session, run, update)
    return updates


def options(disk: Remembering | None = None) -> JournalOptions:
    return JournalOptions(Durability.NONE, disk=disk) if disk else JournalOptions(Durability.NONE)


def take_up(
    file: Path, world: World, config: Config = CONFIG, *, disk: Remembering | None = None
) -> tuple[LoadedSession, EngineSession, FileJournal]:
    """As `EngineSession.resumed` does, which needs a running loop to tell the time."""
    loaded, journal = FileJournal.resume(file, ENVELOPE, options(disk))
    session = stored(world, journal, config, loaded.state)
    session._salvaged = (loaded.partial, loaded.answers(world.new_id, 0))
    for command in loaded.commands:
        session.shared.inbox.put(InboxPrompt(command.id, command.text, command.priority))
    return loaded, session, journal


# --- what was shown is kept ---------------------------------------------------------------------------------------


def lost(received: list[Update], file: Path) -> list[str]:
    """What the consumer saw and the file does not hold (security P3). A reply may be withdrawn; it is stored all the
    same."""
    with JournalReader(file) as reader:
        book = TranscriptDecoder(reader.payload)
        for offset, line in reader.lines():
            book.take(offset, line)
    answered = {message.call_id for message in book.said.values() if isinstance(message, ToolResult)}
    missing: list[str] = []
    texts: dict[tuple[str, int], str] = {}
    for update in received:
        match update:
            case BlockDone() if book.replies.get(update.reply_id, {}).get(update.index) != update.block:
                missing.append(f"block {update.index} of {update.reply_id}")
            case Delta() if update.kind is BlockKind.TEXT:
                key = (update.reply_id, update.index)
                texts[key] = texts.get(key, "") + update.text
            case CallStarted() if update.call.id not in answered:
                missing.append(f"what became of call {update.call.id}")
            case CallDone() if book.said.get(update.result.id) != update.result:
                missing.append(f"result {update.result.id}")
            case Appended() | Injected() if book.said.get(update.message.id) != update.message:
                missing.append(f"message {update.message.id}")
            case _:
                pass
    for (reply_id, index), text in texts.items():
        block = book.replies.get(reply_id, {}).get(index)
        if not isinstance(block, Text) or not block.text.startswith(text):
            missing.append(f"text {text!r} of {reply_id}")
    return missing
