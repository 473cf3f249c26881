"""Sub-agents and work in the background. See stream-json 6.6, 7 rule 6 and 12."""

from __future__ import annotations

from typing import Any

import pytest
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    PermissionResultAllow,
    StreamEvent,
    SystemMessage,
    ToolPermissionContext,
    UserMessage,
)
from claude_agent_sdk.types import TaskNotificationMessage, TaskStartedMessage, TaskUpdatedMessage

from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from mainspring.simulator.scripts import Choose
from pipe.raw import kind
from pipe.stage import Serve, Told, bash, call, words

FREE = {"permission_mode": "bypassPermissions"}
GREETER = AgentDefinition(
    description="Greets.", prompt="You are the greeter of this house.", tools=["Bash"], model="haiku"
)


def spawn(id: str = "spawn", /, name: str = "Agent", **more: Any) -> dict[str, Any]:
    """In the foreground, unless it is said otherwise."""
    given = {"description": "greet", "prompt": "say hello below", "subagent_type": "greeter"}
    return call(name, id, **given | {"run_in_background": False} | more)


def playing(*main: Reply, below: tuple[Reply, ...] = (Say.of("Hello from below."),)) -> Choose:
    """One script for the main talk and one for each talk below, by how many replies stand in it."""

    def choose(received: ReceivedRequest) -> Reply:
        script = below if is_below(received) else main
        return script[min(received.talk.turns(), len(script) - 1)]

    return choose


def is_below(received: ReceivedRequest) -> bool:
    first = received.talk.messages[0]
    return "say hello below" in str(first)


def below(stage_requests: list[ReceivedRequest]) -> list[ReceivedRequest]:
    return [received for received in stage_requests if is_below(received)]


@pytest.mark.covers("N-17", "N-18", "M-11")
def test_an_agent_of_the_callers(serve: Serve) -> None:
    """12, 6.6: its prompt, tools and model, a talk of its own; its last text is the call's result; all its frames."""
    choose = playing(
        Say.of(spawn()),
        Say.of("All done."),
        below=(Say.of("I begin.", bash("echo sub", "sub")), Say.of("Hello from below.")),
    )
    stage = serve(choose=choose)
    told = stage.ask("delegate", agents={"greeter": GREETER}, include_partial_messages=True, **FREE)
    assert (told.error, told.result.result) == (None, "All done.")
    inside = below(stage.requests)
    assert len(inside) == 2
    assert "You are the greeter of this house." in str(inside[0].body["system"])
    assert {tool["name"] for tool in inside[0].body["tools"]} == {"Bash"}
    assert "haiku" in inside[0].body["model"]
    assert "delegate" not in str(inside[0].body["messages"])
    [outcome] = [block for block in told.outcomes if block.tool_use_id == "toolu_spawn"]
    assert "Hello from below." in words(outcome)
    # its frames
    [started] = told.of(TaskStartedMessage)
    assert (started.task_type, started.tool_use_id, started.description) == ("local_agent", "toolu_spawn", "greet")
    assert started.data["subagent_type"] == "greeter"
    [note] = told.of(TaskNotificationMessage)
    assert (note.task_id, note.status, note.tool_use_id) == (started.task_id, "completed", "toolu_spawn")
    assert [update.status for update in told.of(TaskUpdatedMessage)][-1] == "completed"
    assert {message.task_id for message in told.of(TaskUpdatedMessage)} == {started.task_id}
    nested = [
        message
        for message in told.messages
        if getattr(message, "parent_tool_use_id", None) == "toolu_spawn" and not isinstance(message, SystemMessage)
    ]
    assert [type(message) for message in nested] == [UserMessage, AssistantMessage, UserMessage]
    assert "say hello below" in str(nested[0])
    assert "toolu_sub" in str(nested[1])
    assert {event.parent_tool_use_id for event in told.of(StreamEvent)} == {None}  # 6.5: its pieces are not forwarded
    order = [told.messages.index(message) for message in (started, nested[0], nested[1], nested[2], note)]
    assert order == sorted(order)


def test_what_an_agent_costs(serve: Serve) -> None:
    """6.4: the session's cost holds the sub-agents', the turn's usage does not."""
    stage = serve(choose=playing(Say.of(spawn()), Say.of("All done.")))
    told = stage.ask("delegate", agents={"greeter": GREETER}, model="claude-opus-5", **FREE)
    assert told.result.usage is not None
    assert told.result.usage["input_tokens"] == 200
    assert told.result.total_cost_usd == pytest.approx(stage.server.cost / 1e9)
    assert len(told.result.model_usage or {}) == 2


def test_its_words_only_for_who_asks(serve: Serve) -> None:
    """12: text of a sub-agent in the foreground is sent with `forward_subagent_text` only."""
    choose = playing(Say.of(spawn()), Say.of("All done."))
    stage = serve(choose=choose)
    for forward in (False, True):
        told = stage.ask("delegate", agents={"greeter": GREETER}, forward_subagent_text=forward, **FREE)
        inside = [message for message in told.of(AssistantMessage) if message.parent_tool_use_id == "toolu_spawn"]
        assert ("Hello from below." in str(inside)) is forward


def test_agents_of_one_reply_run_at_once(serve: Serve) -> None:
    """12: several agents in one reply run at once; each call has its own result."""
    choose = playing(Say.of(spawn("a"), spawn("b")), Say.of("All done."), below=(Say.of("Hello.", pace_ms=60),))
    stage = serve(choose=choose)
    told = stage.ask("delegate", agents={"greeter": GREETER}, **FREE)
    first, second = below(stage.requests)
    assert second.at - first.at < 300  # the first took longer than that
    assert {block.tool_use_id for block in told.outcomes} == {"toolu_a", "toolu_b"}
    assert len({message.task_id for message in told.of(TaskStartedMessage)}) == 2


@pytest.mark.parametrize("allowed", ["Agent", "Task"])
def test_both_names(allowed: str, serve: Serve) -> None:
    """8, 17.18: rules may say `Agent` or `Task`; so may calls."""
    stage = serve(choose=playing(Say.of(spawn(name=allowed)), Say.of("All done.")))
    told = stage.ask("delegate", agents={"greeter": GREETER}, allowed_tools=[allowed])
    assert "Hello from below." in words(told.outcomes[-1])
    assert "Task" in told.init["tools"]


def test_an_agent_that_there_is_not(serve: Serve) -> None:
    """12: an unknown `subagent_type` is an error result."""
    stage = serve(choose=playing(Say.of(spawn(subagent_type="nobody")), Say.of("Oh.")))
    told = stage.ask("delegate", **FREE)
    assert told.outcomes[0].is_error
    assert (told.result.result, told.of(TaskStartedMessage)) == ("Oh.", [])


def test_the_agent_that_is_always_there(serve: Serve) -> None:
    """12: `general-purpose`, with the model of the main talk."""
    stage = serve(choose=playing(Say.of(spawn(subagent_type="general-purpose")), Say.of("All done.")))
    told = stage.ask("delegate", model="claude-opus-5", **FREE)
    assert "Hello from below." in words(told.outcomes[0])
    assert below(stage.requests)[0].body["model"] == "claude-opus-5"
    assert "general-purpose" in told.init["agents"]


def test_it_asks_like_any_other(serve: Serve) -> None:
    """12, 5.1: its calls pass the same rules and callbacks, with its id."""
    choose = playing(Say.of(spawn()), Say.of("All done."), below=(Say.of(bash("touch made", "sub")), Say.of("Done.")))
    stage = serve(choose=choose)
    asked: list[tuple[str, str | None]] = []

    async def allow(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
        asked.append((name, context.agent_id))
        return PermissionResultAllow()

    told = stage.ask("delegate", agents={"greeter": GREETER}, can_use_tool=allow)
    inside = [id for name, id in asked if name == "Bash"]
    assert inside == [told.of(TaskStartedMessage)[0].task_id]
    assert (stage.folder / "made").exists()


def test_its_turns_are_bounded(serve: Serve) -> None:
    """12: `maxTurns` of a definition ends it; the main loop goes on."""
    choose = playing(Say.of(spawn()), Say.of("All done."), below=(Say.of(bash("echo again", "sub")),))
    stage = serve(choose=choose)
    agent = AgentDefinition(description="Greets.", prompt="You greet.", tools=["Bash"], maxTurns=2)
    told = stage.ask("delegate", agents={"greeter": agent}, **FREE)
    assert (told.error, told.result.result) == (None, "All done.")
    assert len(below(stage.requests)) == 2


def test_an_agent_of_the_project(serve: Serve) -> None:
    """12, 15: `.claude/agents/*.md` of an enabled source; not of one that is off."""
    stage = serve(choose=playing(Say.of(spawn()), Say.of("All done.")))
    path = stage.folder / ".claude" / "agents" / "greeter.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: greeter\ndescription: Greets.\ntools: Bash\n---\nYou greet from a file.\n")
    told = stage.ask("delegate", setting_sources=["project"], **FREE)
    assert "greeter" in told.init["agents"]
    assert "You greet from a file." in str(below(stage.requests)[0].body["system"])
    assert "greeter" not in stage.ask("delegate", setting_sources=[], **FREE).init["agents"]


# --- in the background ------------------------------------------------------------------------------


def waking(received: ReceivedRequest) -> Reply:
    """The agent is still at work when the main turn ends."""
    if is_below(received):
        return Say.of("Hello from below.", pace_ms=120)
    return Say.of("Fine.") if received.talk.results() else Say.of(spawn(run_in_background=True))


@pytest.mark.covers("M-05")
def test_an_agent_in_the_background_wakes_the_main_loop(serve: Serve) -> None:
    """7 rules 3, 4 and 6: the turn ends, the agent ends, a turn of its own answers it; `idle` only then."""

    stage = serve(choose=waking)
    with stage.pipe("--permission-mode", "bypassPermissions") as pipe:
        pipe.initialize(agents={"greeter": {"description": "Greets.", "prompt": "You greet."}})
        pipe.turn("delegate")
        pipe.idle()
        assert pipe.finish() == 0
    first, last = pipe.of("result")
    assert last["origin"]["kind"] == "task-notification"
    assert first.get("origin", {}).get("kind") != "task-notification"
    kinds = pipe.kinds
    ended = kinds.index("system/task_notification")
    assert kinds.index("result") < ended < len(kinds) - 1 - kinds[::-1].index("system/init")
    assert [each for each in kinds if each.startswith("system/session_state_changed")] == [
        "system/session_state_changed/running",
        "system/session_state_changed/idle",
    ]
    assert "Hello from below." in stage.said(-1)
    assert kind(pipe.frames[-1]) == "system/session_state_changed/idle"


def test_a_plain_query_waits_for_it(serve: Serve) -> None:
    """1.5: with input closed from the start, all background agents are finished before the run ends."""
    told: Told = serve(choose=waking).ask("delegate", agents={"greeter": GREETER}, **FREE)
    assert told.error is None
    assert [note.status for note in told.of(TaskNotificationMessage)] == ["completed"]
    assert len(told.results) == 2


def test_a_shell_in_the_background(serve: Serve) -> None:
    """6.6: `local_bash` started and ended, with its file and status."""
    stage = serve(Say.of(bash("echo later", run_in_background=True)), *[Say.of("Fine.")] * 4)
    told = stage.ask("start", **FREE)
    [started] = told.of(TaskStartedMessage)
    assert started.task_type == "local_bash"
    assert told.error is None
    for note in told.of(TaskNotificationMessage):
        assert (note.task_id, note.status) == (started.task_id, "completed")
