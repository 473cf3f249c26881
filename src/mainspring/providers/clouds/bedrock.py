"""Anthropic's models on Amazon Bedrock: the Messages API with the model in the path, a signature instead of a key, and
an AWS event stream around the events.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from mainspring import providers
from mainspring.core.effects import Request
from mainspring.core.reasons import Trouble
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.clouds.aws import AwsCredentialChain, SigningScope, sign_request
from mainspring.providers.clouds.event_stream import ERROR_TYPES, UNREAD, BedrockEventParser
from mainspring.providers.http.client import HttpExchange
from mainspring.providers.http.sse import SseParser
from mainspring.providers.http_provider import ApiKey, PreparedRequest
from mainspring.providers.projection import ProjectedParts
from mainspring.providers.retry import RequestRefusedError

if TYPE_CHECKING:
    from mainspring.providers.errors import ErrorResponse

VERSION = "bedrock-2023-05-31"
LARGEST = 20_000_000  # bytes of a request, as documented for InvokeModel
GEOGRAPHIES = ("us", "eu")  # regions whose inference profiles stay in one part of the world

# Refusals of credentials: new ones may be accepted.
CREDENTIALS = frozenset(
    {
        "expiredtokenexception",
        "expiredtoken",
        "unrecognizedclientexception",
        "invalidclienttokenid",
        "invalidsignatureexception",
    }
)


class BedrockAnthropic(Anthropic):
    largest = LARGEST

    def __init__(
        self, credentials: AwsCredentialChain | ApiKey, *, region: str, base_url: str = "", **how: Any
    ) -> None:
        """`credentials`: a chain, which signs requests, or a Bedrock API key, which is sent as it is.

        `how`: as for `Anthropic`.
        """
        chain = credentials if isinstance(credentials, AwsCredentialChain) else None
        key = ApiKey("", refresh=chain.refresh, is_stale=chain.is_stale) if chain is not None else credentials
        assert isinstance(key, ApiKey)
        how.setdefault("prefix", "bedrock/")
        super().__init__(key, base_url=base_url or address_in(region), **how)
        self._chain = chain
        self._region = region

    # --- implementation of `HttpProvider` ---

    def _where(self, request: Request) -> str:
        return f"{self._url}/model/{quote(self._model(request), safe='-._~')}/invoke-with-response-stream"

    def _model(self, request: Request) -> str:
        return model_id(super()._model(request), self._region)

    def _settings(self, request: Request, projected: ProjectedParts) -> dict[str, object]:
        settings = super()._settings(request, projected)
        del settings["model"], settings["stream"]
        betas = self._beta_names(request)
        return {"anthropic_version": VERSION} | ({"anthropic_beta": betas} if betas else {}) | settings

    def _headers(self, request: Request) -> dict[str, str]:
        del request  # the betas are in the body
        return {
            "content-type": "application/json",
            "accept": "application/vnd.amazon.eventstream",
            "user-agent": self._agent,
        }

    def _auth_headers(self, prepared: PreparedRequest) -> dict[str, str]:
        if self._chain is None or self._chain.current is None:
            return super()._auth_headers(prepared)
        covered = {"content-type": prepared.headers["content-type"]}
        scope = SigningScope(self._region)
        return sign_request(prepared.url, covered, prepared.body, self._chain.current, scope, self._now())

    def _parser(self, response: HttpExchange) -> BedrockEventParser | SseParser:
        if response.headers.get("content-type", "").startswith("text/event-stream"):  # a gateway that converts it
            return providers.SseParser()
        return BedrockEventParser()

    def _warm(self) -> None:
        import_module("mainspring.providers.anthropic.stream")

    @property
    def _keyed(self) -> bool:
        return True

    def _is_key_refused(self, error: RequestRefusedError) -> bool:
        failure = error.failure
        if failure.kind is not Trouble.AUTH:
            return False
        return failure.status == 401 or any(kind in failure.detail.lower() for kind in CREDENTIALS)

    async def _refusal(self, response: HttpExchange) -> RequestRefusedError:
        error = BedrockError(response, self._ways_out.refused)
        return await providers.read_refusal(error, self._now(), self._ways_out, keyed=True)


def address_in(region: str) -> str:
    suffix = ".cn" if region.startswith("cn-") else ""
    return f"https://bedrock-runtime.{region}.amazonaws.com{suffix}"


def model_id(name: str, region: str) -> str:
    """Bedrock's id for a model: the name itself, or, for Anthropic's name of one, the inference profile of the region's
    part of the world. Others are not chosen by us: they could send a conversation anywhere.
    """
    if not name.startswith("claude-"):
        return name
    geography = region.partition("-")[0]
    return f"{geography}.anthropic.{name}" if geography in GEOGRAPHIES else f"anthropic.{name}"


class _BedrockErrorBody(msgspec.Struct):
    message: str = ""
    Message: str = ""  # as some of its services spell it
    type: str = msgspec.field(default="", name="__type")


class BedrockError:
    """A refusal, in the form of Anthropic's API."""

    def __init__(self, response: ErrorResponse, remedy: str) -> None:
        self._response = response
        self._remedy = remedy  # for refused credentials

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def read(self) -> bytes:
        raw = await self._response.read()
        try:
            body = msgspec.json.decode(raw, type=_BedrockErrorBody)
        except UNREAD:
            return raw
        said = self.headers.get("x-amzn-errortype", "") or body.type.rpartition("#")[2]
        kind, message = said.partition(":")[0], body.message or body.Message
        if not kind and not message:
            return raw  # a gateway's own error
        words = f"{kind}: {message}" if kind and message else kind or message
        if kind.lower() in CREDENTIALS:
            error = {"type": "authentication_error", "message": f"{words} ({self._remedy})"}
        else:
            error = {"type": ERROR_TYPES.get(kind.lower(), ""), "message": words}
        return msgspec.json.encode({"error": error})
