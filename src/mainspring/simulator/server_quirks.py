"""Quirks of odd and weak servers: well-meant answers that do not follow the protocol; and the paths of Azure OpenAI.

    Say.of(call, odd=("no_ids", "no_usage"))                 # one reply
    ModelServer(odd=("think_tags",))                         # all of them
    PlannedFault("calls_as_text", argument="mistral")        # as a fault: some of them

Some quirks change the content of a reply, for every protocol, and are applied here. The others change its encoding:
they stay as names on the reply, and the encoders apply them (`openai_chat.py`, `openai_responses.py`). A quirk that
does not apply to a reply changes nothing.

Azure OpenAI has OpenAI's protocols at other paths, a version in the query, and a key in its own header. As documented
by Microsoft; the texts of refusals are as users have reported them.

    /openai/deployments/NAME/chat/completions?api-version=2024-10-21    NAME is the model
    /openai/responses?api-version=2025-04-01-preview                    the body names the deployment
    /openai/v1/chat/completions, /openai/v1/responses                   the newer one: the version is optional
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from msgspec.structs import replace

from mainspring.simulator.connection import IncomingRequest
from mainspring.simulator.replies import Json, Refuse, Say, make_text_block, written_input

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
EVERYWHERE = frozenset({"/v1/messages", CHAT, RESPONSES})
BOTH = frozenset({CHAT, RESPONSES})


class Oddity(NamedTuple):
    about: str
    paths: frozenset[str]  # the protocols that can show it
    needs: str = ""  # applies to a block of this kind
    change: Callable[[Say, str], Say] | None = None  # the last: its argument; None: a quirk of the encoding


# --- quirks of the content ------------------------------------------------------------------------------

# How models write a call that their server does not recognize, by where it was seen.
AS_TEXT: dict[str, Callable[[str, str], str]] = {
    "hermes": lambda name, given: f'<tool_call>\n{{"name": "{name}", "arguments": {given}}}\n</tool_call>',
    "llama": lambda name, given: f"<function={name}>{given}</function>",
    "python": lambda name, given: f'<|python_tag|>{{"name": "{name}", "parameters": {given}}}',
    "mistral": lambda name, given: f'[TOOL_CALLS][{{"name": "{name}", "arguments": {given}}}]',
    "json": lambda name, given: f'```json\n{{"name": "{name}", "arguments": {given}}}\n```',
}


def calls_as_text(say: Say, style: str) -> Say:
    written = AS_TEXT[style or "hermes"]

    def said(block: Json) -> Json:
        is_call = block["type"] == "tool_use"
        return make_text_block(written(block["name"], written_input(block) or "{}")) if is_call else block

    return replace(say, blocks=tuple(map(said, say.blocks)))


def repeated_ids(say: Say, id: str) -> Say:
    """Every call of every reply has the same id."""
    blocks = [{**block, "id": id or "call_0"} if block["type"] == "tool_use" else block for block in say.blocks]
    return replace(say, blocks=tuple(blocks))


def think_tags(say: Say, _: str) -> Say:
    """Thinking is put at the beginning of the text, and joined with the next text, as on such servers."""
    blocks: list[Json] = []
    thought = ""
    for block in say.blocks:
        if block["type"] == "thinking":
            thought += f"<think>\n{block['thinking']}\n</think>\n\n"
        elif block["type"] == "text" and thought:
            blocks.append(make_text_block(thought + block["text"]))
            thought = ""
        else:
            blocks.append(block)
    if thought:
        blocks.insert(0, make_text_block(thought))
    return replace(say, blocks=tuple(blocks))


# --- the table -----------------------------------------------------------------------------------------

ODDITIES: dict[str, Oddity] = {
    "calls_as_text": Oddity(
        f"calls are written as text (argument: {', '.join(AS_TEXT)})", EVERYWHERE, "tool_use", calls_as_text
    ),
    "repeated_ids": Oddity("all calls have one id (argument: which)", EVERYWHERE, "tool_use", repeated_ids),
    "think_tags": Oddity("thinking comes as <think> in the text", EVERYWHERE, "thinking", think_tags),
    "no_ids": Oddity("calls have no id (argument: empty, null)", BOTH, "tool_use"),
    "object_arguments": Oddity("arguments are an object, and come in one piece", BOTH, "tool_use"),
    "whole_calls": Oddity("calls come in one piece", frozenset({CHAT}), "tool_use"),
    "no_index": Oddity("pieces of calls have no index", frozenset({CHAT}), "tool_use"),
    "stop_with_calls": Oddity("finish_reason 'stop' behind calls", frozenset({CHAT}), "tool_use"),
    "no_finish": Oddity("no finish_reason at all", frozenset({CHAT})),
    "no_done": Oddity("no [DONE] at the end", frozenset({CHAT})),
    "no_usage": Oddity("no usage at all", BOTH),
    "reasoning_content": Oddity("thinking in a field of its own (argument: its name)", frozenset({CHAT}), "thinking"),
    "refusal_field": Oddity("text in the field for refusals", BOTH, "text"),
    "nested_error": Oddity("an error event with the error inside", frozenset({RESPONSES})),
}


def apply_oddities(say: Say, names: Iterable[str]) -> Say:
    """The reply with these quirks."""
    for written in names:
        name, _, argument = written.partition("=")
        change = ODDITIES[name].change
        say = change(say, argument) if change else replace(say, odd=(*say.odd, written))
    return say


def check_oddities(names: Iterable[str]) -> tuple[str, ...]:
    """The same names, if such quirks exist."""
    given = tuple(names)
    for written in given:
        name, _, argument = written.partition("=")
        if name not in ODDITIES or (name == "calls_as_text" and argument not in ("", *AS_TEXT)):
            there = ", ".join(AS_TEXT if name in ODDITIES else ODDITIES)
            raise ValueError(f"'{written}' is not a quirk of odd servers; use one of {there}")
    return given


def get_spelling_oddities(say: Say) -> dict[str, str]:
    """The quirks of the encoding, with their arguments."""
    return {written.partition("=")[0]: written.partition("=")[2] for written in say.odd}


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
    """A request to an Azure resource."""

    path: str  # the corresponding path at OpenAI
    deployment: str  # empty: the body names it
    refused: Refuse | None


def asked_of(incoming: IncomingRequest, api_key: str | None) -> AzureRequest | None:
    """None: it is not one."""
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
    """By the key in its own header; the usual header would have a directory token, which is not supported."""
    given = incoming.headers.get("api-key", "")
    return bool(given) and api_key in (None, given)


def is_version(query: str, *, newer: bool) -> bool:
    said = parse_qs(query, keep_blank_values=True).get("api-version", [""])
    return len(said) == 1 and (said[0] in VERSION_1 if newer else VERSION.fullmatch(said[0]) is not None)
