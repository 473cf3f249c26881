"""A session for the layers: the core's own loop, a context, and a model and tools that a test makes up.

stage = Stage(always(reads, 20), limits=...)
stage.run("go")
stage.requests        # what the model was shown, turn by turn
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec.structs import replace

from mainspring.context.compactor import Compactor
from mainspring.context.tokens import SideCall, SideCallReply, total_bytes
from mainspring.core.config import Config
from mainspring.core.effects import CallModel, Compact, Effect, Finish, PrepareContext, RunTools
from mainspring.core.events import CallFailed, Compacted, ContextReady, Event, HooksDone, Replied, Submitted, ToolsDone
from mainspring.core.history import History
from mainspring.core.messages import (
    Assistant,
    Block,
    Content,
    Message,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    result,
)
from mainspring.core.models import Model
from mainspring.core.money import Price, Usage
from mainspring.core.reasons import Failure, Transition, Trouble
from mainspring.core.state import State
from mainspring.core.step import step
from mainspring.core.updates import Result, Update
from mainspring.core.value import Stamp
from mainspring.core.view import Fold, from_the_front, out_of_view, prune, view

# A model whose numbers are easy to reckon with: thresholds at 167,000 and 177,000.
BIG = Model("big", 200_000, 64_000, Price(1_000, 1_250, 2_000, 100, 5_000))
FREE = replace(BIG, price=Price())  # nothing is cleared for money's sake
BYTES_PER_TOKEN = 3.5  # what this model's tokens come to
FIXED = 10_000  # tokens of system text and tools
GOOD = "## Task\nmend it\n## Decisions\nnone\n## Files\na.py\n## Open items\ntests\n## Last action\nread a.py"

Reply = Assistant | Failure


def reads(turn: int, size: int = 8_000, *, path: str = "") -> Assistant:
    """A reply that thinks, says a word and reads a file; the tool gives so many characters."""
    call = ToolCall(f"call_{turn}", "Read", {"file_path": path or f"f{turn}.py", "size": size})
    return Assistant((Thinking("hm", f"sig:{turn}"), Text("Let me look."), call), "big", Stop.TOOL_USE)


def runs(turn: int, size: int = 8_000) -> Assistant:
    call = ToolCall(f"call_{turn}", "Bash", {"command": "make test", "size": size})
    return Assistant((Text("Let me see."), call), "big", Stop.TOOL_USE)


def many(turn: int, number: int, size: int, name: str = "Bash") -> Assistant:
    calls = tuple([ToolCall(f"call_{turn}_{n}", name, {"size": size}) for n in range(number)])
    return Assistant(calls, "big", Stop.TOOL_USE)


def says(*blocks: Block | str) -> Assistant:
    return Assistant(tuple([Text(block) if isinstance(block, str) else block for block in blocks]), "big")


def output(call: ToolCall) -> str:
    size: int = call.input.get("size", 100)
    return f"begin {call.id} " + "some code here\n" * (size // 15) + f"end {call.id}"


class Stage:
    def __init__(
        self,
        reply: Callable[[int], Reply],
        *,
        answers: Callable[[SideCall], SideCallReply] | None = None,
        config: Config | None = None,
        tools: Callable[[ToolCall], str] = output,
        forget: bool = False,
        see: Callable[[State], None] | None = None,
        **context: Any,
    ) -> None:
        self.config = config or Config(model=FREE, advise_after=10**6, end_after=10**7)
        self._reply, self._tools, self._forget, self._see = reply, tools, forget, see
        self._answers = answers
        self.media: tuple[Content, ...] = ()  # comes with the next prompts
        self.ids = count(1)
        self.questions: list[SideCall] = []
        self.context = self.new_context(**context)
        self.state = State(History())
        self.turn = 0
        self.now = 0  # milliseconds
        self.ready: list[ContextReady] = []
        self.requests: list[tuple[Message, ...]] = []
        self.updates: list[Update] = []
        self.transitions: list[Transition | None] = []
        self.compactions: list[tuple[Compact, Compacted]] = []

    def new_context(self, **settings: Any) -> Compactor:
        ask = self.ask if self._answers is not None else None
        return Compactor(self.config, new_id=self.new_id, ask=ask, **settings)

    def new_id(self) -> str:
        return f"{next(self.ids):08x}-0000-4000-8000-000000000000"

    async def ask(self, question: SideCall) -> SideCallReply:
        self.questions.append(question)
        assert self._answers is not None
        return self._answers(question)

    # --- the loop ---

    def run(self, prompt: str = "go") -> Result:
        return asyncio.run(self._run(prompt))

    async def _run(self, prompt: str) -> Result:
        said = User((Text(prompt), *self.media), id=self.new_id())
        event: Event = Submitted((said,))
        while True:
            event = replace(event, stamp=Stamp(self.new_id(), self.now))
            self.state, effect, updates = step(self.state, event, self.config)
            self.updates += updates
            if self._forget and isinstance(event, ContextReady) and any(isinstance(e, Fold) for e in event.edits):
                state = self.state  # the core prunes after a compaction; a collapse by the layers wants the same
                edits = prune(state.history, state.edits)
                self.state = replace(
                    state, edits=edits, history=state.history.forget(out_of_view(state.history, edits))
                )
            if isinstance(effect, Finish):
                assert isinstance(updates[-1], Result)
                return updates[-1]
            event = await self._perform(effect)

    async def _perform(self, effect: Effect) -> Event:
        state = self.state
        match effect:
            case PrepareContext():
                made = await self.context.shrink(state, ())
                edits = from_the_front(state.history, state.edits, made.edits)
                ready = ContextReady(made.tokens, edits, shrunk=made.shrunk, staged=made.staged, media=made.media)
                self.ready.append(ready)
                return ready
            case CallModel():
                return self._call()
            case RunTools():
                results = [replace(result(call.id, self._tools(call)), id=self.new_id()) for call in effect.calls]
                await self.context.stage(state.model)
                return ToolsDone(tuple(results))
            case Compact():
                summed = await self.context.summarize(state, effect)
                edits = from_the_front(state.history, state.edits, summed.edits)
                made_of = (summed.before, summed.after, summed.usage, summed.cost, None, summed.failed)
                compacted = Compacted(edits, *made_of)
                self.compactions.append((effect, compacted))
                return compacted
            case _:
                return HooksDone()

    def _call(self) -> Event:
        self.requests.append(view(self.state.history, self.state.edits))
        self.transitions.append(self.state.transition)
        if self._see is not None:
            self._see(self.state)
        self.turn += 1
        reply = self._reply(self.turn)
        if isinstance(reply, Failure):
            return CallFailed(reply)
        usage = Usage(input=true_tokens(self.requests[-1]), output=round(total_bytes([reply]) / BYTES_PER_TOKEN))
        return Replied(replace(reply, id=self.new_id(), at=self.now, usage=usage))


def true_tokens(messages: tuple[Message, ...]) -> int:
    """What this model's server would count."""
    return FIXED + round(total_bytes(messages) / BYTES_PER_TOKEN)


def always(reply: Callable[[int], Assistant], turns: int, last: str = "Done.") -> Callable[[int], Assistant]:
    return lambda turn: reply(turn) if turn <= turns else says(last)


def failing(kind: Trouble) -> Failure:
    return Failure(kind, f"{kind} happened")


def text_of(messages: tuple[Message, ...]) -> str:
    return "\n".join([message.text for message in messages])


def results_in(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [message for message in messages if isinstance(message, ToolResult)]


def stamped(*messages: Message) -> list[Message]:
    made: list[Message] = []
    for number, message in enumerate(messages):
        made.append(replace(message, id=message.id or f"m{number}"))
    return made


def state_of(*messages: Message, model: Model = FREE) -> State:
    return State(History(stamped(*messages)), model=model)
