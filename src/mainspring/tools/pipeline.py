"""The way of a call (F-13, F-14, F-27): one table of named steps, the same for a call that starts while the model still
talks and for one that starts later.

A step looks at the passage, adds to it, and lets it go on; or it returns an answer, and the call ends there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from mainspring.core.errors import ToolError
from mainspring.core.messages import Message, Text, ToolCall, ToolResult
from mainspring.core.pairing import NeverRan
from mainspring.core.value import Value
from mainspring.hooks.points import NOTHING, Hooks, Nobody, Opinion, Point
from mainspring.providers.base import ToolSpec
from mainspring.secrets.held import is_in
from mainspring.tools.base import Answer, Offer, Place, Tool, offer
from mainspring.tools.gate import Gate, Standing

if TYPE_CHECKING:
    from mainspring.permissions.policy import Verdict

MOST_DEEP = 64  # how far an input may be nested
KEY_IN_INPUT = (
    "Nothing was done: the input holds a key of the program that runs you, and such keys go to nobody. Leave it out; a "
    "command that needs a key of the user's own finds it in the user's environment or files."
)


class Asking(Protocol):
    """What the engine offers to a running call."""

    @property
    def policy(self) -> Standing: ...

    async def ask(self, text: str, about: Any = None) -> str: ...

    async def decided(self, decision: str, reason: str) -> None: ...

    def progress(self, text: str) -> None: ...


class Done(Value):
    """A call that has come to its end."""

    answer: Answer
    denied: bool = False
    stop: str | None = None  # the run ends, and why
    context: tuple[str, ...] = ()  # of hooks, for the model
    steps: tuple[tuple[str, int], ...] = ()  # how long each took, in microseconds


class Passage:
    """One call on its way. Tools see it as their `Calling`."""

    def __init__(self, call: ToolCall, asking: Asking, hands: Hands) -> None:
        self.call = call
        self.asking = asking
        self.hands = hands
        self.place = hands.place
        self._tool: Tool | None = None
        self.input = call.input  # as it is now: paths whole, changed by hooks
        self.sent = call.input  # as the model meant it, paths whole
        self.given: Any = None  # the same, typed
        self.opinion = NOTHING  # of the hooks
        self.answer: Answer | None = None
        self.began = False  # the tool itself
        self.denied = False
        self.stop: str | None = None
        self.context: tuple[str, ...] = ()
        self._may_read: Callable[[str], bool] | None = None

    @property
    def tool(self) -> Tool:
        assert self._tool is not None  # the first step has found it
        return self._tool

    def found(self, tool: Tool) -> None:
        self._tool = tool

    # --- what a tool may ask ---

    @property
    def id(self) -> str:
        return self.call.id

    def may_read(self, path: str) -> bool:
        if self._may_read is None:
            self._may_read = self.hands.gate.readable(self.place.root, self.asking.policy)
        return self._may_read(path)

    def progress(self, text: str) -> None:
        self.asking.progress(text)

    async def ask(self, text: str) -> str:
        if not self.hands.attended:
            raise ToolError("Nobody can be asked here: go on without an answer, and say what you assumed.")
        return await self.asking.ask(text)

    # --- what steps say ---

    def refuse(self, why: str) -> Answer:
        self.denied = True
        return wrong(why)

    def heed(self, opinion: Opinion) -> None:
        self.context += opinion.context
        if self.stop is None:
            self.stop = opinion.stop

    def facts(self, **more: Any) -> dict[str, Any]:
        return {
            "tool_name": self.call.name,
            "tool_input": self.input,
            "tool_use_id": self.call.id,
            "permission_mode": self.asking.policy.mode,
            **more,
        }


Step = Callable[[Passage], Awaitable[Answer | None]]


def wrong(text: str, data: Any = None) -> Answer:
    return Answer((Text(text),), data, is_error=True)


# --- the steps, in order ------------------------------------------------------------------------------------------


async def find(passage: Passage) -> Answer | None:
    hands, name = passage.hands, passage.call.name
    found = hands.tool(name)
    if found is None:
        return wrong(f"There is no tool '{name}'. There are: {', '.join(hands.offers) or 'none'}.")
    if not hands.is_known(name):
        return wrong(f"You have not seen what '{name}' takes: call ToolSearch with 'select:{name}' first.")
    passage.found(found)
    return None


async def check(passage: Passage) -> Answer | None:
    """Parse and validate. A key of ours in it goes nowhere: not to a hook, nor to who is asked (K3)."""
    if is_in(passage.call.input):
        return passage.refuse(KEY_IN_INPUT)
    if deeper_than(passage.call.input, MOST_DEEP):
        return wrong(f"The input of '{passage.call.name}' is nested too deeply. Nothing was done: call it again.")
    passage.given = passage.tool.parse(passage.call.input)
    return None


async def backfill(passage: Passage) -> Answer | None:
    """Paths are made whole before anybody decides about them, so that hooks and rules see what will be opened."""
    if passage.tool.paths:
        passage.sent = take(passage, passage.call.input)
    return None


def take(passage: Passage, input: dict[str, Any]) -> dict[str, Any]:
    """The input from now on, whoever it comes from: with whole paths, and checked."""
    if deeper_than(input, MOST_DEEP):
        raise ToolError(f"The changed input of '{passage.call.name}' is nested too deeply. Nothing was done.")
    if is_in(input):
        raise ToolError(KEY_IN_INPUT)
    paths = [field for field in passage.tool.paths if isinstance(input.get(field), str)]
    whole = {**input, **{field: whole_path(input[field], passage.place) for field in paths}}
    passage.given, passage.input = passage.tool.parse(whole), whole
    return whole


async def ask_hooks(passage: Passage) -> Answer | None:
    hooks = passage.hands.hooks
    if not hooks.any_at(Point.PRE_TOOL_USE, passage.call.name):
        return None
    opinion = passage.opinion = await hooks.ask(Point.PRE_TOOL_USE, passage.facts(), passage.call.name)
    passage.heed(opinion)
    if opinion.input is not None:
        take(passage, opinion.input)
    return passage.refuse(opinion.stop or "A hook ended the run.") if opinion.stop is not None else None


async def decide(passage: Passage) -> Answer | None:
    """Deny, ask, allow, mode: `permissions/decide.py` puts them in order. What a person has to say comes last."""
    from mainspring.permissions.policy import Asked

    hands, standing, opinion = passage.hands, passage.asking.policy, passage.opinion
    asked = Asked(
        passage.call.name,
        passage.input,
        passage.place.cwd,
        before=passage.sent if passage.input is not passage.sent else None,
        hook=opinion.decision,
        hook_reason=opinion.reason,
        reads=passage.tool.is_read_only(passage.given),
    )
    verdict = await hands.gate.verdict(asked, standing)
    await passage.asking.decided(verdict.decision, verdict.reason)
    if verdict.decision == "allow":
        return None
    if verdict.decision == "deny":
        by_hook = opinion.decision == "deny" and verdict.reason == opinion.reason  # stream-json 10: its own words
        return passage.refuse(opinion.reason if by_hook else f"Not allowed: {verdict.reason}.")
    offered = hands.gate.suggestions(asked, standing)
    about = {
        "tool_name": passage.call.name,
        "input": passage.input,
        "tool_use_id": passage.call.id,
        "decision_reason": verdict.reason,
        "shown": verdict.shown,
        "suggestions": [{"rule": one.rule, "covers": one.covers} for one in offered],
    }
    return await put(passage, verdict, about)


def way_out(verdict: Verdict, about: dict[str, Any]) -> str:
    rule = next((one["rule"] for one in about["suggestions"]), "")
    if verdict.person or not rule:
        return "No rule allows this: leave it to the user, who can do it, or say yes in a conversation."
    return f"The user can allow it with the rule '{rule}' (--allowedTools, or permissions.allow in the settings)."


async def put(passage: Passage, verdict: Verdict, about: dict[str, Any]) -> Answer | None:
    """The question itself. A hook may answer it, but not say yes to what only a person may; where nobody can be asked,
    the answer is no."""
    hooks, reason = passage.hands.hooks, verdict.reason
    if hooks.any_at(Point.PERMISSION_REQUEST, passage.call.name):
        facts = passage.facts(permission_suggestions=about["suggestions"])
        opinion = await hooks.ask(Point.PERMISSION_REQUEST, facts, passage.call.name)
        passage.heed(opinion)
        if opinion.decision == "deny" or (opinion.decision == "allow" and not verdict.person):
            await passage.asking.decided(opinion.decision, opinion.reason or "a hook answered the question")
        if opinion.decision == "deny" or opinion.stop is not None:
            return passage.refuse(opinion.reason or opinion.stop or "A hook refused it.")
        if opinion.decision == "allow" and not verdict.person:
            return await changed(passage, opinion.input) if opinion.input is not None else None
    if not passage.hands.attended:
        await passage.asking.decided("deny", "nobody can be asked")
        return passage.refuse(
            f"This needs permission, and nobody can be asked here: {reason}. {way_out(verdict, about)}"
        )
    from mainspring.tools.approval import DENIED, approval

    said = approval(await passage.asking.ask(f"{passage.call.name}: {reason}", about))
    await passage.asking.decided(said.behavior, said.message or "a person answered")
    if said.behavior == "deny":
        passage.stop = passage.stop or (said.message or DENIED if said.interrupt else None)
        return passage.refuse(said.message or DENIED)
    if said.updated_input is not None and said.updated_input != passage.input:
        return await changed(passage, said.updated_input)
    return None


async def changed(passage: Passage, input: dict[str, Any]) -> Answer | None:
    """Whoever answers may change the input, but not past a deny rule."""
    from mainspring.permissions.policy import Asked

    asked = Asked(passage.call.name, take(passage, input), passage.place.cwd)
    verdict = await passage.hands.gate.verdict(asked, passage.asking.policy)
    return passage.refuse(f"Not allowed: {verdict.reason}.") if verdict.decision == "deny" else None


async def act(passage: Passage) -> Answer | None:
    began = perf_counter_ns()
    passage.began = True
    try:
        passage.answer = await passage.tool.run(passage.given, passage)
    except ToolError as error:
        passage.answer = wrong(str(error))
    return await tell_hooks(passage, (perf_counter_ns() - began) // 1_000_000)


async def tell_hooks(passage: Passage, took: int) -> Answer | None:
    made, hooks = passage.answer, passage.hands.hooks
    assert made is not None
    point = Point.POST_TOOL_USE_FAILURE if made.is_error else Point.POST_TOOL_USE
    if not hooks.any_at(point, passage.call.name):
        return None
    if made.is_error:
        facts = passage.facts(error=made.text, is_interrupt=False, duration_ms=took)
    else:
        facts = passage.facts(tool_response=made.text if made.data is None else made.data, duration_ms=took)
    opinion = await hooks.ask(point, facts, passage.call.name)
    passage.heed(opinion)
    if opinion.output is not None:
        passage.answer = made = Answer((Text(as_text(opinion.output)),), opinion.output, made.is_error, made.failed)
    if opinion.block and opinion.reason:
        passage.context += (opinion.reason,)
    return None


async def fit(passage: Passage) -> Answer | None:
    from mainspring.tools.fitting import fitted

    assert passage.answer is not None
    return fitted(passage.answer, passage.tool.most_shown, passage.place, passage.call.id)


STEPS: tuple[tuple[str, Step], ...] = (
    ("find", find),
    ("validate", check),
    ("backfill", backfill),
    ("hooks before", ask_hooks),
    ("permission", decide),  # deny, ask, allow, mode, callback
    ("run", act),  # and the hooks after it
    ("size", fit),
)  # the record is the engine's: it has the journal


# --- all of them --------------------------------------------------------------------------------------------------


class Hands:
    """The tools of a session, and everything that a call meets on its way."""

    def __init__(
        self,
        tools: Iterable[Tool | Offer],
        *,
        place: Place,
        gate: Gate | None = None,
        hooks: Hooks | None = None,
        attended: bool = False,
    ) -> None:
        offers = [offer(tool) if isinstance(tool, Tool) else tool for tool in tools]
        self.offers = {one.spec.name: one for one in offers}
        self.deferred = tuple([one.spec for one in offers if one.deferred])
        self.revealed: set[str] = set()  # of the deferred ones, those that the model has seen
        self._loaded: dict[str, Tool] = {}
        if self.deferred:
            search = Offer(*search_offer(self))
            self.offers[search.spec.name] = search
        self.place = place
        self.gate = gate or Gate()
        self.hooks: Hooks = hooks or Nobody()
        self.attended = attended  # whether somebody can be asked

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told from the beginning."""
        return tuple([one.spec for one in self.offers.values() if not one.deferred])

    def is_known(self, name: str) -> bool:
        return not self.offers[name].deferred or name in self.revealed

    def remember(self, past: Iterable[Message]) -> None:
        """When a session is taken up again: what the model has seen before, it still knows."""
        if not self.deferred:
            return
        names = {spec.name for spec in self.deferred}
        for message in past:
            if isinstance(message, ToolResult) and message.text.startswith("<functions>"):
                self.revealed |= {name for name in names if f'"name":"{name}"' in message.text.replace(": ", ":")}

    def tool(self, name: str) -> Tool | None:
        found = self._loaded.get(name)
        if found is None and name in self.offers:
            found = self._loaded[name] = self.offers[name].load()
        return found

    async def run(self, call: ToolCall, asking: Asking) -> Done:
        passage, times = Passage(call, asking, self), list[tuple[str, int]]()
        answer: Answer | None = None
        for name, step in STEPS:
            began = perf_counter_ns()
            try:
                answer = await step(passage)
            except ToolError as error:
                answer = wrong(str(error))
            except asyncio.CancelledError:  # by the executor: the run is over
                if passage.began and passage.answer is None:
                    raise  # nobody knows what it did until then
                answer = wrong(NeverRan.INTERRUPTED) if passage.answer is None else await fit(passage)
            finally:
                times.append((name, (perf_counter_ns() - began) // 1_000))
            if answer is not None:
                break
        assert answer is not None  # the last step has one
        return Done(answer, passage.denied, passage.stop, passage.context, tuple(times))

    def is_concurrent(self, call: ToolCall) -> bool:
        tool = self.tool(call.name)
        return True if tool is None else _known(tool, tool.is_concurrent, call)

    def is_repeatable(self, call: ToolCall) -> bool:
        tool = self.tool(call.name)
        return False if tool is None else _known(tool, tool.is_repeatable, call)


def _known(tool: Tool, trait: Callable[[Any], bool], call: ToolCall) -> bool:
    """Not of an input that cannot even be read: a session with such a call must still be taken up again."""
    try:
        return trait(tool.parse(call.input))
    except ToolError:
        return False


def search_offer(hands: Hands) -> tuple[ToolSpec, Callable[[], Tool]]:
    """Loaded only where something is deferred."""
    from mainspring.tools.tool_search import search_tool

    tool = search_tool(hands.deferred, hands.revealed.update)
    return tool.spec, lambda: tool


def whole_path(path: str, place: Place) -> str:
    """Seen from where the session stands now. What is in the path stays as it is: links are followed later."""
    if path.startswith("/") or not path:
        return path
    if path.startswith("~/") and place.home:
        return place.home + path[1:]
    return f"{place.cwd.rstrip('/')}/{path}"


def deeper_than(value: object, most: int) -> bool:
    """Without recursion: the input may be nested deeper than Python can follow."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)  # pyright: ignore[reportUnknownVariableType]
        ]
        if not level:
            return False
    return True


def as_text(output: object) -> str:
    if isinstance(output, str):
        return output
    import json

    return json.dumps(output, ensure_ascii=False)
