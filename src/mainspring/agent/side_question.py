"""A side question of the user (`/btw`): answered from the conversation, and not part of it.

The model sees the conversation as the next request would send it, so most of the prompt is read from the cache. Calls
in its answer do not run, and neither the question nor the answer enters the history. The session's ledger pays for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring import context
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, Message, user
from mainspring.core.view import view

if TYPE_CHECKING:
    from mainspring.agent.session_parts import SessionParts

MAX_OUTPUT = 2_000  # tokens, about a page
ASKED = """\
A side question of the user, beside the task. Answer it from what you know and from the conversation above, in a few \
sentences. Call no tools: nothing runs, and what you say here does not enter the conversation.

{}"""


async def ask_side_question(text: str, world: SessionParts) -> str:
    """Also during a run. Raises `UsageError` if there is no answer."""
    if (ask := world.mind.ask) is None:
        raise UsageError("this session makes no side calls")
    session = world.session
    ask.model = session.shared.policy.model or session.config.model
    state = session.current_state
    messages = [*drop_open_calls(view(state.history, state.edits)), user(ASKED.format(text))]
    question = context.SideCall(tuple(messages), MAX_OUTPUT, marks=world.mind.marks(state))
    answer = await ask.ask_beside(question)
    if answer.failed:
        raise UsageError(answer.failed)
    return answer.text.strip() or "(no answer)"


def drop_open_calls(messages: tuple[Message, ...] | list[Message]) -> list[Message]:
    """Without a last reply whose calls still run."""
    found = list(messages)
    if found and isinstance(last := found[-1], Assistant) and last.calls:
        found.pop()
    return found
