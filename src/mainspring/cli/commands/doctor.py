"""`mainspring doctor`: check the installation and say how to fix each problem.

    mainspring doctor             check the machine, settings, API key and sandbox; sends nothing over the network
    mainspring doctor --online    also check that the servers answer and accept their keys; free of charge
    mainspring doctor --json      print one object, for programs

Exit code 0 without problems, else 1. The local checks are in `agent/doctor.py`. Those that ask model servers are here:
Anthropic's server is asked to count the tokens of one word, the others for their lists of models.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from mainspring import cli, providers
from mainspring.agent.doctor import (
    format_doctor_summary,
    format_finding,
    list_known_endpoints,
    list_known_models,
    run_checks,
    sanitize_finding,
    set_up,
)
from mainspring.agent.doctor_checks import (
    CheckState,
    DoctorContext,
    Finding,
    Findings,
    asked_models,
    is_asked_here,
    wanted_key,
)
from mainspring.agent.doctor_parts import Command
from mainspring.agent.endpoints import CLOUDS, Endpoint, address_place, endpoint_of, key_of
from mainspring.agent.endpoints import ways_out as ways_out_at
from mainspring.agent.model import ways_out
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import MainspringError, ProviderError
from mainspring.core.reasons import Trouble
from mainspring.secrets.sources import find_key, headers_of
from mainspring.text import plural
from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.cli.commands.models import OfferedModels
    from mainspring.providers.http.client import Transport


Ask = Callable[[str], str]

SECONDS = 20.0  # for the server to answer a small request


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
        way_out = "run 'mainspring login' to store a new key, or fix its source" if refused else check_it
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


def doctor(args: Namespace) -> int:
    findings: list[Finding] = []
    checks = run_checks(args.session, check_online if args.online else None)
    for raw in checks:
        words, way_out = sanitize_finding(raw.words), sanitize_finding(raw.way_out)
        found = Finding(raw.name, raw.state, words, way_out, raw.install)
        findings.append(found)
        if not args.json:
            print(format_finding(found), flush=True)
    problems = [found for found in findings if found.state is CheckState.PROBLEM]
    if args.json:
        print(findings_to_json(findings).decode())
    else:
        print(f"\n{format_doctor_summary(len(problems))}")
        install_missing_parts([found.install for found in findings if found.install])
    return 1 if problems else 0


def install_missing_parts(commands: list[Command]) -> None:
    """Only at a terminal, and each only after a yes."""
    if not commands or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    print()
    try:
        for command, worked in offer_to_install(commands, input):
            print(f"{'Done' if worked else 'Failed'}: {shlex.join(command)}")
    except EOFError:
        print()


def offer_to_install(commands: Sequence[Command], ask: Ask) -> Iterator[tuple[Command, bool]]:
    """Runs each command that gets a yes, and yields it with whether it worked. Anything but a yes is a no."""
    for command in commands:
        if ask(f"Run '{shlex.join(command)}'? [y/N] ").strip().lower() not in ("y", "yes"):
            continue
        try:
            worked = subprocess.run(command, check=False).returncode == 0  # noqa: S603  # shown, and confirmed
        except OSError:
            worked = False
        yield command, worked


def findings_to_json(findings: list[Finding]) -> bytes:
    ok = all(found.state is not CheckState.PROBLEM for found in findings)
    checks = [
        {"name": found.name, "state": found.state, "says": found.words, "way_out": found.way_out} for found in findings
    ]
    return msgspec.json.format(msgspec.json.encode({"ok": ok, "version": __version__, "checks": checks}))
