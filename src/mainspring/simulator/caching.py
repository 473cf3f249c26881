"""Rules about cache marks."""

from __future__ import annotations

from mainspring.simulator.parameters import Broken
from mainspring.simulator.request import CheckedRequest
from mainspring.simulator.thinking import THOUGHTS

MOST_MARKS = 4


def check_mark_count(request: CheckedRequest) -> Broken:
    found = len(request.marks)
    if found > MOST_MARKS:
        yield "", f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {found}."


def longest_first(request: CheckedRequest) -> Broken:
    short = False
    for path, mark in request.marks:
        if mark.get("ttl") != "1h":
            short = True
        elif short:
            said = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
            yield (
                f"{path}.ttl",
                f"{said} Note that blocks are processed in the following order: tools, system, messages.",
            )


def check_no_mark_on_thinking(request: CheckedRequest) -> Broken:
    for placed in request.kind(*THOUGHTS):
        if "cache_control" in placed.block:
            yield placed.at("cache_control"), "Extra inputs are not permitted"


def check_no_mark_on_empty_text(request: CheckedRequest) -> Broken:
    for placed in request.texts:
        if placed.block.get("cache_control") and not placed.block["text"]:
            yield placed.path, "cache_control cannot be set for empty text blocks"
