"""Which server a model is asked at: by its name, `provider/model`, or by the user's settings for it.

Addresses and keys are the user's: a project cannot send a key elsewhere (security T2), and a key goes to the server
that its name is for and to no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from mainspring.agent.options import StartError
from mainspring.core.value import Bundle
from mainspring.secrets.held import hold_key
from mainspring.settings.values import ModelEntry, Settings

ANTHROPIC, CHAT, RESPONSES = "anthropic", "chat", "responses"  # protocols
OPENAI_HOME = "https://api.openai.com/v1"
AZURE_KEY = "api-key"  # the header that it wants the key in


class Endpoint(Bundle):
    name: str  # also what stands before the model's name, and a slash
    url: str
    protocol: str = CHAT
    key: str = ""  # the variable that holds it; empty: none is needed
    address: str = ""  # a variable that holds another address,
    moved: bool = False  # and whether it does
    start: str = ""  # the command that starts it, where it is one for this machine
    entry: str = ""  # the model whose settings name it
    api_version: str = ""  # it is Azure's


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
    )
}
OF_OPENAI = ("gpt-", "o1", "o3", "o4", "chatgpt-")  # how its models' names begin


def endpoint_of(model: str, settings: Settings, environment: Mapping[str, str]) -> Endpoint | None:
    """None: Anthropic's protocol, at the address that is set for it."""
    entry = next((entry for entry in settings.models if entry.name == model and entry.base_url), None)
    if entry is not None:
        return endpoint_from_settings(entry)
    provider, slash, _ = model.partition("/")
    if not slash:
        return _at(ENDPOINTS["openai"], environment) if model.startswith(OF_OPENAI) else None
    if provider == ANTHROPIC:
        return None
    if provider not in ENDPOINTS:
        known = ", ".join([ANTHROPIC, *ENDPOINTS])
        raise StartError(
            f"'{model}': there is no provider '{provider}'; there are {known}. A server of your own: "
            f"'models.{model}.base_url' in your settings"
        )
    return _at(ENDPOINTS[provider], environment)


def endpoint_from_settings(entry: ModelEntry) -> Endpoint:
    """A server that the user's settings name for one model. It is sent the whole name behind the first slash."""
    prefix = entry.name.partition("/")[0] if "/" in entry.name else ""
    key, version = entry.key_env or "", entry.api_version or ""
    return Endpoint(prefix, entry.base_url or "", entry.protocol or CHAT, key, entry=entry.name, api_version=version)


def _at(endpoint: Endpoint, environment: Mapping[str, str]) -> Endpoint:
    """At the address of the environment, if there is one. Only OpenAI itself has all of the newer protocol."""
    url = read_environment_value(endpoint.address, environment)
    if not url or url.rstrip("/") == endpoint.url:
        return endpoint
    return replace(endpoint, url=url, protocol=CHAT, moved=True)


def find_configured_endpoints(
    settings: Settings, environment: Mapping[str, str], models: Iterable[str]
) -> tuple[Endpoint, ...]:
    """All that somebody has set up, each once: by a key or an address in the environment, by settings for a model, or
    by naming one of the `models` that a run would ask. Anthropic's own address is not among them."""
    named = [endpoint_of(name, settings, environment) for name in models]
    by_variable = [
        row
        for row in ENDPOINTS.values()
        if read_environment_value(row.key, environment) or read_environment_value(row.address, environment)
    ]
    found = [
        *[_at(row, environment) for row in by_variable],
        *[endpoint_from_settings(entry) for entry in settings.models if entry.base_url],
        *[endpoint for endpoint in named if endpoint is not None],
    ]
    once: dict[tuple[str, str], Endpoint] = {}
    for endpoint in found:
        once.setdefault((endpoint.url.rstrip("/"), endpoint.key), endpoint)
    return tuple(once.values())


def key_of(endpoint: Endpoint, environment: Mapping[str, str]) -> str:
    value = read_environment_value(endpoint.key, environment)
    hold_key(value)
    return value


def read_environment_value(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name, "").strip() if name else ""


# --- where it is set, in words ----------------------------------------------------------------------------------


def named_by(endpoint: Endpoint) -> str:
    """What made us know of it."""
    if endpoint.entry:
        return f"models.{endpoint.entry}.base_url"
    return endpoint.address if endpoint.moved else endpoint.key or f"{endpoint.name}/..."


def key_place(endpoint: Endpoint) -> str:
    """Where its key is set, or can be."""
    if endpoint.key:
        return endpoint.key
    if endpoint.entry:
        return f"'models.{endpoint.entry}.key_env' in your settings"
    return f"'base_url' and 'key_env' of 'models.{endpoint.name}/NAME' in your settings"


def address_place(endpoint: Endpoint) -> str:
    """Where its address is set, or can be."""
    entry = endpoint.entry or f"{endpoint.name}/NAME"
    return endpoint.address or f"'models.{entry}.base_url' in your settings"
