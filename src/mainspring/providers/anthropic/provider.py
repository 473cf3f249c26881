"""Anthropic's Messages API, streaming. One provider can serve many sessions.

This module builds the request from the conversation (with `providers/projection.py` and `json.py`); `stream.py` reads
the reply, and `providers/http_provider.py` sends requests and retries them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module

import msgspec

from mainspring import providers
from mainspring.core.config import FORCED, FREE, Effort, Sampling
from mainspring.core.effects import Request
from mainspring.core.models import Model, model_named
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
from mainspring.providers.base import WEB_SEARCH, Conversation
from mainspring.providers.errors import UserRemedies, unsupported_setting
from mainspring.providers.http.client import HttpExchange, Transport
from mainspring.providers.http_provider import FixedPart, HttpProvider, PreparedRequest, RequestBody, RequestChain
from mainspring.providers.message_order import ProjectionTarget
from mainspring.providers.projection import ProjectedParts, RequestProjection
from mainspring.providers.retry import PATIENCE, RequestRefusedError, RetryLimits, RetryProfile
from mainspring.version import __version__

Key = http_provider.ApiKey  # re-exported for its users

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
LARGEST = 32 * 1024 * 1024  # bytes of a request, as documented on 2026-11-15; other clouds accept less, and say so
MOST_MARKS = 4  # the API's limit
MOST_FOUND = 16  # remembered positions of cache breakpoints; three or four are in use
ASIDE = frozenset({"compact", "collapse", WEB_SEARCH})  # sources of side calls


class ServerSideClearing(Bundle):
    """When the service itself clears old tool results (D-14). Each time, everything after them is cached again."""

    trigger: int = 100_000  # prompt tokens; the API's own default
    keep: int = 8  # newest calls that keep their results: as many as our own layer keeps
    at_least: int = 20_000  # tokens: for less, keeping the cache is worth more

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
    search_betas: tuple[str, ...] = ()  # for web search

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
        models: Sequence[Model] = (),
    ) -> None:
        """`driver`: the program that runs mainspring, for the server's statistics. `models`: windows, limits and prices
        of models that our table does not have, or has otherwise."""
        key = Key(key) if isinstance(key, str) else key
        super().__init__(
            key, base_url, transport=transport, patience=patience, now=now, ways_out=ways_out, models=models
        )
        self._prefix = prefix  # the prefix of a model's name in settings, which is not sent
        self._betas = betas
        self._display = thinking_display
        self._clearing = clearing
        self._agent = f"mainspring/{__version__}{f' ({driver})' if driver else ''}"

    @property
    def searches_web(self) -> bool:
        return self._url == HOME

    async def count_tokens(self, request: Request, conversation: Conversation) -> int:
        """The prompt tokens of this request, as the server counts them."""
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

    # --- implementation of `HttpProvider` ---

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

    def _reading(self, prepared: PreparedRequest) -> providers.AnthropicStreamReader:  # noqa: ARG002  # not needed
        return providers.AnthropicStreamReader()

    async def _refusal(self, response: HttpExchange) -> RequestRefusedError:
        return await providers.read_refusal(response, self._now(), self._ways_out, keyed=self._keyed)

    def _cure(self, cure: str, line: RequestChain, conversation: Conversation) -> None:  # noqa: ARG002  # not needed
        """Cure a refusal by changing the request: drop signatures that this server does not know, as after a resume
        with another account, or blocks of unknown types, as after one with another server.
        """
        line.distrust(conversation)

    # --- building the request ---

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

    def _sampling(self, sampling: Sampling, *, has_tools: bool) -> dict[str, object]:
        if sampling.seed is not None:
            raise unsupported_setting("seed", "Anthropic's API")
        settings: dict[str, object] = {}
        if sampling.temperature is not None:
            settings["temperature"] = sampling.temperature
        if sampling.top_p is not None:
            settings["top_p"] = sampling.top_p
        if sampling.stop:
            settings["stop_sequences"] = sampling.stop
        if sampling.tool_choice is not None and has_tools:
            settings["tool_choice"] = tool_choice_json(sampling.tool_choice)
        return settings

    def _managing(self, request: Request) -> dict[str, object]:
        """The request keeps all messages, so the prefix does not break: the service decides what the model reads."""
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
        """Some models bind thinking to everything before it, and refuse a request in which that was edited.

        With this setting they drop such a block instead. Other servers may not know the setting; if they refuse it, the
        request is sent again without thinking.
        """
        return self._url == HOME and model_named(request.model).binds_thinking

    def _beta_names(self, request: Request) -> list[str]:
        betas = list(self._betas)
        if request.thinking is not None and not request.adaptive:
            betas.append(INTERLEAVED)
        if request.task_budget is not None:
            betas.append(TASK_BUDGET)
        if self._binds(request):
            betas.append(BINDING)
        if self._managing(request):
            betas.append(MANAGING)
        if request.source == WEB_SEARCH:
            betas += self.search_betas
        return list(dict.fromkeys(betas))

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": VERSION,
            "user-agent": self._agent,
        }
        if betas := self._beta_names(request):
            headers["anthropic-beta"] = ",".join(betas)
        return headers


class _Count(msgspec.Struct):
    input_tokens: int


def tool_choice_json(choice: str) -> dict[str, object]:
    if choice in FREE:
        return {"type": choice}
    return {"type": "any"} if choice == FORCED else {"type": "tool", "name": choice}


EFFORTS = tuple(Effort)


def effort_for(request: Request) -> Effort | None:
    """The requested effort, as far as the model supports it; more than `high` is impossible with thinking off."""
    most = model_named(request.model).most_effort
    if request.effort is None or not most:
        return None
    thinks = request.adaptive or request.thinking is not None
    return min(request.effort, Effort(most), Effort.MAX if thinks else Effort.HIGH, key=EFFORTS.index)


def fixed_part(conversation: Conversation) -> FixedPart:
    """In the order of the cache: tools, then system. A breakpoint at the end of the system text that sessions share
    covers both; breakpoints in the messages cover the text of this session.
    """
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
    """Put each breakpoint on the last part of its message that can carry one; if there are too many, drop the first
    ones.
    """
    places = sorted([at for mark in dict.fromkeys(marks) if (at := place_of(mark, projected)) is not None])
    pieces.put({at: mark_cache_end(projected.chunks[at]) for at in places[-most:]})


def place_of(mark: str, projected: ProjectedParts) -> int | None:
    """A breakpoint may stay at the front for a whole session, so its position among the settled parts is searched
    once.
    """
    chunks, owners, found = projected.chunks, projected.owners, projected.found
    if not mark:
        return None
    behind = range(len(chunks) - 1, projected.settled - 1, -1)
    at = next((at for at in behind if owners[at] == mark), -1)
    known = found.pop(mark, None)
    if at < 0:
        settled = range(projected.settled - 1, -1, -1)
        at = known if known is not None else next((at for at in settled if owners[at] == mark), -1)
        found[mark] = at  # after those that were requested before it
        if len(found) > MOST_FOUND:
            del found[next(iter(found))]
    while at >= 0 and owners[at] == mark:
        if can_be_marked(chunks[at]):
            return at
        at -= 1
    return None
