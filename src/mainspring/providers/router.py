"""Route each model to its own server, and convert conversations for models without tools.

`ProviderRouter` creates one provider per server, at its first use. A session may change from one to another at any
turn; the conversation is projected again for the new one.

`ToollessProvider` wraps a provider for models that, by the user's settings, support no tools: it sends none, and turns
earlier tool calls into text, because a session may switch to such a model in its middle.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable

from msgspec.structs import replace

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Block, Message, Text, ToolCall, ToolResult, User
from mainspring.core.value import as_json
from mainspring.core.view import Edit, view
from mainspring.providers.base import Batch, Conversation, Provider, RequestCache


class ProviderRouter:
    def __init__(self, find: Callable[[str], tuple[str, Callable[[], Provider]]]) -> None:
        """`find` maps a model's name to the name of its server and a function that creates the provider."""
        self._find = find
        self._made: dict[str, Provider] = {}

    def provider(self, model: str) -> Provider:
        server, make = self._find(model)
        if server not in self._made:
            self._made[server] = make()
        return self._made[server]

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        return self.provider(request.model).stream(request, conversation)


class ToollessProvider:
    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._own_cache = RequestCache()  # for conversations without one

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        cache = conversation.cache or self._own_cache
        told = cache.get(self, request.source, ToollessHistory)
        return self._provider.stream(request, told.of(conversation))


class ToollessHistory:
    """A growing conversation without tools: new messages are converted to text, and all of them after an edit."""

    def __init__(self) -> None:
        self._seen: tuple[History, tuple[Edit, ...]] | None = None
        self._history = History()  # the converted messages
        self._names: dict[str, str] = {}  # names of tools by the ids of their calls
        self._any = False  # a tool was called

    def of(self, conversation: Conversation) -> Conversation:
        history, edits = conversation.history, conversation.edits
        last, self._seen = self._seen, (history, edits)
        if last is not None and history.extends(last[0]) and edits == last[1]:
            self._add(history.since(len(last[0])))
        else:
            self._history, self._names, self._any = History(), {}, False
            self._add(view(history, edits))
        told = replace(conversation, tools=())
        return replace(told, history=self._history, edits=()) if self._any else told

    def _add(self, messages: Iterable[Message]) -> None:
        added: list[Message] = []
        for message in messages:
            self._any = self._any or is_of_tools(message)
            added.append(self._in_words(message))
        self._history = self._history.append(*added)

    def _in_words(self, message: Message) -> Message:
        """The same message as text, with the same id."""
        if isinstance(message, Assistant) and message.calls:
            self._names |= {call.id: call.name for call in message.calls}
            return replace(message, blocks=tuple(map(block_to_text, message.blocks)))
        if isinstance(message, ToolResult):
            what = "failed with" if message.is_error else "returned"
            head = Text(f"[{self._names.get(message.call_id, 'A tool')} {what}:]")
            return User((head, *message.content), id=message.id, at=message.at)
        return message


def is_of_tools(message: Message) -> bool:
    return isinstance(message, ToolResult) or (isinstance(message, Assistant) and bool(message.calls))


def block_to_text(block: Block) -> Block:
    if not isinstance(block, ToolCall):
        return block
    return Text(f"[{block.name} was called with {as_json(block.input).decode()}]")
