"""Anthropic's Messages API, streaming. One object can serve many sessions.

The request is made here from the conversation (`providers/projection.py`, `json.py`), the reply is read by
`stream.py`; how a server is asked at all is in `providers/http_provider.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from mainspring.core.config import Effort
from mainspring.core.effects import Request
from mainspring.core.models import model_named
from mainspring.core.value import Bundle
from mainspring.providers import http_provider
from mainspring.providers.anthropic.json import (
    END,
    accepts_block,
    can_be_marked,
    encode_part,
    mark_cache_end,
    system_json,
    tool_json,
)
from mainspring.providers.base import Conversation
from mainspring.providers.errors import UserRemedies
from mainspring.providers.http.client import HttpExchange, Transport
from mainspring.providers.http_provider import FixedPart, HttpProvider, PreparedRequest, RequestBody, RequestChain
from mainspring.providers.message_order import ProjectionTarget
from mainspring.providers.projection import ProjectedParts, RequestProjection
from mainspring.providers.retry import PATIENCE, RequestRefusedError, RetryLimits, RetryProfile
from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.providers.anthropic.stream import AnthropicStreamReader

Key = http_provider.ApiKey  # where its users look for it

HOME = "https://api.anthropic.com"
VERSION = "2023-06-01"
INTERLEAVED = "interleaved-thinking-2025-05-14"  # budgeted thinking between calls, too
TASK_BUDGET = "task-budgets-2026-03-13"
BINDING = "thinking-binding-controls-2026-08-01"
MANAGING = "context-management-2025-06-27"
WAYS_OUT = UserRemedies(
    refused="the key was refused: check ANTHROPIC_API_KEY",
    keyless="no key was sent: set ANTHROPIC_API_KEY",
    unknown="check the model's name and ANTHROPIC_BASE_URL",
    unreached="Check the connection, and ANTHROPIC_BASE_URL if it is set",
)
LARGEST = 32 * 1024 * 1024  # bytes of a request, as documented on 2026-11-15; other clouds take less, and say so
MOST_MARKS = 4  # the API's limit
MOST_FOUND = 16  # places of marks that are remembered; three or four are in use
ASIDE = frozenset({"compact", "collapse", "search"})  # sources of questions beside the conversation


class ServerSideClearing(Bundle):
    """When the service itself clears old tool results (D-14). Each time it does, what follows them is cached anew."""

    trigger: int = 100_000  # tokens of a prompt; the API's own default
    keep: int = 8  # calls, the newest ones, that keep their results: as many as our own layer leaves alone
    at_least: int = 20_000  # tokens: for less, the cache is worth more than the room

    @property
    def edit(self) -> dict[str, object]:
        return {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": self.trigger},
            "keep": {"type": "tool_uses", "value": self.keep},
            "clear_at_least": {"type": "input_tokens", "value": self.at_least},
        }


class Anthropic(HttpProvider):
    path = "/v1/messages"
    largest = LARGEST

    def __init__(  # noqa: PLR0913  # keywords, all of them
        self,
        key: Key | str = "",
        *,
        base_url: str = HOME,
        transport: Transport | None = None,
        prefix: str = "anthropic/",
        betas: tuple[str, ...] = (),
        thinking_display: str | None = None,
        clearing: ServerSideClearing | None = None,
        patience: RetryLimits = PATIENCE[RetryProfile.FOREGROUND],
        now: Callable[[], float] = time.time,
        ways_out: UserRemedies = WAYS_OUT,
        driver: str = "",
    ) -> None:
        """`driver`: who drives us, for the server to know."""
        key = Key(key) if isinstance(key, str) else key
        super().__init__(key, base_url, transport=transport, patience=patience, now=now, ways_out=ways_out)
        self._prefix = prefix  # what stands before a model's name in settings, and is not sent
        self._betas = betas
        self._display = thinking_display
        self._clearing = clearing
        self._agent = f"mainspring/{__version__}{f' ({driver})' if driver else ''}"

    async def count_tokens(self, request: Request, conversation: Conversation) -> int:
        """What the server says the prompt of this request would be."""
        target = self._target(request, frozenset())
        projected = self._projection().project(conversation.history, conversation.edits, target)
        settings: dict[str, object] = {"model": self._model(request)}
        if thinking := self._thinking(request, projected):
            settings["thinking"] = thinking
        settings |= self._managing(request)
        body = self._body(settings, self._fix(conversation), projected, conversation)
        url = f"{self._url}{self.path}/count_tokens"
        async with self._transport.post(url, self._headers(request) | self._key.headers, body) as response:
            if response.status != 200:
                raise await self._refusal(response)
            return msgspec.json.decode(await response.read(), type=_Count).input_tokens

    # --- what `providers/http_provider.py` wants to know ---

    def _projection(self) -> RequestProjection:
        return RequestProjection(encode_part)

    def _target(self, request: Request, distrusted: frozenset[str]) -> ProjectionTarget:
        model = model_named(request.model)
        leads = request.thinking is not None and not request.adaptive
        thinks = request.adaptive or leads or model.thinking_off not in ("", "disabled")
        return ProjectionTarget(request.model, thinks, leads, distrusted, accepts_block)

    def _thinking_in(self, settings: dict[str, object]) -> object:
        return settings.get("thinking")

    def _fix(self, conversation: Conversation) -> FixedPart:
        return fixed_part(conversation)

    def _body(
        self, settings: dict[str, object], fixed: FixedPart, projected: ProjectedParts, conversation: Conversation
    ) -> RequestBody:
        return body_of(settings, fixed, projected, conversation.marks)

    def _warm(self) -> None:
        for name in ("anthropic.stream", "http.sse"):
            import_module(f"mainspring.providers.{name}")

    def _reading(self, prepared: PreparedRequest) -> AnthropicStreamReader:  # noqa: ARG002  # a reply says all by itself
        from mainspring.providers.anthropic.stream import AnthropicStreamReader

        return AnthropicStreamReader()

    async def _refusal(self, response: HttpExchange) -> RequestRefusedError:
        from mainspring.providers.anthropic.errors import read_refusal

        return await read_refusal(response, self._now(), self._ways_out, keyed=self._keyed)

    def _cure(self, cure: str, line: RequestChain, conversation: Conversation) -> None:  # noqa: ARG002  # one does for both
        """What a change of ours can cure: signatures that this server does not know, as after a resume with another
        account, and blocks of a kind that it does not know, as after one with another server."""
        line.distrust(conversation)

    # --- making the request ---

    def _settings(self, request: Request, projected: ProjectedParts) -> dict[str, object]:
        settings: dict[str, object] = {"model": self._model(request), "max_tokens": request.max_output, "stream": True}
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
        return settings | self._managing(request)

    def _managing(self, request: Request) -> dict[str, object]:
        """What is sent stays whole, so the prefix is not broken by it: the service leaves out what the model reads."""
        if self._clearing is None or request.source in ASIDE:
            return {}
        return {"context_management": {"edits": [self._clearing.edit]}}

    def _model(self, request: Request) -> str:
        return request.model.removeprefix(self._prefix)

    def _thinking(self, request: Request, projected: ProjectedParts) -> dict[str, object] | None:
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
        if self._managing(request):
            betas.append(MANAGING)
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": VERSION,
            "user-agent": self._agent,
        }
        if betas:
            headers["anthropic-beta"] = ",".join(dict.fromkeys(betas))
        return headers


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


def fixed_part(conversation: Conversation) -> FixedPart:
    """In the order of the cache: tools, then system. A mark at the end of the system text that other sessions share
    covers both; what is this session's alone is covered by the marks of its messages."""
    tools = [tool_json(tool) for tool in conversation.tools]
    blank = next((at for at, text in enumerate(conversation.system) if not text), len(conversation.system))
    shared = [system_json(text) for text in conversation.system[:blank] if text.strip()]
    own = [system_json(text) for text in conversation.system[blank:] if text.strip()]
    body = b',"tools":[' + b",".join(tools) + b"]" if tools else b""
    if shared or own:
        at_end = [*shared[:-1], mark_cache_end(shared[-1]), *own] if shared else [*own[:-1], mark_cache_end(own[-1])]
        body += b',"system":[' + b",".join(at_end) + b"]"
    return FixedPart(tools, [*shared, *own], body)


def body_of(
    settings: dict[str, object], fixed: FixedPart, projected: ProjectedParts, marks: tuple[str, ...]
) -> RequestBody:
    front = [msgspec.json.encode(settings)[:-1], fixed.body, b',"messages":[']
    pieces = RequestBody(front, projected, [END, b"]}"])
    put_marks(pieces, projected, marks, MOST_MARKS - bool(fixed.system))
    return pieces


def put_marks(pieces: RequestBody, projected: ProjectedParts, marks: tuple[str, ...], most: int) -> None:
    """Each mark stands on the last part of its message that can carry one; of too many, the first ones are left out."""
    places = sorted([at for mark in dict.fromkeys(marks) if (at := place_of(mark, projected)) is not None])
    pieces.put({at: mark_cache_end(projected.chunks[at]) for at in places[-most:]})


def place_of(mark: str, projected: ProjectedParts) -> int | None:
    """A mark may stand at the front for a whole session, so a place among the settled parts is looked for once."""
    chunks, owners, found = projected.chunks, projected.owners, projected.found
    if not mark:
        return None
    behind = range(len(chunks) - 1, projected.settled - 1, -1)
    at = next((at for at in behind if owners[at] == mark), -1)
    known = found.pop(mark, None)
    if at < 0:
        settled = range(projected.settled - 1, -1, -1)
        at = known if known is not None else next((at for at in settled if owners[at] == mark), -1)
        found[mark] = at  # behind those that were asked for before it
        if len(found) > MOST_FOUND:
            del found[next(iter(found))]
    while at >= 0 and owners[at] == mark:
        if can_be_marked(chunks[at]):
            return at
        at -= 1
    return None
