"""`mainspring doctor`: whether everything that a run needs is there, and what to do where it is not.

    mainspring doctor             this machine, the settings, the key, the sandbox; nothing leaves the machine
    mainspring doctor --online    also asks the server whether it knows the key; that costs nothing
    mainspring doctor --json      one object, for programs

Ends with 0 if there is no problem, else with 1. What is looked at is in `doctor_checks.py`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from textwrap import fill
from typing import TYPE_CHECKING

import msgspec

from mainspring.cli.doctor_checks import CHECKS, Finding, Here, State, wanted_key
from mainspring.cli.flags import Options, StartError
from mainspring.cli.harmless import harmless
from mainspring.cli.model import new_config
from mainspring.cli.outcomes import WAY_OUT
from mainspring.cli.settings import settings_of
from mainspring.core.errors import MainspringError, ProviderError
from mainspring.core.reasons import Trouble
from mainspring.secrets.redaction import redact
from mainspring.secrets.sources import find_key, headers_of
from mainspring.settings.home import home_folder
from mainspring.settings.values import Settings
from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.providers.transport import Transport

WIDTH = 80
INDENT = " " * 20
SECONDS = 20.0  # for the server to answer a small question


def doctor(options: Options) -> int:
    findings: list[Finding] = []
    for raw in examined(options):
        found = Finding(raw.name, raw.state, clean(raw.words), clean(raw.way_out))
        findings.append(found)
        if "--json" not in options.given:
            print(as_lines(found), flush=True)
    problems = [found for found in findings if found.state is State.PROBLEM]
    if "--json" in options.given:
        print(as_json(findings).decode())
    else:
        print(f"\n{summary(len(problems))}")
    return 1 if problems else 0


def examined(options: Options) -> Iterator[Finding]:
    """Settings that stop every start are a finding, too: the rest is looked at without them."""
    cwd, environ = os.getcwd(), dict(os.environ)  # noqa: PTH109  # as elsewhere: paths are texts
    try:
        settings = settings_of(options, cwd, environ)
    except StartError as error:
        yield Finding("settings", State.PROBLEM, str(error), "mend the file that is named: until then nothing starts")
        settings = Settings()
    environ |= settings.own_env
    here = Here(options, cwd, environ, home_folder(os.environ), settings)
    for check in CHECKS:
        yield from check(here)
    if "--online" in options.given:
        yield asyncio.run(server(here))


def clean(text: str) -> str:
    return harmless(redact(text)).replace("\n", " ")


def as_lines(found: Finding) -> str:
    head = f"{found.state:<8}  {found.name:<10}"
    lines = folded(found.words, head)
    return f"{lines}\n{folded(found.way_out, f'{INDENT}-> ')}" if found.way_out else lines


def folded(text: str, head: str) -> str:
    """A path is never broken: it may be copied from here."""
    return fill(
        text, WIDTH, initial_indent=head, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
    )


def as_json(findings: list[Finding]) -> bytes:
    ok = all(found.state is not State.PROBLEM for found in findings)
    checks = [
        {"name": found.name, "state": found.state, "says": found.words, "way_out": found.way_out} for found in findings
    ]
    return msgspec.json.format(msgspec.json.encode({"ok": ok, "version": __version__, "checks": checks}))


def summary(problems: int) -> str:
    if not problems:
        return "No problem was found."
    return f"{problems} problem{'s' if problems > 1 else ''}. After each arrow stands the way out."


# --- the server, on request ---------------------------------------------------------------------------------------


async def server(here: Here) -> Finding:
    """How many tokens a word has: it needs the address, the way there and the key, and costs nothing."""
    from mainspring.providers.anthropic import HOME
    from mainspring.providers.transport import Transport

    address = (here.settings.api.base_url or HOME).rstrip("/")
    check_it = WAY_OUT[Trouble.NETWORK].removeprefix(". ")
    transport = Transport()
    try:
        async with asyncio.timeout(SECONDS):
            keyed = await ask(here, transport, address)
    except ProviderError as error:
        refused = error.failure.kind is Trouble.AUTH
        way_out = "get a new key, or mend what brings it (docs/secrets.md)" if refused else check_it
        return Finding("server", State.PROBLEM, f"'{address}': {error}", way_out)
    except TimeoutError:
        words = f"'{address}' did not answer within {SECONDS:.0f} seconds"
        return Finding("server", State.PROBLEM, words, check_it)
    except (MainspringError, OSError) as error:
        return Finding("server", State.PROBLEM, f"'{address}': {error}", check_it)
    finally:
        await transport.close()
    return Finding("server", State.OK, f"'{address}' answers{', and takes the key' if keyed else ''}")


async def ask(here: Here, transport: Transport, address: str) -> bool:
    """Whether a key was sent. Raises if the answer is none."""
    from mainspring.providers.anthropic import VERSION
    from mainspring.providers.anthropic_refusals import refusal

    found = find_key(wanted_key(here))
    value = found.value or (await found.refresh() if found.refresh is not None else "")
    headers = {"content-type": "application/json", "anthropic-version": VERSION, **headers_of(found.header, value)}
    model = new_config(here.options, here.settings).model.name
    body = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "hello"}]})
    async with transport.post(f"{address}/v1/messages/count_tokens", headers, [body]) as response:
        if response.status != 200:
            raise await refusal(response, time.time())
        await response.read()
    return bool(value)
