"""Providers for OpenAI's two protocols, streaming: `OpenAIChat` (chat completions) and `OpenAIResponses`.

`OpenAI`, their base class, has the address, the key, and the features of a server. Any server that speaks one of the
protocols works, hosted or local. Settings that a server is known or likely to reject are left out from the beginning
(`manners_for`), and settings that it refuses by name are left out from then on.

Chat completions is the protocol that nearly every server speaks. With Responses, the server stores nothing: each
request contains the whole conversation, and thinking is sent back encrypted.

This module builds the requests from the conversation (with `providers/projection.py` and `json.py`); `chat_stream.py`
and `responses_stream.py` read the replies, and `providers/http_provider.py` sends requests and retries them.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from mainspring.core.config import FORCED, FREE, Effort, Sampling
from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.models import Model, model_named
from mainspring.core.value import Bundle
from mainspring.providers.base import WEB_SEARCH, Batch, Conversation, Item, ToolSpec
from mainspring.providers.errors import GIVEN, UserRemedies, unsupported_setting
from mainspring.providers.http.client import HttpExchange, Transport
from mainspring.providers.http.sse import SseParser
from mainspring.providers.http_provider import (
    NOT_STREAMED,
    ApiKey,
    FixedPart,
    HttpProvider,
    PreparedRequest,
    RequestBody,
    RequestChain,
    is_json,
    no_end,
)
from mainspring.providers.message_order import ProjectionTarget
from mainspring.providers.openai.blocks import BlockReader, ExpectedReply
from mainspring.providers.openai.chat_stream import ChatStreamReader
from mainspring.providers.openai.errors import CARRY, SIGN, THINKING, VALUE, read_openai_refusal
from mainspring.providers.openai.json import (
    CLOSE,
    RESPONSES_CLOSE,
    chat_accepts_block,
    form_of,
    make_chat_encoder,
    make_responses_encoder,
    responses_accepts_block,
    responses_form_of,
    responses_tool_json,
    signs_call,
    system_json,
    takes_reasoning,
    tool_json,
    wire_name,
)
from mainspring.providers.openai.quirks import has_details
from mainspring.providers.openai.responses_stream import ResponsesStreamReader
from mainspring.providers.prefix import CHARS_PER_TOKEN
from mainspring.providers.projection import ProjectedParts, RequestProjection
from mainspring.providers.retry import PATIENCE, RequestRefusedError, RetryLimits, RetryProfile
from mainspring.providers.text_tool_calls import TextToolCallReader
from mainspring.version import __version__

HOME = "https://api.openai.com/v1"
LAST_WORDS = 5.0  # seconds for the usage and the end of the stream, once the model has finished
BYTES_PER_MEDIA_TOKEN = 500  # bytes of base64: an image of a megabyte is about 1,500 tokens


class ServerFeatures(Bundle):
    """The optional features of a server."""

    output_cap: str = "max_tokens"  # the parameter's name; OpenAI's own models refuse this one
    files: bool = False  # PDF documents
    cache_key: bool = False  # a key with which requests of one conversation find the same cache
    summaries: bool = False  # of thinking, on request
    written_calls: bool = True  # calls and thinking may be in the text
    reasoning_back: bool = False  # expects thinking back, in the field it came in
    signed_calls: bool = False  # refuses a call that comes back without its signature


OPENAI = ServerFeatures("max_completion_tokens", files=True, cache_key=True, summaries=True, written_calls=False)
PLAIN = ServerFeatures()
GEMINI = ServerFeatures(signed_calls=True)
GOOGLE = "https://generativelanguage.googleapis.com/"
AZURE = ServerFeatures("max_completion_tokens", written_calls=False)


def manners_for(url: str) -> ServerFeatures:
    if url.startswith(GOOGLE):
        return GEMINI
    return OPENAI if url == HOME else PLAIN


def azure_base_url(base_url: str) -> str:
    """The address of a resource, with the path of its API."""
    url = base_url.rstrip("/")
    return url if "/" in url.partition("://")[2] else f"{url}/openai"


def add_version_path(base_url: str) -> str:
    """An address without a path gets the path that these servers have in common."""
    url = base_url.rstrip("/")
    return url if "/" in url.partition("://")[2] else f"{url}/v1"


class OpenAI(HttpProvider):
    """The base class; `OpenAIChat` and `OpenAIResponses` are the providers."""

    caches_by_itself = True
    deployed = False  # whether Azure has the deployment's name in the path

    def __init__(  # noqa: PLR0913  # keywords, all of them
        self,
        key: ApiKey | str = "",
        *,
        base_url: str = HOME,
        transport: Transport | None = None,
        prefix: str = "",
        headers: Mapping[str, str] | None = None,
        api_version: str = "",
        manners: ServerFeatures | None = None,
        ways_out: UserRemedies = GIVEN,
        patience: RetryLimits = PATIENCE[RetryProfile.FOREGROUND],
        now: Callable[[], float] = time.time,
        models: Sequence[Model] = (),
    ) -> None:
        """`prefix` is the prefix of a model's name in settings, as in `ollama/qwen3`, and is not sent; `manners` None:
        by the address; `api_version` is for Azure: a model's name is then that of a deployment; `models`: windows,
        limits and prices of models that our table does not have, or has otherwise.
        """
        url = azure_base_url(base_url) if api_version else add_version_path(base_url)
        key = ApiKey(key, "authorization") if isinstance(key, str) else key
        super().__init__(key, url, transport=transport, patience=patience, now=now, ways_out=ways_out, models=models)
        self._prefix = prefix
        self._own_headers = dict(headers or {})
        self._api_version = api_version
        self.manners = manners or (AZURE if api_version else manners_for(url))
        self._refused: set[str] = set()  # settings that the server rejects

    # --- implementation of `HttpProvider` ---

    def _headers(self, request: Request) -> dict[str, str]:  # noqa: ARG002  # the same for all
        own = {"content-type": "application/json", "accept": "text/event-stream"}
        return {**own, "user-agent": f"mainspring/{__version__}", **self._own_headers}

    def _where(self, request: Request) -> str:
        if not self._api_version:
            return super()._where(request)
        from urllib.parse import quote

        inner = f"/deployments/{quote(self._model(request), safe='')}" if self.deployed else ""
        return f"{self._url}{inner}{self.path}?api-version={quote(self._api_version, safe='')}"

    async def _refusal(self, response: HttpExchange) -> RequestRefusedError:
        return await read_openai_refusal(response, self._now(), self._optional(), self._ways_out, keyed=self._keyed)

    def _cure(self, cure: str, line: RequestChain, conversation: Conversation) -> None:
        if cure == THINKING:
            line.distrust(conversation)
        elif cure == SIGN:
            line.distrust(conversation)  # signatures, if any, were made for another server
            self.manners = replace(self.manners, signed_calls=True)
            line.projection = self._projection()
        elif cure == CARRY:
            self.manners = replace(self.manners, reasoning_back=not self.manners.reasoning_back)
        elif cure in self._refused:  # the other value was refused, too
            self._refused.add(cure.removesuffix(VALUE))
        else:
            self._refused.add(cure)

    @abstractmethod
    def _optional(self) -> tuple[str, ...]:
        """Settings that a request can be sent without, if not already left out."""

    def _weigh(self, line: RequestChain, projected: ProjectedParts) -> int:
        fixed = len(line.fixed.body) if line.fixed else 0
        text = fixed + projected.size - projected.media
        return text // CHARS_PER_TOKEN + projected.media // BYTES_PER_MEDIA_TOKEN

    @abstractmethod
    def _reading(self, prepared: PreparedRequest) -> BlockReader: ...

    async def _read(self, response: HttpExchange, prepared: PreparedRequest) -> AsyncGenerator[Batch, None]:
        parser, reply, heard = SseParser(), self._reading(prepared), False
        if is_json(response):
            if batch := reply.not_streamed(await response.read(NOT_STREAMED)):
                yield batch
        else:
            response.heard()
            async for chunk in response:
                if events := parser.feed(chunk):
                    response.heard()
                if batch := reply.take(events):
                    response.note_progress()
                heard = heard or bool(batch)
                if reply.whole:
                    batch += await last_words(response, parser, reply)
                if batch:
                    yield batch
                if reply.whole or reply.error is not None:
                    break
        if not reply.ended:
            raise reply.error or no_end(parser.stray if not heard else b"")

    # --- for both protocols ---

    def _model(self, request: Request) -> str:
        return request.model.removeprefix(self._prefix)

    def _expected(self, prepared: PreparedRequest) -> ExpectedReply:
        tools = prepared.conversation.tools
        written = TextToolCallReader(tool_schemas(tools)) if self.manners.written_calls else None
        searches = any(tool.search is not None for tool in tools)
        return ExpectedReply(prepared.tokens, long_names(tools), prepared.most, written, searches)

    def _sampling(self, sampling: Sampling, *, has_tools: bool) -> dict[str, object]:
        """Both protocols have these. The caller asked for them, so none is left out if the server refuses it."""
        settings: dict[str, object] = {}
        if sampling.temperature is not None:
            settings["temperature"] = sampling.temperature
        if sampling.top_p is not None:
            settings["top_p"] = sampling.top_p
        if sampling.tool_choice is not None and has_tools:
            settings["tool_choice"] = self._tool_choice(sampling.tool_choice)
        return settings

    def _tool_choice(self, choice: str) -> object:
        return choice if choice in (*FREE, FORCED) else self._named_choice(wire_name(choice))

    @abstractmethod
    def _named_choice(self, tool: str) -> dict[str, object]: ...

    def _effort(self, request: Request, name: str) -> str | None:
        """The requested effort, in the terms of these servers; after a refusal, at most a value that all of them
        know.
        """
        most = model_named(request.model).most_effort
        if request.effort is None or not most or name in self._refused:
            return None
        known = Effort.HIGH if f"{name}{VALUE}" in self._refused else Effort.MAX
        return EFFORTS[min(request.effort, Effort(most), known, key=tuple(Effort).index)]


EFFORTS: dict[Effort, str] = {
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
    Effort.XHIGH: "xhigh",
    Effort.MAX: "xhigh",
}


def tool_schemas(tools: tuple[ToolSpec, ...]) -> dict[str, Mapping[str, Any]]:
    return {wire_name(tool.name): tool.schema for tool in tools}


def long_names(tools: tuple[ToolSpec, ...]) -> dict[str, str]:
    """Tools' own names by those on the wire, where they differ."""
    named = [(wire_name(tool.name), tool.name) for tool in tools]
    return {wire: own for wire, own in named if wire != own}


def system_of(conversation: Conversation) -> str:
    return "\n\n".join([text for text in conversation.system if text.strip()])


async def last_words(response: HttpExchange, parser: SseParser, reply: BlockReader) -> Batch:
    """Events after the model has finished: some servers send nothing, not even the end of the stream."""
    items: list[Item] = []
    if not reply.ended:
        with suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                async for chunk in response:
                    items += reply.take(parser.feed(chunk))
                    if reply.ended or reply.error is not None:
                        break
    await response.finish()  # so that the connection can be reused
    return (*items, *reply.close())


COMPLETION = "max_completion_tokens"
NEWER = ("gpt-5", "o1", "o3", "o4")  # OpenAI's models that accept only this name for the cap


class OpenAIChat(OpenAI):
    path = "/chat/completions"
    deployed = True

    def _projection(self) -> RequestProjection:
        return RequestProjection(make_chat_encoder(files=self.manners.files, signed=self.manners.signed_calls), form_of)

    def _target(self, request: Request, distrusted: frozenset[str]) -> ProjectionTarget:
        return ProjectionTarget(
            request.model,
            thinking=True,
            distrusted=distrusted,
            takes=takes_reasoning if self.manners.reasoning_back else chat_accepts_block,
            calls_last=True,
            of_call=signs_call,
            first=has_details,
            media_apart=True,
        )

    def _settings(self, request: Request, projected: ProjectedParts) -> dict[str, object]:  # noqa: ARG002
        settings: dict[str, object] = {"model": self._model(request), "stream": True}
        if self._model(request).startswith(NEWER):  # also behind a gateway
            self.manners = replace(self.manners, output_cap=COMPLETION)
        if "stream_options" not in self._refused:
            settings["stream_options"] = {"include_usage": True}
        if (cap := self._cap()) not in self._refused:
            settings[cap] = request.max_output
        if effort := self._effort(request, "reasoning_effort"):
            settings["reasoning_effort"] = effort
        if self.manners.cache_key and request.chain and "prompt_cache_key" not in self._refused:
            settings["prompt_cache_key"] = request.chain
        return settings

    def _sampling(self, sampling: Sampling, *, has_tools: bool) -> dict[str, object]:
        settings = super()._sampling(sampling, has_tools=has_tools)
        if sampling.stop:
            settings["stop"] = sampling.stop
        if sampling.seed is not None:
            settings["seed"] = sampling.seed
        return settings

    def _named_choice(self, tool: str) -> dict[str, object]:
        return {"type": "function", "function": {"name": tool}}

    def _cap(self) -> str:
        """With the name that the server has not refused; if it rejects both, there is none."""
        first = self.manners.output_cap
        other = "max_tokens" if first == COMPLETION else COMPLETION
        return other if first in self._refused else first

    def _optional(self) -> tuple[str, ...]:
        known = ("stream_options", self._cap(), "reasoning_effort", "prompt_cache_key")
        return tuple([name for name in known if name not in self._refused])

    def _thinking_in(self, settings: dict[str, object]) -> object:
        return settings.get("reasoning_effort")

    def _fix(self, conversation: Conversation) -> FixedPart:
        tools = [tool_json(tool) for tool in conversation.tools]
        system = [system_json(text)] if (text := system_of(conversation)) else []
        body = b',"tools":[' + b",".join(tools) + b"]" if tools else b""
        return FixedPart(tools, system, body + b',"messages":[' + b"".join([each + b"," for each in system]))

    def _body(
        self,
        settings: dict[str, object],
        fixed: FixedPart,
        projected: ProjectedParts,
        conversation: Conversation,  # noqa: ARG002  # these servers cache by themselves: there are no breakpoints
    ) -> RequestBody:
        end = CLOSE[projected.form] if projected.form else b""
        return RequestBody([msgspec.json.encode(settings)[:-1], fixed.body], projected, [end, b"]}"])

    def _reading(self, prepared: PreparedRequest) -> ChatStreamReader:
        return ChatStreamReader(self._expected(prepared))


ENCRYPTED = "reasoning.encrypted_content"
SOURCES = "web_search_call.action.sources"
LEAST_OUTPUT = 16  # tokens; less is refused


class OpenAIResponses(OpenAI):
    path = "/responses"

    @property
    def searches_web(self) -> bool:
        return self._url == HOME

    def _projection(self) -> RequestProjection:
        return RequestProjection(make_responses_encoder(files=self.manners.files), responses_form_of)

    def _target(self, request: Request, distrusted: frozenset[str]) -> ProjectionTarget:
        return ProjectionTarget(request.model, thinking=True, distrusted=distrusted, takes=responses_accepts_block)

    def _settings(self, request: Request, projected: ProjectedParts) -> dict[str, object]:  # noqa: ARG002
        settings: dict[str, object] = {"model": self._model(request), "stream": True}
        reasoning: dict[str, object] = {}
        if effort := self._effort(request, "reasoning.effort"):
            reasoning["effort"] = effort
        if self.manners.summaries and "reasoning.summary" not in self._refused:
            reasoning["summary"] = "auto"
        optional: dict[str, object] = {
            "store": False,
            "max_output_tokens": max(request.max_output, LEAST_OUTPUT),
            "include": [ENCRYPTED, SOURCES] if request.source == WEB_SEARCH else [ENCRYPTED],
            "reasoning": reasoning or None,
            "prompt_cache_key": request.chain if self.manners.cache_key and request.chain else None,
        }
        known = {name: value for name, value in optional.items() if value is not None and name not in self._refused}
        return settings | known

    def _sampling(self, sampling: Sampling, *, has_tools: bool) -> dict[str, object]:
        for name, given in (("stop_sequences", bool(sampling.stop)), ("seed", sampling.seed is not None)):
            if given:
                raise unsupported_setting(name, "OpenAI's Responses API")
        return super()._sampling(sampling, has_tools=has_tools)

    def _named_choice(self, tool: str) -> dict[str, object]:
        return {"type": "function", "name": tool}

    def _optional(self) -> tuple[str, ...]:
        known = ("include", "reasoning.summary", "reasoning.effort", "reasoning", "store", "max_output_tokens")
        return tuple([name for name in (*known, "prompt_cache_key") if name not in self._refused])

    def _thinking_in(self, settings: dict[str, object]) -> object:
        return settings.get("reasoning")

    def _fix(self, conversation: Conversation) -> FixedPart:
        tools = [responses_tool_json(tool) for tool in conversation.tools]
        system = [msgspec.json.encode(text)] if (text := system_of(conversation)) else []
        body = b',"tools":[' + b",".join(tools) + b"]" if tools else b""
        body += b"".join([b',"max_tool_calls":%d' % tool.search.most for tool in conversation.tools if tool.search])
        body += b"".join([b',"instructions":' + each for each in system])
        return FixedPart(tools, system, body + b',"input":[')

    def _body(
        self,
        settings: dict[str, object],
        fixed: FixedPart,
        projected: ProjectedParts,
        conversation: Conversation,  # noqa: ARG002  # these servers cache by themselves: there are no breakpoints
    ) -> RequestBody:
        end = RESPONSES_CLOSE[projected.form] if projected.form else b""
        return RequestBody([msgspec.json.encode(settings)[:-1], fixed.body], projected, [end, b"]}"])

    def _reading(self, prepared: PreparedRequest) -> ResponsesStreamReader:
        return ResponsesStreamReader(self._expected(prepared))
