"""The model server: loopback only, one process, any number of connections, three protocols by path.

    async with ModelServer([Say.of("Hello."), Refuse(529, "overloaded_error", "Overloaded")]) as server:
        ...                                  # talk to server.url
    assert server.violations == [] and len(server.requests) == 2

Every request is validated by the rules of its protocol; one that breaks a rule is answered as the API would answer it,
and uses up no reply. Replies come in order, or from `choose`, which gets the request (`scripts.py`). Then `faults` may
spoil them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from types import TracebackType
from typing import NamedTuple, Self, assert_never

import msgspec
from msgspec.structs import replace

from mainspring.core.models import AS_OF, MODELS, model_named
from mainspring.core.money import Usage, cost
from mainspring.simulator import clouds, openai_chat, openai_responses
from mainspring.simulator.cache import MeteredRequest, PromptCache, SignatureBinding, tokens_written
from mainspring.simulator.connection import IncomingRequest, ServerConnection
from mainspring.simulator.faults import FaultPlan, FaultScene, is_delivering_fault
from mainspring.simulator.forms import Violation
from mainspring.simulator.protocol import COUNT, MESSAGES, NEIGHBOURS, ApiDialect
from mainspring.simulator.replies import (
    Json,
    RawReply,
    RawStream,
    ReceivedRequest,
    Refuse,
    Reply,
    ReplyStamp,
    Say,
    count_web_searches,
    stream_events,
)
from mainspring.simulator.scripts import Choose, InOrder
from mainspring.simulator.server_quirks import CHAT, apply_oddities, asked_of, check_oddities

SPEECHES: dict[str, ApiDialect] = {
    speech.path: speech for speech in (MESSAGES, COUNT, openai_chat.SPEECH, openai_responses.SPEECH)
}


OFFERED = "/v1/models"
JSON = {"content-type": "application/json"}
EVENTS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "transfer-encoding": "chunked",
}
ACCEPTING = 5  # iterations of the event loop between an accepted socket and its `connection_made`; asyncio needs three
BYTES_PER_TOKEN = 4  # roughly, for `count_tokens`


LOOP_RULE = "thinking.loop"


class ServedRequest(NamedTuple):
    """The answer to a request that broke no rule."""

    request: ReceivedRequest
    reply: Reply
    fault: str  # the fault in the reply; empty: none
    usage: Usage  # the charge; zero if no answer began
    cost: int  # the same in nano-dollars


class RejectedRequest(NamedTuple):
    request: ReceivedRequest
    violation: Violation


class ModelServer:
    def __init__(  # noqa: PLR0913  # settings, by name
        self,
        replies: Iterable[Reply] = (),
        *,
        choose: Choose | None = None,
        api_key: str | None = None,
        port: int = 0,
        alternate: bool = True,
        faults: FaultPlan | None = None,
        metered: bool = False,
        limit: int | None = None,
        odd: Iterable[str] = (),
        models: Iterable[str] = tuple(MODELS),
        clock: Callable[[], int] = lambda: round(time.monotonic() * 1_000),
        record: Callable[[Json, Reply], None] | None = None,
        tell: Callable[[ReceivedRequest, ServedRequest | Refuse], None] | None = None,
    ) -> None:
        """Without an `api_key` any key is accepted. `alternate=False` allows neighbours of one role, as the API does.

        `metered` counts tokens and prompt caching if a reply does not say what it costs; `limit` is the longest
        accepted prompt, in tokens. `odd` names quirks for every reply (`server_quirks.py`), `models` the entries of
        `/v1/models`. `record` is called with each request and its reply, `tell` with the outcome of each.
        """
        self.requests: list[ReceivedRequest] = []
        self.answers: list[ServedRequest] = []
        self.wrong: list[RejectedRequest] = []
        self.connections = 0  # since the start
        self.aborted = 0  # answers that the client did not wait for
        self.choose: Choose = choose or InOrder(replies)  # this one and the next may be changed while the server runs
        self.faults = faults
        self._api_key = api_key
        self._port = port
        self._alternate = alternate
        self._metered = metered
        self._limit = limit
        self._odd = check_oddities(odd)
        self._models = tuple(models)
        self._clock = clock
        self._unthinking: set[str] = set()  # ids of calls that we wrote without the thinking that was asked for
        self._record = record
        self._told = tell
        self._cache = PromptCache()
        self._binding = SignatureBinding()
        self._open: set[ServerConnection] = set()
        self._failures: list[BaseException] = []
        self._server: asyncio.Server | None = None
        self._news = asyncio.Event()
        self._numbers = count(1)

    # --- public ---

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def open_connections(self) -> int:
        return len(self._open)

    @property
    def violations(self) -> list[Violation]:
        return [wrong.violation for wrong in self.wrong]

    @property
    def cost(self) -> int:
        """The total charge so far, in nano-dollars."""
        return sum(answer.cost for answer in self.answers)

    @property
    def usage(self) -> Usage:
        return sum((answer.usage for answer in self.answers), Usage())

    async def until(self, condition: Callable[[], bool], *, seconds: float = 10) -> None:
        """Wait for a condition; it is checked whenever something happens in the server."""
        async with asyncio.timeout(seconds):
            while not condition():
                await self._news.wait()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._let_nobody_in(self._server)
        self._server.close()
        for connection in list(self._open):
            await connection.close()
        await self.until(lambda: not self._open)
        await self._server.wait_closed()
        if self._failures and error is None:
            raise self._failures[0]

    async def _let_nobody_in(self, server: asyncio.Server) -> None:
        """An accepted socket becomes a connection some iterations later, unless the server was closed by then: then
        asyncio forgets it, still open. So wait for those on their way.
        """
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(ACCEPTING):
            await asyncio.sleep(0)

    # --- connections ---

    def _connected(self) -> ServerConnection:
        self.connections += 1
        connection = ServerConnection(self.connections, self._serve, self._disconnected)
        self._open.add(connection)
        self._tell()
        return connection

    def _disconnected(self, connection: ServerConnection) -> None:
        self._open.discard(connection)
        if connection.failure is not None:
            self._failures.append(connection.failure)
        self._tell()

    def _tell(self) -> None:
        """Wake all current waiters; later ones wait for the next event."""
        self._news.set()
        self._news = asyncio.Event()

    # --- requests ---

    async def _serve(self, connection: ServerConnection, incoming: IncomingRequest) -> None:
        azure = asked_of(incoming, self._api_key)
        path = incoming.path if azure is None else azure.path
        speech = SPEECHES.get(path, MESSAGES if azure is None else SPEECHES[CHAT])
        refused = None if azure is None else azure.refused
        cloud = clouds.convert_cloud_request(incoming)
        if cloud is not None:
            incoming, refused, path = cloud.incoming, cloud.refused, MESSAGES.path
            speech = clouds.BEDROCK if cloud.is_bedrock else clouds.VERTEX
        received = self._receive(connection, incoming, speech)
        keyed = azure is not None or cloud is not None
        if (incoming.method, path) == ("GET", OFFERED):
            refused = refused or (None if keyed else self._refuse_key(incoming))
            if refused is None:
                self._offer(connection, incoming)
                return
        refused = refused or self._refusal(incoming, received, speech, path, keyed=keyed)
        if refused is not None and self._told is not None:
            self._told(received, refused)
        reply = refused or self._reply(received, speech)
        try:
            await self._answer(connection, received, reply, speech)
        except asyncio.CancelledError:
            if connection.client_left:
                self.aborted += 1
                self._tell()
            raise

    def _receive(self, connection: ServerConnection, incoming: IncomingRequest, speech: ApiDialect) -> ReceivedRequest:
        try:
            body = msgspec.json.decode(incoming.body)
        except ValueError:
            body = None
        received = ReceivedRequest(
            incoming.path,
            incoming.headers,
            incoming.body,
            body,
            self._clock(),
            connection.number,
            speech.hear,
            incoming.query,
        )
        self.requests.append(received)
        self._tell()
        return received

    def _offer(self, connection: ServerConnection, incoming: IncomingRequest) -> None:
        """The list of models, in the client's format."""
        if "anthropic-version" in incoming.headers:
            model = {"type": "model", "created_at": f"{AS_OF}T00:00:00Z"}
            data: list[Json] = [{**model, "id": name, "display_name": name} for name in self._models]
            body: Json = {"data": data, "has_more": False, "first_id": None, "last_id": None}
        else:
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "simulator"} for name in self._models]
            body = {"object": "list", "data": data}
        connection.respond(200, JSON, msgspec.json.encode(body))

    def _refusal(
        self, incoming: IncomingRequest, received: ReceivedRequest, speech: ApiDialect, path: str, *, keyed: bool
    ) -> Refuse | None:
        """`path`: our path for the request; `keyed`: the key was already checked."""
        if path not in SPEECHES:
            return Refuse(404, "not_found_error", "Not found")
        if incoming.method != "POST":
            return Refuse(405, "invalid_request_error", "Method Not Allowed")
        if not keyed and (refused := self._refuse_key(incoming)) is not None:
            return refused
        lets_pass = frozenset([name.partition("=")[0] for name in self._odd] + [NEIGHBOURS] * (not self._alternate))
        found = speech.judge(received.raw, incoming.headers, lets_pass)
        found = [violation for violation in found if not self._is_own_doing(violation, received)]
        if not found and (moved := self._binding.broken(received.heard)):
            found = [moved]
        if not found:
            return None
        self.wrong.extend([RejectedRequest(received, violation) for violation in found])
        return speech.complain(found[0])

    def _refuse_key(self, incoming: IncomingRequest) -> Refuse | None:
        if self._api_key is None or self._api_key in keys_in(incoming.headers):
            return None
        return Refuse(401, "authentication_error", "invalid x-api-key")

    def _is_own_doing(self, violation: Violation, received: ReceivedRequest) -> bool:
        """A model with a thinking budget begins with thinking; a script need not. Its client is not to blame."""
        if violation.rule != LOOP_RULE:
            return False
        number = int(violation.path.split(".")[1])
        return any(block.get("id") in self._unthinking for block in received.body["messages"][number]["content"])

    def _note_unthinking(self, received: ReceivedRequest, say: Say) -> None:
        kinds = [block["type"] for block in say.blocks]
        asked: Json = received.body.get("thinking") or {}
        if asked.get("type") == "enabled" and "thinking" not in kinds:
            self._unthinking.update([block["id"] for block in say.blocks if block["type"] == "tool_use"])

    def _reply(self, received: ReceivedRequest, speech: ApiDialect) -> Reply | int:
        """For `count_tokens`, a number: counting uses up no reply."""
        if speech is COUNT:
            return len(received.raw) // BYTES_PER_TOKEN + 1
        heard = received.heard
        metered = self._cache.look(heard, received.at)
        prompt = metered.usage.prompt
        fault = ""
        if self._limit is not None and prompt > self._limit:
            said = f"prompt is too long: {prompt} tokens > {self._limit} maximum"
            reply: Reply = Refuse(400, "invalid_request_error", said)
        else:
            reply = self.choose(received)
        if isinstance(reply, Say):
            whole = self._binding.sign_reply(self._with_usage(self._in_manner(reply), metered), heard)
            reply = whole
            self._note_unthinking(received, whole)
            if self.faults is not None:
                scene = FaultScene(heard, whole, self._stamp(received), speech=speech, asked=received.body)
                fault, reply = self.faults.spoil(scene)
                if fault and not is_delivering_fault(fault, speech) and isinstance(self.choose, InOrder):
                    self.choose.give_back(whole)
        self._book(received, reply, fault, metered)
        return reply

    def _in_manner(self, say: Say) -> Say:
        return apply_oddities(replace(say, odd=()), (*say.odd, *self._odd)) if say.odd or self._odd else say

    def _with_usage(self, say: Say, metered: MeteredRequest) -> Say:
        if say.usage is not None or not self._metered:
            return say
        spent = replace(metered.usage, output=tokens_written(say.blocks), web_searches=count_web_searches(say.blocks))
        return replace(say, usage=spent)

    def _book(self, received: ReceivedRequest, reply: Reply, fault: str, metered: MeteredRequest) -> None:
        usage = reply.spent if isinstance(reply, Say) else reply.usage if isinstance(reply, RawStream) else None
        if usage is not None:  # an answer begins: from now on others can read the cache entry
            self._cache.keep(metered, received.at)
        usage = usage or Usage()
        price = model_named(received.body["model"]).price
        answer = ServedRequest(received, reply, fault, usage, cost(usage, price))
        self.answers.append(answer)
        if self._told is not None:
            self._told(received, answer)
        if self._record is not None:
            self._record(received.heard, reply)
        self._tell()

    # --- answers ---

    async def _answer(
        self, connection: ServerConnection, received: ReceivedRequest, reply: Reply | int, speech: ApiDialect
    ) -> None:
        request_id = f"req_{next(self._numbers):024}"
        headers = speech.headers(request_id)
        match reply:
            case RawReply():
                await self._put(connection, reply)
            case RawStream():
                await self._play(connection, reply, headers)
            case Refuse():
                refusal = speech.refuse(reply, request_id)
                connection.respond(refusal.status, {**JSON, **refusal.headers}, refusal.body)
            case Say() if received.body.get("stream"):
                teller = speech.teller(reply, stamp := self._stamp(received), received.body)
                await self._stream(connection, reply, headers, map(teller, stream_events(reply, stamp)))
            case Say():
                await asyncio.sleep(reply.pace_ms / 1_000)
                body = msgspec.json.encode(speech.whole(reply, self._stamp(received), received.body))
                connection.respond(200, {**JSON, **headers}, body)
            case int():
                connection.respond(200, {**JSON, **headers}, msgspec.json.encode({"input_tokens": reply}))
            case _:
                assert_never(reply)

    def _stamp(self, received: ReceivedRequest) -> ReplyStamp:
        model: str = received.body["model"]
        return ReplyStamp(model, f"msg_{next(self._numbers):024}", refuse_to_sign)

    async def _stream(
        self, connection: ServerConnection, say: Say, headers: Mapping[str, str], frames: Iterable[bytes]
    ) -> None:
        connection.begin(200, {**EVENTS, **headers})
        for frame in filter(None, frames):  # a protocol may have none for an event
            if say.pace_ms:
                await asyncio.sleep(say.pace_ms / 1_000)
            await connection.send_chunk(frame)
        await connection.send_chunk(b"")

    async def _play(self, connection: ServerConnection, stream: RawStream, headers: Mapping[str, str]) -> None:
        send = connection.send_chunk if stream.head else connection.send
        if stream.head:
            connection.begin(200, {**EVENTS, **headers})
        for frame in filter(None, stream.frames):
            await asyncio.sleep(stream.pace_ms / 1_000)
            await send(frame)
        match stream.end:
            case "done":
                await send(b"")
            case "close":
                connection.transport.close()
            case "reset":
                connection.reset()
            case "hang":
                await asyncio.Event().wait()  # until the client disconnects
            case _:
                assert_never(stream.end)

    async def _put(self, connection: ServerConnection, raw: RawReply) -> None:
        for chunk in raw.chunks:
            if raw.pace_ms:
                await asyncio.sleep(raw.pace_ms / 1_000)
            await connection.send(chunk)
        connection.transport.close()


def refuse_to_sign() -> str:
    raise AssertionError("thinking is signed before it is sent")


def keys_in(headers: Mapping[str, str]) -> tuple[str, str]:
    return headers.get("x-api-key", ""), headers.get("authorization", "").removeprefix("Bearer ")
