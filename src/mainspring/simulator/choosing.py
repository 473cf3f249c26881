"""Who answers: a script, a recording, a rule. All but the plain list go by the conversation, not by request order, so
that many sessions can share one server.

    InOrder([Say.of("one"), Say.of("two")])                          # whoever asks first
    by_prompt([Script("add", (Say.of(call), Say.of("It is 5.")))])   # the n-th reply since that was asked
    recorded(read_recording(path))                                   # what was answered to these very messages
"""

from __future__ import annotations

import importlib
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from mainspring.simulator.binding import fingerprint
from mainspring.simulator.forms import is_list, is_object
from mainspring.simulator.received import Json, Received, Talk, bare, blocks_of
from mainspring.simulator.replies import Refuse, Reply, Say

Choose = Callable[[Received], Reply]

NO_MORE = Refuse(400, "invalid_request_error", "the script has no more replies")


class InOrder:
    """Replies in their order, whoever asks. One that a fault kept from its reader is given again."""

    def __init__(self, replies: Iterable[Reply] = ()) -> None:
        self._coming = iter(replies)
        self._again: deque[Reply] = deque()

    def __call__(self, _: Received) -> Reply:
        return self._again.popleft() if self._again else next(self._coming, NO_MORE)

    def give_back(self, reply: Reply) -> None:
        self._again.appendleft(reply)


def answered(received: Received) -> Reply:
    """What a server says that was told nothing: a thought and a sentence."""
    said = [words for _, words in received.talk.said() if not words.startswith("<system-reminder")]
    words = said[-1].split("\n")[0][:60] if said else ""
    return Say.of({"type": "thinking", "thinking": "Somebody is talking to me."}, f"You said: {words}")


# --- a script ---------------------------------------------------------------------------------------


class Script(Struct, frozen=True):
    """Replies to one prompt: the first of them to the prompt itself, the second when one reply stands behind it."""

    prompt: str  # or a part of it; empty: whatever was asked
    replies: tuple[Reply, ...]


def by_prompt(scripts: Iterable[Script]) -> Choose:
    """The last thing that a user said and that a script knows decides. What else was said does not count: a client may
    ask its model to go on after a failure, and the conversation is still the same one."""
    known = tuple(scripts)

    def choose(received: Received) -> Reply:
        talk = received.talk
        for number, words in reversed(list(talk.said())):
            for script in known:
                if script.prompt in words:
                    return nth(script, talk.turns(number))
        return Refuse(400, "invalid_request_error", f"no script knows the prompt '{talk.prompt[:100]}'")

    return choose


def nth(script: Script, turns: int) -> Reply:
    if turns < len(script.replies):
        return script.replies[turns]
    said = f"the script for '{script.prompt}' has {len(script.replies)} replies, and was asked for number {turns + 1}"
    return Refuse(400, "invalid_request_error", said)


def read_script(path: Path) -> Choose:
    """A JSON list of replies, given in order; or of objects with a prompt and its replies."""
    raw = path.read_bytes()
    given = msgspec.json.decode(raw)
    if is_list(given) and any("prompt" in each for each in given if is_object(each)):
        return by_prompt(msgspec.json.decode(raw, type=tuple[Script, ...]))
    return InOrder(msgspec.json.decode(raw, type=tuple[Reply, ...]))


# --- a recording --------------------------------------------------------------------------------------


class Exchange(Struct, frozen=True):
    """A request and what was answered: one line of a recording."""

    request: Json
    reply: Reply


def read_recording(path: Path) -> list[Exchange]:
    return msgspec.json.Decoder(Exchange).decode_lines(path.read_bytes())


def line(body: Json, reply: Reply) -> bytes:
    return msgspec.json.encode(Exchange(body, reply)) + b"\n"


def recorded(exchanges: Iterable[Exchange]) -> Choose:
    """The same messages to the same model get the same reply; asked again, the next one that was recorded for them.

    System text, tools and settings are not compared: they hold dates and paths. Neither is thinking, whose signatures
    are new each time.
    """
    known: dict[bytes, list[Reply]] = {}
    for exchange in exchanges:
        known.setdefault(conversation(exchange.request), []).append(exchange.reply)
    asked: Counter[bytes] = Counter()

    def choose(received: Received) -> Reply:
        key = conversation(received.heard)
        if key not in known:
            said = f"the recording holds no answer to these {len(received.talk.messages)} messages"
            return Refuse(400, "invalid_request_error", said)
        asked[key] += 1
        return known[key][min(asked[key], len(known[key])) - 1]

    return choose


def conversation(body: Json) -> bytes:
    talk = Talk(body)
    said = [
        [message["role"], [bare(block) for block in blocks_of(message) if "thinking" not in block["type"]]]
        for message in talk.messages
    ]
    return fingerprint(b"", [talk.model, said])


# --- a rule -------------------------------------------------------------------------------------------


class Named(NamedTuple):
    module: str
    function: str


def read_rule(written: str) -> Choose:
    """`module:function`; the function is handed the request and returns a reply."""
    name = Named(*written.partition(":")[::2])
    rule: Choose | None = getattr(importlib.import_module(name.module), name.function, None)
    if rule is None:
        raise ValueError(f"there is no function '{name.function}' in '{name.module}'; write MODULE:FUNCTION")
    return rule
