"""Rules about the headers that decide how a body is read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mainspring.simulator.parameters import Broken

VERSIONS = ("2026-10-21", "2023-06-01", "2023-01-01")
_BETA = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def check_version(headers: Mapping[str, str]) -> Broken:
    given = headers.get("anthropic-version")
    if given is None:
        yield "anthropic-version", "header is required"
    elif given not in VERSIONS:
        yield "anthropic-version", f'"{given}" is not a valid version'


def content_type(headers: Mapping[str, str]) -> Broken:
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != "application/json":
        yield "content-type", f"Input should be 'application/json', not '{given}'"


def check_betas(headers: Mapping[str, str]) -> Broken:
    given = headers.get("anthropic-beta")
    if given is None:
        return
    wrong = [name.strip() for name in given.split(",") if _BETA.fullmatch(name.strip()) is None]
    if wrong:
        values = ", ".join([f"`{name}`" for name in wrong])
        yield "anthropic-beta", f"Unexpected value(s) {values} for the `anthropic-beta` header."
