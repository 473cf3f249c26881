"""Each model at its own server: one provider for each, made when it is first asked.

A session may change from one to another at any turn; the conversation is projected anew for whoever is asked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from mainspring.core.effects import Request
from mainspring.providers.base import Batch, Conversation, Provider


class ProviderRouter:
    def __init__(self, find: Callable[[str], tuple[str, Callable[[], Provider]]]) -> None:
        """`find`: from a model's name to the name of its server, and what makes the provider for that."""
        self._find = find
        self._made: dict[str, Provider] = {}

    def provider(self, model: str) -> Provider:
        server, make = self._find(model)
        if server not in self._made:
            self._made[server] = make()
        return self._made[server]

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        return self.provider(request.model).stream(request, conversation)
