"""Rules about who speaks when, what may stand where, and text."""

from __future__ import annotations

from itertools import pairwise

from mainspring.simulator.parameters import Broken
from mainspring.simulator.request import CheckedRequest, RequestTurn
from mainspring.simulator.shapes import SERVER_RESULTS

MOST_MESSAGES = 100_000
BY_USER = ("image", "document", "search_result", "container_upload", "tool_result")
BY_BOTH = ("text",)  # all other kinds are the assistant's


def check_has_messages(request: CheckedRequest) -> Broken:
    if not request.messages:
        yield "messages", "at least one message is required"
    elif len(request.messages) > MOST_MESSAGES:
        yield "messages", f"at most {MOST_MESSAGES} messages are allowed"


def check_roles(request: CheckedRequest) -> Broken:
    """A system message in mid-conversation stands behind a user's, and a reply or nothing stands behind it."""
    said = [message["role"] for message in request.messages]
    takes_system = request.manner is None or request.manner.system_messages
    for number, role in enumerate(said):
        if role == "system" and takes_system:
            if number == 0 or said[number - 1] != "user" or said[number + 1 : number + 2] not in ([], ["assistant"]):
                where = "immediately after a user message, and before an assistant message or at the end"
                yield f"messages.{number}.role", f"system messages can only be placed {where}"
        elif role not in ("user", "assistant"):
            allowed = 'Allowed roles are "user" or "assistant"'
            yield f"messages.{number}.role", f'Unexpected role "{role}". {allowed}'


def user_first(request: CheckedRequest) -> Broken:
    if request.messages and request.messages[0]["role"] != "user":
        yield "messages", 'first message must use the "user" role'


def check_alternation(request: CheckedRequest) -> Broken:
    """The API joins neighbours of one role. Our requests come joined, so that is what we hold them to."""
    if not request.alternate:
        return
    for number, (before, after) in enumerate(pairwise(request.messages), 1):
        if before["role"] == after["role"]:
            said = f'roles must alternate between "user" and "assistant", but found multiple "{after["role"]}" in a row'
            yield f"messages.{number}", said


def check_content(request: CheckedRequest) -> Broken:
    last = len(request.messages) - 1
    for number, message in enumerate(request.messages):
        if not message["content"] and (number < last or message["role"] != "assistant"):
            said = "all messages must have non-empty content except for the optional final assistant message"
            yield f"messages.{number}", said


def check_block_places(request: CheckedRequest) -> Broken:
    for kind, blocks in request.by_kind.items():
        if kind in BY_BOTH:
            continue
        proper = "user" if kind in BY_USER else "assistant"
        for placed in blocks:
            if placed.role != proper:
                yield placed.path, f"`{kind}` blocks can only be in `{proper}` messages"


def text_some(request: CheckedRequest) -> Broken:
    for placed in request.texts:
        text = placed.block["text"]
        if not text:
            yield placed.path, "text content blocks must be non-empty"
        elif text.isspace():
            yield placed.path, "text content blocks must contain non-whitespace text"


def system_some(request: CheckedRequest) -> Broken:
    if "system" in request.body and not request.body["system"]:
        yield "system", "text content blocks must be non-empty"


def is_paused(turn: RequestTurn) -> bool:
    """Ends with a server's tool: a turn that the API paused, and that goes on when it is sent back."""
    return bool(turn.blocks) and turn.blocks[-1].kind in ("server_tool_use", *SERVER_RESULTS)


def user_last(request: CheckedRequest) -> Broken:
    turn = request.last
    if turn is None or turn.role != "assistant" or is_paused(turn):
        return
    if request.thinking == "enabled" or (request.manner is not None and not request.manner.prefill):
        said = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield "", said


def trailing_space(request: CheckedRequest) -> Broken:
    turn = request.last
    if turn is None or turn.role != "assistant" or not turn.blocks or turn.blocks[-1].kind != "text":
        return
    text: str = turn.blocks[-1].block["text"]
    if text != text.rstrip():
        yield "messages", "final assistant content cannot end with trailing whitespace"
