"""A session as it was left: what `resume.py` finds, and what a journal and an engine need to go on with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.messages import Assistant, Message, ToolCall, ToolResult, result
from mainspring.core.pairing import NeverRan
from mainspring.core.state import State
from mainspring.core.view import Fold
from mainspring.sessions.encoder import TranscriptEncoder
from mainspring.sessions.line_format import CheckpointExtras, Envelope
from mainspring.sessions.parent_links import NOT_STARTED
from mainspring.sessions.records import CommandRecord, PolicyRecord

REPEATABLE = "The session ended while this call ran. It changes nothing, so it can be made again."


class LoadedSession(NamedTuple):
    """A session as it was left: everything that is needed to go on."""

    file: Path
    how: str  # checkpoint, records or conversation: the best that could be had; or fork
    state: State
    standing: CheckpointExtras
    size: int = 0  # of the file, when it was read
    ends_in_mid_line: bool = False
    partial: Assistant | None = None  # what was shown of a reply that did not come to its end,
    results: tuple[ToolResult, ...] = ()  # and what calls came to that nobody was told of
    unfinished: tuple[ToolCall, ...] = ()  # begun, and nobody knows how they ended (security P4)
    unstarted: tuple[ToolCall, ...] = ()
    made: tuple[Message, ...] = ()  # messages that the core or we have made, and that have no line yet
    summaries: frozenset[str] = frozenset()  # ids of those that have one
    open_text: int = 0  # 1: the last block of the partial reply was still being written, and has no line yet
    warnings: tuple[str, ...] = ()

    @property
    def salvaged(self) -> tuple[Message, ...]:
        """What the state does not have yet of a turn that was cut off."""
        return (*(() if self.partial is None else (self.partial,)), *self.results)

    @property
    def session_id(self) -> str:
        return self.file.stem

    @property
    def config(self) -> Config | None:
        return self.standing.config

    @property
    def policy(self) -> PolicyRecord | None:
        return self.standing.policy

    @property
    def commands(self) -> tuple[CommandRecord, ...]:
        """Typed, and not taken up by any turn."""
        return self.standing.commands

    @property
    def spent(self) -> int:
        return self.standing.spent

    def scribe(self, envelope: Envelope) -> TranscriptEncoder:
        """One that knows what the file holds."""
        scribe = TranscriptEncoder(envelope, replace(self.standing))  # a copy: it goes on, this does not
        if self.how != "fork":
            scribe.messages = {result.id: result for result in self.results}
            scribe.summaries = set(self.summaries)
            if self.partial is not None:
                finished = len(self.partial.blocks) - self.open_text
                scribe.blocks[self.partial.id] = list(self.partial.blocks[:finished])
        folds = [
            edit.first for edit in self.state.edits if isinstance(edit, Fold) and edit.summary.id in self.summaries
        ]
        scribe.fronts = {self.standing.first, *folds} - {""}
        return scribe

    def answers(
        self, new_id: Callable[[], str], now: int, repeatable: Callable[[ToolCall], bool] = lambda _: False
    ) -> tuple[ToolResult, ...]:
        """What the model is told of the calls that were under way: one result for each (security P4)."""
        lost = [(call, REPEATABLE if repeatable(call) else NeverRan.LOST) for call in self.unfinished]
        lost += [(call, NOT_STARTED) for call in self.unstarted]
        made = [result(call.id, words, is_error=True, synthetic=True) for call, words in lost]
        return (*self.results, *[replace(each, id=new_id(), at=now) for each in made])


def standing_for(standing: CheckpointExtras, state: State, **changes: object) -> CheckpointExtras:
    ids = tuple([message.id for message in state.history])
    first = ids[0] if ids else ""
    return replace(standing, added=ids, first=first, before=-1, **changes)
