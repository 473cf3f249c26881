"""The tool pipeline (F-13, F-14, F-27): one table of named steps, the same for a call that starts while the model still
streams and for one that starts later.

A step reads and extends the `ToolInvocation`, then continues with the next step, or returns an answer that ends the
call. `toolset.py` runs the pipeline with a session's tools.

The permission step applies the rules first, then asks the user if it can. `permissions/` decides which rule applies;
this module acts on the decision. Inputs from the model, hooks and users get the same treatment: absolute paths, a limit
on nesting, and none of our keys.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import cached_property
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring import permissions
from mainspring.core.errors import DeclinedError, ToolError
from mainspring.core.messages import Text, ToolCall
from mainspring.core.pairing import NeverRan
from mainspring.core.updates import Rendering, Update
from mainspring.core.value import Value
from mainspring.hooks.events import NOTHING, HookPoint, HookResult
from mainspring.hooks.payloads import make_subagent_start_payload, permission_wanted, to_permission_updates
from mainspring.permissions.policy import PermissionDecision, PermissionRequest
from mainspring.processes.paths import PathRefused, Resolved, look_again
from mainspring.providers.base import shared_limits
from mainspring.secrets.held import is_in
from mainspring.text import plural
from mainspring.tools.base import (
    CRASHED,
    DENIED,
    INTERRUPTED,
    INTERRUPTED_AFTER,
    TIMED_OUT,
    CallContext,
    InterruptedCommand,
    Tool,
    ToolAnswer,
    is_answer,
    log_tool_failure,
    parse_approval,
)
from mainspring.tools.results import fit_answer, output_of, replacement_content, tool_response, without_nonce

if TYPE_CHECKING:
    from mainspring.permissions.classifier import Classifier
    from mainspring.tools.toolset import Toolset


class InvocationResult(Value):
    """The outcome of a finished call."""

    answer: ToolAnswer
    denied: bool = False
    stop: str | None = None  # why the run must end; None: it goes on
    context: tuple[str, ...] = ()  # from hooks, for the model
    steps: tuple[tuple[str, int], ...] = ()  # how long each took, in microseconds


class ToolInvocation:
    """One call in the pipeline. Tools see it as their `ToolContext`."""

    def __init__(self, call: ToolCall, asking: CallContext, hands: Toolset) -> None:
        self.call = call
        self.asking = asking
        self.hands = hands
        self.place = hands.place
        self.cwd = hands.place.cwd  # when the call arrived: another one may change the session's directory meanwhile
        self.paths = hands.gate.resolutions()
        self._tool: Tool | None = None
        self.input = call.input  # current: with absolute paths, changed by hooks
        self.sent = call.input  # as the model sent it, with absolute paths
        self.given: Any = None  # the current input, parsed
        self.ignored = ""  # note about fields of the input that the tool does not have
        self.opinion = NOTHING  # of the hooks
        self.answer: ToolAnswer | None = None
        self.began = False  # whether the tool itself has started,
        self.took = 0  # and how long it ran, in milliseconds
        self.denied = False
        self.approved = False  # by the user, for exactly this call
        self.stop: str | None = None
        self.context: tuple[str, ...] = ()

    @property
    def tool(self) -> Tool:
        assert self._tool is not None  # set by the first step
        return self._tool

    @property
    def is_found(self) -> bool:
        return self._tool is not None

    def found(self, tool: Tool) -> None:
        self._tool = tool

    # --- what a tool can call ---

    @property
    def id(self) -> str:
        return self.call.id

    @property
    def deps(self) -> Any:
        return self.hands.deps

    def resolve(self, path: str) -> Resolved:
        return look_again(self.paths(path, self.cwd))

    @property
    def has_read_rules(self) -> bool:
        return self._rules is not None

    def may_read(self, path: str) -> bool:
        return not self.hands.gate.is_closed(path) and (self._rules is None or self._rules(path))

    @cached_property
    def _rules(self) -> Callable[[str], bool] | None:
        return self.hands.gate.reading_rules(self.place.root, self.asking.policy)

    def progress(self, text: str) -> None:
        self.asking.progress(text)

    async def ask(self, text: str, about: Any = None) -> str:
        if not self.hands.attended:
            raise ToolError("No user can answer here: go on without an answer, and say what you assumed.")
        return await self.asking.ask(text, about)

    def show(self, update: Update) -> None:
        self.asking.show(update)

    async def room(self) -> None:
        await self.asking.room()

    # --- helpers of the steps ---

    def refuse(self, why: str, *, hook: str = "") -> ToolAnswer:
        """`hook`: the name of the hook that denied the call, for the user."""
        self.denied = True
        answer = make_error_answer(why)
        return replace(answer, shown=Rendering(f"the hook '{hook}'")) if hook else answer

    def heed(self, opinion: HookResult) -> None:
        self.context += opinion.context
        if self.stop is None:
            self.stop = opinion.stop

    def facts(self, **more: Any) -> dict[str, Any]:
        agent = self.hands.agent
        return {
            **(make_subagent_start_payload(*agent) if agent is not None else {}),
            "tool_name": self.call.name,
            "tool_input": self.input,
            "tool_use_id": self.call.id,
            "permission_mode": self.asking.policy.mode,
            **more,
        }


def make_error_answer(text: str, data: Any = None) -> ToolAnswer:
    return ToolAnswer((Text(text),), data, is_error=True)


MOST_DEEP = 64  # levels of nesting in an input
KEY_IN_INPUT = (
    "Nothing was done: the input contains a key of the program that runs you, which must not leave it. Leave it out; a "
    "command that needs a key of the user's own finds it in the user's environment or files."
)


def accept_input(passage: ToolInvocation, input: dict[str, Any]) -> dict[str, Any]:
    """Set the current input, from any source, with absolute paths, and check it."""
    if deeper_than(input, MOST_DEEP):
        raise ToolError(f"The changed input of '{passage.call.name}' is nested too deeply. Nothing was done.")
    if is_in(input):
        raise ToolError(KEY_IN_INPUT)
    paths = [field for field in passage.tool.paths if isinstance(input.get(field), str)]
    whole = {**input, **{field: whole_path(input[field], passage.cwd, passage.place.home) for field in paths}}
    passage.given, passage.input = passage.tool.parse(whole), whole
    return whole


def whole_path(path: str, cwd: str, home: str) -> str:
    """Make a path absolute, starting at the call's directory. The path is not resolved: links are followed later."""
    if path.startswith("/") or not path:
        return path
    if path.startswith("~/") and home:
        return home + path[1:]
    return f"{cwd.rstrip('/')}/{path}"


def deeper_than(value: object, most: int) -> bool:
    """Without recursion: the input may be nested deeper than Python's stack."""
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


async def decide_permission(passage: ToolInvocation) -> ToolAnswer | None:
    """Deny, ask, allow, mode: `permissions/decide.py` applies them in order. The user's answer comes last."""
    hands, standing, opinion = passage.hands, passage.asking.policy, passage.opinion
    asked = PermissionRequest(
        passage.call.name,
        passage.input,
        passage.cwd,
        before=passage.sent if passage.input is not passage.sent else None,
        hook=opinion.decision,
        hook_reason=opinion.reason,
        reads=passage.tool.is_read_only(passage.given),
    )
    verdict = await hands.gate.verdict(asked, standing, passage.paths)
    await passage.asking.note_decision(verdict.decision, verdict.reason)
    if verdict.decision == "allow":
        await read_beforehand(passage)
        return None
    if verdict.decision == "deny":
        by_hook = opinion.decision == "deny" and verdict.reason == opinion.reason  # stream-json 10: the hook's own text
        if by_hook:
            return passage.refuse(opinion.reason, hook=opinion.by)
        return passage.refuse(f"Not allowed: {verdict.reason}.")
    preview = await preview_change(passage)
    offered = hands.gate.suggestions(asked, standing, passage.paths)
    wider = hands.gate.wider_suggestions(asked, standing, passage.paths)
    mode = hands.gate.suggested_mode(asked, standing, passage.paths)
    about = {
        **({"agent_id": hands.agent[0]} if hands.agent is not None else {}),
        "tool_name": passage.call.name,
        "input": passage.input,
        "tool_use_id": passage.call.id,
        "description": passage.tool.line(passage.given),
        "decision_reason": verdict.reason,
        "shown": verdict.shown,
        "is_default_reason": verdict.is_default,
        "suggestions": [{"rule": one.rule, "covers": one.covers} for one in offered],
        "wider_suggestions": [{"rule": one.rule, "covers": one.covers} for one in wider],
        **({"preview": preview} if preview else {}),
        **({"suggested_mode": str(mode)} if mode is not None else {}),
    }
    return await ask_permission(passage, asked, verdict, about)


# --- changes of files, before they are asked about ---


async def preview_change(passage: ToolInvocation) -> str:
    """The change as a diff, for the user; empty if it is not known. Raises `ToolError` if the call cannot succeed: then
    the user is not asked. Where the file may not be read without asking, nothing is checked, so that a refusal reveals
    nothing about it."""
    preview = passage.tool.preview
    if preview is None or not await may_read_without_asking(passage):
        return ""
    return await preview(passage.given, passage)


async def read_beforehand(passage: ToolInvocation) -> None:
    """A tool that was not asked about and changes a file that was not read yet: read it, if that is allowed."""
    if passage.tool.preview is None or not passage.tool.paths:
        return
    with contextlib.suppress(ToolError, PathRefused):  # the tool itself reports it
        if passage.place.read.of(passage.resolve(passage.input[passage.tool.paths[0]])) is None:
            await preview_change(passage)


async def may_read_without_asking(passage: ToolInvocation) -> bool:
    """Whether the rules allow reading the file. A hook that decides about reads is not asked here, so with one the
    answer is no. A first read is noted in the journal."""
    hands, path = passage.hands, passage.input.get(passage.tool.paths[0]) if passage.tool.paths else None
    if not isinstance(path, str) or hands.hooks.any_at(HookPoint.PRE_TOOL_USE, "Read"):
        return False
    asked = PermissionRequest("Read", {"file_path": path}, passage.cwd)
    verdict = await hands.gate.verdict(asked, passage.asking.policy, passage.paths)
    if verdict.decision != "allow":
        return False
    with contextlib.suppress(PathRefused):
        found = passage.resolve(path)
        if found.kind == "file" and passage.place.read.of(found) is None:
            await passage.asking.note_decision("allow", f"'{found.asked}' is read first: {verdict.reason}")
    return True


def way_out(verdict: PermissionDecision, about: dict[str, Any]) -> str:
    rule = next((one["rule"] for one in about["suggestions"]), "")
    if verdict.person or not rule:
        return "No rule allows this: leave it to the user, who can do it, or approve it in an interactive session."
    return f"The user can allow it with the rule '{rule}' (allowed tools, or permissions.allow in the settings)."


async def ask_permission(
    passage: ToolInvocation, asked: PermissionRequest, verdict: PermissionDecision, about: dict[str, Any]
) -> ToolAnswer | None:
    """Ask for permission: hooks, then the classifier in mode auto, then the user. None of the first two can approve
    what only the user may; where the user cannot be asked, the call is denied."""
    hooks = passage.hands.hooks
    if hooks.any_at(HookPoint.PERMISSION_REQUEST, passage.call.name):
        facts = passage.facts(permission_suggestions=to_permission_updates(about))
        opinion = await hooks.ask(HookPoint.PERMISSION_REQUEST, facts, passage.call.name)
        passage.heed(opinion)
        if opinion.decision == "deny" or (opinion.decision == "allow" and not verdict.person):
            await passage.asking.note_decision(opinion.decision, opinion.reason or "a hook answered the question")
        if opinion.decision == "deny" or opinion.stop is not None:
            return passage.refuse(opinion.reason or opinion.stop or "A hook refused it.", hook=opinion.by)
        if opinion.decision == "allow" and not verdict.person:
            return await check_changed_input(passage, opinion.input) if opinion.input is not None else None
    classifier = passage.hands.classifier
    if verdict.open and classifier is not None and passage.hands.offers[passage.call.name].built_in:
        verdict = await consult_classifier(passage, classifier(), asked)
        if verdict.decision == "allow":
            return None
        if verdict.decision == "deny":
            return passage.refuse(f"Not allowed: {verdict.reason}.")
    reason = about["decision_reason"] = verdict.reason
    about["is_default_reason"] = verdict.is_default
    if not passage.hands.attended:
        await passage.asking.note_decision("deny", "no user can be asked")
        return passage.refuse(
            f"This needs permission, and no user can be asked here: {reason}. {way_out(verdict, about)}"
        )
    permission_wanted(hooks, passage.call.name, passage.hands.agent)
    said = parse_approval(await passage.asking.ask(f"{passage.call.name}: {reason}", about))
    await passage.asking.note_decision(said.behavior, said.message or "a person answered")
    if said.behavior == "deny":
        passage.stop = passage.stop or (said.message or DENIED if said.interrupt else None)
        return passage.refuse(said.message or DENIED)
    passage.approved = True
    if said.updated_input is not None and said.updated_input != passage.input:
        return await check_changed_input(passage, said.updated_input)
    return None


async def consult_classifier(
    passage: ToolInvocation, classifier: Classifier, asked: PermissionRequest
) -> PermissionDecision:
    """Decide again after the answer: rules and mode may have changed meanwhile, and a deny is final (law 6)."""
    answer = await classifier.judge(asked)
    verdict = await passage.hands.gate.verdict(asked, passage.asking.policy, passage.paths)
    verdict = permissions.apply_answer(verdict, answer)
    await passage.asking.note_decision(verdict.decision, verdict.reason, (answer.kind, answer.reason))
    return verdict


async def check_changed_input(passage: ToolInvocation, input: dict[str, Any]) -> ToolAnswer | None:
    """An answer may change the input, but not past a deny rule."""
    asked = PermissionRequest(passage.call.name, accept_input(passage, input), passage.cwd)
    verdict = await passage.hands.gate.verdict(asked, passage.asking.policy, passage.paths)
    return passage.refuse(f"Not allowed: {verdict.reason}.") if verdict.decision == "deny" else None


Step = Callable[[ToolInvocation], Awaitable[ToolAnswer | None]]


async def find_tool(passage: ToolInvocation) -> ToolAnswer | None:
    hands, name = passage.hands, passage.call.name
    missing = await hands.arrive(name)
    found = hands.tool(name)
    if found is None:
        return make_error_answer(
            missing or f"There is no tool '{name}'. Available: {', '.join(hands.offers) or 'none'}."
        )
    passage.found(found)
    failed = passage.asking.failures.get(name, 0) if found.retries is not None else 0
    if found.retries is not None and failed > found.retries:
        return make_error_answer(f"Not run: {say_closed(name, failed)}")
    return None


def say_closed(name: str, failed: int) -> str:
    return (
        f"'{name}' has failed {plural(failed, 'time')} in a row and does not run again in this run. Go on without it."
    )


def count_failures(passage: ToolInvocation, answer: ToolAnswer) -> ToolAnswer:
    """Count the failures in a row of a tool that has a limit (`Tool.retries`). The last one says that it was the last:
    the model would find out by a call in vain."""
    name, limit, counts = passage.call.name, passage.tool.retries, passage.asking.failures
    if limit is None or passage.denied or counts.get(name, 0) > limit:
        return answer
    if not answer.is_error:
        counts.pop(name, None)
        return answer
    counts[name] = counts.get(name, 0) + 1
    last = counts[name] > limit
    return replace(answer, content=(*answer.content, Text(f"\n[{say_closed(name, counts[name])}]"))) if last else answer


async def check_input(passage: ToolInvocation) -> ToolAnswer | None:
    """Parse and validate. An input that contains one of our keys is refused before hooks and the user see it (security
    K3)."""
    if is_in(passage.call.input):
        return passage.refuse(KEY_IN_INPUT)
    if deeper_than(passage.call.input, MOST_DEEP):
        return make_error_answer(
            f"The input of '{passage.call.name}' is nested too deeply. Nothing was done: call it again."
        )
    try:
        passage.given = passage.tool.parse(passage.call.input)
    except ToolError as error:
        if passage.hands.is_known(passage.call.name):
            raise
        raise ToolError(f"{error}\n{passage.hands.reveal(passage.call.name)}") from None
    passage.ignored = passage.tool.ignored(passage.call.input)
    return None


async def complete_paths(passage: ToolInvocation) -> ToolAnswer | None:
    """Make paths absolute before the decision, so that hooks and rules see the file that will be opened."""
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


NO_ANSWER = "it did not return a 'ToolAnswer' of 'Text', 'Image' and 'Document'"


async def run_tool(passage: ToolInvocation) -> ToolAnswer | None:
    limits = shared_limits.get()
    if limits is None:
        await run_tool_now(passage)
        return None
    async with limits.tool_slot(passage.call.name):
        await run_tool_now(passage)
    return None


async def run_tool_now(passage: ToolInvocation) -> None:
    before = passage.place.before_writing
    if before is not None and not passage.tool.is_read_only(passage.given):
        await before()  # for the file checkpoint
    began = perf_counter_ns()
    passage.began = True
    limit = asyncio.timeout(passage.tool.timeout) if passage.tool.timeout is not None else None
    try:
        if limit is None:
            made = await passage.tool.run(passage.given, passage)
        else:
            async with limit:
                made = await passage.tool.run(passage.given, passage)
        passage.answer = made if is_answer(made) else make_error_answer(CRASHED.format(error=NO_ANSWER))
    except DeclinedError as error:
        passage.stop = passage.stop or str(error)
        passage.answer = make_error_answer(str(error))
    except ToolError as error:
        passage.answer = make_error_answer(str(error))
    except asyncio.CancelledError:
        raise  # the executor cancelled it; or the tool did, and then the executor reports it
    except Exception as error:  # noqa: BLE001  # whatever a tool does wrong: hooks hear of it, too
        timed_out = limit is not None and limit.expired()
        passage.answer = make_error_answer(explain_crash(passage, error, timed_out=timed_out))
    finally:
        passage.took = (perf_counter_ns() - began) // 1_000_000


def explain_crash(passage: ToolInvocation, error: Exception, *, timed_out: bool = False) -> str:
    """Words for the model. The traceback is for the log: it is a bug of the tool."""
    if timed_out and isinstance(error, TimeoutError):
        return TIMED_OUT.format(name=passage.call.name, seconds=passage.tool.timeout)
    log_tool_failure(passage.call.name, error)
    return CRASHED.format(error=f"{type(error).__name__}: {error}")


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
    """In the background: an interrupt does not wait for a hook."""
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
)  # the engine writes the record: it has the journal


async def run_pipeline(passage: ToolInvocation) -> InvocationResult:
    """Run the steps until one returns an answer."""
    times: list[tuple[str, int]] = []
    answer: ToolAnswer | None = None
    for name, step in STEPS:
        began = perf_counter_ns()
        try:
            answer = await step(passage)
        except ToolError as error:
            answer = make_error_answer(str(error))
        except Exception as error:  # noqa: BLE001  # of code of the program: a validator of an input, a trait
            answer = make_error_answer(explain_crash(passage, error))
        except asyncio.CancelledError as error:  # the executor cancelled it: the run is over
            if passage.began and passage.answer is None:
                tell_of_interrupt(passage)
                if not isinstance(error, InterruptedCommand):
                    raise  # the effects until then are unknown
                answer = make_error_answer(f"{INTERRUPTED_AFTER}\n{error.output}")
                break
            answer = make_error_answer(NeverRan.INTERRUPTED) if passage.answer is None else await fit_result(passage)
        finally:
            times.append((name, (perf_counter_ns() - began) // 1_000))
        if answer is not None:
            break
    assert answer is not None  # the last step returns one
    if passage.is_found:
        answer = count_failures(passage, answer)
    answer = without_nonce(answer, passage.place.nonce)
    return InvocationResult(answer, passage.denied, passage.stop, passage.context, tuple(times))
