"""`mainspring login` and `mainspring logout`: store or remove the key of a provider, line by line. `--plain` without a
key asks in the same way.

    mainspring login                        choose a provider, and paste its key
    mainspring login openai --key-stdin     read the key from standard input, for scripts
    mainspring login ollama --model NAME    use a server that needs no key
    mainspring login --status               print where each key comes from

A key is never an argument: other users see those. It is read without an echo, checked, and then stored.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from getpass import getpass
from types import MappingProxyType

from msgspec.structs import replace

from mainspring.agent.clouds import PROJECTS, REGIONS
from mainspring.agent.endpoints import ANTHROPIC, DEMO, DEMO_MODEL, ENDPOINTS, VERTEX, read_environment_value
from mainspring.agent.options import StartError
from mainspring.cli.main import is_interactive
from mainspring.cli.provider_setup import (
    AZURE,
    BY_NAME,
    CLOUD_MODELS,
    EXTRAS,
    LOCAL,
    LOCAL_SERVERS,
    OPTIONS,
    CheckResult,
    Environment,
    ProviderChoice,
    ProviderState,
    check_choice,
    check_local_server,
    check_network,
    describe_key_store,
    describe_models,
    describe_stored,
    explain_missing_extra,
    find_local_servers,
    find_url,
    list_key_sources,
    require_home,
    store_choice,
    store_network,
    title_of,
)
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import UsageError
from mainspring.processes.own_process import harden_process
from mainspring.secrets.credentials import Credentials
from mainspring.secrets.sources import LONGEST, validate_key
from mainspring.settings.load import load_settings
from mainspring.text import closest_name, strip_control_characters

KNOWN = (*BY_NAME, *LOCAL_SERVERS, LOCAL)
SCRIPTED = "in a script, name the provider and use '--key-stdin': mainspring login anthropic --key-stdin < FILE"
MOST_LISTED = 30  # models
NOTHING: Mapping[str, str] = MappingProxyType({})


def login(args: Namespace) -> int:
    harden_process()  # before a key is read
    environment = {**os.environ, **load_settings("/", os.environ).own_env}
    if args.status:
        for line in format_key_sources(environment):
            print(line)
        return 0
    provider = find_provider(args.provider) if args.provider else ""
    if args.url and provider in ("openrouter", "gemini"):
        raise StartError(f"'{provider}' has one address: for another server, run 'mainspring login local --url URL'")
    if not args.key_stdin and not is_interactive() and args.provider not in (*LOCAL_SERVERS, LOCAL):
        raise StartError(f"'mainspring login' asks for the key in a terminal; {SCRIPTED}")
    provider = provider or ask_provider(environment)
    choice = asyncio.run(complete_choice(provider, args, environment))
    stored = store_choice(choice, environment)
    print(strip_control_characters(describe_stored(choice, stored)))
    shadows = [name for name, source in list_key_sources(environment) if name == provider and source.isupper()]
    if choice.key and shadows:
        print(f"The environment has a key for it, too ({BY_NAME[provider].variable}), which takes precedence.")
    return 0


def logout(args: Namespace) -> int:
    environment = {**os.environ, **load_settings("/", os.environ).own_env}
    credentials = Credentials(require_home(environment))
    names = [args.provider] if args.provider else list(credentials.sources())
    if not names:
        print("No key is stored.")
    for name in names:
        print(remove_key(name, credentials))
    for name, source in list_key_sources(environment):
        if source.isupper() and (not args.provider or name == args.provider):
            print(f"{title_of(name)} still has a key in {source}, which only your shell can unset.")
    return 0


def remove_key(provider: str, credentials: Credentials) -> str:
    """Returns the line that says so."""
    source = credentials.remove(provider)
    if not source:
        return f"No key is stored for '{strip_control_characters(provider)}'."
    return f"Removed the key for {title_of(provider)} from {'the keyring' if source == 'keyring' else source}."


def format_key_sources(environment: Environment) -> list[str]:
    found = list_key_sources(environment)
    return [f"{name:<12}{source}" for name, source in found] or ["No keys. Run 'mainspring login' to store one."]


def find_provider(name: str) -> str:
    if name not in KNOWN:
        near = closest_name(name, KNOWN)
        hint = f". Did you mean '{near}'?" if near else f": use one of {', '.join(KNOWN)}"
        raise StartError(f"there is no provider '{name}'{hint}")
    return name


def ask_provider(environment: Environment, more: Mapping[str, str] = NOTHING) -> str:
    """`more`: other choices, by name."""
    print("Looking for model servers on this machine…", flush=True)
    local = asyncio.run(find_local_servers(environment))
    names = [*[server.endpoint.name for server in local], *[option.name for option in OPTIONS], LOCAL, *more]
    labels = [f"{title_of(one.endpoint.name)} on this machine: {describe_models(one)}" for one in local]
    labels += [f"{option.title}: {option.about}" for option in OPTIONS]
    return names[ask_number("Provider", [*labels, "Another server, by its address", *more.values()])]


WELCOME = """\
Welcome to mainspring. To start, connect a model. You can change this at any time with 'mainspring login'.
Type the number of your choice, then Enter. Ctrl-D leaves."""
NETWORK = "network"
FIRST_CHOICES = {
    DEMO: "Demo model: scripted and offline, to look around without a key",
    NETWORK: "Proxy or company certificate, if you reach the internet through one",
}
LEFT = "No model is set up. Run 'mainspring' again when you have a key."


def set_up_first_model(environment: Environment) -> str | None:
    """For a conversation in `--plain`, which has no key: the choices of the start screen as numbered lines, until one
    works. Returns the model of this session, empty: as the settings say now; None: the user left."""
    print(WELCOME)
    while True:
        try:
            provider = ask_provider(environment, FIRST_CHOICES)
            if provider == DEMO:
                print("This is the demo model: scripted and offline. 'mainspring login' connects a real one.")
                return DEMO_MODEL
            if provider == NETWORK:
                environment = {**environment, **ask_network(environment)}
                continue
            choice = asyncio.run(complete_choice(provider, Namespace(model="", url="", key_stdin=False), environment))
            print(strip_control_characters(describe_stored(choice, store_choice(choice, environment))))
            return choice.model
        except InputEndedError:
            print(f"\n{LEFT}")
            return None
        except (StartError, UsageError, OSError) as error:  # a refused key, a server that is down
            print(f"Not set up: {strip_control_characters(str(error)).rstrip('.')}.\n")


def ask_network(environment: Environment) -> dict[str, str]:
    """Returns the variables that are set from now on. Raises `StartError` for values that cannot be used."""
    proxy = ask_line("Proxy, such as http://proxy.example:8080 (empty: none): ")
    certificate = ask_line("PEM file with your company's certificate authority (empty: none): ")
    if trouble := check_network(proxy, certificate):
        raise StartError(trouble.rstrip("."))
    changed = store_network(proxy, certificate, environment)
    if changed:
        print(f"Stored in your settings: {', '.join(changed)}.")
    return changed


class InputEndedError(StartError):
    """Ctrl-D instead of an answer."""


def ask_number(what: str, labels: Sequence[str]) -> int:
    for number, label in enumerate(labels, 1):
        print(f"  {number}. {strip_control_characters(label)}")
    while True:
        said = ask_line(f"{what} (1-{len(labels)}): ")
        if said.isdecimal() and 1 <= int(said) <= len(labels):
            return int(said) - 1
        print(f"Type a number from 1 to {len(labels)}.")


def ask_line(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except EOFError:
        raise InputEndedError("nothing was stored: the input has ended") from None


def read_key(provider: str, home: str, *, from_stdin: bool) -> str:
    if from_stdin:
        return validate_key(sys.stdin.read(LONGEST + 2), "what standard input has")
    option = BY_NAME.get(provider)
    if option is not None and option.keys_at:
        print(f"Create a key at {option.keys_at}. It is checked, and then stored in {describe_key_store(home)}.")
    try:
        return validate_key(getpass(f"API key for {title_of(provider)} (not shown): "), "this text")
    except EOFError:
        raise InputEndedError("nothing was stored: the input has ended") from None


async def complete_choice(provider: str, args: Namespace, environment: Environment) -> ProviderChoice:
    """Asks for what is missing, and checks the choice. Raises `StartError` for one that does not work."""
    model: str = args.model or ""
    if model and provider != ANTHROPIC and not model.startswith(f"{provider}/"):
        model = f"{provider}/{model}"
    url: str = args.url or find_url(provider, environment)
    if provider in EXTRAS:
        return await complete_cloud(provider, model, environment)
    if provider in LOCAL_SERVERS:
        checked = await check_local_server(replace(ENDPOINTS[provider], url=url), environment)
        return pick_model(ProviderChoice(provider, url, model=model), require_fine(checked))
    url = url or ask_or_require("Address of the server", "--url URL")
    choice = ProviderChoice(provider, url.rstrip("/"), model=model)
    if provider == AZURE and not model:
        choice = replace(choice, model=f"{AZURE}/{ask_or_require('Name of your deployment', '--model NAME')}")
    if provider != LOCAL or args.key_stdin:
        choice = replace(choice, key=read_key(provider, require_home(environment), from_stdin=args.key_stdin))
    checked = await check_choice(choice, environment)
    if provider == LOCAL and checked.state is ProviderState.KEYLESS and is_interactive():
        choice = replace(choice, key=read_key(provider, require_home(environment), from_stdin=False))
        checked = await check_choice(choice, environment)
    found = require_fine(checked)
    return choice if provider in (ANTHROPIC, AZURE) else pick_model(choice, found)


async def complete_cloud(provider: str, model: str, environment: Environment) -> ProviderChoice:
    if missing := explain_missing_extra(provider):
        raise StartError(missing)
    region = first_of(REGIONS[provider], environment) or ask_or_require("Region", f"{REGIONS[provider][0]}")
    project = ""
    if provider == VERTEX:
        project = first_of(PROJECTS, environment) or ask_or_require("Project", PROJECTS[0])
    if not model and is_interactive():
        said = ask_line(f"Model [{CLOUD_MODELS[provider]}]: ")
        model = f"{provider}/{said}" if said else ""
    choice = ProviderChoice(
        provider, model=model or f"{provider}/{CLOUD_MODELS[provider]}", region=region, project=project
    )
    require_fine(await check_choice(choice, environment))
    return choice


def first_of(names: Sequence[str], environment: Environment) -> str:
    return next((value for name in names if (value := read_environment_value(name, environment))), "")


def ask_or_require(what: str, instead: str) -> str:
    said = ask_line(f"{what}: ") if is_interactive() else ""
    if not said:
        raise StartError(f"{what[0].lower()}{what[1:]} is missing: give it with '{instead}'")
    return said


def require_fine(checked: CheckResult) -> CheckResult:
    if checked.state is not ProviderState.FINE:
        raise StartError(f"nothing was stored. {strip_control_characters(checked.words).rstrip('.')}")
    return checked


def pick_model(choice: ProviderChoice, checked: CheckResult) -> ProviderChoice:
    """The named model, the only one, or the user's choice. In a script, no model: the settings keep theirs."""
    if choice.model:
        if checked.models and choice.model not in checked.models:
            near = closest_name(choice.model, checked.models)
            hint = f": did you mean '{near}'?" if near else ""
            raise StartError(f"nothing was stored. {title_of(choice.provider)} does not offer '{choice.model}'{hint}")
        return choice
    if len(checked.models) == 1:
        return replace(choice, model=checked.models[0])
    if not is_interactive() or not checked.models:
        if not choice.key:
            raise StartError(f"nothing was stored. Name one of its {len(checked.models)} models with '--model NAME'")
        return choice
    shown = checked.models[:MOST_LISTED]
    if len(checked.models) > len(shown):
        print(f"The first {len(shown)} of {len(checked.models)} models; '--model NAME' names any other:")
    return replace(choice, model=shown[ask_number("Model for new sessions", shown)])
