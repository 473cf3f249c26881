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
from mainspring.hooks.events import HookPoint
from mainspring.secrets.held import is_in
from mainspring.tools.base import CRASHED, INTERRUPTED, ToolAnswer, is_answer
from mainspring.tools.consent import decide_permission
from mainspring.tools.fitting import fit_answer, without_nonce
from mainspring.tools.inputs import KEY_IN_INPUT, MOST_DEEP, accept_input, deeper_than
from mainspring.tools.passage import InvocationResult, ToolInvocation, make_error_answer
from mainspring.tools.pipeline_results import output_of, replacement_content, tool_response

Step = Callable[[ToolInvocation], Awaitable[ToolAnswer | None]]


async def find_tool(passage: ToolInvocation) -> ToolAnswer | None:
    hands, name = passage.hands, passage.call.name
    missing = await hands.arrive(name)
    found = hands.tool(name)
    if found is None:
        return make_error_answer(
            missing or f"There is no tool '{name}'. There are: {', '.join(hands.offers) or 'none'}."
        )
    if not hands.is_known(name):
        return make_error_answer(f"You have not seen what '{name}' takes: call ToolSearch with 'select:{name}' first.")
    passage.found(found)
    return None


async def check_input(passage: ToolInvocation) -> ToolAnswer | None:
    """Parse and validate. A key of ours in it goes nowhere: not to a hook, nor to who is asked (security K3)."""
    if is_in(passage.call.input):
        return passage.refuse(KEY_IN_INPUT)
    if deeper_than(passage.call.input, MOST_DEEP):
        return make_error_answer(
            f"The input of '{passage.call.name}' is nested too deeply. Nothing was done: call it again."
        )
    passage.given = passage.tool.parse(passage.call.input)
    passage.ignored = passage.tool.ignored(passage.call.input)
    return None


async def complete_paths(passage: ToolInvocation) -> ToolAnswer | None:
    """Paths are made whole before anybody decides about them, so that hooks and rules see what will be opened."""
    if passage.tool.paths:
        passage.sent = accept_input(passage, passage.call.input)
    return None


async def ask_hooks(passage: ToolInvocation) -> ToolAnswer | None:
    hooks = passage.hands.hooks
    if not hooks.any_at(HookPoint.PRE_TOOL_USE, passage.call.name):
        return None
    opinion = passage.opinion = await hooks.ask(HookPoint.PRE_TOOL_USE, passage.facts(), passage.call.name)
    passage.heed(opinion)
    if opinion.input is not None:
        accept_input(passage, opinion.input)
    return passage.refuse(opinion.stop or "A hook ended the run.") if opinion.stop is not None else None


NO_ANSWER = "it returned no 'ToolAnswer' of 'Text', 'Image' and 'Document'"


async def run_tool(passage: ToolInvocation) -> ToolAnswer | None:
    began = perf_counter_ns()
    passage.began = True
    try:
        made = await passage.tool.run(passage.given, passage)
        passage.answer = made if is_answer(made) else make_error_answer(CRASHED.format(error=NO_ANSWER))
    except DeclinedError as error:
        passage.stop = passage.stop or str(error)
        passage.answer = make_error_answer(str(error))
    except ToolError as error:
        passage.answer = make_error_answer(str(error))
    except asyncio.CancelledError:
        raise  # by the executor; or the tool's own doing, and then the executor says so
    except Exception as error:  # noqa: BLE001  # whatever a tool does wrong: hooks hear of it, too
        passage.answer = make_error_answer(CRASHED.format(error=f"{type(error).__name__}: {error}"))
    finally:
        passage.took = (perf_counter_ns() - began) // 1_000_000
    return None


async def tell_hooks(passage: ToolInvocation) -> ToolAnswer | None:
    made, hooks = passage.answer, passage.hands.hooks
    assert made is not None
    point = HookPoint.POST_TOOL_USE_FAILURE if made.is_error else HookPoint.POST_TOOL_USE
    if not hooks.any_at(point, passage.call.name):
        return None
    if made.is_error:
        facts = passage.facts(error=made.text, is_interrupt=False, duration_ms=passage.took)
    else:
        facts = passage.facts(tool_response=tool_response(made, passage.call.name), duration_ms=passage.took)
    opinion = await hooks.ask(point, facts, passage.call.name)
    passage.heed(opinion)
    if (output := output_of(opinion, passage.call.name)) is not None:
        passage.answer = ToolAnswer(replacement_content(output, passage.tool), output, made.is_error, made.failed)
    if opinion.block and opinion.reason:
        passage.context += (opinion.reason,)
    return None


def tell_of_interrupt(passage: ToolInvocation) -> None:
    """In the background: whoever has interrupted a call does not want to wait for a hook."""
    facts = passage.facts(error=INTERRUPTED, is_interrupt=True, duration_ms=passage.took)
    passage.hands.hooks.tell(HookPoint.POST_TOOL_USE_FAILURE, facts, passage.call.name)


async def fit_result(passage: ToolInvocation) -> ToolAnswer | None:
    made = passage.answer
    assert made is not None
    fitting = fit_answer(made, passage.tool.most_shown, passage.place, passage.call.id)
    return replace(fitting, content=(*fitting.content, Text(f"\n{passage.ignored}"))) if passage.ignored else fitting


STEPS: tuple[tuple[str, Step], ...] = (
    ("find", find_tool),
    ("validate", check_input),
    ("backfill", complete_paths),
    ("hooks before", ask_hooks),
    ("permission", decide_permission),  # deny, ask, allow, mode, callback
    ("run", run_tool),
    ("hooks after", tell_hooks),
    ("size", fit_result),
)  # the record is the engine's: it has the journal


async def run_pipeline(passage: ToolInvocation) -> InvocationResult:
    """All of them, until one has an answer."""
    times: list[tuple[str, int]] = []
    answer: ToolAnswer | None = None
    for name, step in STEPS:
        began = perf_counter_ns()
        try:
            answer = await step(passage)
        except ToolError as error:
            answer = make_error_answer(str(error))
        except asyncio.CancelledError:  # by the executor: the run is over
            if passage.began and passage.answer is None:
                tell_of_interrupt(passage)
                raise  # nobody knows what it did until then
            answer = make_error_answer(NeverRan.INTERRUPTED) if passage.answer is None else await fit_result(passage)
        finally:
            times.append((name, (perf_counter_ns() - began) // 1_000))
        if answer is not None:
            break
    assert answer is not None  # the last step has one
    answer = without_nonce(answer, passage.place.nonce)
    return InvocationResult(answer, passage.denied, passage.stop, passage.context, tuple(times))
