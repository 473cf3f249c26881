"""Endpoints of models: which server a model uses, by its name (`provider/model`) or the user's settings for it, and
the provider for each server. Loaded only for models that are not Anthropic's.

Addresses and keys are the user's: a project cannot redirect a key (security T2), and a key goes only to the server
that its name is for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from mainspring import agent, providers, secrets
from mainspring.agent.model import ON_CLOUDS, STORED, TOOLLESS, UNDECLARED, takes_tools
from mainspring.agent.options import MissingKeyError, StartError
from mainspring.core.value import Bundle
from mainspring.providers.base import Provider
from mainspring.providers.errors import UserRemedies
from mainspring.providers.http.client import Transport
from mainspring.providers.http.proxy import is_local, split_url
from mainspring.providers.http_provider import ApiKey
from mainspring.providers.retry import RetryLimits
from mainspring.providers.router import ProviderRouter, ToollessProvider
from mainspring.secrets.held import bind_scope, hold_key
from mainspring.secrets.sources import CREDENTIALS, NONE, ResolvedKey
from mainspring.settings.load import home_folder
from mainspring.settings.values import ModelEntry, Settings

ANTHROPIC, CHAT, RESPONSES = "anthropic", "chat", "responses"  # protocols
BEDROCK, VERTEX = "bedrock", "vertex"  # the same for Anthropic's models on clouds, and the prefixes of their names
CLOUDS = (BEDROCK, VERTEX)
DEMO, DEMO_MODEL = "demo", "demo/tour"  # scripted and offline
OPENAI_HOME = "https://api.openai.com/v1"
AZURE_KEY = "api-key"  # the header for the key


class Endpoint(Bundle):
    name: str  # also the prefix of model names, before a slash
    url: str
    protocol: str = CHAT
    key: str = ""  # the variable with the key; empty: needs none
    address: str = ""  # the variable with another address
    moved: bool = False  # whether that variable is set
    start: str = ""  # the command that starts a local server
    entry: str = ""  # the model whose settings name it
    api_version: str = ""  # of Azure; empty: another server
    region: str = ""  # of a cloud
    project: str = ""  # of Vertex


ENDPOINTS = {
    row.name: row
    for row in (
        Endpoint("openai", OPENAI_HOME, RESPONSES, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        Endpoint("openrouter", "https://openrouter.ai/api/v1", key="OPENROUTER_API_KEY"),
        Endpoint("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", key="GEMINI_API_KEY"),
        Endpoint("ollama", "http://localhost:11434", address="OLLAMA_BASE_URL", start="ollama serve"),
        Endpoint("lmstudio", "http://localhost:1234", start="lms server start"),
        Endpoint("vllm", "http://localhost:8000", start="vllm serve MODEL"),
        Endpoint("llamacpp", "http://localhost:8080", start="llama-server -m FILE"),
        Endpoint(DEMO, "", DEMO),
    )
}
OF_OPENAI = ("gpt-", "o1", "o3", "o4", "chatgpt-")  # prefixes of its model names


def endpoint_of(model: str, settings: Settings, environment: Mapping[str, str]) -> Endpoint | None:
    """None: Anthropic's protocol, at its configured address."""
    entry = next((entry for entry in settings.models if entry.name == model and entry.base_url), None)
    if entry is not None:
        return endpoint_from_settings(entry)
    if cloud := cloud_of(model, environment):
        return agent.find_cloud_endpoint(cloud, model, environment)
    provider, slash, _ = model.partition("/")
    if not slash:
        return _at(ENDPOINTS["openai"], environment) if model.startswith(OF_OPENAI) else None
    if provider == ANTHROPIC:
        return None
    if provider not in ENDPOINTS:
        known = ", ".join([ANTHROPIC, *[name for name in ENDPOINTS if name != DEMO], *CLOUDS])
        raise StartError(
            f"'{model}': there is no provider '{provider}'; use one of {known}. For a server of your own, set "
            f"'models.{model}.base_url' in your settings"
        )
    return _at(ENDPOINTS[provider], environment)


def cloud_of(model: str, environment: Mapping[str, str]) -> str:
    """The cloud of a model: by its prefix, or by the variables for names without one. Empty: none."""
    provider, slash, _ = model.partition("/")
    if slash and provider in CLOUDS:
        return provider
    if (slash and not model.startswith("arn:")) or model.startswith(OF_OPENAI):
        return ""
    return next((cloud for cloud, name in zip(CLOUDS, ON_CLOUDS, strict=True) if is_on(name, environment)), "")


def is_on(name: str, environment: Mapping[str, str]) -> bool:
    return read_environment_value(name, environment).lower() in ("1", "true", "yes", "on")


def endpoint_from_settings(entry: ModelEntry) -> Endpoint:
    """A server that the user's settings name for one model. It receives the model name after the first slash."""
    prefix = entry.name.partition("/")[0] if "/" in entry.name else ""
    key, version = entry.key_env or "", entry.api_version or ""
    return Endpoint(prefix, entry.base_url or "", entry.protocol or CHAT, key, entry=entry.name, api_version=version)


def _at(endpoint: Endpoint, environment: Mapping[str, str]) -> Endpoint:
    """With the address of the environment, if set. Only OpenAI itself supports all of the newer protocol."""
    url = read_environment_value(endpoint.address, environment)
    if not url or url.rstrip("/") == endpoint.url:
        return endpoint
    return replace(endpoint, url=url, protocol=CHAT, moved=True)


def find_configured_endpoints(
    settings: Settings, environment: Mapping[str, str], models: Iterable[str]
) -> tuple[Endpoint, ...]:
    """All configured endpoints, each once: by a key or an address in the environment, by settings for a model, or by
    one of `models`, which a run would call. Anthropic's own address is not among them."""
    named = [endpoint_of(name, settings, environment) for name in models]
    stored = list_stored_keys(environment)
    by_variable = [
        row
        for row in ENDPOINTS.values()
        if read_environment_value(row.key, environment)
        or read_environment_value(row.address, environment)
        or row.name in stored
    ]
    found = [
        *[_at(row, environment) for row in by_variable],
        *[endpoint_from_settings(entry) for entry in settings.models if entry.base_url],
        *[endpoint for endpoint in named if endpoint is not None and endpoint.protocol != DEMO],
    ]
    once: dict[tuple[str, str], Endpoint] = {}
    for endpoint in found:
        once.setdefault((endpoint.url.rstrip("/"), endpoint.key), endpoint)
    return tuple(once.values())


def key_of(endpoint: Endpoint, environment: Mapping[str, str]) -> str:
    return find_endpoint_key(endpoint, environment).value


def find_endpoint_key(endpoint: Endpoint, environment: Mapping[str, str]) -> ResolvedKey:
    """From its variable, else as it was stored for this provider and this address. Raises `UsageError` for a stored key
    that cannot be used."""
    value = read_environment_value(endpoint.key, environment)
    if value or endpoint.protocol in CLOUDS:
        hold_key(value)
        return ResolvedKey(endpoint.key, value)
    home = home_folder(environment)
    if home is None or not endpoint.name or not os.path.lexists(f"{home}/{CREDENTIALS}"):
        return ResolvedKey(NONE)
    return secrets.Credentials(home).find(endpoint.name, endpoint.url) or ResolvedKey(NONE)


def list_stored_keys(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The providers whose keys `mainspring login` has stored, and where."""
    home = home_folder(environment)
    if home is None or not os.path.lexists(f"{home}/{CREDENTIALS}"):
        return {}
    return secrets.Credentials(home).sources()


def read_environment_value(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name, "").strip() if name else ""


# --- where it is set, for messages ------------------------------------------------------------------------------


def named_by(endpoint: Endpoint) -> str:
    """The setting or variable that configures it."""
    if endpoint.entry:
        return f"models.{endpoint.entry}.base_url"
    return endpoint.address if endpoint.moved else endpoint.key or f"{endpoint.name}/..."


def key_place(endpoint: Endpoint) -> str:
    """Where to set its key."""
    if endpoint.key:
        return endpoint.key
    if endpoint.entry:
        return f"'models.{endpoint.entry}.key_env' in your settings"
    return f"'base_url' and 'key_env' of 'models.{endpoint.name}/NAME' in your settings"


def address_place(endpoint: Endpoint) -> str:
    """Where to set its address."""
    entry = endpoint.entry or f"{endpoint.name}/NAME"
    return endpoint.address or f"'models.{entry}.base_url' in your settings"


NO_SEARCH = {
    CHAT: "the Chat Completions protocol has no web search",
    BEDROCK: "Amazon Bedrock has no web search",
    DEMO: "the demo model has no web search",
}


def explain_missing_endpoint_search(
    model: str, settings: Settings, environment: Mapping[str, str], *, declared: bool
) -> str:
    endpoint = endpoint_of(model, settings, environment)
    assert endpoint is not None, f"'{model}' is not elsewhere"
    if endpoint.protocol in NO_SEARCH:
        return NO_SEARCH[endpoint.protocol]
    if declared or endpoint.protocol == VERTEX or endpoint.url.rstrip("/") == OPENAI_HOME:
        return ""
    return UNDECLARED.format(url=endpoint.url, model=model)


KEYS_NEEDED = ("https://api.openai.com", "https://openrouter.ai", "https://generativelanguage.googleapis.com")


def build_router(
    settings: Settings,
    environment: Mapping[str, str],
    transport: Transport,
    anthropic: Callable[[], Provider],
    patience: RetryLimits,
) -> ProviderRouter:
    made_at = bind_scope(provider_at)  # this session also holds the keys of servers that it calls later

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
        name += f" {endpoint.region} {endpoint.project}"
        return name, lambda: made_at(endpoint, environment, transport, patience)

    return ProviderRouter(find)


def provider_at(
    endpoint: Endpoint, environment: Mapping[str, str], transport: Transport, patience: RetryLimits
) -> Provider:
    if endpoint.protocol == DEMO:
        return providers.DemoModel()
    split_url(endpoint.url)  # raises for an invalid address
    if endpoint.protocol in CLOUDS:
        return agent.make_cloud_provider(endpoint, environment, transport, patience)
    found = find_endpoint_key(endpoint, environment)
    value = found.value
    if not value and endpoint.url.startswith(KEYS_NEEDED):
        login = f"run 'mainspring login {endpoint.name}', or " if endpoint.name in ENDPOINTS else ""
        raise MissingKeyError(f"there is no key for '{endpoint.url}': {login}set {key_place(endpoint)}")
    how: Any = {
        "base_url": endpoint.url,
        "transport": transport,
        "prefix": f"{endpoint.name}/" if endpoint.name else "",
        "patience": patience,
        "ways_out": ways_out(endpoint, found.source),
    }
    if endpoint.protocol == ANTHROPIC:
        return providers.Anthropic(ApiKey(value, refresh=found.refresh), **how)
    key = ApiKey(value, AZURE_KEY if endpoint.api_version else "authorization", found.refresh)
    how["api_version"] = endpoint.api_version
    if endpoint.protocol == RESPONSES:
        return providers.OpenAIResponses(key, **how)
    return providers.OpenAIChat(key, **how)


def without_tools(provider: Provider) -> Provider:
    return ToollessProvider(provider)


def ways_out(endpoint: Endpoint, source: str = "") -> UserRemedies:
    """Remedies that name the variables and settings of this server. `source`: where its key is from."""
    if endpoint.protocol in CLOUDS:
        return agent.cloud_remedies(endpoint)
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
        refused=f"the key in {source} was refused: run 'mainspring login {endpoint.name}' to store another one"
        if source in STORED
        else f"the key was refused: check {key}",
        keyless=f"no key was sent: set {key}",
        unknown=f"check {what} and {place}" if is_set else f"check {what}",
        unreached=unreached,
    )
