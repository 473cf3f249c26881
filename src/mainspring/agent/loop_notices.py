"""Why the loop went on, what left the model's view, what a prefix break cost, and the figures of a run: in words, for
the terminal and for plain mode.

Tables translate internal names, so that none is shown. A notice that would come with every turn is not shown: an
ordinary turn, an edit that pays for itself. `/cost` has the sums of all prefix breaks.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.agent.results import LOCAL
from mainspring.agent.usage import UsageMeter
from mainspring.core.models import Model, has_price
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.reasons import Transition
from mainspring.core.updates import Boundary, PrefixBroken, RequestStarted, Result
from mainspring.text import plural

TRANSITIONS: dict[Transition, str] = {
    Transition.NEXT_TURN: "",  # an ordinary turn,
    Transition.AUTO_COMPACT: "",  # and the compaction notice covers these two
    Transition.AUTO_TRIM: "",
    Transition.COLLAPSE_DRAIN_RETRY: "the request was too long: retrying with less context",
    Transition.REACTIVE_COMPACT_RETRY: "the server rejected the request: retrying with a summary",
    Transition.STRIP_MEDIA_RETRY: "the server rejected the request: retrying without images and files",
    Transition.TRIM_RETRY: "the request was too long: retrying without the middle of the conversation",
    Transition.CONTEXT_WINDOW_RETRY: "the context window was full: retrying with a summary",
    Transition.MAX_OUTPUT_TOKENS_ESCALATE: "the reply was too long: retrying with a higher output limit",
    Transition.MAX_OUTPUT_TOKENS_RECOVERY: "the reply was too long: continuing in a new reply",
    Transition.STOP_HOOK_BLOCKING: "a hook asked for more work: continuing",
    Transition.TOKEN_BUDGET_CONTINUATION: "token budget left: continuing",
    Transition.TRUNCATED_RESPONSE_RECOVERY: "the connection broke during a tool call: continuing from there",
    Transition.STREAM_RETRY: "the connection broke: retrying",
    Transition.MODEL_FALLBACK: "the model does not answer: switching to '{model}'",
    Transition.EMPTY_ANSWER_RETRY: "the reply was empty: retrying",
    Transition.THINKING_ONLY_RETRY: "the reply had only thinking: retrying",
    Transition.MALFORMED_TOOL_USE_RETRY: "a tool call could not be parsed: asking the model to repeat it",
    Transition.REFUSAL_RETRY: "the model declined: retrying",
    Transition.PAUSE_TURN_CONTINUE: "the server paused the reply: continuing",
    Transition.STRUCTURED_OUTPUT_RETRY: "the answer did not match the schema: retrying",
}

# By layer name (`context/compactor.py`, `core/effects.py`).
LAYERS = {
    "tool_results": "long outputs were moved to files",
    "snip": "outdated turns were removed",
    "microcompact": "old tool results were removed",
    "collapse": "older turns were summarized",
    "strip_media": "images and files were removed",
    "summary": "the conversation was compacted",
    "trim": "the middle of the conversation was removed",
}


# By reason (`core/reasons.py`); a context edit has the words of its layers.
BREAKS = {
    "model_changed": "the model changed",
    "tools_changed": "the set of tools changed",
    "system_changed": "the system prompt changed",
    "thinking_changed": "thinking was switched",
    "context_edited": "the context was edited",
    "history_replaced": "the conversation was rewound or resumed",
    "request_repaired": "the server rejected a part of the request",
    "media_dropped": "old images and files were removed",
    "turn_completed": "an unfinished turn was completed",
    "unknown": "unknown reason",
}
LEAST_SHOWN = NANOS_PER_USD // 100  # a break that costs less is not worth a line


def explain_request(update: RequestStarted) -> str:
    """Why the run continued; empty if there is nothing to report."""
    words = TRANSITIONS[update.transition].format(model=update.model) if update.transition else ""
    return f"({words})" if words else ""


def explain_context_edit(update: Boundary) -> str:
    return f"({LAYERS.get(update.layer, update.layer)} to make room{describe_freed_room(update)})"


def describe_freed_room(boundary: Boundary) -> str:
    if boundary.before:
        return f", from {boundary.before:,} to {boundary.after:,} tokens"
    return f", {boundary.freed:,} tokens less" if boundary.freed else ""


def explain_prefix_break(broken: PrefixBroken, model: Model) -> str:
    """Empty if there is nothing to report: it cost little, a context layer did it (which has its own notice), or the
    price of the model is unknown."""
    if broken.reason == "context_edited" or broken.price < LEAST_SHOWN or not has_price(model):
        return ""
    roughly = "about " if broken.estimated else ""
    paid = f"{roughly}{broken.tokens:,} tokens were not read from the cache, {roughly}{format_price(broken.price)} more"
    return f"({BREAKS[broken.reason]}: {paid})"


def list_prefix_breaks(usage: UsageMeter) -> Iterator[str]:
    """How often the prefix broke and what that cost, the dearest reason first."""
    if not usage.breaks:
        return
    times = sum([times for times, _ in usage.breaks.values()])
    yield f"Prefix breaks: {times}, {format_price(usage.break_cost)} more than with an unbroken cache."
    for event, (times, price) in sorted(usage.breaks.items(), key=lambda row: -row[1][1]):
        words = BREAKS.get(event) or ", ".join([LAYERS.get(layer, layer) for layer in event.split(", ")])
        yield f"  {words}: {plural(times, 'time')}, {format_price(price)}"


def format_price(nanos: int) -> str:
    return f"${nanos / NANOS_PER_USD:.4f}"


def format_run_figures(result: Result, model: Model, separator: str = " · ") -> str:
    """The figures of a run, as in `2 turns · 3.1 s · 1,234 tokens in, 56 out · $0.0123`; empty for a local
    command that called no model."""
    if result.cause in LOCAL and not result.usage.total:
        return ""
    turns = [] if result.cause in LOCAL else [plural(result.turns, "turn")]
    roughly = "about " if result.estimated else ""
    parts = [*turns, f"{result.duration / 1_000:.1f} s"]
    parts.append(f"{roughly}{result.usage.prompt:,} tokens in, {result.usage.output:,} out")
    if has_price(model):
        parts.append(f"{roughly}${result.cost / NANOS_PER_USD:.4f}")
    return separator.join(parts)
