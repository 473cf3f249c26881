"""Errors of servers that speak OpenAI's protocols: the kind of failure, when to retry, and cures.

OpenAI wraps its errors in one way. Other servers use half a dozen, so this module searches for an error in all known
places, and repeats an unknown one as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from mainspring.core.reasons import Failure, Trouble
from mainspring.core.value import Bundle
from mainspring.providers.errors import (
    GIVEN,
    LONGEST_WORDS,
    SECOND,
    CurableError,
    UserRemedies,
    parse_number,
    retry_after,
)
from mainspring.providers.retry import BY_STATUS, RequestRefusedError

if TYPE_CHECKING:
    from mainspring.providers.errors import ErrorResponse

THINKING = "thinking"  # cure: without the reasoning of earlier replies
CARRY = "reasoning_content"  # cure: with it
SIGN = "thought_signature"  # cure: calls with a missing or bad signature get an accepted replacement
DETAILS = "reasoning_details"  # OpenRouter's; other servers do not know it
VALUE = ":value"  # appended to a setting's name, cure: a value that more servers know


class OpenAIError(Bundle):
    """An error, with the fields that the server sent."""

    words: str
    type: str = ""
    code: str = ""
    param: str = ""
    status: int | None = None  # some send it only here, in mid-stream


# --- classification ---------------------------------------------------------------------------------

BY_NAME: dict[str, Trouble] = {  # codes and types
    "context_length_exceeded": Trouble.PROMPT_TOO_LONG,
    "exceed_context_size_error": Trouble.PROMPT_TOO_LONG,  # llama.cpp
    "request_too_large": Trouble.TOO_LARGE,
    "insufficient_quota": Trouble.AUTH,  # a 429 that no wait fixes
    "credit_balance_exhausted": Trouble.AUTH,
    "billing_hard_limit_reached": Trouble.AUTH,
    "billing_not_active": Trouble.AUTH,
    "invalid_api_key": Trouble.AUTH,
    "authentication_error": Trouble.AUTH,
    "permission_denied": Trouble.AUTH,
    "invalid_image": Trouble.MEDIA,
    "invalid_image_format": Trouble.MEDIA,
    "image_too_large": Trouble.MEDIA,
    "image_parse_error": Trouble.MEDIA,
    "invalid_base64_image": Trouble.MEDIA,
    "invalid_image_url": Trouble.MEDIA,
    "invalid_image_mode": Trouble.MEDIA,
    "image_too_small": Trouble.MEDIA,
    "image_file_too_large": Trouble.MEDIA,
    "image_file_not_found": Trouble.MEDIA,
    "image_content_policy_violation": Trouble.MEDIA,
    "unsupported_image_media_type": Trouble.MEDIA,
    "empty_image_file": Trouble.MEDIA,
    "failed_to_download_image": Trouble.MEDIA,
    "rate_limit_exceeded": Trouble.RATE_LIMIT,
    "rate_limit_error": Trouble.RATE_LIMIT,
    "server_is_overloaded": Trouble.OVERLOADED,
    "overloaded_error": Trouble.OVERLOADED,
    "engine_overloaded": Trouble.OVERLOADED,
    "slow_down": Trouble.OVERLOADED,
    "server_error": Trouble.SERVER,
    "internal_server_error": Trouble.SERVER,
    "unavailable_error": Trouble.SERVER,  # llama.cpp, while it loads the model: temporary
}
# The HTTP status for an error in mid-stream, by its code or type: these are permanent.
IN_MID_STREAM = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "content_policy_violation": 400,
    "bad_request": 400,
    "bad_request_error": 400,
    "badrequesterror": 400,  # vLLM
    "permission_error": 403,
    "permission_denied_error": 403,
    "not_found_error": 404,
    "notfounderror": 404,
    "model_not_found": 404,
}
TOO_LONG = (
    "maximum context length",
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "reduce the length",
    "input token count",
    "request too large",  # a 429: larger than the limit per minute, so no wait fixes it
)
BAD_MEDIA = ("image", "pdf", "input_file", "file_data", "multimodal", "mmproj", "vision")


def classify_openai_error(status: int | None, complaint: OpenAIError) -> Trouble:
    """The failure for a status, the error's code and type, and its text."""
    said, status = complaint.words.lower(), status or complaint.status
    status = status or IN_MID_STREAM.get(complaint.code) or IN_MID_STREAM.get(complaint.type)
    if status in (None, 400, 413, 422, 429, 500) and any(words in said for words in TOO_LONG):
        return Trouble.PROMPT_TOO_LONG
    for name in (complaint.code, complaint.type):
        if name in BY_NAME:
            return BY_NAME[name]
    # A local server without vision answers with a 500, and would do so every time.
    if status in (400, 415, 422, 500) and any(words in said for words in BAD_MEDIA):
        return Trouble.MEDIA
    if status == 503 or (status is None and "overloaded" in said):
        return Trouble.OVERLOADED
    if status in BY_STATUS:
        return BY_STATUS[status]
    return Trouble.SERVER if status is None or status >= 500 else Trouble.INVALID_REQUEST


# --- parsing ------------------------------------------------------------------------------------------


def read_complaint(body: bytes) -> OpenAIError:
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        words = body[:LONGEST_WORDS].decode(errors="replace").strip()
        return OpenAIError(words or "the server gave no reason")
    return complaint_in(found)


def complaint_in(found: Any) -> OpenAIError:
    """From `{"error": {...}}`, `{"error": "..."}`, `{"detail": ...}`, `{"message": ...}`, or a list of one of these."""
    if isinstance(found, list) and found:
        return complaint_in(cast("tuple[Any, ...]", found)[0])
    if not isinstance(found, dict):
        return OpenAIError(str(cast("object", found))[:LONGEST_WORDS] if found else "the server gave no reason")
    given = cast("dict[str, Any]", found)
    error = given.get("error") or given
    if not isinstance(error, dict):
        return OpenAIError(str(error)[:LONGEST_WORDS])
    fields = cast("dict[str, Any]", error)
    code = fields.get("code")
    words = fields.get("message") or fields.get("detail") or fields.get("type") or code
    if not isinstance(words, str):
        words = msgspec.json.encode(words).decode() if words else "the server gave no reason"
    return OpenAIError(
        words,
        str(fields.get("type") or fields.get("status") or "").lower(),
        code if isinstance(code, str) else "",
        str(fields.get("param") or ""),
        code if isinstance(code, int) and 400 <= code < 600 else None,
    )


def failure_of(complaint: OpenAIError) -> Failure:
    """For an error in mid-stream."""
    return Failure(classify_openai_error(None, complaint), complaint.words[:LONGEST_WORDS])


async def read_openai_refusal(
    response: ErrorResponse,
    now: float,
    settings: tuple[str, ...],
    ways_out: UserRemedies = GIVEN,
    *,
    keyed: bool = True,
) -> RequestRefusedError:
    """`settings`: those that the request can be sent without; `now` is in seconds since 1970."""
    status, headers = response.status, response.headers
    complaint = read_complaint(await response.read())
    trouble = classify_openai_error(status, complaint)
    wait = retry_after(headers, now)
    if trouble is Trouble.RATE_LIMIT and wait is None:
        wait = said_wait(headers, complaint.words)
    resets_at = round(now * SECOND) + wait if trouble is Trouble.RATE_LIMIT and wait is not None else None
    detail = f"{status}: {complaint.words}"[:LONGEST_WORDS] + ways_out.behind(trouble, status, keyed=keyed)
    failure = Failure(trouble, detail, status, resets_at)
    curable = status in (400, 422) and trouble in (Trouble.INVALID_REQUEST, Trouble.SERVER)
    if curable and (cure := cure_for(complaint, settings)):
        return CurableError(failure, cure)
    return RequestRefusedError(failure, wait, final=headers.get("x-should-retry") == "false")


# --- cures --------------------------------------------------------------------------------------------

UNKNOWN = re.compile(
    r"unsupported|not support|unknown|unrecognized|unexpected|not permitted|not allowed|extra input|extra field|invalid"
    r"|must be verified"
)
BAD_SIGNATURE = re.compile(r"thought[ _]?signature")
BAD_REASONING = re.compile(
    r"encrypted[ _]content|reasoning.{0,40}(item|signature)|(item|signature).{0,60}reasoning|required following item"
)


def cure_for(complaint: OpenAIError, settings: tuple[str, ...]) -> str:
    """A setting to leave out, or a cure for reasoning; empty if there is none."""
    said = complaint.words.lower()
    # A setting that the server quotes wins over one that it only mentions: "use 'max_completion_tokens' instead".
    named = [name for name in settings if name == complaint.param or name.endswith(f".{complaint.param}")]
    named += sorted([name for name in settings if place_of(name, said) >= 0], key=lambda name: place_of(name, said))
    if named and UNKNOWN.search(said):
        return f"{named[0]}{VALUE}" if leaf_name(named[0]).endswith("effort") and "value" in said else named[0]
    if "include" in settings and "encrypted content is not supported" in said:
        return "include"
    if DETAILS in said:
        return THINKING
    if CARRY in said:
        return CARRY
    if BAD_SIGNATURE.search(said):
        return SIGN
    return THINKING if BAD_REASONING.search(said) else ""


def place_of(name: str, said: str) -> int:
    """Where a text names a setting; -1 if it does not. A setting that is also an English word must be quoted."""
    word = leaf_name(name)
    if "_" in word:
        return said.find(word)
    found = re.search(rf"[\"'`.]{word}[\"'`:]", said)
    return found.start() if found else -1


def leaf_name(name: str) -> str:
    return name.rpartition(".")[2]


# --- retry delays -------------------------------------------------------------------------------------

UNITS = {"ms": 1, "s": SECOND, "m": 60 * SECOND, "h": 3_600 * SECOND, "d": 86_400 * SECOND}
LENGTH = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
TRY_AGAIN = re.compile(r"try again in ((?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+)")


def said_wait(headers: Mapping[str, str], words: str) -> int | None:
    """The time until the exhausted limits reset; otherwise the delay in the text."""
    if waits := list(find_exhausted_limits(headers)):
        return max(waits)
    found = TRY_AGAIN.search(words.lower())
    return parse_reset_delay(found[1]) if found else None


def find_exhausted_limits(headers: Mapping[str, str]) -> Iterator[int]:
    for name, left in headers.items():
        if name.startswith("x-ratelimit-remaining-") and left.strip() == "0":
            wait = parse_reset_delay(headers.get(name.replace("remaining", "reset"), ""))
            if wait is not None:
                yield wait


def parse_reset_delay(text: str) -> int | None:
    """Milliseconds in `6m0s`, `12ms`, `1.5s` or `20`, which are seconds."""
    seconds = parse_number(text)
    if seconds is not None:
        return round(seconds * SECOND)
    if not text or LENGTH.sub("", text.strip()):
        return None
    return round(sum([float(count) * UNITS[unit] for count, unit in LENGTH.findall(text)]))
