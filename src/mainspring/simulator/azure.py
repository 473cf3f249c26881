"""A resource of Azure OpenAI: OpenAI's protocols behind other paths, a version in the query, a key in its own header.

As documented by Microsoft; the words of refusals as people have reported them.

    /openai/deployments/NAME/chat/completions?api-version=2024-10-21    NAME stands for the model
    /openai/responses?api-version=2025-04-01-preview                    the body names the deployment
    /openai/v1/chat/completions, /openai/v1/responses                   the newer one: the version may be left out
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from mainspring.simulator.connection import IncomingRequest
from mainspring.simulator.replies import Refuse
from mainspring.simulator.server_quirks import CHAT, RESPONSES

PATHS = re.compile(r"/openai/(?:(v1)/)?(?:deployments/([^/]+)/)?(chat/completions|responses|models)")
VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")
VERSION_1 = ("", "v1", "preview", "latest")
OURS = {"chat/completions": CHAT, "responses": RESPONSES, "models": "/v1/models"}

NOT_FOUND = Refuse(404, "", "Resource not found", code="404")
DENIED = Refuse(
    401,
    "",
    "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an "
    "active subscription and use a correct regional API endpoint for your resource.",
    code="401",
)


class AzureRequest(NamedTuple):
    """A request to such a resource."""

    path: str  # where the same is asked of OpenAI
    deployment: str  # empty: the body names it
    refused: Refuse | None


def asked_of(incoming: IncomingRequest, api_key: str | None) -> AzureRequest | None:
    """None: it is none."""
    if not incoming.path.startswith("/openai/"):
        return None
    found = PATHS.fullmatch(incoming.path)
    if found is None:
        return AzureRequest(incoming.path, "", NOT_FOUND)
    first, deployment, what = found[1], unquote(found[2] or ""), found[3]
    refused = None
    if not is_let_in(incoming, api_key):
        refused = DENIED
    elif not is_version(incoming.query, newer=bool(first)) or bool(deployment) != (what == OLDER and not first):
        refused = NOT_FOUND
    return AzureRequest(OURS[what], deployment, refused)


OLDER = "chat/completions"  # has the deployment in its path


def is_let_in(incoming: IncomingRequest, api_key: str | None) -> bool:
    """By the key in its own header; in the usual one there would be a token of the directory, and we know of none."""
    given = incoming.headers.get("api-key", "")
    return bool(given) and api_key in (None, given)


def is_version(query: str, *, newer: bool) -> bool:
    said = parse_qs(query, keep_blank_values=True).get("api-version", [""])
    return len(said) == 1 and (said[0] in VERSION_1 if newer else VERSION.fullmatch(said[0]) is not None)
