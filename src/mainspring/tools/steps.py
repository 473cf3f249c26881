"""The way of a call (F-13, F-14, F-27): one table of named steps, the same for a call that starts while the model still
talks and for one that starts later.

A step looks at the passage, adds to it, and lets it go on; or it returns an answer, and the call ends there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter_ns

from msgspec.structs import replace

from mainspring.core.errors import DeclinedError, ToolError
from mainspring.core.messages import Text
from mainspring.core.pairing import NeverRan
from mainspring.hooks.points import HookPoint
from mainspring.secrets.held import is_in
from mainspring.tools.base import CRASHED, INTERRUPTED, Answer, is_answer
from mainspring.tools.consent import decide
from mainspring.tools.fitting import fitted, without_nonce
from mainspring.tools.inputs import KEY_IN_INPUT, MOST_DEEP, deeper_than, take
from mainspring.tools.passage import Done, Passage, wrong
from mainspring.tools.pipeline_results import in_place, output_of, response

Step = Callable[[Passage], Awaitable[Answer | None]]


async def find(passage: Passage) -> Answer | None:
    hands, name = passage.hands, passage.call.name
    missing = await hands.arrive(name)
    found = hands.tool(name)
    if found is None:
        return wrong(missing or f"There is no tool '{name}'. There are: {', '.join(hands.offers) or 'none'}.")
    if not hands.is_known(name):
        return wrong(f"You have not seen what '{name}' takes: call ToolSearch with 'select:{name}' first.")
    passage.found(found)
    return None


async def check(passage: Passage) -> Answer | None:
    """Parse and validate. A key of ours in it goes nowhere: not to a hook, nor to who is asked (security K3)."""
    if is_in(passage.call.input):
        return passage.refuse(KEY_IN_INPUT)
    if deeper_than(passage.call.input, MOST_DEEP):
        return wrong(f"The input of '{passage.call.name}' is nested too deeply. Nothing was done: call it again.")
    passage.given = passage.tool.parse(passage.call.input)
    passage.ignored = passage.tool.ignored(passage.call.input)
    return None


async def backfill(passage: Passage) -> Answer | None:
    """Paths are made whole before anybody decides about them, so that hooks and rules see what will be opened."""
    if passage.tool.paths:
        passage.sent = take(passage, passage.call.input)
    return None


async def ask_hooks(passage: Passage) -> Answer | None:
    hooks = passage.hands.hooks
    if not hooks.any_at(HookPoint.PRE_TOOL_USE, passage.call.name):
        return None
    opinion = passage.opinion = await hooks.ask(HookPoint.PRE_TOOL_USE, passage.facts(), passage.call.name)
    passage.heed(opinion)
    if opinion.input is not None:
        take(passage, opinion.input)
    return passage.refuse(opinion.stop or "A hook ended the run.") if opinion.stop is not None else None


NO_ANSWER = "it returned no 'Answer' of 'Text', 'Image' and 'Document'"


async def act(passage: Passage) -> Answer | None:
    began = perf_counter_ns()
    passage.began = True
    try:
        made = await passage.tool.run(passage.given, passage)
        passage.answer = made if is_answer(made) else wrong(CRASHED.format(error=NO_ANSWER))
    except DeclinedError as error:
        passage.stop = passage.stop or str(error)
        passage.answer = wrong(str(error))
    except ToolError as error:
        passage.answer = wrong(str(error))
    except asyncio.CancelledError:
        raise  # by the executor; or the tool's own doing, and then the executor says so
    except Exception as error:  # noqa: BLE001  # whatever a tool does wrong: hooks hear of it, too
        passage.answer = wrong(CRASHED.format(error=f"{type(error).__name__}: {error}"))
    finally:
        passage.took = (perf_counter_ns() - began) // 1_000_000
    return None


async def tell_hooks(passage: Passage) -> Answer | None:
    made, hooks = passage.answer, passage.hands.hooks
    assert made is not None
    point = HookPoint.POST_TOOL_USE_FAILURE if made.is_error else HookPoint.POST_TOOL_USE
    if not hooks.any_at(point, passage.call.name):
        return None
    if made.is_error:
        facts = passage.facts(error=made.text, is_interrupt=False, duration_ms=passage.took)
    else:
        facts = passage.facts(tool_response=response(made, passage.call.name), duration_ms=passage.took)
    opinion = await hooks.ask(point, facts, passage.call.name)
    passage.heed(opinion)
    if (output := output_of(opinion, passage.call.name)) is not None:
        passage.answer = Answer(in_place(output, passage.tool), output, made.is_error, made.failed)
    if opinion.block and opinion.reason:
        passage.context += (opinion.reason,)
    return None


def tell_of_interrupt(passage: Passage) -> None:
    """In the background: whoever has interrupted a call does not want to wait for a hook."""
    facts = passage.facts(error=INTERRUPTED, is_interrupt=True, duration_ms=passage.took)
    passage.hands.hooks.tell(HookPoint.POST_TOOL_USE_FAILURE, facts, passage.call.name)


async def fit(passage: Passage) -> Answer | None:
    made = passage.answer
    assert made is not None
    fitting = fitted(made, passage.tool.most_shown, passage.place, passage.call.id)
    return replace(fitting, content=(*fitting.content, Text(f"\n{passage.ignored}"))) if passage.ignored else fitting


STEPS: tuple[tuple[str, Step], ...] = (
    ("find", find),
    ("validate", check),
    ("backfill", backfill),
    ("hooks before", ask_hooks),
    ("permission", decide),  # deny, ask, allow, mode, callback
    ("run", act),
    ("hooks after", tell_hooks),
    ("size", fit),
)  # the record is the engine's: it has the journal


async def walk(passage: Passage) -> Done:
    """All of them, until one has an answer."""
    times: list[tuple[str, int]] = []
    answer: Answer | None = None
    for name, step in STEPS:
        began = perf_counter_ns()
        try:
            answer = await step(passage)
        except ToolError as error:
            answer = wrong(str(error))
        except asyncio.CancelledError:  # by the executor: the run is over
            if passage.began and passage.answer is None:
                tell_of_interrupt(passage)
                raise  # nobody knows what it did until then
            answer = wrong(NeverRan.INTERRUPTED) if passage.answer is None else await fit(passage)
        finally:
            times.append((name, (perf_counter_ns() - began) // 1_000))
        if answer is not None:
            break
    assert answer is not None  # the last step has one
    answer = without_nonce(answer, passage.place.nonce)
    return Done(answer, passage.denied, passage.stop, passage.context, tuple(times))
