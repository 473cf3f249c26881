"""Rules that came with the API's version 2026-10-21, as its migration page lists them.

The third of its changes, no documents in what an assistant says, we hold every version to (`conversation.places`).
"""

from __future__ import annotations

from mainspring.simulator.parameters import Broken
from mainspring.simulator.request import CheckedRequest

NEWEST = "2026-10-21"


def is_newest(request: CheckedRequest) -> bool:
    return request.headers.get("anthropic-version") == NEWEST


def no_sampling(request: CheckedRequest) -> Broken:
    """Not even at its default value."""
    if is_newest(request):
        for name in ("temperature", "top_p", "top_k"):
            if name in request.body:
                yield name, "Extra inputs are not permitted"


def no_citations_by_users(request: CheckedRequest) -> Broken:
    """What the model cited may come back; a user cites nothing."""
    if is_newest(request):
        for placed in (*request.kind("text"), *request.inner):
            if placed.role == "user" and placed.kind == "text" and placed.block.get("citations"):
                yield placed.at("citations"), "Extra inputs are not permitted"
