"""Why the loop went round again, and why it ended. Tests assert on these, users see them, traces print them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from mainspring.core.value import Bundle, Value


class Terminal(StrEnum):
    """Why a run ended. There are exactly ten (checklist C, Z-15); `Cause` gives the details."""

    COMPLETED = "completed"
    MAX_TURNS = "max_turns"
    BLOCKING_LIMIT = "blocking_limit"
    PROMPT_TOO_LONG = "prompt_too_long"
    IMAGE_ERROR = "image_error"
    MODEL_ERROR = "model_error"
    ABORTED_STREAMING = "aborted_streaming"
    ABORTED_TOOLS = "aborted_tools"
    STOP_HOOK_PREVENTED = "stop_hook_prevented"
    HOOK_STOPPED = "hook_stopped"


class Transition(StrEnum):
    """Why the loop went round again: the seven of the checklist, then the bounded recoveries users need (Z-16)."""

    NEXT_TURN = "next_turn"
    COLLAPSE_DRAIN_RETRY = "collapse_drain_retry"
    REACTIVE_COMPACT_RETRY = "reactive_compact_retry"
    MAX_OUTPUT_TOKENS_ESCALATE = "max_output_tokens_escalate"
    MAX_OUTPUT_TOKENS_RECOVERY = "max_output_tokens_recovery"
    STOP_HOOK_BLOCKING = "stop_hook_blocking"
    TOKEN_BUDGET_CONTINUATION = "token_budget_continuation"

    AUTO_COMPACT = "auto_compact"
    AUTO_TRIM = "auto_trim"
    STRIP_MEDIA_RETRY = "strip_media_retry"
    TRIM_RETRY = "trim_retry"
    CONTEXT_WINDOW_RETRY = "context_window_retry"
    TRUNCATED_RESPONSE_RECOVERY = "truncated_response_recovery"
    STREAM_RETRY = "stream_retry"
    MODEL_FALLBACK = "model_fallback"
    EMPTY_ANSWER_RETRY = "empty_answer_retry"
    THINKING_ONLY_RETRY = "thinking_only_retry"
    MALFORMED_TOOL_USE_RETRY = "malformed_tool_use_retry"
    REFUSAL_RETRY = "refusal_retry"
    PAUSE_TURN_CONTINUE = "pause_turn_continue"
    STRUCTURED_OUTPUT_RETRY = "structured_output_retry"


# Why a request does not extend the last one. A literal and no enum: it is loaded at every start.
BreakReason = Literal[
    "model_changed",
    "tools_changed",
    "system_changed",
    "thinking_changed",
    "context_edited",  # by a context layer, which the update names
    "history_replaced",  # rewound, or resumed elsewhere
    "request_repaired",  # the server refused a part of it
    "media_dropped",  # to make room for new images or documents
    "turn_completed",  # the last request ended with an unfinished turn
    "unknown",  # a bug of ours
]


class Trouble(StrEnum):
    """What went wrong: a closed set. Providers and replies are classified once."""

    # found in a reply, or before a request
    NEAR_LIMIT = "near_limit"
    MAX_OUTPUT = "max_output_tokens"
    CONTEXT_WINDOW = "context_window"
    PAUSED = "paused"
    EMPTY = "empty"
    THINKING_ONLY = "thinking_only"
    MALFORMED_CALL = "malformed_call"
    REFUSAL = "refusal"
    STRUCTURED_OUTPUT = "structured_output"
    STREAM_CUT = "stream_cut"  # any transient failure after part of the reply was handed on
    # reported by the provider
    PROMPT_TOO_LONG = "prompt_too_long"
    TOO_LARGE = "request_too_large"  # in bytes, independent of tokens
    MEDIA = "media"
    OVERLOADED = "overloaded"
    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    NETWORK = "network"
    AUTH = "auth"
    INVALID_REQUEST = "invalid_request"
    # reported by the ledger
    FUNDS = "funds"


PASSING = frozenset({Trouble.OVERLOADED, Trouble.RATE_LIMIT, Trouble.SERVER, Trouble.NETWORK})


class Failure(Value):
    """A failure as an event. The loop shows it only when no recovery is left (withholding, E-10 to E-13)."""

    kind: Trouble
    detail: str = ""
    status: int | None = None
    resets_at: int | None = None  # when a usage limit lifts, in milliseconds
    inside_call: bool = False  # the stream broke off within a tool call's input


class Cause(StrEnum):
    """What exactly ended the run, within its terminal reason (settled 20)."""

    END_TURN = "end_turn"
    TOKEN_BUDGET = "token_budget"
    OUTPUT_LIMIT = "output_limit"
    REFUSAL = "refusal"
    BUDGET_USD = "budget_usd"
    STRUCTURED_OUTPUT = "structured_output"
    EMPTY_ANSWER = "empty_answer"
    NO_PROGRESS = "no_progress"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    AUTH = "auth"
    INVALID_REQUEST = "invalid_request"
    SERVER = "server"
    NETWORK = "network"
    MALFORMED_TOOL_USE = "malformed_tool_use"
    WINDOW = "window"  # the context fills the model's window
    TOO_LARGE = "request_too_large"  # in bytes
    REFILL = "refill"  # compaction did not help
    COMPACTED = "compacted"  # the user asked for a compaction, and it succeeded,
    NOT_COMPACTED = "not_compacted"  # or failed; the detail has the reason
    MEDIA = "media"
    LIMIT = "limit"
    HARD = "hard"
    SUBMIT = "submit"
    TIMEOUT = "timeout"
    PARENT = "parent"
    HOOK = "hook"  # the detail has the hook's reason


class Subtype(StrEnum):
    """The result's subtype, by the names that users of the Claude Agent SDK branch on (M-07)."""

    SUCCESS = "success"
    ERROR_MAX_TURNS = "error_max_turns"
    ERROR_MAX_BUDGET_USD = "error_max_budget_usd"
    ERROR_MAX_STRUCTURED_OUTPUT_RETRIES = "error_max_structured_output_retries"
    ERROR_DURING_EXECUTION = "error_during_execution"


SUBTYPES: dict[Cause, Subtype] = dict.fromkeys(Cause, Subtype.ERROR_DURING_EXECUTION) | {
    Cause.END_TURN: Subtype.SUCCESS,
    Cause.TOKEN_BUDGET: Subtype.SUCCESS,
    Cause.REFUSAL: Subtype.SUCCESS,  # with stop_reason refusal
    Cause.HOOK: Subtype.SUCCESS,
    Cause.COMPACTED: Subtype.SUCCESS,
    Cause.BUDGET_USD: Subtype.ERROR_MAX_BUDGET_USD,
    Cause.STRUCTURED_OUTPUT: Subtype.ERROR_MAX_STRUCTURED_OUTPUT_RETRIES,
    Cause.LIMIT: Subtype.ERROR_MAX_TURNS,
}


class Ending(Bundle):
    terminal: Terminal
    cause: Cause


# How a run ends when no rung is left. Two troubles have no row: after NEAR_LIMIT the loop calls the model anyway, and a
# STREAM_CUT ends with whatever cut the stream.
GIVE_UP: dict[Trouble, Ending] = {
    Trouble.PROMPT_TOO_LONG: Ending(Terminal.PROMPT_TOO_LONG, Cause.WINDOW),
    Trouble.TOO_LARGE: Ending(Terminal.PROMPT_TOO_LONG, Cause.TOO_LARGE),
    Trouble.CONTEXT_WINDOW: Ending(Terminal.PROMPT_TOO_LONG, Cause.WINDOW),
    Trouble.MAX_OUTPUT: Ending(Terminal.COMPLETED, Cause.OUTPUT_LIMIT),
    Trouble.PAUSED: Ending(Terminal.COMPLETED, Cause.NO_PROGRESS),
    Trouble.EMPTY: Ending(Terminal.COMPLETED, Cause.EMPTY_ANSWER),
    Trouble.THINKING_ONLY: Ending(Terminal.COMPLETED, Cause.EMPTY_ANSWER),
    Trouble.REFUSAL: Ending(Terminal.COMPLETED, Cause.REFUSAL),
    Trouble.STRUCTURED_OUTPUT: Ending(Terminal.COMPLETED, Cause.STRUCTURED_OUTPUT),
    Trouble.FUNDS: Ending(Terminal.COMPLETED, Cause.BUDGET_USD),
    Trouble.MEDIA: Ending(Terminal.IMAGE_ERROR, Cause.MEDIA),
    Trouble.MALFORMED_CALL: Ending(Terminal.MODEL_ERROR, Cause.MALFORMED_TOOL_USE),
    Trouble.OVERLOADED: Ending(Terminal.MODEL_ERROR, Cause.OVERLOADED),
    Trouble.RATE_LIMIT: Ending(Terminal.MODEL_ERROR, Cause.RATE_LIMIT),
    Trouble.SERVER: Ending(Terminal.MODEL_ERROR, Cause.SERVER),
    Trouble.NETWORK: Ending(Terminal.MODEL_ERROR, Cause.NETWORK),
    Trouble.AUTH: Ending(Terminal.MODEL_ERROR, Cause.AUTH),
    Trouble.INVALID_REQUEST: Ending(Terminal.MODEL_ERROR, Cause.INVALID_REQUEST),
}


class AbortReason(StrEnum):
    HARD = "hard"  # Ctrl-C
    SUBMIT = "submit"  # the user typed a new message, which is context enough: no interruption notice (J-05)
    TIMEOUT = "timeout"
    PARENT = "parent"
