"""Choose replies from a script, a recording or a rule. All but the plain list go by the conversation, not by request
order, so that many sessions can share one server.

    InOrder([Say.of("one"), Say.of("two")])                                        # in the order of requests
    choose_by_prompt([PromptScript("add", (Say.of(call), Say.of("It is 5.")))])    # the n-th reply since that prompt
    replay_recording(read_recording(path))                                         # recorded for the same messages
"""

from __future__ import annotations

import importlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from mainspring.help_pages import read_model_script
from mainspring.simulator.cache import extend_fingerprint
from mainspring.simulator.forms import is_list, is_object
from mainspring.simulator.replies import (
    Json,
    ReceivedConversation,
    ReceivedRequest,
    Refuse,
    Reply,
    Say,
    blocks_of,
    strip_cache_marks,
)
from mainspring.text import plural

Choose = Callable[[ReceivedRequest], Reply]

NO_MORE = Refuse(400, "invalid_request_error", "the script has no more replies")


class InOrder:
    """Replies in the order of requests. A reply that a fault withheld from the client is given again."""

    def __init__(self, replies: Iterable[Reply] = ()) -> None:
        self._coming = iter(replies)
        self._again: deque[Reply] = deque()

    def __call__(self, _: ReceivedRequest) -> Reply:
        return self._again.popleft() if self._again else next(self._coming, NO_MORE)

    def give_back(self, reply: Reply) -> None:
        self._again.appendleft(reply)


def default_reply(received: ReceivedRequest) -> Reply:
    """The reply of a server without a script: a thought and a sentence."""
    said = [words for _, words in received.talk.said() if not words.startswith("<system-reminder")]
    words = said[-1].split("\n")[0][:60] if said else ""
    return Say.of({"type": "thinking", "thinking": "Somebody is talking to me."}, f"You said: {words}")


# --- a script ---------------------------------------------------------------------------------------


class PromptScript(Struct, frozen=True):
    """Replies to one prompt: the first to the prompt itself, the second after one reply, and so on."""

    prompt: str  # or a part of it; empty: any prompt
    replies: tuple[Reply, ...]


def choose_by_prompt(scripts: Iterable[PromptScript]) -> Choose:
    """The last user text that matches a script decides. Other texts do not count: a client may ask its model to
    continue after a failure, and the conversation is still the same.
    """
    known = tuple(scripts)

    def choose(received: ReceivedRequest) -> Reply:
        talk = received.talk
        for number, words in reversed(list(talk.said())):
            for script in known:
                if script.prompt in words:
                    return get_nth_reply(script, talk.turns(number))
        said = [words for _, words in talk.said() if not words.startswith("<system-reminder")]
        prompt = (said or [talk.prompt])[-1][:100]
        return Refuse(400, "invalid_request_error", f"no script matches the prompt '{prompt}'")

    return choose


def get_nth_reply(script: PromptScript, turns: int) -> Reply:
    if turns < len(script.replies):
        return script.replies[turns]
    said = f"the script for '{script.prompt}' has {len(script.replies)} replies, and number {turns + 1} was requested"
    return Refuse(400, "invalid_request_error", said)


def read_script(path: Path) -> Choose:
    """A JSON list of replies, given in order; or of objects with a prompt and its replies."""
    raw = path.read_bytes()
    given = msgspec.json.decode(raw)
    if is_list(given) and any("prompt" in each for each in given if is_object(each)):
        return choose_by_prompt(msgspec.json.decode(raw, type=tuple[PromptScript, ...]))
    return InOrder(msgspec.json.decode(raw, type=tuple[Reply, ...]))


# --- a page of the documentation ----------------------------------------------------------------------

# A text, a call such as `{"call": "Bash", "command": "ls"}`, or a list of both.
PageReply = str | Json | list[str | Json]


def play_page(page: Path) -> Choose:
    """The model of a page, whose replies by prompt are in a comment. Other prompts get the usual reply. The tests of
    the page use it, too."""
    scripts = read_page_scripts(page)
    play = choose_by_prompt(scripts)

    def choose(received: ReceivedRequest) -> Reply:
        known = any(script.prompt in words for _, words in received.talk.said() for script in scripts)
        return play(received) if known else default_reply(received)

    return choose


def read_page_scripts(page: Path) -> list[PromptScript]:
    script = read_model_script(page)
    given = msgspec.json.decode(script, type=dict[str, list[PageReply]]) if script else {}
    ids = map("toolu_{}".format, count(1))
    return [
        PromptScript(prompt, tuple([make_reply(reply, ids) for reply in replies])) for prompt, replies in given.items()
    ]


def make_reply(reply: PageReply, ids: Iterator[str]) -> Say:
    parts: list[str | Json] = reply if isinstance(reply, list) else [reply]
    return Say.of(*[part if isinstance(part, str) else make_call(ids, **part) for part in parts])


def make_call(ids: Iterator[str], *, call: str, **given: Any) -> Json:
    return {"type": "tool_use", "id": next(ids), "name": call, "input": given}


# --- a recording --------------------------------------------------------------------------------------


class RecordedExchange(Struct, frozen=True):
    """A request and its reply: one line of a recording."""

    request: Json
    reply: Reply


def read_recording(path: Path) -> list[RecordedExchange]:
    return msgspec.json.Decoder(RecordedExchange).decode_lines(path.read_bytes())


def encode_recording_line(body: Json, reply: Reply) -> bytes:
    return msgspec.json.encode(RecordedExchange(body, reply)) + b"\n"


def replay_recording(exchanges: Iterable[RecordedExchange]) -> Choose:
    """The same messages to the same model get the same reply; if they come again, the next one that was recorded for
    them.

    System text, tools and settings are not compared: they contain dates and paths. Neither is thinking, whose
    signatures are new each time.
    """
    known: dict[bytes, list[Reply]] = {}
    for exchange in exchanges:
        known.setdefault(conversation_key(exchange.request), []).append(exchange.reply)
    asked: Counter[bytes] = Counter()

    def choose(received: ReceivedRequest) -> Reply:
        key = conversation_key(received.heard)
        if key not in known:
            said = f"the recording has no answer to these {plural(len(received.talk.messages), 'message')}"
            return Refuse(400, "invalid_request_error", said)
        asked[key] += 1
        return known[key][min(asked[key], len(known[key])) - 1]

    return choose


def conversation_key(body: Json) -> bytes:
    talk = ReceivedConversation(body)
    said = [
        [message["role"], [strip_cache_marks(block) for block in blocks_of(message) if "thinking" not in block["type"]]]
        for message in talk.messages
    ]
    return extend_fingerprint(b"", [talk.model, said])


# --- a rule -------------------------------------------------------------------------------------------


class RuleFunction(NamedTuple):
    module: str
    function: str


def read_rule(written: str) -> Choose:
    """`module:function`; the function gets the request and returns a reply."""
    name = RuleFunction(*written.partition(":")[::2])
    rule: Choose | None = getattr(importlib.import_module(name.module), name.function, None)
    if rule is None:
        raise ValueError(f"'{name.module}' has no function '{name.function}'; write MODULE:FUNCTION")
    return rule
