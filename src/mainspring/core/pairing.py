"""Every tool call has exactly one result, however the run ends (F-20). Every path that ends a reply with calls uses
this module."""

from __future__ import annotations

from enum import StrEnum

from mainspring.core.errors import ProtocolError
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Defect, Message, ToolCall, ToolResult, result
from mainspring.core.state import State, remember, say
from mainspring.core.updates import Decided


class NeverRan(StrEnum):
    """The result that the model sees for a call without a result (F-21: each case has its own text)."""

    INTERRUPTED = "The call was interrupted before it ran. It had no effect."
    STOPPED = "The run ended before this call was started. It had no effect."
    LOST = "The session ended before this call's outcome was recorded. Whether it had an effect is not known."
    CUT = "This call was cut off, so it was not run. Send it again, in smaller pieces if it is long."
    MALFORMED = "The input of this call was not valid JSON for its schema, so it was not run. Send it again, corrected."


DEFECTS = {Defect.CUT: NeverRan.CUT, Defect.MALFORMED: NeverRan.MALFORMED}


def answer(
    state: State, calls: tuple[ToolCall, ...], results: tuple[ToolResult, ...], why: NeverRan
) -> tuple[State, tuple[Decided, ...]]:
    """Append one result per call to the history, in the order of the calls; create the missing ones."""
    found = {result.call_id: result for result in results}
    if len(found) != len(results) or not found.keys() <= {call.id for call in calls if call.defect is None}:
        raise ProtocolError(f"results for {[r.call_id for r in results]} do not fit the calls {[c.id for c in calls]}")
    if calls and len(found) == len(calls):
        return remember(state, *[found[call.id] for call in calls]), ()
    shown: tuple[Decided, ...] = ()
    for call in calls:
        if call.id in found:
            state = remember(state, found[call.id])
        else:
            words = why if call.defect is None else DEFECTS[call.defect]
            state, said = say(state, result(call.id, words, is_error=True, synthetic=True))
            shown += said
    return state, shown


def open_calls(history: History) -> tuple[ToolCall, ...]:
    """The calls of the last reply without a result. A crash leaves such calls."""
    answered: set[str] = set()
    for message in history.newest_first():
        match message:
            case ToolResult():
                answered.add(message.call_id)
            case Assistant():
                return tuple([call for call in message.calls if call.id not in answered])
            case _:
                pass
    return ()


def find_unpaired_ids(messages: tuple[Message, ...] | History) -> tuple[str, ...]:
    """Ids of calls without exactly one result after them, and of results without a call before them."""
    waiting: set[str] = set()
    wrong: list[str] = []
    for message in messages:
        match message:
            case Assistant():
                wrong.extend(call.id for call in message.calls if call.id in waiting)
                waiting.update(call.id for call in message.calls)
            case ToolResult() if message.call_id in waiting:
                waiting.discard(message.call_id)
            case ToolResult():
                wrong.append(message.call_id)
            case _:
                pass
    return (*wrong, *sorted(waiting))
