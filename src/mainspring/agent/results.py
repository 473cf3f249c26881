"""The outcome of a run, in the terms of stream-json 6.4 and as text for people.

It differs from settled 20 in one point, as Claude Code does: if the model's API failed for good, the subtype is
`success`, with `is_error` true, and the error text replaces the answer. After an exhausted output limit the partial
text stays the answer, and `errors` says that it is partial.
"""

from __future__ import annotations

from mainspring import secrets
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.reasons import Cause, Failure, Subtype, Terminal, Trouble
from mainspring.core.updates import Result
from mainspring.core.value import Bundle


class OutcomeRow(Bundle):
    subtype: Subtype
    is_error: bool = True
    reason: str = ""  # stream-json's `terminal_reason`; empty: the terminal's own name
    words: str = ""  # the text in `errors`; empty: the result's detail


ANSWER = OutcomeRow(Subtype.SUCCESS, is_error=False)
API_FAILED = OutcomeRow(Subtype.SUCCESS, reason="api_error")
# The prompt or an image in it is too large. The reason is its own; the text is the API's, if there was a request.
TOO_MUCH = OutcomeRow(Subtype.SUCCESS, words="The conversation does not fit the model's window")
TOO_LARGE = OutcomeRow(Subtype.SUCCESS, words="The request is larger than the model's service takes")
ABORTED = OutcomeRow(Subtype.ERROR_DURING_EXECUTION, words="The request was interrupted")

ROWS: dict[Cause, OutcomeRow] = {
    Cause.END_TURN: ANSWER,
    Cause.TOKEN_BUDGET: ANSWER,
    Cause.OUTPUT_LIMIT: OutcomeRow(Subtype.SUCCESS, words="The answer was cut off"),
    Cause.REFUSAL: ANSWER,
    Cause.HOOK: ANSWER,
    Cause.COMPACTED: ANSWER,
    Cause.NOT_COMPACTED: OutcomeRow(Subtype.ERROR_DURING_EXECUTION, words="The conversation was not compacted"),
    Cause.LIMIT: OutcomeRow(Subtype.ERROR_MAX_TURNS, words="Reached maximum number of turns ({turns})"),
    Cause.BUDGET_USD: OutcomeRow(
        Subtype.ERROR_MAX_BUDGET_USD,
        reason="budget_exhausted",
        words="Reached maximum budget, ${cost:.4f} spent in this run",
    ),
    Cause.STRUCTURED_OUTPUT: OutcomeRow(
        Subtype.ERROR_MAX_STRUCTURED_OUTPUT_RETRIES,
        reason="structured_output_retry_exhausted",
        words="The model gave no output that fits the schema",
    ),
    Cause.EMPTY_ANSWER: OutcomeRow(Subtype.ERROR_DURING_EXECUTION, words="The model gave no answer"),
    Cause.NO_PROGRESS: OutcomeRow(Subtype.ERROR_DURING_EXECUTION, words="The model made no progress"),
    Cause.MALFORMED_TOOL_USE: OutcomeRow(
        Subtype.ERROR_DURING_EXECUTION, words="The model's tool calls stayed malformed"
    ),
    Cause.REFILL: OutcomeRow(Subtype.ERROR_DURING_EXECUTION, words="The conversation does not fit the model's window"),
    Cause.RATE_LIMIT: API_FAILED,
    Cause.OVERLOADED: API_FAILED,
    Cause.AUTH: API_FAILED,
    Cause.INVALID_REQUEST: API_FAILED,
    Cause.SERVER: API_FAILED,
    Cause.NETWORK: API_FAILED,
    Cause.WINDOW: TOO_MUCH,
    Cause.MEDIA: TOO_MUCH,
    Cause.TOO_LARGE: TOO_LARGE,
    Cause.HARD: ABORTED,
    Cause.SUBMIT: ABORTED,
    Cause.TIMEOUT: ABORTED,
    Cause.PARENT: ABORTED,
}


LOCAL = (Cause.COMPACTED, Cause.NOT_COMPACTED)  # runs without a turn


class RunOutcome(Bundle):
    subtype: Subtype
    is_error: bool
    reason: str
    text: str | None  # the answer, a part of it, or the API's error instead; None: see `errors`
    errors: tuple[str, ...]
    status: int | None = None  # of the API's error

    @property
    def words(self) -> str:
        """For people: what went wrong."""
        return "; ".join(self.errors) or self.text or self.reason


def make_outcome(result: Result, failure: Failure | None = None) -> RunOutcome:
    row = ROWS[result.cause]
    reason = row.reason or result.terminal.value
    if not row.is_error:
        silent = result.terminal is Terminal.HOOK_STOPPED or result.cause is Cause.COMPACTED
        text = "" if silent else result.text
        return RunOutcome(row.subtype, row.is_error, reason, text, ())
    partial = result.cause is Cause.OUTPUT_LIMIT
    if row.subtype is Subtype.SUCCESS and failure is not None and not partial:
        return RunOutcome(row.subtype, row.is_error, reason, prose_of(failure), (), failure.status)
    said = row.words.format(turns=result.turns, cost=result.cost / NANOS_PER_USD)
    words = ": ".join([part for part in (said, result.detail) if part])
    if partial:
        return RunOutcome(row.subtype, row.is_error, reason, result.text, (words,))
    if row.subtype is Subtype.SUCCESS:
        return RunOutcome(row.subtype, row.is_error, reason, words, ())
    return RunOutcome(row.subtype, row.is_error, reason, None, (words,))


# --- an API's failure -------------------------------------------------------------------------------

# stream-json 6.2: the names that users of the SDK branch on. Anything not listed is no failure of the API.
ERROR_NAMES: dict[Trouble, str] = {
    Trouble.RATE_LIMIT: "rate_limit",
    Trouble.OVERLOADED: "server_error",
    Trouble.SERVER: "server_error",
    Trouble.NETWORK: "server_error",
    Trouble.AUTH: "authentication_failed",
    Trouble.INVALID_REQUEST: "invalid_request",
    Trouble.PROMPT_TOO_LONG: "invalid_request",
    Trouble.TOO_LARGE: "invalid_request",
    Trouble.CONTEXT_WINDOW: "invalid_request",
    Trouble.MEDIA: "invalid_request",
}
BY_STATUS = {402: "billing_error", 404: "model_not_found"}

# Advice that the provider's message does not contain already.
WAY_OUT: dict[Trouble, str] = {
    Trouble.OVERLOADED: ". Try again later, or set a fallback model",
}


def error_name(failure: Failure) -> str | None:
    named = ERROR_NAMES.get(failure.kind)
    return BY_STATUS.get(failure.status or 0, named) if named else None


def prose_of(failure: Failure) -> str:
    said, way_out = failure.detail or failure.kind, WAY_OUT.get(failure.kind, "")
    return secrets.redact(f"API Error: {said}{way_out.removeprefix('.') if said.endswith('?') else way_out}")
