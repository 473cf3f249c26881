"""`--include-hook-events` with `-p`: the real command tells when a hook is asked, and what it answered (stream-json 6.7
and 7). How it looks for a program that drives us is in `tests/pipe/test_hooks.py`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.stage import Frame, Stage, frames, serving

from mainspring.hooks.events import HookPoint
from mainspring.hooks.invocation import MOST_SEEN, HookCallFinished, HookCallStarted
from mainspring.hooks.runner import Hook, HookRunner
from mainspring.simulator.replies import Reply, Say

FLAGS = ("-p", "go", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions")
CALL = {"type": "tool_use", "id": "toolu_a", "name": "Bash", "input": {"command": "echo hello"}}


class Played:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, hooks: dict[str, str], *replies: Reply, flags: tuple[str, ...] = ("--include-hook-events",)) -> Any:
        """One command at each point, and the frames of a run."""
        with serving(replies or (Say.of(CALL), Say.of("Done.")), self.folder / "work") as stage:
            return self._run(stage, hooks, flags)

    def _run(self, stage: Stage, hooks: dict[str, str], flags: tuple[str, ...]) -> list[Frame]:
        entries = {point: [{"hooks": [{"type": "command", "command": command}]}] for point, command in hooks.items()}
        stage.home.mkdir(exist_ok=True)
        (stage.home / "settings.json").write_text(json.dumps({"hooks": entries}))
        done = stage.run(*FLAGS, *flags)
        assert done.returncode == 0, done.stderr
        return frames(done.stdout)


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


def line(frame: Frame) -> str:
    """What comes, in one word each."""
    if frame["type"] == "system":
        return " ".join([frame["subtype"], *([frame["hook_name"]] if "hook_name" in frame else [])])
    blocks = frame["message"]["content"] if "message" in frame else []
    return " ".join([frame["type"], *[block["type"] for block in blocks]])


POINTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")


def test_each_is_told_in_its_place(played: Played) -> None:
    """6.7, 7: behind what it is about, and before what comes of it; nothing stands behind the result."""
    shown = played.run(dict.fromkeys(POINTS, "true"))
    assert [line(frame) for frame in shown if frame.get("subtype") != "mainspring_turn"] == [
        "init",
        "hook_started SessionStart:startup",
        "hook_response SessionStart:startup",
        "hook_started UserPromptSubmit",
        "hook_response UserPromptSubmit",
        "assistant tool_use",
        "hook_started PreToolUse:Bash",
        "hook_response PreToolUse:Bash",
        "hook_started PostToolUse:Bash",
        "hook_response PostToolUse:Bash",
        "user tool_result",
        "assistant text",
        "hook_started Stop",
        "hook_response Stop",
        "result",
    ]
    assert "--include-hook-events" not in shown[0]["flags_not_honoured"]
    told = [frame for frame in shown if "hook_id" in frame]
    assert len({frame["uuid"] for frame in shown}) == len(shown)
    assert {frame["session_id"] for frame in told} == {shown[0]["session_id"]}
    for started, answered in zip(told[::2], told[1::2], strict=True):
        assert started["hook_id"] == answered["hook_id"]
        assert started["hook_event"] == answered["hook_event"] == started["hook_name"].partition(":")[0]


def test_only_for_those_who_ask(played: Played) -> None:
    shown = played.run(dict.fromkeys(POINTS, "true"), flags=())
    assert [line(frame) for frame in shown if frame.get("subtype") != "mainspring_turn"] == [
        "init",
        "assistant tool_use",
        "user tool_result",
        "assistant text",
        "result",
    ]


ENDS: dict[str, tuple[str, Frame]] = {
    "says": ('echo \'{"systemMessage": "ä"}\'', {"outcome": "success", "exit_code": 0}),
    "says no": ("echo no >&2; exit 2", {"outcome": "error", "exit_code": 2, "stdout": "", "stderr": "no"}),
    "fails": ("echo out; echo err >&2; exit 3", {"outcome": "error", "exit_code": 3, "output": "outerr"}),
    "is not there": ("./not-there", {"outcome": "error", "exit_code": 127}),
    "is no answer": ("echo '{\"decision\": 7}'", {"outcome": "error", "exit_code": 0, "stdout": '{"decision": 7}'}),
}


@pytest.mark.parametrize("how", ENDS)
def test_how_a_command_ended(how: str, played: Played) -> None:
    """6.7: `output`, `stdout`, `stderr`, `exit_code` and `outcome`, as they were."""
    command, expected = ENDS[how]
    [answered] = [frame for frame in played.run({"PreToolUse": command}) if frame.get("subtype") == "hook_response"]
    assert {key: answered[key] for key in expected} == expected
    assert {"output", "stdout", "stderr", "exit_code", "outcome"} < set(answered)


def test_the_result_alone_tells_of_no_hook(played: Played) -> None:
    shown = played.run({"Stop": "true"}, Say.of("Done."), flags=("--include-hook-events", "--output-format", "json"))
    assert [line(frame) for frame in shown] == ["result"]


# --- the watcher ------------------------------------------------------------------------------------------------------


class Watching:
    def __init__(self) -> None:
        self.seen: list[HookCallStarted | HookCallFinished] = []

    async def starts(self, hook: HookCallStarted) -> None:
        self.seen.append(hook)

    def ended(self, hook: HookCallFinished) -> None:
        self.seen.append(hook)


def watched(ask: Any, *, seconds: float = 5.0, **more: Any) -> list[Any]:
    watching = Watching()

    async def main() -> None:
        runner = HookRunner([Hook(HookPoint.STOP, ask, seconds=seconds, name="mine", **more)])
        runner.watch(watching)
        await runner.ask(HookPoint.STOP, {})
        await runner.close()

    asyncio.run(main())
    started, answered = watching.seen
    assert isinstance(started, HookCallStarted)
    assert isinstance(answered, HookCallFinished)
    assert (started.id, started.name) == (answered.id, answered.name)
    return [answered.outcome, answered.output, answered.stdout, answered.stderr, answered.code]


async def never(_: dict[str, Any]) -> None:
    await asyncio.Event().wait()


def raises(_: dict[str, Any]) -> None:
    raise ValueError("ill")


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda _: {"decision": "block"}, ["success", '{"decision":"block"}', "", "", None]),
        (lambda _: None, ["success", "", "", "", None]),
        (raises, ["error", "failed: ValueError: ill", "", "failed: ValueError: ill", None]),
        (lambda _: 7, ["error", "returned int; expected a dictionary, a HookResult or None"]),
        (never, ["cancelled", "took longer than 0.05 seconds", "", "took longer than 0.05 seconds", None]),
    ],
)
def test_how_a_function_ended(ask: Any, expected: list[Any]) -> None:
    assert watched(ask, seconds=0.05 if ask is never else 5.0)[: len(expected)] == expected


def test_one_that_nobody_waits_for_is_told_of_too() -> None:
    assert watched(lambda _: {}, aside=True)[0] == "success"


def test_what_is_long_is_cut() -> None:
    assert len(watched(lambda _: {"systemMessage": "x" * (2 * MOST_SEEN)})[1]) == MOST_SEEN


def test_an_interrupted_one_is_told_of_as_cancelled() -> None:
    watching = Watching()

    async def main() -> None:
        asked = asyncio.Event()

        async def ask(facts: dict[str, Any]) -> None:
            asked.set()
            await never(facts)

        runner = HookRunner([Hook(HookPoint.STOP, ask)])
        runner.watch(watching)
        asking = asyncio.create_task(runner.ask(HookPoint.STOP, {}))
        await asked.wait()
        asking.cancel()
        await asyncio.wait({asking})

    asyncio.run(main())
    assert [getattr(one, "outcome", "started") for one in watching.seen] == ["started", "cancelled"]


def test_a_watcher_that_fails_is_no_concern_of_the_hook() -> None:
    class Failing:
        async def starts(self, hook: HookCallStarted) -> None:
            raise OSError(hook.id)

        def ended(self, hook: HookCallFinished) -> None:
            raise OSError(hook.id)

    async def main() -> Any:
        runner = HookRunner([Hook(HookPoint.STOP, lambda _: {"decision": "block", "reason": "red"})])
        runner.watch(Failing())
        return await runner.ask(HookPoint.STOP, {})

    assert asyncio.run(main()).reason == "red"


def test_nobody_who_does_not_ask_loads_it() -> None:
    """A session without hooks pays nothing for them."""
    loaded = (
        "import mainspring.cli.stream_json, sys; print([m for m in sys.modules if m.startswith('mainspring.hooks.')])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert "mainspring.hooks.invocation" not in done.stdout
