"""Which server a model is asked at: by its name, `provider/model`, or by the user's settings for it.

Addresses and keys are the user's: a project cannot send a key elsewhere (T2), and a key goes to the server that its
name is for and to no other.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.cli.flags import StartError
from mainspring.core.value import Bundle
from mainspring.secrets.held import hold_key
from mainspring.settings.values import ModelEntry, Settings

ANTHROPIC, CHAT, RESPONSES = "anthropic", "chat", "responses"  # protocols
OPENAI_HOME = "https://api.openai.com/v1"


class Endpoint(Bundle):
    name: str  # also what stands before the model's name, and a slash
    url: str
    protocol: str = CHAT
    key: str = ""  # the variable that holds it; empty: none is needed
    address: str = ""  # a variable that holds another address


ENDPOINTS = {
    row.name: row
    for row in (
        Endpoint("openai", OPENAI_HOME, RESPONSES, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        Endpoint("openrouter", "https://openrouter.ai/api/v1", key="OPENROUTER_API_KEY"),
        Endpoint("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", key="GEMINI_API_KEY"),
        Endpoint("ollama", "http://localhost:11434", address="OLLAMA_BASE_URL"),
        Endpoint("lmstudio", "http://localhost:1234"),
        Endpoint("vllm", "http://localhost:8000"),
        Endpoint("llamacpp", "http://localhost:8080"),
    )
}
OF_OPENAI = ("gpt-", "o1", "o3", "o4", "chatgpt-")  # how its models' names begin


def endpoint_of(model: str, settings: Settings, environment: Mapping[str, str]) -> Endpoint | None:
    """None: Anthropic's protocol, at the address that is set for it."""
    entry = next((entry for entry in settings.models if entry.name == model and entry.base_url), None)
    if entry is not None:
        return own(entry)
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


def own(entry: ModelEntry) -> Endpoint:
    """A server that the user's settings name for one model. It is sent the whole name behind the first slash."""
    prefix = entry.name.partition("/")[0] if "/" in entry.name else ""
    return Endpoint(prefix, entry.base_url or "", entry.protocol or CHAT, entry.key_env or "")


def _at(endpoint: Endpoint, environment: Mapping[str, str]) -> Endpoint:
    """At the address of the environment, if there is one. Only OpenAI itself has all of the newer protocol."""
    url = environment.get(endpoint.address, "").strip() if endpoint.address else ""
    if not url or url.rstrip("/") == endpoint.url:
        return endpoint
    return Endpoint(endpoint.name, url, CHAT, endpoint.key)


def key_of(endpoint: Endpoint, environment: Mapping[str, str]) -> str:
    value = environment.get(endpoint.key, "").strip() if endpoint.key else ""
    hold_key(value)
    return value
