"""What servers offer: who is asked for a list of models, and what they say.

The servers are those that a run would turn to: Anthropic's, or whatever stands in its place, and all that somebody has
set up beside it (`endpoints.py`). A list costs nothing, and tells whether the server is there and takes the key.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from mainspring.agent.endpoints import ANTHROPIC, AZURE_KEY, Endpoint, find_configured_endpoints, key_of, named_by
from mainspring.agent.model import Environment, key_for
from mainspring.core.errors import ProviderError, UsageError
from mainspring.core.reasons import Trouble
from mainspring.core.value import Bundle, Value
from mainspring.settings.values import Settings
from mainspring.text import strip_control_characters

if TYPE_CHECKING:
    from mainspring.providers.http_provider import ApiKey

PATIENCE = 20.0  # seconds for a list that takes milliseconds
LARGEST = 8 * 1024 * 1024  # bytes; OpenRouter's, with some hundred models, has half of one


class ModelEndpoint(Bundle):
    """Who is asked, and how."""

    named_by: str  # where its address came from
    url: str  # of its list of models
    key: ApiKey
    headers: dict[str, str]
    endpoint: Endpoint | None = None  # None: the one that is set for Anthropic's protocol


class OfferedModels(Value):
    """What a server said."""

    url: str
    named_by: str
    models: tuple[tuple[str, int], ...] = ()  # names, and windows where it tells; else 0
    error: str = ""
    status: int = 0  # of its answer; 0: there was none


def servers_in(settings: Settings, environment: Environment, models: Iterable[str] = ()) -> tuple[ModelEndpoint, ...]:
    """Each once. `environment`: with what the user's settings add. `models` are those that a run would ask."""
    ours = find_anthropic_endpoint(settings, environment)
    found = {ours.url: ours} if ours is not None else {}
    for endpoint in find_configured_endpoints(settings, environment, models):
        server = server_at(endpoint, environment)
        found.setdefault(server.url, server)
    return tuple(found.values())


def find_anthropic_endpoint(settings: Settings, environment: Environment) -> ModelEndpoint | None:
    """Anthropic's, or what stands in its place; None if neither a key nor an address is there."""
    from mainspring.providers.anthropic.provider import HOME
    from mainspring.providers.http_provider import ApiKey

    key = key_for(settings, environment, os.getcwd())  # noqa: PTH109  # pathlib takes 8 ms to load
    address = settings.api.base_url or ""
    if not key.is_any and not address:
        return None
    proof = ApiKey(key.value, key.header, key.refresh)
    return ModelEndpoint(
        "api.baseUrl" if address else key.source, models_url(address or HOME), proof, make_version_headers()
    )


def server_at(endpoint: Endpoint, environment: Environment) -> ModelEndpoint:
    from mainspring.providers.http_provider import ApiKey
    from mainspring.providers.openai.provider import add_version_path, azure_base_url

    value, name = key_of(endpoint, environment), named_by(endpoint)
    if endpoint.protocol == ANTHROPIC:
        return ModelEndpoint(name, models_url(endpoint.url), ApiKey(value), make_version_headers(), endpoint)
    if endpoint.api_version:
        url = f"{azure_base_url(endpoint.url)}/models?api-version={endpoint.api_version}"
        return ModelEndpoint(name, url, ApiKey(value, AZURE_KEY), {}, endpoint)
    return ModelEndpoint(name, f"{add_version_path(endpoint.url)}/models", ApiKey(value, "authorization"), {}, endpoint)


def models_url(address: str) -> str:
    return f"{address.rstrip('/')}/v1/models?limit=1000"


def make_version_headers() -> dict[str, str]:
    from mainspring.providers.anthropic.provider import VERSION

    return {"anthropic-version": VERSION}


# --- asking ---------------------------------------------------------------------------------------------------


async def ask_model_servers(servers: Iterable[ModelEndpoint]) -> tuple[OfferedModels, ...]:
    """All of them at once: one that is silent keeps nobody else waiting."""
    return tuple(await asyncio.gather(*map(fetch_offered_models, servers)))


async def fetch_offered_models(server: ModelEndpoint) -> OfferedModels:
    from mainspring.secrets.redaction import redact

    nothing = OfferedModels(redact(server.url.partition("?")[0]), server.named_by)
    try:
        key = await resolve_helper_key(server.key)  # before the clock: somebody may have to touch something
        async with asyncio.timeout(PATIENCE):
            status, body = await fetch_model_list(server, key)
    except ProviderError as error:
        silent = "" if error.failure.kind is Trouble.AUTH else "no answer: "  # else the helper has spoken
        return replace(nothing, error=f"{silent}{strip_control_characters(error.failure.detail)}")
    except TimeoutError:
        return replace(nothing, error=f"no answer within {PATIENCE:.0f} seconds")
    except UsageError as error:
        return replace(nothing, error=str(error))
    answered = replace(nothing, status=status)
    if status in (401, 403):
        why = "it does not take the key" if key.value else "it wants a key, and none was sent"
        return replace(answered, error=f"answered {status}: {why}")
    if status != 200:
        return replace(answered, error=f"answered {status}: it has no list of models")
    try:
        return replace(answered, models=parse_model_list(msgspec.json.decode(body)))
    except (ValueError, TypeError, KeyError, AttributeError):
        return replace(answered, error="its list of models cannot be read")


async def resolve_helper_key(key: ApiKey) -> ApiKey:
    """A helper is asked only here: its key is not known before."""
    if key.value or key.refresh is None:
        return key
    return replace(key, value=await key.refresh())


async def fetch_model_list(server: ModelEndpoint, key: ApiKey) -> tuple[int, bytes]:
    from mainspring.providers.http.client import Transport

    async with Transport() as transport, transport.get(server.url, server.headers | key.headers) as response:
        return response.status, await response.read(LARGEST)


def parse_model_list(body: Any) -> tuple[tuple[str, int], ...]:
    """The names in their order. Some servers also say how much a model can read, each in its own field."""
    return tuple([(strip_control_characters(str(entry["id"])), window_of(entry)) for entry in body["data"]])


def window_of(entry: dict[str, Any]) -> int:
    meta: dict[str, Any] = entry.get("meta") or {}
    told = [entry.get(name) for name in ("context_length", "max_model_len", "max_input_tokens")]
    return next((value for value in (*told, meta.get("n_ctx")) if isinstance(value, int)), 0)
