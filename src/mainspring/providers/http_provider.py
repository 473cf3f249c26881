"""`HttpProvider`, the base class of all protocols: keys, attempts, waits, cures, and requests that extend each other.

    class Anthropic(HttpProvider): ...      # builds a request, reads a reply, classifies a refusal

`providers/http/client.py` transfers the bytes, and `retry.py` decides about retries. Two things are added here. A
request that was refused for something that we can change is changed and sent again, once for each such thing
(`CurableError`). And after a reply that broke off, the next request waits as long as a retry would (E-16).
"""

from __future__ import annotations

import asyncio
import os
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from mainspring import providers
from mainspring.core.config import Sampling
from mainspring.core.effects import Request, Retried
from mainspring.core.errors import ProviderError
from mainspring.core.money import Usage
from mainspring.core.reasons import PASSING, Failure, Trouble
from mainspring.core.value import Bundle
from mainspring.providers.base import (
    Batch,
    Conversation,
    PrefixBreak,
    RequestCache,
    Retry,
    StreamEnded,
    shared_limits,
)
from mainspring.providers.errors import GIVEN, CurableError, UserRemedies, add_request_size, request_too_large
from mainspring.providers.http.client import HttpExchange, Transport
from mainspring.providers.message_order import ProjectionTarget
from mainspring.providers.prefix import SentPrefix, find_prefix_break, make_request_parts
from mainspring.providers.projection import ProjectedParts, RequestProjection
from mainspring.providers.retry import (
    HEARTBEAT,
    PATIENCE,
    SECOND,
    RequestRefusedError,
    RetryLimits,
    RetryPlan,
    RetryProfile,
    backoff,
    patience_for,
    plan_heartbeats,
)
from mainspring.secrets.sources import headers_of

if TYPE_CHECKING:  # prepare the reader while the server thinks
    from mainspring.core.models import Model
    from mainspring.providers.http.sse import ServerEvent

NOT_STREAMED = 16 * 1024 * 1024  # limit in bytes of a reply that is not streamed
NO_END = Failure(Trouble.NETWORK, "the stream ended before the reply did")


class ApiKey(Bundle):
    """Credentials, and how to get new ones when they are refused."""

    value: str
    header: str = "x-api-key"
    refresh: Callable[[], Awaitable[str]] | None = None
    is_stale: Callable[[], bool] | None = None  # whether to refresh before a refusal

    @property
    def headers(self) -> dict[str, str]:
        other = {self.header: self.value} if self.value else {}  # gateways use other header names
        return headers_of(self.header, self.value) or other

    def __repr__(self) -> str:
        return f"Key({self.header})"  # tracebacks and logs show this


class FixedPart(Bundle):
    """The part of a request that is the same from turn to turn."""

    tools: list[bytes]
    system: list[bytes]
    body: bytes


class RequestBody(list[bytes]):
    """In pieces. Adding up their lengths would take as long as joining them, so the builder passes the size."""

    def __init__(self, front: list[bytes], projected: ProjectedParts, back: list[bytes]) -> None:
        super().__init__(front)
        self += projected.chunks.packs
        self += projected.chunks.since(projected.chunks.packed)
        self += back
        self.size = projected.size + sum(map(len, front)) + sum(map(len, back))
        self._chunks = projected.chunks
        self._front = len(front)

    def put(self, places: dict[int, bytes]) -> None:
        """Replace the bytes of some chunks of the projection."""
        chunks, packed = self._chunks, self._chunks.packed
        self.size += sum([len(piece) - len(chunks[at]) for at, piece in places.items()])
        for at, piece in places.items():
            if at >= packed:
                self[self._front + len(chunks.packs) + at - packed] = piece
            else:
                pack = chunks.pack_of(at)
                self[self._front + pack] = b"".join([places.get(n) or chunks[n] for n in chunks.within(pack)])


class PreparedRequest(Bundle):
    """A request that can be sent any number of times."""

    body: RequestBody
    headers: dict[str, str]
    broken: PrefixBreak | None
    conversation: Conversation
    tokens: int = 0  # of the prompt, estimated; for servers that do not report it
    most: int = 0  # maximum tokens of the reply
    url: str = ""
    model: str = ""  # the model's name as the user knows it


if TYPE_CHECKING:  # defining a protocol takes as long as defining ten functions

    class EventParser(Protocol):
        """Turns the bytes of a reply into events."""

        @property
        def stray(self) -> bytes: ...

        def feed(self, chunk: bytes) -> list[ServerEvent]: ...

    class StreamReader(Protocol):
        """Turns the events of a reply into items."""

        ended: bool

        def take(self, events: list[ServerEvent]) -> Batch: ...

        def not_streamed(self, body: bytes) -> Batch:
            """The whole reply at once, from a server that does not stream."""
            ...


class HttpProvider:
    """The hooks that a protocol implements are at the end."""

    path: str  # appended to the address
    largest: int | None = None  # bytes of a request; None: unknown, the server decides
    caches_by_itself = False  # the server caches whole prompts, without breakpoints

    def __init__(  # noqa: PLR0913  # keywords, all of them
        self,
        key: ApiKey,
        url: str,
        *,
        transport: Transport | None = None,
        patience: RetryLimits = PATIENCE[RetryProfile.FOREGROUND],
        now: Callable[[], float] = time.time,
        ways_out: UserRemedies = GIVEN,
        models: Sequence[Model] = (),
    ) -> None:
        """`models`: windows, limits and prices of models that our table does not have, or has otherwise."""
        self.models = tuple(models)
        self.last_headers: Mapping[str, str] = {}  # of the last response: rate limits
        self._key = key
        self._ways_out = ways_out
        self._url = url.rstrip("/")
        self._transport = transport or Transport()
        self._patience = patience
        self._now = now
        self._own_cache = RequestCache()  # for conversations without one
        self._prepare_reading: Callable[[], None] | None = self._warm_once

    async def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        prepared = self._within_limit(request, conversation)
        if prepared.broken is not None:
            yield (prepared.broken,)
        patience = patience_for(request.overload_tries, self._patience)
        line = self._line(request, conversation)
        waits = plan_waits(request, line.lost, patience)
        before, waited = count_earlier(request, waits)
        tries = RetryPlan(patience, random_share, before, waited)
        begun, cured = False, set[str]()
        while True:
            for wait in waits:
                yield (wait,)
                await asyncio.sleep(min(wait.delay, HEARTBEAT) / SECOND)
            try:  # without generators for attempts and retries: each would cost a tenth of the way of a batch
                async with await self._begin(prepared) as response, aclosing(self._read(response, prepared)) as batches:
                    async for batch in batches:
                        begun = True
                        if isinstance(last := batch[-1], StreamEnded):  # the consumer may stop as soon as it has this
                            line.lost = None
                            note_usage(request.model, last.usage)
                        yield batch
            except CurableError as error:
                if error.cure in cured:
                    raise
                cured.add(error.cure)
                yield (Retry(error.failure, len(cured), 0),)
                self._cure(error.cure, line, conversation)
                line.cured += 1
                prepared = self._within_limit(request, conversation)
                if prepared.broken is not None:
                    yield (prepared.broken,)
                tries, waits = RetryPlan(patience, random_share, before, waited), []
            except ProviderError as error:
                again = None if begun else tries.waits_after(error)
                if again is None:
                    if begun:  # otherwise the wait is over, and another model may be used at once
                        line.lost = error.failure
                    raise ProviderError(self._ways_out.reaching(error.failure)) from error
                waits = again
            else:
                return

    def _within_limit(self, request: Request, conversation: Conversation) -> PreparedRequest:
        """Sending a request that will be refused could take a minute on a slow line."""
        line = self._line(request, conversation)
        sent = line.sent
        prepared = self.prepare(request, conversation)
        if self.largest is not None and prepared.body.size > self.largest:
            line.sent = sent  # it was not sent, so the server has cached the one before
            raise ProviderError(request_too_large(self.largest, prepared.body.size))
        return prepared

    def prepare(self, request: Request, conversation: Conversation) -> PreparedRequest:
        """The request that would be sent now. It counts as sent: the next one is compared with it."""
        line = self._line(request, conversation)
        target = self._target(request, line.distrusted)
        projected = line.projection.project(conversation.history, conversation.edits, target)
        settings = self._settings(request, projected)
        if request.sampling is not None:
            settings |= self._sampling(request.sampling, has_tools=bool(conversation.tools))
        fixed = self._fixed_part(line, conversation)
        sent = SentPrefix(
            model=request.model,
            thinking=msgspec.json.encode(self._thinking_in(settings)),
            tools=fixed.tools,
            system=fixed.system,
            parts=make_request_parts(projected.chunks, projected.settled),
            conversation=replace(conversation, cache=None),  # it holds this prefix: no cycle, so that both go at once
            unfinished=projected.unfinished,
            gone=projected.gone,
            cured=line.cured,
            automatic=self.caches_by_itself,
        )
        break_ = find_prefix_break(line.sent, sent)
        line.sent = sent
        body = self._body(settings, fixed, projected, conversation)
        tokens = self._weigh(line, projected)
        return PreparedRequest(
            body,
            self._headers(request),
            break_,
            conversation,
            tokens,
            request.max_output,
            self._where(request),
            request.model,
        )

    # --- one attempt ---

    async def _begin(self, prepared: PreparedRequest) -> HttpExchange:
        """The response of a server that accepts the request."""
        refreshed, limits = False, shared_limits.get()
        if self._key.is_stale is not None and self._key.is_stale():
            await self._refresh(self._key.value)
        while True:
            refused = self._key.value
            headers = prepared.headers | self._auth_headers(prepared)
            url, body = prepared.url, prepared.body
            if limits is not None:
                await limits.enter_attempt(prepared.model, body.size)
            response = await self._transport.post(url, headers, body, body.size, self._prepare_reading).begin()
            self.last_headers = response.headers
            if limits is not None:
                limits.note_response(prepared.model, response.status, response.headers)
            if response.status == 200:
                return response
            async with response:
                error = add_request_size(
                    self._ways_out.toolless_at(await self._refusal(response), prepared.model), body.size
                )
            if refreshed or not self._is_key_refused(error) or not await self._refresh(refused):
                raise error
            refreshed = True

    async def _read(self, response: HttpExchange, prepared: PreparedRequest) -> AsyncGenerator[Batch, None]:
        parser, reply, heard = self._parser(response), self._reading(prepared), False
        if is_json(response):
            yield reply.not_streamed(await response.read(NOT_STREAMED))
            return
        response.heard()
        async for chunk in response:
            if events := parser.feed(chunk):
                response.heard()
            if batch := reply.take(events):
                response.note_progress()
            heard = heard or bool(batch)
            if reply.ended:
                await response.finish()  # so that the connection can be reused
            if batch:
                yield batch
            if reply.ended:
                return
        raise no_end(parser.stray if not heard else b"")

    async def _refresh(self, refused: str) -> bool:
        """Get a new key, once; the same one would be refused again. Another request may already have refreshed it."""
        if self._key.refresh is None:
            return False
        if self._key.value == refused and (value := await self._key.refresh()):
            self._key = replace(self._key, value=value)
        return self._key.value != refused

    @property
    def _keyed(self) -> bool:
        """Whether a key was sent."""
        return bool(self._key.value)

    def _line(self, request: Request, conversation: Conversation) -> RequestChain:
        cache = conversation.cache or self._own_cache
        return cache.get(self, request.source, lambda: RequestChain(self._projection()))

    def _fixed_part(self, line: RequestChain, conversation: Conversation) -> FixedPart:
        last = line.sent.conversation if line.sent is not None else None
        same = last is not None and (last.tools, last.system) == (conversation.tools, conversation.system)
        if line.fixed is None or not same:
            line.fixed = self._fix(conversation)
        return line.fixed

    def _where(self, request: Request) -> str:  # noqa: ARG002  # for servers that have the model's name in the path
        return f"{self._url}{self.path}"

    # --- implemented by a protocol ---

    @abstractmethod
    def _projection(self) -> RequestProjection: ...

    @abstractmethod
    def _target(self, request: Request, distrusted: frozenset[str]) -> ProjectionTarget: ...

    @abstractmethod
    def _settings(self, request: Request, projected: ProjectedParts) -> dict[str, object]:
        """Everything but tools, system and messages."""

    @abstractmethod
    def _sampling(self, sampling: Sampling, *, has_tools: bool) -> dict[str, object]:
        """The caller's sampling settings. Raises `ProviderError` for one that the protocol does not have."""

    @abstractmethod
    def _thinking_in(self, settings: dict[str, object]) -> object:
        """The settings whose change invalidates the cached messages."""

    @abstractmethod
    def _fix(self, conversation: Conversation) -> FixedPart: ...

    @abstractmethod
    def _body(
        self, settings: dict[str, object], fixed: FixedPart, projected: ProjectedParts, conversation: Conversation
    ) -> RequestBody: ...

    @abstractmethod
    def _headers(self, request: Request) -> dict[str, str]: ...

    def _auth_headers(self, prepared: PreparedRequest) -> dict[str, str]:  # noqa: ARG002  # for signatures
        """The credentials of one attempt."""
        return self._key.headers

    def _is_key_refused(self, error: RequestRefusedError) -> bool:
        """Whether a new key may be accepted."""
        return error.failure.status == 401

    def _parser(self, response: HttpExchange) -> EventParser:  # noqa: ARG002  # for other kinds of streams
        return providers.SseParser()

    def _warm_once(self) -> None:
        self._prepare_reading = None
        self._warm()

    def _warm(self) -> None:
        """Import what a reply needs, while waiting for it."""

    @abstractmethod
    def _reading(self, prepared: PreparedRequest) -> StreamReader: ...

    @abstractmethod
    async def _refusal(self, response: HttpExchange) -> RequestRefusedError: ...

    @abstractmethod
    def _cure(self, cure: str, line: RequestChain, conversation: Conversation) -> None:
        """Change the part that the server complained about, before the request is built again."""

    def _weigh(self, line: RequestChain, projected: ProjectedParts) -> int:  # noqa: ARG002  # for subclasses
        return 0


def note_usage(model: str, usage: Usage) -> None:
    limits = shared_limits.get()
    if limits is not None:
        limits.note_usage(model, usage)


def plan_waits(request: Request, lost: Failure | None, patience: RetryLimits) -> list[Retry]:
    """After a reply that broke off, the next request waits as long as a retry would (E-16): also one that is not a
    retry, because the reply's calls were complete.
    """
    retried = request.retried
    if retried is None:
        retried = Retried(lost, 1, 0) if lost is not None else None
    if retried is None or retried.failure.kind not in PASSING:
        return []
    delay = backoff(retried.attempts, patience, random_share())
    if patience.in_all is not None:
        delay = min(delay, max(0, patience.in_all - retried.waited))
    return plan_heartbeats(retried.failure, retried.attempts, delay, retried.most)


def count_earlier(request: Request, waits: list[Retry]) -> tuple[int, int]:
    """The attempts that failed before this request, and the milliseconds of waiting, including `waits`."""
    if request.retried is None:
        return 0, 0
    return request.retried.attempts, request.retried.waited + (waits[0].delay if waits else 0)


class RequestChain:
    """Requests that extend each other."""

    def __init__(self, projection: RequestProjection) -> None:
        self.projection = projection
        self.sent: SentPrefix | None = None
        self.fixed: FixedPart | None = None
        self.distrusted: frozenset[str] = frozenset()
        self.cured = 0  # refusals that were cured by a change of ours
        self.lost: Failure | None = None  # the failure that the last reply broke off with

    def distrust(self, conversation: Conversation) -> None:
        self.distrusted |= {message.id for message in conversation.history}


def is_json(response: HttpExchange) -> bool:
    return response.headers.get("content-type", "").startswith("application/json")


def no_end(stray: bytes) -> ProviderError:
    """The error for a stream that broke off; or for no stream, where the other content may say why: an error, a
    gateway's page.
    """
    if not stray:
        return ProviderError(NO_END)
    return ProviderError(providers.failure_of(providers.read_complaint(stray)))


def random_share() -> float:
    """Between 0 and 1. Importing `random` would cost more time at startup than it saves here."""
    return int.from_bytes(os.urandom(4)) / 2**32
