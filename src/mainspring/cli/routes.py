"""The way to models that are not asked in Anthropic's own way: a provider for each server. Loaded by who names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainspring.cli.endpoints import ANTHROPIC, RESPONSES, Endpoint, endpoint_of, key_of
from mainspring.cli.flags import StartError
from mainspring.providers.asking import Key
from mainspring.providers.base import Provider
from mainspring.providers.proxies import split
from mainspring.providers.router import Router
from mainspring.providers.transport import Transport
from mainspring.settings.values import Settings

KEYS_NEEDED = ("https://api.openai.com", "https://openrouter.ai", "https://generativelanguage.googleapis.com")


def routes(
    settings: Settings, environment: Mapping[str, str], transport: Transport, anthropic: Callable[[], Provider]
) -> Router:
    def find(model: str) -> tuple[str, Callable[[], Provider]]:
        endpoint = endpoint_of(model, settings, environment)
        if endpoint is None:
            return ANTHROPIC, anthropic
        name = f"{endpoint.name} {endpoint.url} {endpoint.protocol} {endpoint.key}"
        return name, lambda: provider_at(endpoint, environment, transport)

    return Router(find)


def provider_at(endpoint: Endpoint, environment: Mapping[str, str], transport: Transport) -> Provider:
    split(endpoint.url)  # an address that is none is told now
    value = key_of(endpoint, environment)
    if not value and endpoint.url.startswith(KEYS_NEEDED):
        raise StartError(f"there is no key for '{endpoint.url}': set {endpoint.key}")
    prefix = f"{endpoint.name}/" if endpoint.name else ""
    if endpoint.protocol == ANTHROPIC:
        from mainspring.providers.anthropic import Anthropic

        return Anthropic(Key(value), base_url=endpoint.url, transport=transport, prefix=prefix)
    key = Key(value, "authorization")
    if endpoint.protocol == RESPONSES:
        from mainspring.providers.openai_responses import OpenAIResponses

        return OpenAIResponses(key, base_url=endpoint.url, transport=transport, prefix=prefix)
    from mainspring.providers.openai_chat import OpenAIChat

    return OpenAIChat(key, base_url=endpoint.url, transport=transport, prefix=prefix)
