"""What the providers of OpenAI's two protocols share: the address, the key, and what a server can and cannot do.

Any server that speaks one of them can be asked, hosted or local. Those that know less than OpenAI's own are met half
way: what a server is known or likely not to take is left out from the beginning (`manners_for`), and what it refuses by
name is left out from then on.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from mainspring.core.config import Effort
from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.models import model_named
from mainspring.core.value import Bundle
from mainspring.providers.base import Batch, Conversation, Item, ToolSpec
from mainspring.providers.errors import GIVEN, UserRemedies
from mainspring.providers.http.client import HttpExchange, Transport
from mainspring.providers.http.sse import SseParser
from mainspring.providers.http_provider import (
    NOT_STREAMED,
    ApiKey,
    HttpProvider,
    PreparedRequest,
    RequestChain,
    is_json,
    no_end,
)
from mainspring.providers.openai.blocks import BlockReader, ExpectedReply
from mainspring.providers.openai.errors import CARRY, SIGN, THINKING, VALUE, read_openai_refusal
from mainspring.providers.openai.json import wire_name
from mainspring.providers.prefix import CHARS_PER_TOKEN
from mainspring.providers.projection import ProjectedParts
from mainspring.providers.retry import PATIENCE, RequestRefusedError, RetryLimits, RetryProfile
from mainspring.providers.text_tool_calls import TextToolCallReader
from mainspring.version import __version__

HOME = "https://api.openai.com/v1"
LAST_WORDS = 5.0  # seconds for the usage and the end of the stream, once the model has said all
BYTES_PER_MEDIA_TOKEN = 500  # of base64: a picture of a megabyte is some 1,500 tokens


class ServerFeatures(Bundle):
    """What a server takes and does, beyond the least."""

    output_cap: str = "max_tokens"  # by which name; OpenAI's own models refuse this one
    files: bool = False  # PDF documents
    cache_key: bool = False  # a word by which requests of one conversation find the same cache
    summaries: bool = False  # of what was thought, on request
    written_calls: bool = True  # calls and thoughts may stand in the text
    reasoning_back: bool = False  # wants what the model thought, in the field it came in
    signed_calls: bool = False  # refuses a call that comes back without the signature it was made with


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
    """The address of a resource, with the path under which all is there."""
    url = base_url.rstrip("/")
    return url if "/" in url.partition("://")[2] else f"{url}/openai"


def add_version_path(base_url: str) -> str:
    """An address without a path means what all of these servers have in common."""
    url = base_url.rstrip("/")
    return url if "/" in url.partition("://")[2] else f"{url}/v1"


class OpenAI(HttpProvider):
    """Not a provider yet: `openai_chat.py` and `openai_responses.py` are."""

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
    ) -> None:
        """`prefix` is what stands before a model's name in settings, as in `ollama/qwen3`, and is not sent; `manners`
        None: what the address suggests; `api_version` is for Azure: a model's name is that of a deployment then."""
        url = azure_base_url(base_url) if api_version else add_version_path(base_url)
        key = ApiKey(key, "authorization") if isinstance(key, str) else key
        super().__init__(key, url, transport=transport, patience=patience, now=now, ways_out=ways_out)
        self._prefix = prefix
        self._own_headers = dict(headers or {})
        self._api_version = api_version
        self.manners = manners or (AZURE if api_version else manners_for(url))
        self._refused: set[str] = set()  # settings that the server does not know

    # --- what `providers/http_provider.py` wants to know ---

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
            line.distrust(conversation)  # if they were signed, then for another server
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
        """Settings that a request can be sent without, if they were not left out already."""

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

    # --- for both ---

    def _model(self, request: Request) -> str:
        return request.model.removeprefix(self._prefix)

    def _expected(self, prepared: PreparedRequest) -> ExpectedReply:
        tools = prepared.conversation.tools
        written = TextToolCallReader(tool_schemas(tools)) if self.manners.written_calls else None
        return ExpectedReply(prepared.tokens, long_names(tools), prepared.most, written)

    def _effort(self, request: Request, name: str) -> str | None:
        """As much as was asked for, in the words of these servers; once refused, no more than all of them know."""
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
    """What follows when the model has said all: with some servers nothing, not even the end of the stream."""
    items: list[Item] = []
    if not reply.ended:
        with suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                async for chunk in response:
                    items += reply.take(parser.feed(chunk))
                    if reply.ended or reply.error is not None:
                        break
    await response.finish()  # so that the connection can be used again
    return (*items, *reply.close())
