"""Plays a scripted world through `step`: no event loop, no doubles.

    play = Play(replies=[PROMPT_TOO_LONG, reply("done")])
    assert play.transitions == [REACTIVE_COMPACT_RETRY]

Each list holds the answers to one kind of effect, in order. What is not scripted is answered in the plainest way; a
script that runs out of replies, or has some left over, is a failure of the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from msgspec.structs import replace

from mainspring.core.config import Config
from mainspring.core.effects import CallModel, Compact, Effect, Finish, PrepareContext, RunStopHooks, RunTools
from mainspring.core.events import (
    Aborted,
    CallFailed,
    Compacted,
    ContextReady,
    Event,
    HooksDone,
    Replied,
    StopDecision,
    Submitted,
    ToolsDone,
)
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Block, Stop, Text, ToolCall, ToolResult, User, result, user
from mainspring.core.models import Model
from mainspring.core.money import Price, Usage
from mainspring.core.reasons import Failure, Transition, Trouble
from mainspring.core.state import State
from mainspring.core.step import step
from mainspring.core.updates import RequestStarted, Result, Update
from mainspring.core.value import Stamp

# A model whose numbers are easy to reckon with: thresholds at 167,000 and 177,000, a dollar a million in, five out.
MODEL = Model("big", 200_000, 64_000, Price(1_000, 1_250, 2_000, 100, 5_000))
SMALL = Model("small", 200_000, 64_000, Price(100, 125, 200, 10, 500))
TINY = Model("tiny", 100_000, 32_000)
CONFIG = Config(model=MODEL)

FULL = 170_000  # over the threshold of compaction, below the blocking limit


def failure(kind: Trouble, detail: str = "", *, inside_call: bool = False) -> Failure:
    return Failure(kind, detail or f"{kind} happened", inside_call=inside_call)


def reply(
    text: str = "",
    *calls: ToolCall | str,
    stop: Stop | None = None,
    output: int = 10,
    blocks: tuple[Block, ...] = (),
    id: str = "",
) -> Assistant:
    """A reply of `text` and `calls`; a call may be given by its id."""
    made = tuple(call if isinstance(call, ToolCall) else ToolCall(call, "Read", {"path": call}) for call in calls)
    said = (Text(text),) if text else ()
    reason = stop or (Stop.TOOL_USE if made else Stop.END_TURN)
    return Assistant((*said, *blocks, *made), "big", reason, Usage(input=100, output=output), id=id)


Answer = Assistant | Failure | CallFailed | Replied | Aborted


class Play:
    """Runs at once; then look at what came of it."""

    def __init__(
        self,
        replies: Iterable[Answer] = (),
        *,
        contexts: Iterable[ContextReady | int | Aborted] = (),
        compactions: Iterable[Compacted | bool | Aborted] = (),
        tools: Iterable[ToolsDone | tuple[ToolResult, ...] | Aborted] = (),
        hooks: Iterable[StopDecision | str | Aborted] = (),
        config: Config = CONFIG,
        prompt: str = "go",
        after: Play | None = None,
        compact: str | None = None,
    ) -> None:
        self.config = config
        self.replies, self.contexts, self.compactions = iter(replies), iter(contexts), iter(compactions)
        self.tools, self.hooks = iter(tools), iter(hooks)
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.updates: list[Update] = []
        self.transitions: list[Transition] = []
        self.stamps: Iterator[int] = after.stamps if after else count(1)
        self.before: State = after.state if after else State(History())
        self.state: State = self.before
        said = () if compact is not None else (replace(user(prompt), id=f"prompt{next(self.stamps)}"),)
        self.run(Submitted(said, compact=compact))
        left = list(self.replies)
        assert not left, f"the script still holds {left}"

    def run(self, event: Event) -> None:
        while True:
            effect = self.step(event)
            if isinstance(effect, Finish):
                return
            event = self.answer(effect)

    def step(self, event: Event) -> Effect:
        number = next(self.stamps)
        event = replace(event, stamp=Stamp(f"{number:08x}", number * 10))
        was = self.state
        self.state, effect, updates = step(was, event, self.config)
        self.events.append(event)
        self.effects.append(effect)
        self.updates.extend(updates)
        self.note_transition(was, event, effect)
        return effect

    def note_transition(self, was: State, event: Event, effect: Effect) -> None:
        if len(self.state.climbed) > len(was.climbed):
            self.transitions.extend(name for _, name in self.state.climbed[len(was.climbed) :][-1:])
        elif isinstance(event, ToolsDone | HooksDone | Replied) and isinstance(effect, PrepareContext):
            assert self.state.transition is not None
            self.transitions.append(self.state.transition)

    def answer(self, effect: Effect) -> Event:
        match effect:
            case PrepareContext():
                ready = next(self.contexts, 100)
                return ContextReady(ready) if isinstance(ready, int) else ready
            case CallModel():
                return self.reply()
            case RunTools():
                done = next(self.tools, None)
                if isinstance(done, ToolsDone | Aborted):
                    return done
                return ToolsDone(done if done is not None else ran(effect))
            case RunStopHooks():
                verdict = next(self.hooks, StopDecision())
                if isinstance(verdict, Aborted):
                    return verdict
                return HooksDone(StopDecision((verdict,)) if isinstance(verdict, str) else verdict)
            case Compact():
                made = next(self.compactions, True)
                return made if isinstance(made, Compacted | Aborted) else compacted(worked=made)
            case Finish():
                raise AssertionError("nothing to perform")

    def reply(self) -> Event:
        given = next(self.replies, None)
        assert given is not None, "the script ran out of replies"
        match given:
            case Assistant():
                number = sum(isinstance(effect, CallModel) for effect in self.effects)
                return Replied(given if given.id else replace(given, id=f"reply{number}"))
            case Failure():
                return CallFailed(given)
            case _:
                return given

    # --- what came of it ---

    @property
    def result(self) -> Result:
        last = self.updates[-1]
        assert isinstance(last, Result)
        return last

    @property
    def ending(self) -> tuple[str, str]:
        return self.result.terminal, self.result.cause

    @property
    def shown(self) -> list[Update]:
        """The updates without the markers of requests and the result."""
        return [update for update in self.updates if not isinstance(update, RequestStarted | Result)]

    @property
    def requests(self) -> list[CallModel]:
        return [effect for effect in self.effects if isinstance(effect, CallModel)]

    @property
    def compacts(self) -> list[tuple[str, str]]:
        return [(effect.how, effect.trouble) for effect in self.effects if isinstance(effect, Compact)]

    @property
    def said(self) -> list[str]:
        """The conversation after the prompt, one line a message."""
        messages = list(self.state.history)[len(self.before.history) + 1 :]
        return [line(message) for message in messages]


def line(message: User | Assistant | ToolResult) -> str:
    match message:
        case User():
            return f"{message.origin}: {message.text}"
        case Assistant():
            return f"assistant: {message.text}" + "".join(f" <{call.id}>" for call in message.calls)
        case ToolResult():
            kind = "synthetic" if message.synthetic else "result"
            return f"{kind} <{message.call_id}>: {message.text}"


def ran(effect: RunTools) -> tuple[ToolResult, ...]:
    """Each call that may start runs and answers with its own id."""
    return tuple(replace(result(call.id, f"did {call.id}"), id=f"r-{call.id}") for call in effect.calls if effect.start)


def compacted(*, worked: bool = True, before: int = FULL, after: int = 20_000) -> Compacted:
    return (
        Compacted(before=before, after=after) if worked else Compacted(before=before, failed="the summary call failed")
    )
