"""Functions of the caller as hooks: who is asked, when, with what, and what becomes of those that fail or hang."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar

import pytest
from msgspec.structs import replace
from processes.traces import until

from mainspring.hooks import invocation
from mainspring.hooks.events import GUARDS, NOTHING, OF_TOOLS, HookPoint, HookResult
from mainspring.hooks.runner import MOST_ASIDE, SECONDS, Hook, HookRunner

PRE, STOP = HookPoint.PRE_TOOL_USE, HookPoint.STOP
DENY = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}
Result = TypeVar("Result")


class Scene:
    """A runner that keeps what it has to say to people."""

    def __init__(self, *hooks: Hook) -> None:
        self.warnings: list[str] = []
        self.said: list[str] = []
        self.runner = HookRunner(hooks, common=lambda: {"cwd": "/w"}, warn=self.warnings.append, say=self.said.append)

    async def ask(self, point: HookPoint = PRE, tool: str = "Bash", **facts: Any) -> HookResult:
        return await self.runner.ask(point, facts, tool)

    def now(self, point: HookPoint = PRE, tool: str = "Bash", **facts: Any) -> HookResult:
        """Without the name of the hook: every hook here has the same."""
        return replace(asyncio.run(self.ask(point, tool, **facts)), by="")


def hook(ask: invocation.Ask, point: HookPoint = PRE, **more: Any) -> Hook:
    return Hook(point, ask, name="mine", **more)


# --- who is asked -------------------------------------------------------------------------------------------------

MATCHES: list[tuple[str | None, str, bool]] = [
    (None, "Bash", True),
    ("", "Bash", True),
    ("*", "Bash", True),
    ("Bash", "Bash", True),
    ("bash", "Bash", False),
    ("ash", "Bash", False),
    ("Bas", "Bash", False),
    ("Write|Edit", "Edit", True),
    ("Write|Edit", "NotebookEdit", False),
    ("Edit|Write", "WriteX", False),
    ("mcp__calc__.*", "mcp__calc__add", True),
    ("mcp__calc__.*", "mcp__other__add", False),
    (".*", "Bash", True),
    ("Task", "Agent", True),  # what it was called: a guard that stands in somebody's settings must not fall away
    ("Agent|Bash", "Agent", True),
    ("Task", "TaskCreate", False),
    ("Agent", "Task", False),
]


@pytest.mark.parametrize(("matcher", "tool", "matches"), MATCHES)
def test_a_matcher_is_for_the_whole_name(matcher: str | None, tool: str, *, matches: bool) -> None:
    for point in HookPoint:
        scene = Scene(hook(lambda _: HookResult(message="asked"), point, matcher=matcher))
        expected = matches or point not in OF_TOOLS  # events without tools ignore it
        assert scene.runner.any_at(point, tool) is expected
        assert scene.now(point, tool) == (HookResult(message="asked") if expected else NOTHING)


@pytest.mark.covers("I-01")
def test_there_are_thirteen_points_and_at_each_somebody_is_asked() -> None:
    names = (
        "PreToolUse PostToolUse PostToolUseFailure UserPromptSubmit Stop SubagentStart SubagentStop PreCompact "
        "PostCompact SessionStart SessionEnd Notification PermissionRequest"
    )
    assert [str(point) for point in HookPoint] == names.split()
    heard: list[dict[str, Any]] = []
    scene = Scene(*[hook(heard.append, point) for point in HookPoint])
    for point in HookPoint:
        assert scene.now(point, fact=1) == NOTHING
    assert heard == [{"cwd": "/w", "hook_event_name": name, "fact": 1} for name in names.split()]
    assert scene.warnings == []


@pytest.mark.parametrize("matcher", ["[", "(a+)+"])
def test_a_broken_matcher_is_told_and_stands_for_every_tool(matcher: str) -> None:
    scene = Scene(hook(lambda _: DENY, matcher=matcher))
    [warning] = scene.warnings
    assert warning.startswith(f"the matcher '{matcher}' of the PreToolUse hook 'mine' is not used: it ")
    assert warning.endswith("The hook runs for every call")
    assert [scene.now(tool=tool).decision for tool in ("Bash", "Edit")] == ["deny", "deny"]
    assert Scene(hook(lambda _: None, STOP, matcher=matcher)).warnings == []  # nobody reads it


def test_where_nobody_stands_nobody_is_asked() -> None:
    scene = Scene(hook(lambda _: DENY, matcher="Edit"))
    assert scene.now(tool="Bash") == NOTHING
    assert scene.now(STOP) == NOTHING


@pytest.mark.parametrize("count", [2, 5])
def test_all_are_asked_at_once(count: int) -> None:
    """Each waits until all have been asked: one after the other would wait for ever."""
    together = threading.Barrier(count)
    gate: list[int] = []

    async def late(_: dict[str, Any]) -> None:
        gate.append(1)
        await until(lambda: len(gate) == count)

    def blocking(_: dict[str, Any]) -> None:
        together.wait(20)

    for ask in (late, blocking):
        scene = Scene(*[hook(ask, seconds=25)] * count)
        assert scene.now() == NOTHING
        assert scene.warnings == []


def test_deny_over_ask_over_allow_and_contexts_joined() -> None:
    def said(word: str) -> dict[str, Any]:
        return {"hookSpecificOutput": {"permissionDecision": word, "additionalContext": word}, "systemMessage": word}

    scene = Scene(*[hook(functools.partial(lambda word, _: said(word), word)) for word in ("allow", "deny", "ask")])
    opinion = scene.now()
    assert (opinion.decision, opinion.context) == ("deny", ("allow", "deny", "ask"))
    assert scene.said == ["allow\ndeny\nask"]


def test_the_default_is_sixty_seconds() -> None:
    assert Hook(PRE, lambda _: None).seconds == SECONDS == 60


# --- what a function may be ---------------------------------------------------------------------------------------


async def coroutine(facts: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(0)
    return DENY | {"systemMessage": str(facts["fact"])}


def plain(facts: dict[str, Any]) -> dict[str, Any]:
    return DENY | {"systemMessage": str(facts["fact"])}


class Somebody:
    async def __call__(self, facts: dict[str, Any]) -> dict[str, Any]:
        return plain(facts)

    def method(self, facts: dict[str, Any]) -> HookResult:
        return HookResult("deny", reason="no", message=str(facts["fact"]))


FORMS: dict[str, invocation.Ask] = {
    "async": coroutine,
    "sync": plain,
    "object": Somebody(),
    "method": Somebody().method,
    "partial": functools.partial(coroutine),
    "sync that returns a coroutine": lambda facts: coroutine(facts),  # noqa: PLW0108  # it is not known as async
}


@pytest.mark.covers("I-02")
@pytest.mark.parametrize("form", FORMS)
def test_any_kind_of_function_in_this_process(form: str) -> None:
    scene = Scene(hook(FORMS[form]))
    assert scene.now(fact=5) == HookResult("deny", reason="no", message="5")
    assert scene.said == ["5"]


def test_a_plain_function_runs_in_a_thread_with_the_callers_context() -> None:
    name: ContextVar[str] = ContextVar("name")
    seen: list[tuple[bool, str]] = []

    def ask(_: dict[str, Any]) -> None:
        seen.append((threading.current_thread() is threading.main_thread(), name.get()))

    name.set("caller")
    assert Scene(hook(ask)).now() == NOTHING
    assert seen == [(False, "caller")]


def test_each_hook_has_facts_of_its_own() -> None:
    """What one changes in place, neither the others nor the call itself get to see."""
    input = {"command": "ls", "more": ["a"]}
    seen: list[Any] = []

    def spoil(facts: dict[str, Any]) -> None:
        seen.append(facts["tool_input"] == {"command": "ls", "more": ["a"]})
        facts["tool_input"]["command"] = "rm -rf /"
        facts["tool_input"]["more"].append("b")

    assert Scene(hook(spoil), hook(spoil)).now(tool_input=input) == NOTHING
    assert seen == [True, True]
    assert input == {"command": "ls", "more": ["a"]}


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("fact", [object(), nested(100_000)])
def test_a_guard_that_cannot_be_told_the_facts_says_no(fact: object) -> None:
    scene = Scene(hook(plain))
    assert scene.now(fact=fact).decision == "deny"
    assert "cannot receive its payload" in scene.warnings[0]


# --- what goes wrong ----------------------------------------------------------------------------------------------


def fails(_: dict[str, Any]) -> NoReturn:
    raise KeyError("x")


async def fails_later(_: dict[str, Any]) -> NoReturn:
    await asyncio.sleep(0)
    raise KeyError("x")


async def cancels_itself(_: dict[str, Any]) -> NoReturn:
    raise asyncio.CancelledError


def times_out_itself(_: dict[str, Any]) -> NoReturn:
    raise TimeoutError("the socket's, not ours")


def next_of_nothing(_: dict[str, Any]) -> Any:
    return next(iter(()))


def leaves(_: dict[str, Any]) -> NoReturn:
    sys.exit(3)


async def leaves_async(_: dict[str, Any]) -> NoReturn:
    sys.exit(3)


FAILURES: dict[str, tuple[invocation.Ask, str]] = {
    "raises": (fails, "failed: KeyError: 'x'"),
    "raises later": (fails_later, "failed: KeyError: 'x'"),
    "is cancelled from within": (cancels_itself, "failed: RuntimeError: it was cancelled from within"),
    "has a timeout of its own": (times_out_itself, "failed: TimeoutError: the socket's, not ours"),
    "stops an iteration": (next_of_nothing, "failed: RuntimeError: it raised StopIteration()"),
    "exits": (leaves, "failed: RuntimeError: it called sys.exit(3)"),
    "exits, async": (leaves_async, "failed: RuntimeError: it called sys.exit(3)"),
    "answers wrongly": (lambda _: "deny", "returned str; expected a dictionary, a HookResult or None"),
    "answers in the wrong type": (
        lambda _: {"reason": 5},
        "gave an invalid answer: Expected `str | null`, got `int` - at `$.reason`",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_no_opinion_and_is_named_and_may_block(name: str) -> None:
    ask, why = FAILURES[name]
    for point in (PRE, STOP, HookPoint.SESSION_START):
        scene = Scene(hook(ask, point))
        assert scene.now(point) == NOTHING
        assert scene.warnings == [f"the {point} hook 'mine' {why}"]
        strict = Scene(hook(ask, point, blocks=True))
        reason = f"The hook 'mine', which guards this, {why}."
        assert strict.now(point) == (
            HookResult("deny", reason=reason) if point is PRE else HookResult(block=True, reason=reason)
        )
        assert len(strict.warnings) == 1


def test_the_others_still_count_when_one_fails() -> None:
    scene = Scene(hook(fails), hook(plain), hook(times_out_itself))
    assert scene.now(fact=1).decision == "deny"
    assert len(scene.warnings) == 2


def test_a_no_with_a_slip_is_a_no_and_is_warned_of() -> None:
    scene = Scene(hook(lambda _: {"decision": "block", "reason": 5}))
    assert scene.now().decision == "deny"
    assert "$.reason" in scene.warnings[0]


def test_a_message_is_short_and_nobody_fails_by_a_closed_terminal() -> None:
    def closed(_: str) -> NoReturn:
        raise BrokenPipeError

    def wordy(_: dict[str, Any]) -> NoReturn:
        raise ValueError("x" * 1_000_000)

    runner = HookRunner([hook(wordy, blocks=True), hook(lambda _: {"systemMessage": "m"})], warn=closed, say=closed)
    opinion = asyncio.run(runner.ask(PRE, {}))
    assert opinion.decision == "deny"
    assert len(opinion.reason) < 2_200
    assert asyncio.run(HookRunner([hook(fails)]).ask(PRE, {})) == NOTHING  # and nobody need listen


def test_names_for_those_that_have_none() -> None:
    scene = Scene(Hook(STOP, fails), Hook(STOP, functools.partial(fails)))
    scene.now(STOP)
    assert [text.split("'")[1] for text in scene.warnings] == ["fails", "partial"]


# --- those that hang ----------------------------------------------------------------------------------------------


async def sleeps(_: dict[str, Any]) -> None:
    await asyncio.Event().wait()


def test_one_that_takes_too_long_is_a_no_where_it_guards() -> None:
    free = threading.Event()

    def hangs(_: dict[str, Any]) -> None:
        free.wait(60)

    for ask in (sleeps, hangs):
        for point in HookPoint:
            scene = Scene(hook(ask, point, seconds=0.01))
            opinion = scene.now(point)
            why = "took longer than 0.01 seconds"
            reason = f"The hook 'mine', which guards this, {why}."
            assert opinion == (HookResult("deny", reason=reason) if point in GUARDS else NOTHING)
            assert scene.warnings == [f"the {point} hook 'mine' {why}"]
    free.set()


def test_a_plain_function_that_hangs_does_not_hold_up_the_end() -> None:
    free = threading.Event()
    began = time.monotonic()
    scene = Scene(hook(lambda _: free.wait(60), seconds=0.05))
    assert scene.now().decision == "deny"  # the loop has been closed
    assert time.monotonic() - began < 10
    hook_threads = [thread for thread in threading.enumerate() if thread.name == "hook"]
    assert hook_threads
    free.set()  # its answer comes to a closed loop
    for thread in hook_threads:
        thread.join(20)
        assert not thread.is_alive()


def test_an_answer_that_comes_too_late_is_dropped() -> None:
    free = threading.Event()

    async def main() -> HookResult:
        scene = Scene(hook(lambda _: free.wait(60), seconds=0.01))
        opinion = await scene.ask()
        free.set()
        await until(lambda: not [thread for thread in threading.enumerate() if thread.name == "hook"])
        return opinion

    assert asyncio.run(main()).decision == "deny"


def test_one_that_does_not_obey_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "PATIENCE", 0.05)
    free = asyncio.Event()

    async def stubborn(_: dict[str, Any]) -> NoReturn:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:  # it does not care
                continue
        raise KeyError("nobody hears this")

    async def main() -> HookResult:
        opinion = await Scene(hook(stubborn, seconds=0.01)).ask()
        free.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)
        return opinion

    assert asyncio.run(main()).decision == "deny"


def test_a_cancelled_run_ends_its_hooks() -> None:
    ended: list[str] = []

    async def waits(_: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def main(count: int) -> None:
        scene = Scene(*[hook(waits)] * count)
        task = asyncio.ensure_future(scene.ask())
        await until(lambda: len(asyncio.all_tasks()) >= 2 + count)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(ended) == count
        assert len(asyncio.all_tasks()) == 1
        assert scene.warnings == []
        ended.clear()

    asyncio.run(main(1))
    asyncio.run(main(3))


# --- those that nobody waits for ----------------------------------------------------------------------------------


def play(scene: Scene, main: Callable[[Scene], Awaitable[Result]]) -> Result:
    async def play() -> Result:
        return await main(scene)

    return asyncio.run(play())


def test_aside_nobody_waits_and_its_word_does_not_count() -> None:
    free, done = asyncio.Event(), list[str]()

    async def slow(_: dict[str, Any]) -> dict[str, Any]:
        await free.wait()
        done.append("done")
        return DENY

    async def main(scene: Scene) -> None:
        assert await scene.ask() == NOTHING
        assert done == []
        free.set()
        await scene.runner.close()
        assert done == ["done"]
        await scene.runner.close()

    play(Scene(hook(slow, aside=True)), main)


def test_aside_failures_are_named_and_the_end_ends_them() -> None:
    async def main(scene: Scene) -> None:
        assert await scene.ask() == NOTHING
        await until(lambda: scene.warnings)
        await scene.runner.close(grace=0.01)
        assert len(asyncio.all_tasks()) == 1

    scene = Scene(hook(fails, aside=True), hook(sleeps, aside=True))
    play(scene, main)
    assert scene.warnings == ["the PreToolUse hook 'mine' failed: KeyError: 'x'"]


def test_aside_there_are_not_too_many() -> None:
    async def main(scene: Scene) -> None:
        for _ in range(MOST_ASIDE + 2):
            assert await scene.ask() == NOTHING
        await until(lambda: len(scene.warnings) == 2)
        await scene.runner.close(grace=0)
        assert len(asyncio.all_tasks()) == 1

    scene = Scene(hook(sleeps, aside=True))
    play(scene, main)
    assert scene.warnings == [f"{MOST_ASIDE} background hooks are still running, so 'mine' was stopped"] * 2


# --- what it says of the end ------------------------------------------------------------------------------------------

SHOWN = {HookPoint.POST_TOOL_USE, HookPoint.POST_TOOL_USE_FAILURE, HookPoint.STOP, HookPoint.SUBAGENT_STOP}


@pytest.mark.parametrize("point", HookPoint)
def test_why_a_run_ended_is_shown_where_nothing_else_would_show_it(point: HookPoint) -> None:
    """Elsewhere the reason is what became of the call or of the prompt, or nothing ends there."""
    scene = Scene(hook(lambda _: {"continue": False, "stopReason": "enough", "systemMessage": "mind"}, point))
    assert scene.now(point).stop == "enough"
    assert scene.said == ["mind", *(["enough"] if point in SHOWN else [])]
    silent = Scene(hook(lambda _: {"continue": False}, point))
    silent.now(point)
    assert silent.said == []


def test_what_only_the_session_knows_is_told_at_its_point() -> None:
    heard: list[Any] = []
    both = [hook(heard.append, point) for point in (PRE, STOP)]
    runner = HookRunner(both, more={STOP: lambda facts: {"tasks": [facts["last"]], "last": "changed"}})

    async def main() -> None:
        await runner.ask(PRE, {"last": "a"}, "Bash")
        await runner.ask(STOP, {"last": "a"})

    asyncio.run(main())
    assert heard == [
        {"hook_event_name": "PreToolUse", "last": "a"},
        {"hook_event_name": "Stop", "last": "changed", "tasks": ["a"]},
    ]
