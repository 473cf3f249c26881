"""The way to models that are not asked in Anthropic's own way: a provider for each server. Loaded by who names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mainspring.agent.endpoints import (
    ANTHROPIC,
    AZURE_KEY,
    RESPONSES,
    Endpoint,
    address_place,
    endpoint_of,
    key_of,
    key_place,
)
from mainspring.agent.model import TOOLLESS, patience_of, takes_tools
from mainspring.agent.options import StartError
from mainspring.providers.base import Provider
from mainspring.providers.errors import UserRemedies
from mainspring.providers.http.client import Transport
from mainspring.providers.http.proxy import is_local, split_url
from mainspring.providers.http_provider import ApiKey
from mainspring.providers.retry import RetryLimits
from mainspring.providers.router import ProviderRouter
from mainspring.secrets.held import bind_scope
from mainspring.settings.values import Settings

KEYS_NEEDED = ("https://api.openai.com", "https://openrouter.ai", "https://generativelanguage.googleapis.com")


def build_router(
    settings: Settings, environment: Mapping[str, str], transport: Transport, anthropic: Callable[[], Provider]
) -> ProviderRouter:
    patience = patience_of(settings)
    made_at = bind_scope(provider_at)  # the key of a server that is asked later is held by this session, too

    def find(model: str) -> tuple[str, Callable[[], Provider]]:
        name, make = way_to(model)
        if takes_tools(model, settings):
            return name, make
        return f"{name} without tools", lambda: without_tools(make())

    def way_to(model: str) -> tuple[str, Callable[[], Provider]]:
        endpoint = endpoint_of(model, settings, environment)
        if endpoint is None:
            return ANTHROPIC, anthropic
        name = f"{endpoint.name} {endpoint.url} {endpoint.protocol} {endpoint.key} {endpoint.api_version}"
        return name, lambda: made_at(endpoint, environment, transport, patience)

    return ProviderRouter(find)


def provider_at(
    endpoint: Endpoint, environment: Mapping[str, str], transport: Transport, patience: RetryLimits
) -> Provider:
    split_url(endpoint.url)  # an address that is none is told now
    value = key_of(endpoint, environment)
    if not value and endpoint.url.startswith(KEYS_NEEDED):
        raise StartError(f"there is no key for '{endpoint.url}': set {key_place(endpoint)}")
    how: Any = {
        "base_url": endpoint.url,
        "transport": transport,
        "prefix": f"{endpoint.name}/" if endpoint.name else "",
        "patience": patience,
        "ways_out": ways_out(endpoint),
    }
    if endpoint.protocol == ANTHROPIC:
        from mainspring.providers.anthropic.provider import Anthropic

        return Anthropic(ApiKey(value), **how)
    key = ApiKey(value, AZURE_KEY if endpoint.api_version else "authorization")
    how["api_version"] = endpoint.api_version
    if endpoint.protocol == RESPONSES:
        from mainspring.providers.openai.provider import OpenAIResponses

        return OpenAIResponses(key, **how)
    from mainspring.providers.openai.provider import OpenAIChat

    return OpenAIChat(key, **how)


def without_tools(provider: Provider) -> Provider:
    from mainspring.providers.router import ToollessProvider

    return ToollessProvider(provider)


def ways_out(endpoint: Endpoint) -> UserRemedies:
    """In the names of the variables and settings that this server is known by."""
    place, key = address_place(endpoint), key_place(endpoint)
    is_set = endpoint.moved or bool(endpoint.entry)
    near = is_local(split_url(endpoint.url)[0].host)
    if near:
        starts = f"'{endpoint.start}' starts it. " if endpoint.start else ""
        unreached = f"{starts}{'Its' if is_set else 'Another'} address is set by {place}"
    else:
        unreached = f"Check the connection, and {place}" if is_set else "Check the connection"
    what = "the model's name"
    if endpoint.api_version:
        what, place = "the name of the deployment", f"{place}, with 'api_version' beside it"
    return UserRemedies(
        toolless=TOOLLESS,
        refused=f"the key was refused: check {key}",
        keyless=f"no key was sent: set {key}",
        unknown=f"check {what} and {place}" if is_set else f"check {what}",
        unreached=unreached,
    )
