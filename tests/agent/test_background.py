"""Background tasks: the end of a command wakes the model, calls move to the background, subagents are steered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from cli.stage import Serve
from cli.terminal import sit_at
from tui.person import sit_at as sit_at_terminal

from agent.stage import Stage, play, read_until_idle
from agent.test_front_ends import hooked, say
from mainspring.agent.background_tasks import BackgroundTask
from mainspring.agent.session import AgentSession
from mainspring.agent.updates import Idle, RunStarted, SubagentMoved, TaskChanged
from mainspring.core.updates import AgentStarted, CallDone, CallStarted, Result
from mainspring.sdk import Client, Options, ResultMessage
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.stream_json.render import Renderer

__all__ = ["say", "sit_at", "sit_at_terminal"]  # fixtures

FREE: Final = "bypassPermissions"
WAIT = "until [ -e go ]; do sleep 0.02; done; echo went"
NOTICE = '<task-notification command=\\"bash_1\\"'


def bash(command: str, id: str = "toolu_bash", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command} | more}


def spawn(id: str = "toolu_agent", **more: Any) -> dict[str, Any]:
    given = {"description": "look", "prompt": "AWAY", "subagent_type": "general-purpose"}
    return {"type": "tool_use", "id": id, "name": "Agent", "input": given | more}


def sent(request: ReceivedRequest) -> str:
    return json.dumps(request.body["messages"])


def is_subagent(request: ReceivedRequest) -> bool:
    return "toolu_agent" not in sent(request) and '"AWAY"' in sent(request)


async def read_until(session: AgentSession, wanted: Callable[[Any], bool]) -> list[Any]:
    taken: list[Any] = []
    async for update in session.updates():
        taken.append(update)
        if wanted(update):
            return taken
    raise AssertionError(taken)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110  # `play` has a time limit
        await asyncio.sleep(0.01)


def is_idle(update: object) -> bool:
    return isinstance(update, Idle)


# --- the end of a command ---------------------------------------------------------------------------


def wait_for_the_end(request: ReceivedRequest) -> Reply:
    """The model starts a command in the background and looks again until it is told of its end."""
    if NOTICE in sent(request):
        return Say.of("Hi.")
    if "tool_result" in sent(request):
        id = f"toolu_{len(sent(request))}"
        return Say.of({"type": "tool_use", "id": id, "name": "Sleep", "input": {"seconds": 0.05}})
    return Say.of(bash("true", run_in_background=True))


@pytest.mark.parametrize("front_end", ["print", "plain", "pipe", "sdk", "library"])
def test_the_end_of_a_command_reaches_the_model_in_every_front_end(
    serve: Serve, say: Callable[..., None], front_end: str
) -> None:
    stage = serve(choose=wait_for_the_end)
    hooked(stage)
    tools = {"tools": ["Bash", "Sleep"]} if front_end == "library" else {}  # it gives the model no others
    flags: dict[str, Any] = {"permission_mode": FREE} | tools
    say(front_end, stage, "go", flags=flags)
    assert 'Background command \\"true\\" completed (exit code 0)' in sent(stage.requests[-1])
    assert sent(stage.requests[-1]).count(NOTICE) == 1


def start_and_stop(request: ReceivedRequest) -> Reply:
    if NOTICE in sent(request):
        return Say.of("It has ended.")
    if "tool_result" in sent(request):
        return Say.of("It runs.")
    return Say.of(bash(WAIT, run_in_background=True))


def test_the_end_of_a_command_wakes_an_idle_terminal(serve: Serve, sit_at_terminal: Any) -> None:
    stage = serve(choose=start_and_stop)
    hooked(stage)
    person = sit_at_terminal(stage, f"--permission-mode={FREE}")
    person.see("bypassing permissions")
    person.type("start it\r")
    person.see("It runs.")
    person.see("1 in the background")
    (stage.folder / "go").touch()
    person.see("completed (exit code 0)")
    person.see("It has ended.")


def test_the_end_of_a_command_wakes_an_idle_client(serve: Serve) -> None:
    """stream-json 7 rule 6: the run says what started it."""
    stage = serve(choose=start_and_stop)
    hooked(stage)

    async def main() -> list[ResultMessage]:
        env = {"ANTHROPIC_BASE_URL": stage.server.url, "CLAUDE_CONFIG_DIR": str(stage.home), "IS_SANDBOX": "1"}
        options = Options(cwd=stage.folder, env=env, setting_sources=["user"], permission_mode=FREE)
        results: list[ResultMessage] = []
        async with Client(options) as client:
            await client.query("start it")
            async for message in client.receive_messages():
                if isinstance(message, ResultMessage):
                    results.append(message)
                    (stage.folder / "go").touch()
                if len(results) == 2:
                    break
        return results

    assert [one.result for one in asyncio.run(main())] == ["It runs.", "It has ended."]


def test_a_stopped_command_wakes_nobody(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        session = stage.open(permission_mode=FREE)
        await session.start()
        await session.submit("start it")
        await read_until_idle(session)
        [task] = session.tasks()
        assert (task.id, task.kind, task.title, task.state) == ("bash_1", "command", WAIT, "running")
        await session.stop_task("bash_1")
        await session.submit("and now?")
        taken = await read_until_idle(session)
        assert [one.cause for one in taken if isinstance(one, RunStarted)] == ["prompt"]
        assert [one.task.report for one in taken if isinstance(one, TaskChanged)] == [
            'Background command "until [ -e go ]; do sleep 0.02; done; echo went" was stopped'
        ]
        assert [one.state for one in session.tasks()] == ["stopped"]
        assert NOTICE not in sent(stage.server.requests[-1])
        await session.close()

    play(main, tmp_path, choose=start_and_stop)


def test_a_late_reader_hears_that_a_command_started_before_it_hears_of_its_end(tmp_path: Path) -> None:
    """Even if it had ended when the first of the two was read: clients wait for both frames."""

    async def main(stage: Stage) -> None:
        session = stage.open(permission_mode=FREE)
        await session.start()
        renderer = Renderer(session)
        await session.submit("start it")
        await read_until(session, lambda update: isinstance(update, CallStarted))
        (stage.folder / "go").touch()
        await until(lambda: [one.state for one in session.tasks()] == ["completed"])  # nothing is read meanwhile
        taken = await read_until_idle(session)
        frames = [frame for one in taken if isinstance(one, TaskChanged) for frame in renderer.render(one)]
        assert [frame["subtype"] for frame in frames] == ["task_started", "task_updated", "task_notification"]
        await session.close()

    play(main, tmp_path, choose=start_and_stop)


def test_commands_wake_the_model_at_most_as_often_as_there_are_turns_left(tmp_path: Path) -> None:
    """Law 1: a model that starts a command whenever one ends comes to an end, too."""
    count = 0

    def choose(request: ReceivedRequest) -> Reply:
        nonlocal count
        last = json.dumps(request.body["messages"][-1])
        if "tool_result" in last and "task-notification" not in last:
            return Say.of("It runs.")
        count += 1
        assert count < 20
        return Say.of(bash("true", f"toolu_{count}", run_in_background=True))

    async def main(stage: Stage) -> None:
        session = stage.open(permission_mode=FREE, max_turns=6)
        await session.start()
        await session.submit("go on for ever")
        taken = await read_until(session, lambda update: is_idle(update) and session.world.agents.turns_left <= 0)
        assert sum([one.turns for one in taken if isinstance(one, Result)]) <= 6
        assert len(stage.server.requests) <= 6
        await session.close()

    play(main, tmp_path, choose=choose)


def test_a_notification_survives_the_program(tmp_path: Path) -> None:
    """It is journaled: a session that is resumed tells the model."""

    async def main(stage: Stage) -> None:
        session = stage.open(permission_mode=FREE)
        await session.start()
        await session.submit("start it")
        await read_until(session, is_idle)
        session.interrupt(hold_reports=True)  # nothing starts by itself from here on
        (stage.folder / "go").touch()
        await read_until(session, lambda update: isinstance(update, TaskChanged))
        await until(session.world.session.shared.inbox.waiting)
        session_id = session.world.about.session_id
        await session.close()
        again = stage.open(permission_mode=FREE, resume=session_id)
        await again.start()
        await again.submit("hello again")
        await read_until_idle(again)
        assert NOTICE in sent(stage.server.requests[-1])
        await again.close()

    play(main, tmp_path, choose=start_and_stop)


# --- move to the background -------------------------------------------------------------------------


def test_a_running_command_moves_to_the_background(tmp_path: Path) -> None:
    def choose(request: ReceivedRequest) -> Reply:
        if NOTICE in sent(request):
            return Say.of("It has ended.")
        if "tool_result" in sent(request):
            return Say.of("Meanwhile.")
        return Say.of(bash(f"echo begun; {WAIT}"))

    async def main(stage: Stage) -> None:
        session = stage.open(permission_mode=FREE)
        await session.start()
        assert await session.background() == ()
        await session.submit("go")
        await read_until(session, lambda update: type(update).__name__ == "CallProgress")
        assert await session.background("toolu_other") == ()
        assert await session.background() == ("toolu_bash",)
        taken = await read_until(session, is_idle)
        [done] = [one for one in taken if isinstance(one, CallDone)]
        assert done.data["backgroundTaskId"] == "bash_1"
        assert done.data["backgroundedByUser"] is True
        assert "The user moved this command to the background." in done.result.text
        [task] = session.tasks()
        assert (task.state, task.output and task.output(100)) == ("running", "begun\n")
        (stage.folder / "go").touch()
        taken = await read_until_idle(session)
        assert [one.cause for one in taken if isinstance(one, RunStarted)] == ["report"]
        [task] = session.tasks()
        assert (task.state, task.exit_code, task.output and task.output(100)) == ("completed", 0, "begun\nwent\n")
        await session.close()

    play(main, tmp_path, choose=choose)


@pytest.mark.parametrize("ending", ["report", "stop"])
def test_a_running_subagent_moves_to_the_background(tmp_path: Path, ending: str) -> None:
    def choose(request: ReceivedRequest) -> Reply:
        if is_subagent(request):
            return Say.of("Rain.") if "tool_result" in sent(request) else Say.of(bash(WAIT))
        if "task-notification agent" in sent(request):
            return Say.of("So it is.")
        return Say.of("Meanwhile.") if "tool_result" in sent(request) else Say.of(spawn())

    async def main(stage: Stage) -> None:
        session = stage.open(permission_mode=FREE)
        await session.start()
        await session.submit("go")
        await read_until(session, lambda update: isinstance(update, AgentStarted))
        await until(lambda: session.tasks()[0].last_call)
        task = session.tasks()[0]
        assert (task.kind, task.title, task.about, task.background) == ("subagent", "general-purpose", "look", False)
        assert await session.background("toolu_agent") == ("toolu_agent",)
        taken = await read_until(session, is_idle)
        assert [one.agent_id for one in taken if isinstance(one, SubagentMoved)] == [task.id]
        [done] = [one for one in taken if isinstance(one, CallDone)]
        assert f"The user moved agent '{task.id}'" in done.result.text
        assert isinstance(taken[-1], Idle)
        assert taken[-1].background == 1
        if ending == "stop":
            await session.stop_task(task.id)
        else:
            (stage.folder / "go").touch()
        taken = await read_until_idle(session)
        assert [one.cause for one in taken if isinstance(one, RunStarted)] == ["report"]
        said = "Rain." if ending == "report" else "The user stopped this agent before it could report."
        assert said in sent(stage.server.requests[-1])
        assert session.tasks()[0].state == ("completed" if ending == "report" else "stopped")
        await session.close()

    play(main, tmp_path, choose=choose)


def test_a_stopped_subagent_in_the_foreground_fails_its_call(tmp_path: Path) -> None:
    def choose(request: ReceivedRequest) -> Reply:
        if is_subagent(request):
            return Say.of(bash(WAIT))
        return Say.of("I see.") if "tool_result" in sent(request) else Say.of(spawn())

    async def main(stage: Stage) -> None:
        session = stage.open(permission_mode=FREE)
        await session.start()
        await session.submit("go")
        await read_until(session, lambda update: isinstance(update, AgentStarted))
        await until(lambda: session.tasks()[0].last_call)
        task = session.tasks()[0]
        await session.stop_task(task.id)
        taken = await read_until_idle(session)
        [done] = [one for one in taken if isinstance(one, CallDone)]
        assert (done.result.is_error, done.result.text) == (
            True,
            "The user stopped this agent before it could report.",
        )
        assert [one.text for one in taken if isinstance(one, Result)] == ["I see."]
        await session.close()

    play(main, tmp_path, choose=choose)


# --- steer ------------------------------------------------------------------------------------------


def read_agent_file(session: str, agent_id: str) -> str:
    [file] = Path(session).parent.rglob(f"agent-{agent_id}.jsonl")
    return file.read_text()


@pytest.mark.parametrize("when", ["during a call", "in its last reply"])
def test_a_message_reaches_a_subagent_with_its_next_request(tmp_path: Path, when: str) -> None:
    """Also one that comes while it gives its last answer: then it answers that, too."""

    def choose(request: ReceivedRequest) -> Reply:
        if not is_subagent(request):
            return Say.of("Done.") if "tool_result" in sent(request) else Say.of(spawn())
        if "Look at the sky" in sent(request):
            return Say.of("I looked at the sky.")
        if when == "during a call" and "tool_result" not in sent(request):
            return Say.of(bash(WAIT))
        return Say.of("word " * 100, pace_ms=10)

    async def main(stage: Stage) -> None:
        session = stage.open(permission_mode=FREE)
        await session.start()
        assert not await session.message_task("a0", "hello")
        await session.submit("go")
        await read_until(session, lambda update: isinstance(update, AgentStarted))
        await until(lambda: len(stage.server.requests) > 1)
        await until(lambda: when != "during a call" or session.tasks()[0].last_call)
        task: BackgroundTask = session.tasks()[0]
        assert await session.message_task(task.id, "Look at the sky")
        assert session.opened.journal is not None
        assert "Look at the sky" in read_agent_file(session.opened.journal.file, task.id)  # before the model sees it
        (stage.folder / "go").touch()
        taken = await read_until_idle(session)
        [done] = [one for one in taken if isinstance(one, CallDone)]
        assert done.result.text == "I looked at the sky."
        assert not await session.message_task(task.id, "too late")
        assert task.history is not None
        assert "Look at the sky" in [message.text for message in task.history()]
        await session.close()

    play(main, tmp_path, choose=choose)
