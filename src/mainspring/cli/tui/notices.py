"""What happens to a run, in words for people: why the model is asked again, what went wrong, what left its view, and
what it all came to. Tables, so that nothing is shown under the name that it has inside.

What agents that worked in the background report: its first line, as it comes into the conversation.

The last calls, so that what was cut of them can be looked at: turn by turn, the newest first.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from mainspring.agent.results import LOCAL
from mainspring.cli.plain import describe_freed_room
from mainspring.cli.tui.call_view import BULLET, CallResultView, CallTitle
from mainspring.cli.tui.layout import MORE, WidthAware, clip_text, clipped_line, indent_with_branch
from mainspring.cli.tui.status import format_elapsed
from mainspring.core.messages import Origin, User
from mainspring.core.models import MODELS, Model, same_model
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.reasons import Transition, Trouble
from mainspring.core.updates import Boundary, RequestStarted, Result, Retrying
from mainspring.text import plural

TRANSITIONS: dict[Transition, str] = {
    Transition.NEXT_TURN: "",  # nothing has happened,
    Transition.AUTO_COMPACT: "",  # and of these two the line about what left the conversation tells
    Transition.AUTO_TRIM: "",
    Transition.COLLAPSE_DRAIN_RETRY: "the request was too long: asked again with less",
    Transition.REACTIVE_COMPACT_RETRY: "the server did not take the request: asked again with a summary",
    Transition.STRIP_MEDIA_RETRY: "the server did not take the request: asked again without pictures and files",
    Transition.TRIM_RETRY: "the request was too long: asked again without its middle",
    Transition.CONTEXT_WINDOW_RETRY: "the model's window was full: asked again with a summary",
    Transition.MAX_OUTPUT_TOKENS_ESCALATE: "the reply was too long: asked again, with more room for it",
    Transition.MAX_OUTPUT_TOKENS_RECOVERY: "the reply was too long: it goes on in another one",
    Transition.STOP_HOOK_BLOCKING: "a hook wants more to be done: it goes on",
    Transition.TOKEN_BUDGET_CONTINUATION: "there is budget left: it goes on",
    Transition.TRUNCATED_RESPONSE_RECOVERY: "the connection broke in the middle of a call: it goes on from there",
    Transition.STREAM_RETRY: "the connection broke: asked again",
    Transition.MODEL_FALLBACK: "the model does not answer: '{model}' is asked in its place",
    Transition.EMPTY_ANSWER_RETRY: "the reply was empty: asked again",
    Transition.THINKING_ONLY_RETRY: "the model has thought and said nothing: asked again",
    Transition.MALFORMED_TOOL_USE_RETRY: "a call could not be read: the model writes it again",
    Transition.REFUSAL_RETRY: "the model declined: asked again",
    Transition.PAUSE_TURN_CONTINUE: "the server made a pause: it goes on",
    Transition.STRUCTURED_OUTPUT_RETRY: "the answer did not have the form that was asked for: asked again",
}

TROUBLES: dict[Trouble, str] = {
    Trouble.NEAR_LIMIT: "the conversation fills the model's window",
    Trouble.MAX_OUTPUT: "the reply was too long",
    Trouble.CONTEXT_WINDOW: "the model's window was full",
    Trouble.PAUSED: "the server made a pause",
    Trouble.EMPTY: "the reply was empty",
    Trouble.THINKING_ONLY: "the model has thought and said nothing",
    Trouble.MALFORMED_CALL: "a call could not be read",
    Trouble.REFUSAL: "the model declined",
    Trouble.STRUCTURED_OUTPUT: "the answer did not have the form that was asked for",
    Trouble.STREAM_CUT: "the connection broke",
    Trouble.PROMPT_TOO_LONG: "the request was too long",
    Trouble.TOO_LARGE: "the request was too large",
    Trouble.MEDIA: "a picture or a file was not accepted",
    Trouble.OVERLOADED: "the server is overloaded",
    Trouble.RATE_LIMIT: "the rate limit is reached",
    Trouble.SERVER: "the server has an error",
    Trouble.NETWORK: "the server cannot be reached",
    Trouble.AUTH: "the key was not accepted",
    Trouble.INVALID_REQUEST: "the server did not accept the request",
    Trouble.FUNDS: "the budget is spent",
}

# What is waited out, when it is over.
WAITED: dict[Trouble, str] = {
    Trouble.OVERLOADED: "the server was overloaded",
    Trouble.RATE_LIMIT: "the rate limit was reached",
    Trouble.SERVER: "the server had an error",
    Trouble.NETWORK: "the server could not be reached",
}

# By the names that the context has for them (`context/compactor.py`, `core/effects.py`).
LAYERS = {
    "tool_results": "long outputs were put into files",
    "snip": "old turns that say nothing any more were left out",
    "microcompact": "old outputs were left out",
    "collapse": "older turns were summed up",
    "strip_media": "pictures and files were left out",
    "summary": "the conversation was summed up",
    "trim": "the middle of the conversation was left out",
}


def went_on(update: RequestStarted) -> str:
    """Empty: there is nothing to tell."""
    words = TRANSITIONS[update.transition].format(model=update.model) if update.transition else ""
    return f"({words})" if words else ""


def left_view(update: Boundary) -> str:
    return f"({LAYERS.get(update.layer, update.layer)} to make room{describe_freed_room(update)})"


def describe_withdrawn(why: Trouble, *, was_seen: bool) -> str:
    return f"({'the text above does not count' if was_seen else 'a reply was dropped'}: {TROUBLES[why]})"


class RetryNotice:
    """Of one request. They are told while they last, and summed up in one line."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._last: Retrying | None = None

    def see(self, update: Retrying, now: float) -> str:
        """What is said until the next try."""
        self._since = now if self._since is None else self._since
        self._last = update
        words, tried = TROUBLES[update.failure.kind], update.attempt + 1
        of = f" of {update.most}" if update.most else ""
        return f"{words[0].upper()}{words[1:]}: try {tried}{of}"

    def over(self, now: float) -> str:
        """Empty: there were none. They are forgotten."""
        since, last, self._since, self._last = self._since, self._last, None, None
        if since is None or last is None:
            return ""
        kind = last.failure.kind
        took = format_elapsed(max(1.0, now - since))
        return f"(waited {took}: {WAITED.get(kind, TROUBLES[kind])}, {last.attempt + 1} tries)"


def format_run_figures(result: Result, model: Model) -> str:
    """Of a run, as in `[2 turns, 3.1 s, 1,234 + 56 tokens, $0.0123]`; empty if nothing was done."""
    if result.cause in LOCAL and not result.usage.total:
        return ""
    turns = [] if result.cause in LOCAL else [plural(result.turns, "turn")]
    roughly = "about " if result.estimated else ""
    parts = [*turns, f"{result.duration / 1_000:.1f} s"]
    parts.append(f"{roughly}{result.usage.prompt:,} + {result.usage.output:,} tokens")
    if any(same_model(model.name, listed) for listed in MODELS):  # else nobody knows the price
        parts.append(f"{roughly}${result.cost / NANOS_PER_USD:.4f}")
    return f"[{', '.join(parts)}]"


# `engine/subagents.py` writes them: what the model must know of it, a blank line, and the agent's own words.
REPORT = re.compile(r'<task-notification agent="([^"]*)" status="([^"]*)">.*?\n\n(.*?)</task-notification>', re.DOTALL)
LONGEST = 200  # columns of it


class SubagentReport(NamedTuple):
    agent_id: str
    failed: bool
    words: str

    def by(self, title: CallTitle) -> WidthAware:
        """In one line, if there is room for it."""
        did, mark = ("failed:", "call.failed") if self.failed else ("reported:", "call.done")

        def draw(width: int) -> list[Text]:
            if cell_len(f"{BULLET}{title.name}({title.words}) {did} {self.words}") <= width:
                return [title.draw(mark, width, f" {did} {self.words}")]
            said = [clip_text(row, width) for row in indent_with_branch([Text(self.words, "detail")])]
            return [title.draw(mark, width, f" {did}"), *said]

        return WidthAware(draw)


def reports_in(message: User) -> Iterator[SubagentReport]:
    if message.origin is Origin.REPORT:
        for found in REPORT.finditer(message.text):
            first = found[3].strip().partition("\n")[0]
            yield SubagentReport(found[1], found[2] != "completed", clipped_line(first, LONGEST) or "nothing")


MOST_KEPT = 50  # calls


class ExpandedCall(NamedTuple):
    turn: int
    at: float
    call: CallResultView


class CallGroup(NamedTuple):
    about: str
    calls: list[CallResultView]


class ExpandedCalls:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: deque[ExpandedCall] = deque(maxlen=MOST_KEPT)  # and what was unfolded leaves
        self._turn = 0

    def begins_turn(self) -> None:
        self._turn += 1

    def add(self, call: CallResultView) -> None:
        self._kept.append(ExpandedCall(self._turn, self._now(), call))

    def forget(self) -> None:
        self._kept.clear()

    def next(self) -> CallGroup | None:
        """What was cut in the newest turn that was not unfolded yet."""
        folded = [kept for kept in self._kept if kept.call.is_folded]
        if not folded:
            return None
        group = [kept for kept in folded if kept.turn == folded[-1].turn]
        rest = [kept for kept in self._kept if kept.turn != folded[-1].turn]
        self._kept = deque(rest, MOST_KEPT)
        ago, earlier = (
            format_elapsed(self._now() - group[-1].at),
            f" · earlier ones {MORE}" if len(folded) > len(group) else "",
        )
        return CallGroup(f"All of {plural(len(group), 'call')}, {ago} ago{earlier}", [kept.call for kept in group])
