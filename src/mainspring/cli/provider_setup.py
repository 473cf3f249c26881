"""Setting up a model provider: which ones there are, a check of the choice, and what is stored of it.

The start screen, `/login` and `mainspring login` ask in their own ways, and meet here. A choice is checked with a small
request, which is free where the provider has a free one, before anything is stored. The key goes to `Credentials`; the
model, addresses, regions, the proxy and certificates go to the user's settings.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from enum import StrEnum

from msgspec.structs import replace

from mainspring import cli, providers
from mainspring.agent.clouds import PROJECTS, REGIONS, find_cloud_endpoint, make_cloud_provider
from mainspring.agent.endpoints import (
    ANTHROPIC,
    AZURE_KEY,
    BEDROCK,
    CHAT,
    ENDPOINTS,
    VERTEX,
    Endpoint,
    read_environment_value,
)
from mainspring.agent.options import StartError
from mainspring.cli.commands.models import (
    KEYLESS,
    ModelEndpoint,
    OfferedModels,
    fetch_offered_models,
    make_version_headers,
    models_url,
)
from mainspring.core.effects import Request
from mainspring.core.errors import MainspringError, ProviderError, UsageError
from mainspring.core.history import History
from mainspring.core.messages import Text, User
from mainspring.core.models import MODELS
from mainspring.core.reasons import Trouble
from mainspring.core.value import Bundle
from mainspring.providers.base import Conversation
from mainspring.providers.http.proxy import is_local, split_url
from mainspring.providers.retry import PATIENCE, RetryProfile
from mainspring.secrets.credentials import Credentials, is_same_server
from mainspring.secrets.keyring_store import KEYRING, open_keyring
from mainspring.secrets.sources import ANTHROPIC_HOME, CREDENTIALS, validate_key
from mainspring.settings.edit import ValueChange, write_change
from mainspring.settings.load import SettingsPaths, home_folder, load_settings
from mainspring.settings.values import SettingsSource, SettingsWriteError
from mainspring.text import describe_error, plural, strip_control_characters

Environment = dict[str, str]
LOCAL, AZURE = "local", "azure"
LOCAL_SERVERS = ("ollama", "lmstudio", "vllm", "llamacpp")
SECONDS, LOCAL_SECONDS = 20.0, 1.5  # for a check; a server on this machine answers in milliseconds
AZURE_VERSION = "2025-04-01-preview"
AZURE_VARIABLE = "AZURE_OPENAI_API_KEY"
PROXY, CERTIFICATE = "HTTPS_PROXY", "NODE_EXTRA_CA_CERTS"  # the second adds to the system's certificates
EXTRAS = {BEDROCK: "bedrock", VERTEX: "vertex"}
CLOUD_MODELS = {BEDROCK: "us.anthropic.claude-sonnet-4-5-20250929-v1:0", VERTEX: "claude-sonnet-4-5@20250929"}
CLOUD_LOGINS = {BEDROCK: "aws sso login", VERTEX: "gcloud auth application-default login"}


class ProviderOption(Bundle):
    """A provider as it is offered."""

    name: str
    title: str
    about: str
    url: str = ""  # empty: the user has to give it
    variable: str = ""  # the one with the key
    keys_at: str = ""  # where to get a key
    prefixes: tuple[str, ...] = ()  # how its keys begin


OPTIONS = (
    ProviderOption(
        ANTHROPIC,
        "Anthropic",
        "Claude models",
        ANTHROPIC_HOME,
        "ANTHROPIC_API_KEY",
        "console.anthropic.com",
        ("sk-ant-",),
    ),
    ProviderOption(
        "openai",
        "OpenAI",
        "GPT models",
        ENDPOINTS["openai"].url,
        "OPENAI_API_KEY",
        "platform.openai.com",
        ("sk-proj-", "sk-svcacct-"),
    ),
    ProviderOption(
        "openrouter",
        "OpenRouter",
        "models of many makers with one key",
        ENDPOINTS["openrouter"].url,
        "OPENROUTER_API_KEY",
        "openrouter.ai/keys",
        ("sk-or-",),
    ),
    ProviderOption(
        "gemini",
        "Google Gemini",
        "Gemini models",
        ENDPOINTS["gemini"].url,
        "GEMINI_API_KEY",
        "aistudio.google.com",
        ("AIza",),
    ),
    ProviderOption(AZURE, "Azure OpenAI", "your deployment of an OpenAI model", "", AZURE_VARIABLE, "portal.azure.com"),
    ProviderOption(BEDROCK, "Amazon Bedrock", "Claude models with your AWS credentials"),
    ProviderOption(VERTEX, "Google Vertex AI", "Claude models with your Google Cloud credentials"),
)
BY_NAME = {option.name: option for option in OPTIONS}


class ProviderChoice(Bundle):
    """What the user chose, complete enough to check it."""

    provider: str
    url: str = ""
    key: str = ""
    model: str = ""  # the whole name; empty: the provider's default
    region: str = ""
    project: str = ""

    def __repr__(self) -> str:
        return f"ProviderChoice({self.provider!r}, {self.url!r}, {self.model!r})"  # shown in tracebacks


class ProviderState(StrEnum):
    FINE = "fine"
    REFUSED = "refused"  # the key
    KEYLESS = "keyless"  # the server needs a key
    UNREACHED = "unreached"
    WRONG = "wrong"  # something answers, and is no model server


class CheckResult(Bundle):
    state: ProviderState
    words: str = ""  # what failed, and what to do
    models: tuple[str, ...] = ()  # that the provider offers, with its prefix


class LocalServer(Bundle):
    endpoint: Endpoint
    models: tuple[str, ...]  # with its prefix


class StoredChoice(Bundle):
    """Which values were stored, and where."""

    key_source: str = ""  # empty: there is no key
    settings_file: str = ""
    overridden: str = ""  # what wins over the stored model; empty: nothing does


TITLES = {"ollama": "Ollama", "lmstudio": "LM Studio", "vllm": "vLLM", "llamacpp": "llama.cpp", LOCAL: "The server"}


def title_of(provider: str) -> str:
    return BY_NAME[provider].title if provider in BY_NAME else TITLES.get(provider, provider)


def recognize_key(key: str) -> str:
    """The provider of a pasted key, by how it begins; empty: unknown."""
    found = [option.name for option in OPTIONS if key.strip().startswith(option.prefixes or ("\0",))]
    return found[0] if found else ""


def describe_key_store(home: str) -> str:
    """Where a key would be stored."""
    if open_keyring() is not None:
        return "your system's keyring"
    return f"'{home}/{CREDENTIALS}', which only you can read"


# --- local servers ------------------------------------------------------------------------------------------------


async def find_local_servers(environment: Environment) -> tuple[LocalServer, ...]:
    """Model servers that answer at their usual addresses on this machine."""
    rows = [ENDPOINTS[name] for name in LOCAL_SERVERS]
    if other := read_environment_value("OLLAMA_BASE_URL", environment):
        rows[0] = replace(rows[0], url=other)
    found = await asyncio.gather(*[check_local_server(row, environment) for row in rows])
    return tuple([LocalServer(row, one.models) for row, one in zip(rows, found, strict=True) if one.models])


def describe_models(server: LocalServer) -> str:
    return f"{server.endpoint.url.partition('://')[2]}, {plural(len(server.models), 'model')}, no key needed"


async def check_local_server(endpoint: Endpoint, environment: Environment) -> CheckResult:
    offer = await fetch_offered_models(cli.server_at(endpoint, environment), environment, LOCAL_SECONDS)
    return judge_offer(offer, endpoint.name, endpoint.url, endpoint.name)


# --- checks -------------------------------------------------------------------------------------------------------


async def check_choice(choice: ProviderChoice, environment: Environment) -> CheckResult:
    """Asks the provider for its list of models, which is free; a cloud for one token. Never raises for a bad choice."""
    try:
        if choice.provider in EXTRAS:
            return await check_cloud(choice, environment)
        if choice.key:
            validate_key(choice.key, "this text")
        server = make_server(choice)
        if choice.provider == "openrouter":  # its list of models is public, so it says nothing about the key
            own = replace(server, url=f"{choice.url.rstrip('/')}/key")
            refusal = judge_offer(await fetch_offered_models(own, environment, SECONDS), "", choice.url, "openrouter")
            if refusal.state in (ProviderState.REFUSED, ProviderState.KEYLESS, ProviderState.UNREACHED):
                return refusal
        offer = await fetch_offered_models(server, environment, SECONDS)
    except UsageError as error:
        return CheckResult(ProviderState.WRONG, f"{error}.")
    prefix = "" if choice.provider == ANTHROPIC else choice.provider
    return judge_offer(offer, prefix, choice.url, choice.provider)


def make_server(choice: ProviderChoice) -> ModelEndpoint:
    """Raises `UsageError` for an invalid address."""
    split_url(choice.url)
    if choice.provider == ANTHROPIC:
        key = providers.ApiKey(choice.key)
        return ModelEndpoint("", models_url(choice.url), key, make_version_headers())
    version = AZURE_VERSION if choice.provider == AZURE else ""
    endpoint = Endpoint(choice.provider, choice.url, CHAT, api_version=version)
    found = cli.server_at(endpoint, {})
    header = AZURE_KEY if version else "authorization"
    return replace(found, key=providers.ApiKey(choice.key, header))


def judge_offer(offer: OfferedModels, prefix: str, url: str, provider: str) -> CheckResult:
    title = title_of(provider)
    if not offer.status:
        detail = offer.error.removeprefix("no answer: ").rstrip(".")
        hint = "Is the server running?" if is_near(url) else (
            "Check your connection. Behind a company proxy, set the proxy or its certificate first."
        )  # fmt: skip
        return CheckResult(ProviderState.UNREACHED, f"Cannot reach '{url}': {detail}. {hint}")
    if offer.status in (401, 403) and offer.error.endswith(KEYLESS):
        return CheckResult(ProviderState.KEYLESS, f"'{url}' wants a key ({offer.status}), and none was given.")
    if offer.status in (401, 403):
        option = BY_NAME.get(provider)
        where = f", or create a new one at {option.keys_at}" if option is not None and option.keys_at else ""
        return CheckResult(
            ProviderState.REFUSED, f"{title} refused this key ({offer.status}). Check that you copied all of it{where}."
        )
    if offer.status != 200 or (offer.error and prefix):  # HTTP
        return CheckResult(
            ProviderState.WRONG,
            f"'{url}' answers, but not as a model server ({offer.status}). Check the address: it often ends with '/v1'",
        )
    names = [name for name, _ in offer.models]
    return CheckResult(ProviderState.FINE, models=tuple([join_model_name(prefix, name) for name in sort_models(names)]))


def is_near(url: str) -> bool:
    try:
        return is_local(split_url(url)[0].host)
    except UsageError:
        return False


def sort_models(names: Sequence[str]) -> list[str]:
    """Those of our table first, in its order: they have a known window and price."""
    known = [name for name in MODELS if name in names or f"openai/{name}" in names]
    return [*known, *[name for name in names if name not in known]]


def join_model_name(prefix: str, name: str) -> str:
    name = name.removeprefix("models/") if prefix == "gemini" else name
    return f"{prefix}/{name}" if prefix else name


IMPATIENT = replace(PATIENCE[RetryProfile.FOREGROUND], tries=1, overload_tries=1, near_tries=1)
PROBE = Request(model="", max_output=16, turn=1, source="main", chain="", depth=0, overload_tries=1)


async def check_cloud(choice: ProviderChoice, environment: Environment) -> CheckResult:
    """Looks the credentials up and asks for a few tokens: the clouds have no free request that tests the model."""
    merged = environment | dict(cloud_variables(choice))
    transport = providers.Transport(environ=merged)
    try:
        async with asyncio.timeout(3 * SECONDS):
            endpoint = find_cloud_endpoint(choice.provider, choice.model, merged)
            provider = make_cloud_provider(endpoint, merged, transport, IMPATIENT)
            request = replace(PROBE, model=choice.model)
            shown = Conversation(History((User((Text("Hi"),)),)))
            async for _ in provider.stream(request, shown):
                break
    except StartError as error:  # no region, no project, or the package is not installed
        return CheckResult(ProviderState.WRONG, f"{error}.")
    except ProviderError as error:
        state = ProviderState.REFUSED if error.failure.kind is Trouble.AUTH else ProviderState.UNREACHED
        login = f" To sign in: {CLOUD_LOGINS[choice.provider]}." if state is ProviderState.REFUSED else ""
        return CheckResult(state, f"{strip_control_characters(error.failure.detail).rstrip('.')}.{login}")
    except TimeoutError:
        return CheckResult(ProviderState.UNREACHED, f"No answer within {3 * SECONDS:.0f} seconds.")
    except (MainspringError, OSError) as error:
        return CheckResult(ProviderState.WRONG, f"{strip_control_characters(str(error)).rstrip('.')}.")
    finally:
        await transport.close()
    return CheckResult(ProviderState.FINE, models=(choice.model,))


def cloud_variables(choice: ProviderChoice) -> list[tuple[str, str]]:
    found = [(REGIONS[choice.provider][0], choice.region)]
    return found if choice.provider == BEDROCK else [*found, (PROJECTS[0], choice.project)]


def explain_missing_extra(provider: str) -> str:
    """How to install the package that a cloud needs; empty: it is installed."""
    is_there = providers.is_botocore_installed() if provider == BEDROCK else providers.is_google_auth_installed()
    package = "botocore" if provider == BEDROCK else "google-auth"
    return "" if is_there else f"{title_of(provider)} needs the package '{package}': {INSTALL.format(EXTRAS[provider])}"


INSTALL = "pip install 'mainspring[{}]'"


# --- the proxy and certificates -----------------------------------------------------------------------------------


def check_network(proxy: str, certificate: str) -> str:
    """Why they cannot be used; empty: they can. Both may be empty."""
    import ssl

    if proxy:
        try:
            scheme, _, rest = (proxy if "://" in proxy else f"http://{proxy}").partition("://")
            split_url(f"{scheme}://{rest.rpartition('@')[2]}")  # a proxy may have a user and a password
        except UsageError as error:
            return f"The proxy cannot be used: {error}."
    if certificate:
        path = os.path.expanduser(certificate)  # noqa: PTH111  # 8 ms
        try:
            ssl.create_default_context().load_verify_locations(path)
        except (OSError, ssl.SSLError) as error:
            return f"'{certificate}' cannot be used as a certificate: {error.strerror or error}. It must be a PEM file."
    return ""


def store_network(proxy: str, certificate: str, environment: Environment) -> dict[str, str]:
    """Returns the variables that are set from now on. Raises `StartError`."""
    path = os.path.expanduser(certificate) if certificate else ""  # noqa: PTH111
    given = {PROXY: proxy, CERTIFICATE: os.path.abspath(path) if path else ""}  # noqa: PTH100
    changed = {name: value for name, value in given.items() if value}
    for name, value in changed.items():
        write_setting(("env", name), value, environment)
    return changed


# --- storing ------------------------------------------------------------------------------------------------------


def store_choice(choice: ProviderChoice, environment: Environment) -> StoredChoice:
    """Stores the key and the settings, so that the next start uses them. Raises `StartError` and `UsageError`."""
    home = require_home(environment)
    source = Credentials(home).store(choice.provider, choice.url, choice.key) if choice.key else ""
    if choice.provider in EXTRAS:
        for name, value in cloud_variables(choice):
            write_setting(("env", name), value, environment)
    if choice.provider == AZURE:
        entry = {"base_url": choice.url, "api_version": AZURE_VERSION, "key_env": AZURE_VARIABLE}
        write_setting(("models", choice.model), entry, environment)
    elif choice.provider == LOCAL:
        write_setting(("models", choice.model), {"base_url": choice.url}, environment)
    elif (keys := find_address_setting(choice, environment)) is not None:
        write_setting(keys, choice.url, environment)
    file, overridden = "", ""
    wanted = choice.model or "default"
    if choice.model or stored_model(environment) not in ("", "default"):
        file = write_setting(("model",), wanted, environment)
        overridden = find_override(wanted, environment)
    return StoredChoice(source, file, overridden)


ADDRESS_SETTINGS = {
    ANTHROPIC: ("api", "baseUrl"),
    "openai": ("env", "OPENAI_BASE_URL"),
    "ollama": ("env", "OLLAMA_BASE_URL"),
}


def find_address_setting(choice: ProviderChoice, environment: Environment) -> tuple[str, ...] | None:
    """The setting that makes sessions use the chosen address. None: they do already."""
    keys = ADDRESS_SETTINGS.get(choice.provider)
    if keys is None:
        return None
    option = BY_NAME.get(choice.provider)
    usual = option.url if option is not None else ENDPOINTS[choice.provider].url
    if choice.provider == ANTHROPIC:
        current = load_settings("/", environment).api.base_url  # the variable counts there, too
    else:
        current = read_environment_value(keys[-1], environment)
    return None if is_same_server(current or usual, choice.url) else keys


def find_url(provider: str, environment: Environment) -> str:
    """Where the key of a provider goes: the address that is set, else its own. Empty: the user has to say it."""
    if provider == ANTHROPIC:
        return load_settings("/", environment).api.base_url or ANTHROPIC_HOME
    if provider in ENDPOINTS:
        row = ENDPOINTS[provider]
        return read_environment_value(row.address, environment) or row.url
    return ""


def require_home(environment: Environment) -> str:
    home = home_folder(environment)
    if home is None:
        raise StartError("no home folder to store your choice in: set MAINSPRING_HOME")
    return home


def stored_model(environment: Environment) -> str:
    """In the user's settings. Empty: none."""
    return load_settings("/", environment).model or ""


def find_override(model: str, environment: Environment) -> str:
    """What sets another model in this folder than the one that was just stored; empty: nothing."""
    settings = load_settings(os.getcwd(), environment)  # noqa: PTH109  # 8 ms
    if settings.model in (model, None):
        return ""
    return next((one.origin.place for one in settings.effective if one.name == "model"), "")


def write_setting(keys: tuple[str, ...], value: object, environment: Environment) -> str:
    """Sets a value in the user's settings. Returns the file. Raises `StartError`."""
    places = SettingsPaths(require_home(environment), "/", ())
    try:
        report = write_change(places, SettingsSource.USER, ValueChange(keys, value))
    except (SettingsWriteError, OSError) as error:
        raise StartError(f"cannot store '{'.'.join(keys)}' in your settings: {describe_error(error)}") from None
    return report.files[0] if report.files else f"{places.home}/settings.json"


def describe_stored(choice: ProviderChoice, stored: StoredChoice) -> str:
    """One line for the user. Never a character of the key."""
    where = {KEYRING: "your system's keyring", CREDENTIALS: CREDENTIALS}.get(stored.key_source, "")
    key = f" The key is in {where}." if where else ""
    model = f" Model: {choice.model}." if choice.model else ""
    other = f" Another model is set by {stored.overridden}, which takes precedence." if stored.overridden else ""
    return f"{title_of(choice.provider)} is set up.{model}{key}{other}"


# --- what is set --------------------------------------------------------------------------------------------------


def list_key_sources(environment: Environment) -> list[tuple[str, str]]:
    """Each provider with a key, and where the key comes from: the environment first, as at a start."""
    home = home_folder(environment)
    stored = Credentials(home).sources() if home is not None else {}
    found: dict[str, str] = {}
    for option in OPTIONS:
        names = (option.variable, "ANTHROPIC_AUTH_TOKEN") if option.name == ANTHROPIC else (option.variable,)
        source = next((name for name in names if read_environment_value(name, environment)), "")
        if source or option.name in stored:
            found[option.name] = source or stored[option.name]
    return [*found.items(), *[(name, source) for name, source in stored.items() if name not in found]]
