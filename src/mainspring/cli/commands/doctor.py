"""`mainspring doctor`: whether everything that a run needs is there, and what to do where it is not.

    mainspring doctor             this machine, the settings, the key, the sandbox; nothing leaves the machine
    mainspring doctor --online    also asks the servers whether they know their keys; that costs nothing
    mainspring doctor --json      one object, for programs

Ends with 0 if there is no problem, else with 1. What is looked at is in `doctor_checks.py`, and for model
servers in `doctor_servers.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from textwrap import fill

import msgspec

from mainspring.agent.config import settings_of
from mainspring.agent.options import SessionOptions, StartError
from mainspring.cli.commands.doctor_checks import CHECKS, CheckState, DoctorContext, Finding
from mainspring.cli.commands.doctor_servers import check_endpoints, check_online
from mainspring.cli.subcommands import Namespace
from mainspring.secrets.redaction import redact
from mainspring.settings.load import home_folder
from mainspring.settings.values import Settings
from mainspring.text import strip_control_characters
from mainspring.version import __version__

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
    """Settings that stop every start are a finding, too: the rest is looked at without them."""
    cwd, environ = os.getcwd(), dict(os.environ)  # noqa: PTH109  # as elsewhere: paths are texts
    try:
        settings = settings_of(options, cwd, environ)
    except StartError as error:
        yield Finding(
            "settings", CheckState.PROBLEM, str(error), "mend the file that is named: until then nothing starts"
        )
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
    """A path is never broken: it may be copied from here."""
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
        return "No problem was found."
    return f"{problems} problem{'s' if problems > 1 else ''}. After each arrow stands the way out."
