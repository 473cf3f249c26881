"""A wire protocol as the simulator sees it: how a request is judged and read, and how an answer is written down.

Scripts, faults and the meter know one form only, that of Anthropic's Messages API. A speech turns a request into that
form, and the events of an answer into the frames of its own protocol: one script, three spellings.

    MESSAGES is here; the other two are in `openai_chat.py` and `openai_responses.py`; `server.py` has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.json import encode

from mainspring.simulator.forms import Violation
from mainspring.simulator.replies import Json, Refuse, ReplyStamp, Say, frame_event, keep_body, make_message
from mainspring.simulator.request import Endpoint
from mainspring.simulator.validate import find_request_violations

Teller = Callable[[Json], bytes]  # an event of the Messages API > its frames here; empty where there is none for it

NEIGHBOURS = "neighbours"  # what a judge may be told to let pass: messages of one role behind each other

# Violations that the API answers otherwise than with 400 and `invalid_request_error`.
ANSWERS = {"body.size": (413, "request_too_large")}


class RefusalResponse(NamedTuple):
    """A `Refuse` as it goes out."""

    status: int
    headers: dict[str, str]
    body: bytes


class ApiDialect(NamedTuple):
    path: str
    judge: Callable[[bytes, Mapping[str, str], frozenset[str]], list[Violation]]  # the last: what it lets pass
    hear: Callable[[Json], Json]  # a request that is right, in the form of the Messages API
    complain: Callable[[Violation], Refuse]
    refuse: Callable[[Refuse, str], RefusalResponse]  # the last: the request's id
    headers: Callable[[str], dict[str, str]]  # of an answer to the request with this id
    whole: Callable[[Say, ReplyStamp, Json], Json]  # the last: the request as it came
    teller: Callable[[Say, ReplyStamp, Json], Teller]  # a new one for each stream: it may remember
    ping: bytes
    broken_json: bytes  # an event that cannot be read
    broken_sse: bytes  # one with a line break in its data
    strange: tuple[bytes, ...]  # what every reader must pass over
    without: frozenset[str] = frozenset()  # faults that have no spelling here
    undelivered: frozenset[str] = frozenset()  # faults that here, unlike elsewhere, leave nothing to work with


def make_judge(endpoint: Endpoint) -> Callable[[bytes, Mapping[str, str], frozenset[str]], list[Violation]]:
    return lambda raw, headers, lets_pass: find_request_violations(
        raw, headers, endpoint=endpoint, alternate=NEIGHBOURS not in lets_pass
    )


def violation_to_refuse(violation: Violation) -> Refuse:
    status, kind = ANSWERS.get(violation.rule, (400, "invalid_request_error"))
    return Refuse(status, kind, violation.said)


def make_refusal_response(refuse: Refuse, request_id: str) -> RefusalResponse:
    error = {"type": refuse.type, "message": refuse.message}
    body = encode({"type": "error", "error": error, "request_id": request_id})
    return RefusalResponse(refuse.status, {"request-id": request_id, **refuse.headers}, body)


def make_request_id_header(request_id: str) -> dict[str, str]:
    return {"request-id": request_id}


def make_whole_message(say: Say, stamp: ReplyStamp, _: Json) -> Json:
    return make_message(say, stamp)


def make_teller(_say: Say, _stamp: ReplyStamp, _asked: Json) -> Teller:
    return frame_event


MESSAGES = ApiDialect(
    path="/v1/messages",
    judge=make_judge("/v1/messages"),
    hear=keep_body,
    complain=violation_to_refuse,
    refuse=make_refusal_response,
    headers=make_request_id_header,
    whole=make_whole_message,
    teller=make_teller,
    ping=frame_event({"type": "ping"}),
    broken_json=b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n',
    broken_sse=b'event: content_block_delta\ndata: {"type":"content_block_delta",\n"index":0,"delta":{}}\n\n',
    strange=(
        b": a comment\n\n",
        frame_event({"type": "weather", "index": 0, "delta": {"type": "rain_delta", "rain": "drops"}}),
        b"retry: 10\nid: 7\n\n",
        b"event: nothing\n\n",
    ),
)
COUNT = MESSAGES._replace(path="/v1/messages/count_tokens", judge=make_judge("/v1/messages/count_tokens"))
