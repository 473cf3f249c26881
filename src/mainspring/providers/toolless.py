"""A model that takes no tools: it is offered none, and what others called before it is told in words.

Around any provider, for models that the user's settings say it of. A session may come to such a one in its middle.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator

from msgspec.structs import replace

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Block, Message, Text, ToolCall, ToolResult, User
from mainspring.core.value import as_json
from mainspring.core.view import view
from mainspring.providers.base import Batch, Conversation, Provider


class Toolless:
    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        return self._provider.stream(request, plain(conversation))


def plain(conversation: Conversation) -> Conversation:
    conversation = replace(conversation, tools=())
    if not any(isinstance(message, ToolResult) for message in conversation.history):
        return conversation
    seen = view(conversation.history, conversation.edits)
    return replace(conversation, history=History(in_words(seen)), edits=())


def in_words(messages: Iterable[Message]) -> Iterator[Message]:
    """The same messages, by the same ids."""
    names: dict[str, str] = {}
    for message in messages:
        if isinstance(message, Assistant):
            names |= {call.id: call.name for call in message.calls}
            yield replace(message, blocks=tuple(map(as_text, message.blocks)))
        elif isinstance(message, ToolResult):
            what = "failed with" if message.is_error else "returned"
            head = Text(f"[{names.get(message.call_id, 'A tool')} {what}:]")
            yield User((head, *message.content), id=message.id, at=message.at)
        else:
            yield message


def as_text(block: Block) -> Block:
    if not isinstance(block, ToolCall):
        return block
    return Text(f"[{block.name} was called with {as_json(block.input).decode()}]")
