"""`mainspring doctor`: check the installation and say how to fix each problem.

    mainspring doctor             check the machine, settings, API key and sandbox; sends nothing over the network
    mainspring doctor --online    also check that the servers answer and accept their keys; free of charge
    mainspring doctor --json      print one object, for programs

Exit code 0 without problems, else 1. The local checks are in `doctor_checks.py`; the checks of model servers are here:
whether each has its key, and with `--online` whether it answers. Anthropic's server is asked to count the tokens of one
word, the others for their lists of models.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from textwrap import fill
from typing import TYPE_CHECKING

import msgspec

from mainspring import cli, providers
from mainspring.agent.config import settings_of
from mainspring.agent.endpoints import (
    CLOUDS,
    KEYS_NEEDED,
    Endpoint,
    address_place,
    endpoint_of,
    find_configured_endpoints,
    key_of,
    key_place,
)
from mainspring.agent.endpoints import ways_out as ways_out_at
from mainspring.agent.model import ways_out
from mainspring.agent.options import SessionOptions, StartError
from mainspring.cli.commands.doctor_checks import (
    CHECKS,
    CheckState,
    DoctorContext,
    Finding,
    Findings,
    asked_models,
    is_asked_here,
    wanted_key,
)
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import MainspringError, ProviderError, UsageError
from mainspring.core.reasons import Trouble
from mainspring.secrets.redaction import redact
from mainspring.secrets.sources import find_key, headers_of
from mainspring.settings.load import home_folder
from mainspring.settings.values import Settings
from mainspring.text import plural, strip_control_characters
from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.cli.commands.models import OfferedModels
    from mainspring.providers.http.client import Transport


SECONDS = 20.0  # for the server to answer a small request


def check_endpoints(here: DoctorContext) -> Findings:
    """Every configured server except Anthropic's: its address and the source of its key. Sends no request."""
    for name in asked_models(here):
        if trouble := explain_unknown_model(name, here):
            words, _, way_out = trouble.partition("; ")
            yield Finding("server", CheckState.PROBLEM, words, way_out)
    for endpoint in list_known_endpoints(here):
        yield set_up(endpoint, here)


def explain_unknown_model(model: str, here: DoctorContext) -> str:
    """Why no server is known for the model; empty if there is one."""
    try:
        endpoint_of(model, here.settings, here.environ)
    except StartError as error:
        return str(error)
    return ""


def list_known_endpoints(here: DoctorContext) -> tuple[Endpoint, ...]:
    return find_configured_endpoints(here.settings, here.environ, list_known_models(here))


def list_known_models(here: DoctorContext) -> list[str]:
    return [name for name in asked_models(here) if not explain_unknown_model(name, here)]


def set_up(endpoint: Endpoint, here: DoctorContext) -> Finding:
    name = f"'{endpoint.entry or endpoint.name}' at '{endpoint.url}'"
    try:
        providers.split_url(endpoint.url)
    except UsageError as error:
        return Finding("server", CheckState.PROBLEM, f"{name}: {error}", f"correct {address_place(endpoint)}")
    if endpoint.protocol in CLOUDS and not key_of(endpoint, here.environ):
        return Finding("server", CheckState.OK, f"{name}: credentials from the cloud's own chain (not checked)")
    if key_of(endpoint, here.environ):
        return Finding("server", CheckState.OK, f"{name}: API key from {endpoint.key}")
    wanted = endpoint.key and (endpoint.entry or endpoint.url.startswith(KEYS_NEEDED))
    if wanted:
        return Finding("server", CheckState.PROBLEM, f"{name}: no API key", f"set {key_place(endpoint)}")
    return Finding("server", CheckState.OK, f"{name}: no API key (may not need one)")


# --- online -------------------------------------------------------------------------------------------------------


def check_online(here: DoctorContext) -> Iterator[Finding]:
    if is_asked_here(here):
        yield asyncio.run(check_anthropic(here))
    known = [endpoint for endpoint in list_known_endpoints(here) if endpoint.protocol not in CLOUDS]
    found = [endpoint for endpoint in known if set_up(endpoint, here).state is CheckState.OK]
    servers = [cli.server_at(endpoint, here.environ) for endpoint in found]
    for endpoint, offer in zip(found, asyncio.run(cli.ask_model_servers(servers)), strict=True):
        yield from check_endpoint_reply(endpoint, offer, here)


def check_endpoint_reply(endpoint: Endpoint, offer: OfferedModels, here: DoctorContext) -> Findings:
    name, ways, keyed = f"'{endpoint.url}'", ways_out_at(endpoint), bool(key_of(endpoint, here.environ))
    if not offer.status:
        yield Finding("server", CheckState.PROBLEM, f"{name}: {offer.error}", ways.unreached)
    elif offer.status in (401, 403):
        way_out = (ways.refused if keyed else ways.keyless).partition(": ")[2]
        yield Finding("server", CheckState.PROBLEM, f"{name}: {offer.error}", way_out)
    elif offer.error:
        way_out = f"check {address_place(endpoint)}; if the server has no model list, runs may still work"
        yield Finding("server", CheckState.NOTE, f"{name}: {offer.error}", way_out)
    else:
        more = " and accepts the key" if keyed else ""
        yield Finding("server", CheckState.OK, f"{name} answers{more}: {plural(len(offer.models), 'model')}")
        yield from find_missing_models(endpoint, offer, here)


def find_missing_models(endpoint: Endpoint, offer: OfferedModels, here: DoctorContext) -> Findings:
    """Models that a run would use and the server does not list. Skips Azure, which lists models, not deployments."""
    if endpoint.api_version:
        return
    listed = {name for name, _ in offer.models} | {name.rpartition("/")[2] for name, _ in offer.models}
    for model in list_known_models(here):
        asked_at = endpoint_of(model, here.settings, here.environ)
        wanted = model.removeprefix(f"{endpoint.name}/")
        there = listed & {wanted, f"{wanted}:latest"}  # how Ollama names it
        if asked_at is not None and asked_at.url == endpoint.url and not there:
            words = f"'{endpoint.url}' does not list '{wanted}', which a run would use"
            yield Finding("server", CheckState.NOTE, words, "run 'mainspring models --ask' to see its models")


async def check_anthropic(here: DoctorContext) -> Finding:
    """Counts the tokens of one word: this tests the address, the connection and the key, and is free."""
    address = (here.settings.api.base_url or providers.HOME).rstrip("/")
    check_it = ways_out(here.settings, "").unreached
    transport = providers.Transport()
    try:
        async with asyncio.timeout(SECONDS):
            keyed = await count_tokens_online(here, transport, address)
    except ProviderError as error:
        refused = error.failure.kind is Trouble.AUTH
        way_out = "get a new key, or fix its source (docs/secrets.md)" if refused else check_it
        return Finding("server", CheckState.PROBLEM, f"'{address}': {error}", way_out)
    except TimeoutError:
        words = f"'{address}' did not answer within {SECONDS:.0f} seconds"
        return Finding("server", CheckState.PROBLEM, words, check_it)
    except (MainspringError, OSError) as error:
        return Finding("server", CheckState.PROBLEM, f"'{address}': {error}", check_it)
    finally:
        await transport.close()
    return Finding("server", CheckState.OK, f"'{address}' answers{' and accepts the key' if keyed else ''}")


async def count_tokens_online(here: DoctorContext, transport: Transport, address: str) -> bool:
    """Returns whether a key was sent. Raises if the server refuses."""
    found = find_key(wanted_key(here))
    value = found.value or (await found.refresh() if found.refresh is not None else "")
    headers = {
        "content-type": "application/json",
        "anthropic-version": providers.VERSION,
        **headers_of(found.header, value),
    }
    model = asked_models(here)[0].removeprefix("anthropic/")
    body = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "hello"}]})
    async with transport.post(f"{address}/v1/messages/count_tokens", headers, [body]) as response:
        if response.status != 200:
            raise await providers.read_refusal(
                response, time.time(), ways_out(here.settings, found.source), keyed=bool(value)
            )
        await response.read()
    return bool(value)


WIDTH = 80
INDENT = " " * 20


def doctor(args: Namespace) -> int:
    findings: list[Finding] = []
    for raw in run_checks(args.session, is_online=args.online):
        found = Finding(raw.name, raw.state, sanitize_finding(raw.words), sanitize_finding(raw.way_out))
        findings.append(found)
        if not args.json:
            print(format_finding(found), flush=True)
    problems = [found for found in findings if found.state is CheckState.PROBLEM]
    if args.json:
        print(findings_to_json(findings).decode())
    else:
        print(f"\n{format_doctor_summary(len(problems))}")
    return 1 if problems else 0


def run_checks(options: SessionOptions, *, is_online: bool = False) -> Iterator[Finding]:
    """Settings that stop every start are a finding; the other checks then run with default settings."""
    cwd, environ = os.getcwd(), dict(os.environ)  # noqa: PTH109  # as elsewhere: paths are texts
    try:
        settings = settings_of(options, cwd, environ)
    except StartError as error:
        yield Finding("settings", CheckState.PROBLEM, str(error), "fix this file: mainspring cannot start until then")
        settings = Settings()
    environ |= settings.own_env
    here = DoctorContext(options, cwd, environ, home_folder(os.environ), settings, is_online)
    for check in CHECKS:
        yield from check(here)
    yield from check_endpoints(here)
    if is_online:
        yield from check_online(here)


def sanitize_finding(text: str) -> str:
    return strip_control_characters(redact(text)).replace("\n", " ")


def format_finding(found: Finding) -> str:
    head = f"{found.state:<8}  {found.name:<10}"
    lines = wrap_paragraph(found.words, head)
    return f"{lines}\n{wrap_paragraph(found.way_out, f'{INDENT}-> ')}" if found.way_out else lines


def wrap_paragraph(text: str, head: str) -> str:
    """Never breaks a path: users copy it."""
    return fill(
        text, WIDTH, initial_indent=head, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
    )


def findings_to_json(findings: list[Finding]) -> bytes:
    ok = all(found.state is not CheckState.PROBLEM for found in findings)
    checks = [
        {"name": found.name, "state": found.state, "says": found.words, "way_out": found.way_out} for found in findings
    ]
    return msgspec.json.format(msgspec.json.encode({"ok": ok, "version": __version__, "checks": checks}))


def format_doctor_summary(problems: int) -> str:
    if not problems:
        return "No problems found."
    return f"{plural(problems, 'problem')} found."
