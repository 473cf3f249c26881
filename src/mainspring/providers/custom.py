"""All that a provider of your own needs, in one place. See docs/providers.md.

from mainspring.providers.custom import Batch, Conversation, Request, RetryingProvider, StreamEnded, StreamStarted
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence

from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.messages import Stop, Text, Thinking, ToolCall, User
from mainspring.core.models import Model, per_million
from mainspring.core.money import Price, Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import BlockKind
from mainspring.providers.base import (
    Batch,
    BlockDelta,
    BlockFinished,
    BlockOpened,
    Conversation,
    Provider,
    StreamEnded,
    StreamStarted,
    list_models,
)
from mainspring.providers.retry import PATIENCE, RetryLimits, RetryProfile, stream_with_retries

__all__ = [
    "Batch",
    "BlockDelta",
    "BlockFinished",
    "BlockKind",
    "BlockOpened",
    "Conversation",
    "Failure",
    "Model",
    "Price",
    "Provider",
    "ProviderError",
    "Request",
    "RetryLimits",
    "RetryingProvider",
    "Stop",
    "StreamEnded",
    "StreamStarted",
    "Text",
    "Thinking",
    "ToolCall",
    "Trouble",
    "Usage",
    "User",
    "per_million",
]


class RetryingProvider:
    """A provider with our retries around it: for one of yours that raises `ProviderError` at the first failure."""

    def __init__(
        self,
        provider: Provider,
        limits: RetryLimits = PATIENCE[RetryProfile.FOREGROUND],
        *,
        models: Sequence[Model] = (),
    ) -> None:
        """`models`: their windows, limits and prices; else those of the provider."""
        self._provider, self._limits = provider, limits
        self.models = tuple(models) or list_models(provider)

    def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        return stream_with_retries(lambda: self._provider.stream(request, conversation), self._limits, random.random)
