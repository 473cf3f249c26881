"""Tools of an agent: built-in ones with approvals, other agents on the same ledger, and models for tests."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from mainspring import (
    Agent,
    Answer,
    Approval,
    ApprovalRequest,
    BudgetExceeded,
    ToolContext,
    ToolResult,
    UsageError,
    open_run,
    query,
    tool,
)
from mainspring.core.updates import AgentDone, AgentStarted, AgentUpdate, ReplyDone
from mainspring.engine.shared_state import Ledger
from mainspring.sdk import Options, ResultError, ResultMessage
from mainspring.testing import Scripted, ScriptedReply, ShownConversation, TestModel, call, says

TOUCH = says(call("Bash", command="touch made.txt"))


def results(answer: Answer[Any]) -> list[str]:
    return [message.text for message in answer.messages if isinstance(message, ToolResult)]


# --- approvals ---


def run_touch(**options: Any) -> Answer[Any]:
    settings = {"sandbox": {"enabled": False}}
    return Agent(Scripted([TOUCH, says("done")]), tools=["Bash"], settings=settings, **options).run_sync("go")


def test_without_a_function_what_would_ask_is_denied() -> None:
    answer = run_touch()
    assert not Path("made.txt").exists()
    assert "touch made.txt" in results(answer)[0] or "denied" in results(answer)[0].lower()


def test_rules_allow_without_asking() -> None:
    run_touch(allowed_tools=["Bash(touch *)"])
    assert Path("made.txt").exists()


@pytest.mark.parametrize("is_async", [False, True])
def test_the_program_is_asked(is_async: bool) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return len(asked) > 1

    async def approve_later(request: ApprovalRequest) -> Approval:
        return Approval("allow") if approve(request) else Approval("deny", message="Not on Fridays.")

    chosen = approve_later if is_async else approve
    assert ("Not on Fridays." if is_async else "The call was not approved.") in results(run_touch(approve=chosen))[0]
    assert not Path("made.txt").exists()
    run_touch(approve=chosen)
    assert Path("made.txt").exists()
    assert (asked[0].tool_name, asked[0].input) == ("Bash", {"command": "touch made.txt"})


@pytest.mark.parametrize("wrong", ["raises", "returns"])
def test_a_function_that_fails_denies(wrong: str, caplog: pytest.LogCaptureFixture) -> None:
    def approve(_: ApprovalRequest) -> Any:
        if wrong == "raises":
            raise ValueError("kaput")
        return "yes"

    assert "The approval function failed." in results(run_touch(approve=approve))[0]
    assert not Path("made.txt").exists()
    assert "the call is denied" in caplog.text


def test_deps_reach_tools_and_approvals() -> None:
    seen: list[object] = []

    @tool
    def look(context: ToolContext[dict[str, int]]) -> int:
        """Look."""
        return context.deps["a"]

    def approve(request: ApprovalRequest) -> bool:
        seen.append(request.deps)
        return False

    model = Scripted([says(call("look")), TOUCH, says("done")])
    agent = Agent(model, tools=[look, "Bash"], approve=approve, deps=dict)
    assert results(agent.run_sync("go", deps={"a": 7}))[0] == "7"
    assert seen == [{"a": 7}]
    with pytest.raises(UsageError, match=r"this agent needs deps: pass 'deps=\.\.\.', a dict"):
        agent.run_sync("go")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="this agent has no deps"):
        Agent(model).run_sync("go", deps=3)  # type: ignore[call-overload]


# --- agents as tools ---


def test_an_agent_is_a_tool_of_another_one() -> None:
    reviewer = Agent(Scripted(["Looks good."]), name="reviewer", about="Reviews code.", system="Review.")
    model = Scripted([says(call("reviewer", prompt="Look at it.")), says("done")])
    agent = Agent(model, tools=[reviewer.as_tool()], max_budget_usd=1)
    answer = agent.run_sync("go")
    assert results(answer) == ["Looks good."]
    assert answer.cost_usd == pytest.approx(3 * 0.0004)
    assert [(spec.name, spec.description) for spec in model.conversations[0].tools] == [("reviewer", "Reviews code.")]


def test_its_updates_are_among_those_of_the_caller() -> None:
    reviewer = Agent(Scripted(["Looks good."]), name="reviewer")
    agent = Agent(Scripted([says(call("reviewer", prompt="Look.")), says("done")]), tools=[reviewer.as_tool()])

    async def main() -> None:
        updates = [update async for update in agent.stream("go")]
        assert [one.kind for one in updates if isinstance(one, AgentStarted)] == ["reviewer"]
        inner = [one.update for one in updates if isinstance(one, AgentUpdate)]
        assert [type(one) for one in inner if isinstance(one, ReplyDone)] == [ReplyDone]
        ends = [one.result for one in updates if isinstance(one, AgentDone)]
        assert [one.text for one in ends if one is not None] == ["Looks good."]

    asyncio.run(main())


def test_the_whole_tree_has_one_budget() -> None:
    """Each reply costs $0.0004. The called agent has no limit of its own, and stops where its caller's money ends."""
    inner = Scripted([says(call("add", n=number)) for number in range(100)])
    spender = Agent(inner, name="spender", tools=[add])
    model = Scripted([says(call("spender", prompt="go")), says("done")])
    with pytest.raises(BudgetExceeded) as raised:
        Agent(model, tools=[spender.as_tool()], max_budget_usd=0.02).run_sync("go")
    spent = (len(inner.requests) + len(model.requests)) * 0.0004
    assert (len(inner.requests) > 5, len(model.requests), spent <= 0.02) == (True, 1, True)
    assert raised.value.answer is not None
    assert raised.value.answer.cost_usd == pytest.approx(spent)
    assert "'spender' failed: $" in results(raised.value.answer)[0]


def add(n: int) -> int:
    """Add one."""
    return n + 1


def test_a_called_agent_has_its_own_limits() -> None:
    inner = Agent(Scripted([says(call("add", n=1)), says("x")]), name="inner", tools=[add], max_turns=1)
    answer = Agent(Scripted([says(call("inner", prompt="go")), says("sorry")]), tools=[inner.as_tool()]).run_sync("go")
    assert results(answer) == ["'inner' failed: no answer after 1 turn: raise 'max_turns', or ask for less."]
    assert answer.text == "sorry"


def test_a_called_agent_asks_its_caller_and_is_stored_like_it(home: Path) -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.tool_name)
        return False

    inner = Agent(Scripted([TOUCH, says("no")]), name="inner", tools=["Bash"])
    model = Scripted([says(call("inner", prompt="go")), says("ok")])
    Agent(model, tools=[inner.as_tool()], approve=approve, persist=False).run_sync("go")
    assert asked == ["Bash"]
    assert not home.exists() or not list(home.rglob("*.jsonl"))


def test_agents_that_call_each_other_come_to_an_end() -> None:
    def reply(shown: ShownConversation) -> str | ScriptedReply:
        return "deepest: " + shown.results[0].text if shown.results else says(call("self", prompt="again"))

    agent = Agent(reply, name="self", persist=False)
    agent._tools = ((), (agent.as_tool(),))
    assert "agents already call each other" in agent.run_sync("go").text


def test_the_typed_output_of_a_called_agent_is_json() -> None:
    class Review(msgspec.Struct):
        good: bool

    inner = Agent(Scripted([says(call("StructuredOutput", good=True))]), name="inner", output=Review)
    answer = Agent(Scripted([says(call("inner", prompt="go")), says("ok")]), tools=[inner.as_tool()]).run_sync("go")
    assert results(answer) == ['{"good":true}']


SPENDS = [says(call("add", n=number)) for number in range(100)]


def test_a_session_of_the_sdk_pays_for_an_agent(home: Path) -> None:
    """$0.0004 a reply; the agent stops where the money of the session ends."""
    inner = Scripted(SPENDS)
    spender = Agent(inner, name="spender", tools=[add])
    model = Scripted([says(call("spender", prompt="go")), says("done")])
    options = Options(
        provider=model, tools=[spender.as_tool()], allowed_tools=["spender"], setting_sources=[], max_budget_usd=0.02
    )

    async def main() -> float:
        cost = 0.0
        with suppress(ResultError):
            async for message in query("go", options=options):
                cost = message.total_cost_usd or 0.0 if isinstance(message, ResultMessage) else cost
        return cost

    cost, requests = asyncio.run(main()), len(inner.requests) + len(model.requests)
    assert (len(inner.requests) > 5, len(model.requests), requests * 0.0004 <= 0.02) == (True, 1, True)
    assert cost == pytest.approx(requests * 0.0004)


def test_a_run_of_the_low_level_loop_pays_for_an_agent_and_stores_nothing(home: Path) -> None:
    inner, ledger = Scripted(SPENDS), Ledger(20_000_000)  # nano-dollars: $0.02
    spender = Agent(inner, name="spender", tools=[add])
    model = Scripted([says(call("spender", prompt="go")), says("done")])

    async def main() -> int:
        async with open_run("go", provider=model, tools=[spender.as_tool()], ledger=ledger) as run:
            async for _ in run:
                pass
        return run.result.cost

    cost = asyncio.run(main())
    assert (5 < len(inner.requests) < 50, ledger.account.spent <= 20_000_000) == (True, True)
    assert cost == ledger.account.spent == 400_000 * (len(inner.requests) + len(model.requests))
    assert not home.exists() or not list(home.rglob("*.jsonl"))


def test_a_tool_needs_a_name() -> None:
    with pytest.raises(UsageError, match="an agent needs a name to be a tool"):
        Agent("haiku").as_tool()
    assert Agent("haiku").as_tool(name="helper").name == "helper"


# --- models for tests ---


def test_another_model_for_a_while() -> None:
    agent = Agent("haiku", tools=[add])
    with agent.override(model=Scripted(["4", "4"])):
        assert agent.run_sync("2 + 2?").text == "4"
        with agent.override(model=lambda shown: shown.prompt):
            assert agent.run_sync("hm").text == "hm"
        assert Agent(Scripted(["5"])).run_sync("another agent").text == "5"
        with agent.override(tools=[]):
            assert agent.run_sync("still the outer model").text == "4"
    with pytest.raises(UsageError, match="no API key"):
        agent.run_sync("2 + 2?")


def test_other_tools_and_deps_for_a_while() -> None:
    @tool
    def look(context: ToolContext[str]) -> str:
        """Look."""
        return context.deps

    agent = Agent("haiku", tools=[add], deps=str)
    with agent.override(model=TestModel(), tools=[look], deps="fake"):
        assert agent.run_sync("go", deps="real").text == '{"look":"fake"}'


def test_what_the_model_was_shown() -> None:
    model = Scripted([says(call("add", n=1)), says("2")])
    Agent(model, tools=[add], system="Count.").run_sync("go")
    first, second = model.conversations
    assert (first.system, first.prompt, [spec.name for spec in first.tools]) == ("Count.", "go", ["add"])
    assert [result.text for result in second.results] == ["2"]
    assert len(second.messages) == 3


@pytest.mark.parametrize("is_async", [False, True])
def test_a_model_is_a_function(is_async: bool) -> None:
    def reply(shown: ShownConversation) -> str:
        return shown.prompt.upper()

    async def reply_later(shown: ShownConversation) -> str:
        return shown.prompt.upper()

    assert Agent(reply_later if is_async else reply).run_sync("hello").text == "HELLO"


def test_the_test_model_calls_each_function_once_and_no_built_in_tool() -> None:
    called: list[Any] = []

    def look(at: datetime, stars: Annotated[int, msgspec.Meta(ge=1, le=5)], why: str | None = None) -> str:
        """Look."""
        called.append((stars, why))
        return "seen"

    model = TestModel()
    tools: list[Any] = [look, add, "Bash", "Write"]
    agent = Agent(model, tools=tools, permission_mode="bypassPermissions", env={"IS_SANDBOX": "1"})
    assert agent.run_sync("go").text == '{"look":"seen","add":"1"}'
    assert called == [(1, None)]
    assert len(model.requests) == 2
    assert Agent(TestModel(text="ok", arguments={"add": {"n": 41}}), tools=[add]).run_sync("go").text == "ok"
