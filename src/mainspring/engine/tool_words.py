"""What the model has to be told of its tools in the conversation itself: of tools that came late, and what tools keep
for the session when the messages that told of it have left. Loaded only where there is something of the kind.
"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.context.attachments import Attachment, AttachmentKind, Summary, select_missing_attachments
from mainspring.core.messages import Text, User
from mainspring.core.state import State
from mainspring.core.view import Edit, Fold, view
from mainspring.engine.session_deps import CHARS_PER_TOKEN
from mainspring.tools.toolset import Toolset


class ToolReminders:
    """Looks at the conversation only when something has changed: at its edits, and at the tools that came."""

    def __init__(self, hands: Toolset, nonce: str = "") -> None:
        self._hands, self._nonce = hands, nonce
        self._edits: tuple[Edit, ...] = ()  # those under which all that tools keep is told,
        self._told: object = None  # and those under which all late tools are

    def late(self, state: State) -> tuple[User, ...]:
        """Tools known by name only that came after the model was told of such: at the end, where nothing moves."""
        now = (self._hands.untold, state.edits)
        if now == self._told:
            return ()
        words = "More tools are known by name only. Get their schemas with ToolSearch before you call them"
        told = [Attachment(AttachmentKind.ENVIRONMENT, "tools", f"{words}: {', '.join(names)}.") for names in now[0]]
        late = select_missing_attachments(told, view(state.history, state.edits), self._nonce)
        if not late:
            self._told = now
        return late

    def kept(self, state: State, edits: tuple[Edit, ...]) -> tuple[User, ...]:
        """What tools keep for the session, such as tasks, if edits took it out of the conversation; `edits` are new."""
        if not edits and state.edits is self._edits:
            return ()
        seen = view(state.history, (*state.edits, *edits))
        words = self._hands.unsaid(seen)
        kept = (
            select_missing_attachments([Attachment(AttachmentKind.KEPT, "", words)], seen, self._nonce) if words else ()
        )
        if not kept and not edits:
            self._edits = state.edits
        return kept

    def in_summary(self, made: Summary, state: State) -> Summary:
        """The same in the summary itself: the process may end before there is another request to put it into."""
        *others, last = made.edits
        if not isinstance(last, Fold):
            return made
        words = self._hands.unsaid(view(state.history, (*state.edits, *made.edits)))
        if not words:
            return made
        told = replace(last.summary, content=(*last.summary.content, Text(f"\n\n{words}")))
        edits = (*others, replace(last, summary=told))
        return replace(made, edits=edits, after=made.after + len(words) // CHARS_PER_TOKEN)
