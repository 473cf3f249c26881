"""Errors that are the same for all protocols: cures, hints for the user, retry delays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from mainspring.core.errors import ProviderError
from mainspring.core.moves import in_words
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.value import Bundle
from mainspring.providers.retry import RequestRefusedError

SECOND = 1_000
LONGEST_WORDS = 2_000  # characters of a server's error that we repeat


class CurableError(RequestRefusedError):
    """A request was refused for something that we can change. Each cure is tried once."""

    def __init__(self, failure: Failure, cure: str) -> None:
        super().__init__(failure)
        self.cure = cure  # the provider knows its meaning


class UserRemedies(Bundle):
    """Hints for problems that only the user can fix. The code that creates a provider knows where its key and address
    are set.
    """

    refused: str = "the key was refused: give another one"
    keyless: str = "no key was sent: give one"
    unknown: str = "check the model's name and the address"  # after a 404
    unreached: str = "Check the connection and the address"
    toolless: str = "use it without tools, or use another model"  # after a refusal of tools

    def behind(self, trouble: Trouble, status: int, *, keyed: bool) -> str:
        """The hint to add to a refusal."""
        if trouble is Trouble.AUTH and status == 401:
            return f" ({self.refused if keyed else self.keyless})"
        return f" ({self.unknown})" if status == 404 else ""

    def reaching(self, failure: Failure) -> Failure:
        """The failure with a hint, if the server could not be reached."""
        if failure.kind is not Trouble.NETWORK:
            return failure
        said = failure.detail if failure.detail.endswith("?") else f"{failure.detail.removesuffix('.')}."
        return replace(failure, detail=f"{said} {self.unreached}")

    def toolless_at(self, error: RequestRefusedError, model: str) -> RequestRefusedError:
        """The failure with a hint, if the model does not support tools."""
        failure = error.failure
        if failure.kind not in (Trouble.INVALID_REQUEST, Trouble.SERVER) or not re.search(NO_TOOLS, failure.detail):
            return error
        said = failure.detail.removesuffix(f" ({self.unknown})")
        detail = f"{said} ('{model}' does not support tools here: {self.toolless})"
        return RequestRefusedError(replace(failure, kind=Trouble.INVALID_REQUEST, detail=detail), final=True)


def add_request_size(error: RequestRefusedError, size: int) -> RequestRefusedError:
    """Add the size of the request, if it was too large: the server names neither the size nor its limit."""
    failure = error.failure
    if failure.kind is not Trouble.TOO_LARGE:
        return error
    detail = f"{failure.detail} (the request has {in_words(size)})"
    return RequestRefusedError(replace(failure, detail=detail), error.retry_after, final=error.final, near=error.near)


def request_too_large(limit: int, size: int) -> Failure:
    """The server's error for such a request, without sending it."""
    words = f"the request has {size:,} bytes, and the API accepts {limit:,} ({in_words(limit)})"
    return Failure(Trouble.TOO_LARGE, words)


def unsupported_setting(name: str, protocol: str) -> ProviderError:
    """The caller asked for a setting that the protocol does not have; leaving it out would change the answer."""
    words = f"{protocol} has no setting '{name}': leave it out, or use another model"
    return ProviderError(Failure(Trouble.INVALID_REQUEST, words))


# Errors of servers that get tools although the model, or the server as it was started, does not support them: Ollama,
# OpenRouter, OpenAI, Groq, DeepSeek, vLLM, llama.cpp.
NO_TOOLS = (  # compiled at the first refusal
    r"(?i)(?:not|n't) support (?:tools|tool use|tool calling|function calling)|no endpoints found that support tool use"
    r"|'tools' is not supported|tool calling.? is not supported|requires --enable-auto-tool-choice"
    r"|tools param requires --jinja"
)

GIVEN = UserRemedies()  # from a program: it knows its own key


if TYPE_CHECKING:  # defining a protocol takes as long as defining ten functions

    class ErrorResponse(Protocol):
        @property
        def status(self) -> int: ...

        @property
        def headers(self) -> Mapping[str, str]: ...

        async def read(self) -> bytes: ...


def retry_after(headers: Mapping[str, str], now: float) -> int | None:
    """The wait in milliseconds that the server asks for, in one of three ways."""
    exact = parse_number(headers.get("retry-after-ms"))
    if exact is not None:
        return round(exact)
    said = headers.get("retry-after")
    seconds = parse_number(said)
    if seconds is not None:
        return round(seconds * SECOND)
    if said is None:
        return None
    from email.utils import mktime_tz, parsedate_tz

    date = parsedate_tz(said)
    return max(0, round((mktime_tz(date) - now) * SECOND)) if date else None


def parse_number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < 1e12 else None  # no NaN, no infinity, nothing before 1970
