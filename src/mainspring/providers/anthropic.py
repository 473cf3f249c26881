"""Anthropic's Messages API, streaming. One object per session; the transport below is what sessions share.

The request is made here from the conversation (`projection.py`, `anthropic_json.py`), the reply is read by
`anthropic_events.py`, the bytes travel by `transport.py`, and `retry.py` decides what is tried again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from mainspring.core.config import Effort
from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.models import model_named
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.value import Bundle
from mainspring.providers.anthropic_events import Reply
from mainspring.providers.anthropic_json import END, can_be_marked, encode, marked, system_json, tool_json
from mainspring.providers.anthropic_refusals import BadThinkingError, refusal
from mainspring.providers.base import Batch, Broken, Conversation, Ended, Retry
from mainspring.providers.placing import Target
from mainspring.providers.prefix import Sent, broken
from mainspring.providers.projection import Projected, Projection
from mainspring.providers.retry import (
    HEARTBEAT,
    PATIENCE,
    SECOND,
    Patience,
    Tried,
    Who,
    countdown,
    next_delay,
    retrying,
)
from mainspring.providers.sse import Parser
from mainspring.providers.transport import Transport
from mainspring.version import __version__

HOME = "https://api.anthropic.com"
VERSION = "2023-06-01"
INTERLEAVED = "interleaved-thinking-2025-05-14"  # budgeted thinking between calls, too
TASK_BUDGET = "task-budgets-2026-03-13"
BINDING = "thinking-binding-controls-2026-08-01"
MOST_MARKS = 4  # the API's limit

NO_END = Failure(Trouble.NETWORK, "the stream ended before the reply did")


class Key(Bundle):
    """What proves who we are, and how to get another one when it is refused."""

    value: str
    header: str = "x-api-key"
    refresh: Callable[[], Awaitable[str]] | None = None

    @property
    def headers(self) -> dict[str, str]:
        if not self.value:
            return {}  # a local server asks for none
        return {self.header: f"Bearer {self.value}" if self.header == "authorization" else self.value}


class Prepared(Bundle):
    """A request, ready to be sent as often as it takes."""

    body: list[bytes]
    headers: dict[str, str]
    broken: Broken | None


class Anthropic:
    def __init__(  # noqa: PLR0913  # keywords, all of them
        self,
        key: Key | str = "",
        *,
        base_url: str = HOME,
        transport: Transport | None = None,
        betas: tuple[str, ...] = (),
        thinking_display: str | None = None,
        patience: Patience = PATIENCE[Who.FOREGROUND],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._key = Key(key) if isinstance(key, str) else key
        self._url = base_url.rstrip("/")
        self._transport = transport or Transport()
        self._betas = betas
        self._display = thinking_display
        self._patience = patience
        self._now = now
        self._lines: dict[str, _Line] = {}  # by who asks: a summary's requests do not extend the conversation's

    async def stream(self, request: Request, conversation: Conversation) -> AsyncGenerator[Batch, None]:
        prepared = self.prepare(request, conversation)
        if prepared.broken is not None:
            yield (prepared.broken,)
        patience = replace(self._patience, overload_tries=min(self._patience.overload_tries, request.overload_tries))
        line = self._line(request)
        for wait in line.lost.waits(patience):
            yield (wait,)
            await asyncio.sleep(min(wait.delay, HEARTBEAT) / SECOND)
        begun = False
        for last_chance in (False, True):
            try:
                tries = retrying(lambda: self._attempt(prepared), patience, random_share)  # noqa: B023  # used at once
                async with aclosing(tries) as batches:
                    async for batch in batches:
                        begun = begun or not isinstance(batch[0], Retry)
                        if isinstance(batch[-1], Ended):  # whoever reads may leave as soon as it has this
                            line.lost = Lost()
                        yield batch
            except BadThinkingError as error:
                if last_chance:
                    raise
                # The one 400 that a change of ours can cure: signatures that this server does not know, as after a
                # resume with another account.
                yield (Retry(error.failure, 1, 0),)
                self._line(request).distrust(conversation)
                prepared = self.prepare(request, conversation)
            except ProviderError as error:
                if begun:  # else the waiting was done, and another model may be asked at once
                    line.lost = Lost(error.failure, line.lost.times + 1)
                raise
            else:
                return

    async def count_tokens(self, request: Request, conversation: Conversation) -> int:
        """What the server says the prompt of this request would be."""
        projected = self._project(Projection(encode), request, conversation, frozenset())
        settings: dict[str, object] = {"model": request.model}
        if thinking := self._thinking(request, projected):
            settings["thinking"] = thinking
        body = body_of(settings, fixed_part(conversation), projected, conversation.marks)
        url = f"{self._url}/v1/messages/count_tokens"
        async with self._transport.post(url, self._headers(request), body) as response:
            if response.status != 200:
                raise await refusal(response, self._now())
            return msgspec.json.decode(await response.read(), type=_Count).input_tokens

    # --- one attempt ---

    async def _attempt(self, prepared: Prepared) -> AsyncGenerator[Batch, None]:
        refreshed = False
        while True:
            headers = prepared.headers | self._key.headers
            async with self._transport.post(f"{self._url}/v1/messages", headers, prepared.body) as response:
                if response.status == 200:
                    parser, reply = Parser(), Reply()
                    async for chunk in response:
                        batch = reply.take(parser.feed(chunk))
                        if reply.ended:
                            await response.finish()  # so that the connection can be used again
                        if batch:
                            yield batch
                        if reply.ended:
                            return
                    raise ProviderError(NO_END)
                error = await refusal(response, self._now())
            if response.status != 401 or refreshed or not await self._refresh():
                raise error
            refreshed = True

    async def _refresh(self) -> bool:
        """A new key, once; the same one again would be refused again."""
        if self._key.refresh is None:
            return False
        value = await self._key.refresh()
        changed = bool(value) and value != self._key.value
        self._key = replace(self._key, value=value)
        return changed

    # --- making the request ---

    def _line(self, request: Request) -> _Line:
        return self._lines.setdefault(request.source, _Line())

    def prepare(self, request: Request, conversation: Conversation) -> Prepared:
        """The request that would be sent now. It counts as sent: the next one is compared with it."""
        line = self._line(request)
        projected = self._project(line.projection, request, conversation, line.distrusted)
        settings = self._settings(request, projected)
        fixed = line.fixed_part(conversation)
        body = body_of(settings, fixed, projected, conversation.marks)
        sent = Sent(
            model=request.model,
            thinking=msgspec.json.encode(settings.get("thinking")),
            tools=fixed.tools,
            system=fixed.system,
            chunks=list(projected.chunks),
            conversation=conversation,
            unfinished=projected.unfinished,
        )
        break_ = broken(line.sent, sent)
        line.sent = sent
        return Prepared(body, self._headers(request), break_)

    def _project(
        self, projection: Projection, request: Request, conversation: Conversation, distrusted: frozenset[str]
    ) -> Projected:
        model = model_named(request.model)
        leads = request.thinking is not None and not request.adaptive
        thinks = request.adaptive or leads or model.thinking_off not in ("", "disabled")
        return projection.project(
            conversation.history, conversation.edits, Target(request.model, thinks, leads, distrusted)
        )

    def _settings(self, request: Request, projected: Projected) -> dict[str, object]:
        settings: dict[str, object] = {"model": request.model, "max_tokens": request.max_output, "stream": True}
        if thinking := self._thinking(request, projected):
            settings["thinking"] = thinking
        output: dict[str, object] = {}
        if effort := effort_for(request):
            output["effort"] = effort
        if request.task_budget is not None:
            budget = request.task_budget
            output["task_budget"] = {"type": "tokens", "total": budget.total, "remaining": budget.remaining}
        if output:
            settings["output_config"] = output
        return settings

    def _thinking(self, request: Request, projected: Projected) -> dict[str, object] | None:
        off = model_named(request.model).thinking_off
        setting: dict[str, object] = {"type": "adaptive" if request.adaptive else off}
        if request.thinking is not None and projected.thinking and not request.adaptive:
            setting = {"type": "enabled", "budget_tokens": request.thinking}
        if not setting["type"]:
            return None
        if self._display is not None and setting["type"] != "disabled":
            setting["display"] = self._display
        if self._binds(request):
            setting["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
        return setting

    def _binds(self, request: Request) -> bool:
        """Some models tie thinking to all that stood before it, and refuse a request where that was edited.

        Told so, they drop such a block instead. Servers other than Anthropic's own may not know the setting; what they
        refuse is asked again without the thinking.
        """
        return self._url == HOME and model_named(request.model).binds_thinking

    def _headers(self, request: Request) -> dict[str, str]:
        betas = list(self._betas)
        if request.thinking is not None and not request.adaptive:
            betas.append(INTERLEAVED)
        if request.task_budget is not None:
            betas.append(TASK_BUDGET)
        if self._binds(request):
            betas.append(BINDING)
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": VERSION,
            "user-agent": f"mainspring/{__version__}",
        }
        if betas:
            headers["anthropic-beta"] = ",".join(dict.fromkeys(betas))
        return headers


class Lost(Bundle):
    """Replies that broke off, one after the other: the next request waits as long as a retry would (E-16)."""

    failure: Failure | None = None
    times: int = 0

    def waits(self, patience: Patience) -> list[Retry]:
        if self.failure is None:
            return []
        tried = Tried(self.times, overloads=0)
        delay = next_delay(tried, self.failure, patience, asked=None, jitter=random_share())
        return [Retry(self.failure, self.times, left) for left in countdown(delay or 0)]


class _Line:
    """Requests that extend each other."""

    def __init__(self) -> None:
        self.projection = Projection(encode)
        self.sent: Sent | None = None
        self.distrusted: frozenset[str] = frozenset()
        self.lost = Lost()
        self._fixed: Fixed | None = None

    def fixed_part(self, conversation: Conversation) -> Fixed:
        last = self.sent.conversation if self.sent is not None else None
        if (
            self._fixed is None
            or last is None
            or (last.tools, last.system) != (conversation.tools, conversation.system)
        ):
            self._fixed = fixed_part(conversation)
        return self._fixed

    def distrust(self, conversation: Conversation) -> None:
        self.distrusted |= {message.id for message in conversation.history}


class _Count(msgspec.Struct):
    input_tokens: int


EFFORTS = tuple(Effort)


def effort_for(request: Request) -> Effort | None:
    """As much as was asked for and the model takes; more than `high` contradicts thinking that is off."""
    most = model_named(request.model).most_effort
    if request.effort is None or not most:
        return None
    thinks = request.adaptive or request.thinking is not None
    return min(request.effort, Effort(most), Effort.MAX if thinks else Effort.HIGH, key=EFFORTS.index)


def random_share() -> float:
    """Between 0 and 1. The module `random` would cost more time at start than it saves here."""
    return int.from_bytes(os.urandom(4)) / 2**32


class Fixed(Bundle):
    """The part of a request that stays the same from turn to turn."""

    tools: list[bytes]
    system: list[bytes]
    body: bytes


def fixed_part(conversation: Conversation) -> Fixed:
    """In the order of the cache: tools, then system. A mark at the end of the system text covers both."""
    tools = [tool_json(tool) for tool in conversation.tools]
    system = [system_json(text) for text in conversation.system if text.strip()]
    body = b',"tools":[' + b",".join(tools) + b"]" if tools else b""
    if system:
        body += b',"system":[' + b",".join([*system[:-1], marked(system[-1])]) + b"]"
    return Fixed(tools, system, body)


def body_of(settings: dict[str, object], fixed: Fixed, projected: Projected, marks: tuple[str, ...]) -> list[bytes]:
    pieces = [msgspec.json.encode(settings)[:-1], fixed.body, b',"messages":[', *projected.chunks, END, b"]}"]
    put_marks(pieces, 3, projected, marks, MOST_MARKS - bool(fixed.system))
    return pieces


def put_marks(pieces: list[bytes], offset: int, projected: Projected, marks: tuple[str, ...], most: int) -> None:
    """Each mark stands on the last part of its message that can carry one."""
    wanted = {mark for mark in marks if mark}
    for at in range(len(projected.chunks) - 1, -1, -1):
        if not wanted or not most:
            break
        if projected.owners[at] in wanted and can_be_marked(projected.chunks[at]):
            wanted.discard(projected.owners[at])
            pieces[at + offset] = marked(projected.chunks[at])
            most -= 1
