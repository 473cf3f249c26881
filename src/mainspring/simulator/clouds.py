"""The paths of Anthropic's models on Amazon Bedrock and Google Vertex AI. Both are the Messages API in another form:
the model is in the path, the version in the body; Bedrock answers in AWS event streams.

    /model/MODEL/invoke-with-response-stream
    /v1/projects/PROJECT/locations/REGION/publishers/anthropic/models/MODEL:streamRawPredict

A request needs a signature or a token, but neither is verified.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote
from zlib import crc32

import msgspec

from mainspring.simulator.connection import IncomingRequest
from mainspring.simulator.protocol import MESSAGES, RefusalResponse, Teller
from mainspring.simulator.replies import Json, Refuse, ReplyStamp, Say
from mainspring.simulator.validate import GOOD_HEADERS

BEDROCK_PATH = re.compile(r"/model/([^/]+)/invoke-with-response-stream")
VERTEX_PATH = re.compile(
    r"(?:/v1)?/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/([^/:]+):streamRawPredict"
)
VERSIONS = {"bedrock": "bedrock-2023-05-31", "vertex": "vertex-2023-10-16"}
EXCEPTIONS = {  # by status
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
STATES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
          429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}  # fmt: skip


def encode_stream_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A message of an AWS event stream."""
    head = b"".join([encode_stream_header(name, value) for name, value in headers.items()])
    prelude = struct.pack(">II", 12 + len(head) + len(payload) + 4, len(head))
    message = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return message + struct.pack(">I", crc32(message))


def encode_stream_header(name: str, value: str) -> bytes:
    written = value.encode()
    return bytes([len(name.encode())]) + name.encode() + b"\x07" + struct.pack(">H", len(written)) + written


def frame_bedrock_event(event: Mapping[str, Any]) -> bytes:
    payload = msgspec.json.encode({"bytes": b64encode(msgspec.json.encode(event)).decode(), "p": "abcd"})
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    return encode_stream_message(headers, payload)


def make_bedrock_teller(_say: Say, _stamp: ReplyStamp, _asked: Json) -> Teller:
    return frame_bedrock_event


def make_bedrock_headers(request_id: str) -> dict[str, str]:
    return {"content-type": "application/vnd.amazon.eventstream", "x-amzn-requestid": request_id}


def make_bedrock_refusal(refuse: Refuse, request_id: str) -> RefusalResponse:
    kind = refuse.code or EXCEPTIONS.get(refuse.status, "InternalServerException")
    headers = {"x-amzn-errortype": f"{kind}:http://internal.amazon.com/", "x-amzn-requestid": request_id}
    return RefusalResponse(
        refuse.status, {**headers, **refuse.headers}, msgspec.json.encode({"message": refuse.message})
    )


def make_vertex_refusal(refuse: Refuse, request_id: str) -> RefusalResponse:
    del request_id
    error = {"code": refuse.status, "message": refuse.message, "status": STATES.get(refuse.status, "UNKNOWN")}
    return RefusalResponse(refuse.status, dict(refuse.headers), msgspec.json.encode({"error": error}))


BEDROCK = MESSAGES._replace(
    refuse=make_bedrock_refusal,
    headers=make_bedrock_headers,
    teller=make_bedrock_teller,
    ping=frame_bedrock_event({"type": "ping"}),
    broken_json=encode_stream_message({":event-type": "chunk", ":message-type": "event"}, b'{"bytes":"e'),
    broken_sse=frame_bedrock_event({"type": "ping"})[:-1] + b"\x00",
    strange=(
        frame_bedrock_event({"type": "weather", "index": 0, "delta": {"type": "rain_delta", "rain": "drops"}}),
        encode_stream_message({":event-type": "initial-response", ":message-type": "event"}, b"{}"),
    ),
)
VERTEX = MESSAGES._replace(refuse=make_vertex_refusal)


class CloudRequest(NamedTuple):
    """A request to a cloud."""

    incoming: IncomingRequest  # in the form of the Messages API, with its own path
    is_bedrock: bool
    refused: Refuse | None


def convert_cloud_request(incoming: IncomingRequest) -> CloudRequest | None:
    """None: it is not one."""
    found = BEDROCK_PATH.fullmatch(incoming.path) or VERTEX_PATH.fullmatch(incoming.path)
    if found is None:
        return None
    is_bedrock = found.re is BEDROCK_PATH
    try:
        body = msgspec.json.decode(incoming.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return CloudRequest(incoming, is_bedrock, Refuse(400, "", "the body is not a JSON object"))
    refused = find_cloud_violation(incoming, body, is_bedrock=is_bedrock)
    headers = {**incoming.headers, **GOOD_HEADERS}
    body.pop("anthropic_version", None)
    if betas := body.pop("anthropic_beta", None):
        headers["anthropic-beta"] = ",".join(betas)
    body = {"model": unquote(found[1]), **body, "stream": True}
    return CloudRequest(incoming._replace(body=msgspec.json.encode(body), headers=headers), is_bedrock, refused)


def find_cloud_violation(incoming: IncomingRequest, body: Mapping[str, Any], *, is_bedrock: bool) -> Refuse | None:
    proof = incoming.headers.get("authorization", "")
    schemes = ("AWS4-HMAC-SHA256 ", "Bearer ") if is_bedrock else ("Bearer ",)
    if not proof.startswith(schemes):
        return Refuse(403 if is_bedrock else 401, "", "Missing Authentication Token")
    wanted = VERSIONS["bedrock" if is_bedrock else "vertex"]
    if body.get("anthropic_version") != wanted:
        return Refuse(400, "", f"anthropic_version: must be '{wanted}'")
    strange = {"model", "stream"} & body.keys() if is_bedrock else {"model"} & body.keys()
    if strange:
        return Refuse(400, "", f"{min(strange)}: Extra inputs are not permitted")
    if not is_bedrock and body.get("stream") is not True:
        return Refuse(400, "", "stream: must be true")
    return None
