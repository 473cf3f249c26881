"""Notices about a run, in words for the user: retries, errors, and the figures at its end. Those that plain mode has,
too, are in `agent/loop_notices.py`.

Tables translate internal names, so that none is shown. The module also draws the reports of background subagents (the
first line), and keeps the last calls for the transcript.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from mainspring.cli.tui.call_view import BULLET, CallResultView, CallTitle
from mainspring.cli.tui.layout import WidthAware, clip_text, clipped_line, indent_with_branch
from mainspring.core.messages import Origin, User
from mainspring.core.reasons import Trouble
from mainspring.core.updates import Retrying
from mainspring.text import format_elapsed

TROUBLES: dict[Trouble, str] = {
    Trouble.NEAR_LIMIT: "the context window is almost full",
    Trouble.MAX_OUTPUT: "the reply was too long",
    Trouble.CONTEXT_WINDOW: "the context window was full",
    Trouble.PAUSED: "the server paused the reply",
    Trouble.EMPTY: "the reply was empty",
    Trouble.THINKING_ONLY: "the reply had only thinking",
    Trouble.MALFORMED_CALL: "a tool call could not be parsed",
    Trouble.REFUSAL: "the model declined",
    Trouble.STRUCTURED_OUTPUT: "the answer did not match the schema",
    Trouble.STREAM_CUT: "the connection broke",
    Trouble.PROMPT_TOO_LONG: "the request was too long",
    Trouble.TOO_LARGE: "the request was too large",
    Trouble.MEDIA: "the server rejected an image or a file",
    Trouble.OVERLOADED: "the server is overloaded",
    Trouble.RATE_LIMIT: "the rate limit is reached",
    Trouble.SERVER: "the server reports an error",
    Trouble.NETWORK: "the server cannot be reached",
    Trouble.AUTH: "the API key was rejected",
    Trouble.INVALID_REQUEST: "the server rejected the request",
    Trouble.FUNDS: "the budget is spent",
}

# For the notice after the wait is over.
WAITED: dict[Trouble, str] = {
    Trouble.OVERLOADED: "the server was overloaded",
    Trouble.RATE_LIMIT: "the rate limit was reached",
    Trouble.SERVER: "the server reported an error",
    Trouble.NETWORK: "the server could not be reached",
}


def explain_full_context(tried: list[str]) -> str:
    """Describe what the run tried before it failed because the context is too long, and what the user can do."""
    before = f"Tried: {'; '.join(tried)}. " if tried else ""
    return f"{before}Type /rewind to go back, /clear to start anew, or /model for a model with a larger window."


def describe_withdrawn(why: Trouble, *, was_seen: bool) -> str:
    return f"({'the text above was discarded' if was_seen else 'a reply was discarded'}: {TROUBLES[why]})"


class RetryNotice:
    """The retries of one request: a status while they last, then one line that summarizes them."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._since: float | None = None
        self._last: Retrying | None = None
        self._when = ""  # of the next attempt

    def see(self, update: Retrying, now: float) -> str:
        """The status until the next attempt."""
        self._since = now if self._since is None else self._since
        self._last = update
        if not update.beat:
            self._when = describe_moment(update.delay, self._wall())
        words, tried = TROUBLES[update.failure.kind], update.attempt + 1
        of = f" of {update.most}" if update.most else ""
        return f"{words[0].upper()}{words[1:]}: attempt {tried}{of}{self._when}"

    def over(self, now: float) -> str:
        """Summarize the retries and forget them; empty if there were none."""
        since, last, self._since, self._last = self._since, self._last, None, None
        if since is None or last is None:
            return ""
        kind = last.failure.kind
        took = format_elapsed(max(1.0, now - since))
        return f"(waited {took}: {WAITED.get(kind, TROUBLES[kind])}, {last.attempt + 1} attempts)"


LONG_WAIT = 60_000  # milliseconds; from here on the user may want to come back later


def describe_moment(delay: int, now: float) -> str:
    """When the next attempt starts, if that takes long."""
    if delay < LONG_WAIT:
        return ""
    return f" at {time.strftime('%H:%M', time.localtime(now + delay / 1_000))}"


# `engine/subagents.py` writes reports: what the model must know, a blank line, and the text of the subagent.
REPORT = re.compile(r'<task-notification agent="([^"]*)" status="([^"]*)">.*?\n\n(.*?)</task-notification>', re.DOTALL)
LONGEST = 200  # columns of a report


class SubagentReport(NamedTuple):
    agent_id: str
    failed: bool
    words: str

    def by(self, title: CallTitle) -> WidthAware:
        """One line, if there is room for it."""
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


class RecentCalls:
    """The last finished calls, which the transcript draws as they were shown: with differences and colours."""

    def __init__(self) -> None:
        self._kept: dict[str, CallResultView] = {}

    def add(self, call: CallResultView) -> None:
        self._kept[call.call_id] = call
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def find(self, call_id: str) -> CallResultView | None:
        return self._kept.get(call_id)

    def forget(self) -> None:
        self._kept.clear()
