"""A wire protocol of the simulator: how it validates and decodes a request, and how it encodes an answer.

Scripts, faults and metering know one format, that of Anthropic's Messages API. A protocol converts a request to that
format, and the events of an answer to its own frames: one script, three encodings.

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

Teller = Callable[[Json], bytes]  # an event of the Messages API > its frames; empty if there is no counterpart

NEIGHBOURS = "neighbours"  # violations that a validator may ignore: consecutive messages of one role

# Violations that the API answers with something else than 400 and `invalid_request_error`.
ANSWERS = {"body.size": (413, "request_too_large")}


class RefusalResponse(NamedTuple):
    """An encoded `Refuse`."""

    status: int
    headers: dict[str, str]
    body: bytes


class ApiDialect(NamedTuple):
    path: str
    judge: Callable[[bytes, Mapping[str, str], frozenset[str]], list[Violation]]  # the last: violations to ignore
    hear: Callable[[Json], Json]  # a valid request, in the format of the Messages API
    complain: Callable[[Violation], Refuse]
    refuse: Callable[[Refuse, str], RefusalResponse]  # the last: the request's id
    headers: Callable[[str], dict[str, str]]  # of an answer to the request with this id
    whole: Callable[[Say, ReplyStamp, Json], Json]  # the last: the request as it came
    teller: Callable[[Say, ReplyStamp, Json], Teller]  # a new one for each stream: it may have state
    ping: bytes
    broken_json: bytes  # an event that cannot be parsed
    broken_sse: bytes  # one with a line break in its data
    strange: tuple[bytes, ...]  # data that every reader must ignore
    without: frozenset[str] = frozenset()  # faults that this protocol cannot express
    undelivered: frozenset[str] = frozenset()  # faults that, in this protocol only, leave no usable reply


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
