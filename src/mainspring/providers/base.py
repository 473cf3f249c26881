"""What a provider hands on while a model talks. Wire formats end here."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from mainspring.core.effects import Request
from mainspring.core.history import History
from mainspring.core.messages import Block, Stop
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure
from mainspring.core.updates import Kind
from mainspring.core.value import Value
from mainspring.core.view import Edit


class Started(Value):
    """The model answers. What the prompt cost is known from here on, also if the rest never comes."""

    usage: Usage = Usage()


class Piece(Value):
    kind: Kind
    text: str


class Finished(Value):
    """A block is complete: a call in it may start now, while the model goes on."""

    block: Block


class Ended(Value):
    """The reply is complete. A stream without this is never an answer."""

    stop: Stop = Stop.END_TURN
    usage: Usage = Usage()
    model: str = ""  # the name the server gives itself, where it gives one


class Retry(Value):
    """Nothing was handed on yet, and the provider will try again."""

    failure: Failure
    attempt: int
    delay: int  # milliseconds


Item = Started | Piece | Finished | Ended | Retry
Batch = tuple[Item, ...]  # what one read of the socket brought


class Provider(Protocol):
    def stream(self, request: Request, history: History, edits: tuple[Edit, ...]) -> AsyncGenerator[Batch, None]:
        """Raises `ProviderError` when its own retries are spent, or once something of a reply was handed on."""
        ...
