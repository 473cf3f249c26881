"""The checks of `mainspring doctor` and `/doctor`: this machine, the settings, and the key of each model server.

Nothing here sends a request: `mainspring doctor --online` adds the checks that do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from textwrap import fill

from mainspring import providers
from mainspring.agent.config import settings_of
from mainspring.agent.doctor_checks import CHECKS, Check, CheckState, DoctorContext, Finding, Findings, asked_models
from mainspring.agent.endpoints import (
    CLOUDS,
    ENDPOINTS,
    KEYS_NEEDED,
    Endpoint,
    address_place,
    endpoint_of,
    find_configured_endpoints,
    find_endpoint_key,
    key_place,
)
from mainspring.agent.model import explain_missing_search
from mainspring.agent.options import SessionOptions, StartError
from mainspring.core.errors import UsageError
from mainspring.secrets.redaction import redact
from mainspring.settings.load import home_folder
from mainspring.settings.values import Settings
from mainspring.text import plural, strip_control_characters

WIDTH = 80
INDENT = " " * 20


def run_checks(options: SessionOptions, online: Check | None = None) -> Iterator[Finding]:
    """Settings that stop every start are a finding; the other checks then run with default settings. `online` asks
    the model servers."""
    cwd, environ = os.getcwd(), dict(os.environ)  # noqa: PTH109  # as elsewhere: paths are texts
    try:
        settings = settings_of(options, cwd, environ)
    except StartError as error:
        yield Finding("settings", CheckState.PROBLEM, str(error), "fix this file: mainspring cannot start until then")
        settings = Settings()
    environ |= settings.own_env
    here = DoctorContext(options, cwd, environ, home_folder(os.environ), settings, online is not None)
    for check in CHECKS:
        yield from check(here)
    yield check_web_search(here)
    yield from check_endpoints(here)
    if online is not None:
        yield from online(here)


def check_web_search(here: DoctorContext) -> Finding:
    """Whether the model is offered WebSearch. Without it, nothing is broken."""
    if here.settings.search_command:
        return Finding("web search", CheckState.OK, "by the command in 'webSearch.command'")
    model = asked_models(here)[0]
    why = explain_missing_search(model, here.settings, here.environ)
    if not why:
        return Finding(
            "web search", CheckState.OK, "by the model's service, at $10 per 1,000 searches and their tokens"
        )
    return Finding("web search", CheckState.OK, f"not offered: {why}")


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
    try:
        found = find_endpoint_key(endpoint, here.environ)
    except UsageError as error:
        words, _, way_out = str(error).partition(": ")
        return Finding("server", CheckState.PROBLEM, f"{name}: {words}", way_out)
    if endpoint.protocol in CLOUDS and not found.value:
        return Finding("server", CheckState.OK, f"{name}: credentials from the cloud's own chain (not checked)")
    if found.value:
        return Finding("server", CheckState.OK, f"{name}: API key from {found.source}")
    wanted = endpoint.key and (endpoint.entry or endpoint.url.startswith(KEYS_NEEDED))
    if wanted:
        login = f"run 'mainspring login {endpoint.name}', or " if endpoint.name in ENDPOINTS else ""
        return Finding("server", CheckState.PROBLEM, f"{name}: no API key", f"{login}set {key_place(endpoint)}")
    return Finding("server", CheckState.OK, f"{name}: no API key (may not need one)")


# --- as text ------------------------------------------------------------------------------------------------------


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


def format_doctor_summary(problems: int) -> str:
    if not problems:
        return "No problems found."
    return f"{plural(problems, 'problem')} found."
