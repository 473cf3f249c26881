"""`ask` and `Agent.run`: what the model sees, what comes back, and what is raised."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    Agent,
    AgentError,
    Answer,
    Assistant,
    BudgetExceeded,
    Image,
    Interrupted,
    MaxTurnsExceeded,
    ModelError,
    ToolResult,
    UsageError,
    User,
    ask,
    tool,
)
from mainspring.core.messages import Text
from mainspring.core.reasons import Cause, Terminal, Trouble
from mainspring.testing import FunctionModel, Scripted, ScriptedReply, ShownConversation, call, fails, says


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ask_now(*args: Any, **options: Any) -> Answer[Any]:
    return asyncio.run(ask(*args, **options))


def test_one_answer() -> None:
    model = Scripted([says("5")])
    answer = ask_now("What is 2 + 3?", model=model)
    assert (answer.text, answer.output, str(answer)) == ("5", "5", "5")
    assert (answer.usage.input, answer.usage.output, answer.cost_usd) == (100, 20, 0.0004)
    assert [type(message) for message in answer.messages] == [User, Assistant]
    assert repr(answer) == "Answer('5', turns=1, cost_usd=0.000400)"


def test_a_function_is_a_tool_that_needs_no_approval() -> None:
    model = Scripted([says(call("add", a=2, b=3)), says("5")])
    answer = ask_now("What is 2 + 3?", tools=[add], model=model)
    assert [message.text for message in answer.messages if isinstance(message, ToolResult)] == ["5"]
    assert [spec.name for spec in model.conversations[0].tools] == ["add"]


def test_the_model_sees_the_prompt_and_nothing_else(home: Path) -> None:
    """No settings, memory, hooks or servers, no date, and no system prompt."""
    home.mkdir()
    (home / "AGENTS.md").write_text("Speak Latin.")
    (home / "settings.toml").write_text('model = "opus"\n')
    for name, text in (("AGENTS.md", "Speak Greek."), (".mcp.json", '{"mcpServers": {"x": {"command": "false"}}}')):
        Path(name).write_text(text)
    Path(".mainspring").mkdir()
    Path(".mainspring/settings.toml").write_text('[[hooks.UserPromptSubmit]]\nhooks = [{command = "false"}]\n')
    model = Scripted([says("hi")])
    ask_now("hello", model=model)
    shown = model.conversations[0]
    assert ([message.text for message in shown.messages], shown.system, shown.tools) == (["hello"], "", ())
    assert model.requests[0].model == "claude-sonnet-5-5"


def test_setting_sources_bring_memory(home: Path) -> None:
    home.mkdir()
    (home / "AGENTS.md").write_text("Speak Latin.")
    model = Scripted([says("hi")])
    ask_now("hello", model=model, setting_sources=["user"])
    assert "Speak Latin." in "".join([message.text for message in model.conversations[0].messages])
    assert "reminder" in model.conversations[0].system


def test_the_system_prompt_is_the_program_s() -> None:
    model = Scripted([says("hi")])
    ask_now("hello", model=model, system="Be brief.", tools=[add])
    assert model.conversations[0].system == "Be brief."


@pytest.mark.parametrize("prompt", ["look at @secret.txt", "/clear", "/compact", "/context", "+500k go on"])
def test_text_of_strangers_is_not_expanded(prompt: str) -> None:
    Path("secret.txt").write_text("KEY")
    model = Scripted([says("hi")])
    ask_now(prompt, model=model, tools=["Read"])
    assert [message.text for message in model.conversations[0].messages] == [prompt]


def test_prompts_are_expanded_on_request() -> None:
    Path("notes.txt").write_text("Bonn")
    model = Scripted([says("hi")])
    ask_now("look at @notes.txt", model=model, tools=["Read"], expand_prompts=True)
    assert "Bonn" in "".join([message.text for message in model.conversations[0].messages])
    assert "0 of 1,000,000 tokens" in ask_now("/context", model=Scripted([]), expand_prompts=True).text


def test_a_prompt_may_have_images() -> None:
    model = Scripted([says("a cat")])
    ask_now(["What is it?", Image("image/png", "aGk=")], model=model)
    first = model.conversations[0].messages[0]
    assert isinstance(first, User)
    assert first.content == (Text("What is it?"), Image("image/png", "aGk="))
    with pytest.raises(UsageError, match="a prompt has text, 'Image' and 'Document', not 5"):
        ask_now(["x", 5], model=model)
    with pytest.raises(UsageError, match="a prompt is text, or a list of"):
        ask_now(5, model=model)


def test_sessions_are_stored_where_the_command_looks(home: Path) -> None:
    answer = ask_now("hello", model=Scripted([says("hi")]))
    assert [file.stem for file in home.glob("projects/*/*.jsonl")] == [answer.session_id]


def test_nothing_is_stored_without_persistence(home: Path) -> None:
    for _ in range(20):
        ask_now("hello", model=Scripted([says("hi"), says("x")]), persist=False)
    assert not home.exists() or not [file for file in home.rglob("*") if file.is_file()]
    with pytest.raises(UsageError, match="'resume' needs a stored session, and 'persist=False' stores none"):
        asyncio.run(resume_unstored())


async def resume_unstored() -> None:
    async with Agent(Scripted([]), persist=False).session(resume="1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"):
        pass


# --- errors ---------------------------------------------------------------------------------------------------


def test_the_turn_limit() -> None:
    with pytest.raises(MaxTurnsExceeded, match="no answer after 1 turn: raise 'max_turns'") as raised:
        ask_now("go", model=Scripted([says("Let me see.", call("add", a=1, b=2))]), tools=[add], max_turns=1)
    error = raised.value
    assert (error.reason, error.cause) == (Terminal.MAX_TURNS, Cause.LIMIT)
    assert error.answer is not None
    assert (error.answer.text, error.answer.output, error.answer.cost_usd) == ("Let me see.", None, 0.0004)
    assert len(error.answer.messages) == 3


def test_the_money_limit_holds_before_the_call() -> None:
    model = Scripted([says("hi")])
    with pytest.raises(BudgetExceeded, match=r"\$0.0001 is left, and the next call may take"):
        ask_now("go", model=model, max_budget_usd=0.0001)
    assert model.requests == []


def test_the_model_fails() -> None:
    with pytest.raises(ModelError, match="bad key") as raised:
        ask_now("go", model=Scripted([fails(Trouble.AUTH, "bad key")]))
    assert (raised.value.reason, raised.value.cause) == (Terminal.MODEL_ERROR, Cause.AUTH)


def test_the_errors_are_one_family() -> None:
    assert all(issubclass(kind, AgentError) for kind in (BudgetExceeded, MaxTurnsExceeded, ModelError, Interrupted))


def test_a_setting_that_the_server_does_not_have() -> None:
    with pytest.raises(ModelError, match="Anthropic's API has no setting 'seed': leave it out"):
        ask_now("go", model="haiku", seed=7, env={"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})


def test_no_key() -> None:
    with pytest.raises(UsageError, match=r"no API key found\. Run 'mainspring login'"):
        ask_now("hello")


def test_the_answer_of_a_tool_that_fails_goes_to_the_model() -> None:
    @tool
    def broken() -> str:
        """Break."""
        raise ValueError("kaput")

    answer = ask_now("go", model=Scripted([says(call("broken")), says("sorry")]), tools=[broken])
    assert [m.is_error for m in answer.messages if isinstance(m, ToolResult)] == [True]


def test_a_hook_blocks_the_prompt() -> None:
    hook = {"type": "command", "command": "echo not today >&2; exit 2"}
    model = Scripted([says("hi")])
    with pytest.raises(AgentError, match="a hook blocked the prompt: not today") as raised:
        ask_now("hello", model=model, settings={"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}})
    assert (raised.value.cause, model.requests) == (Cause.HOOK, [])


def test_an_answer_waits_for_agents_in_the_background() -> None:
    """The report of one starts another run; the answer has the text of the last run and the cost of all."""
    started = call("Agent", description="Count", prompt="count them", run_in_background=True)

    def reply(shown: ShownConversation) -> str | ScriptedReply:
        text = "".join([message.text for message in shown.messages])
        if shown.messages[0].text == "count them":
            return "There are 7."
        if "There are 7." in text:
            return "It says seven."
        return "It is on its way." if shown.results else says(started)

    model = FunctionModel(reply)
    answer = ask_now("go", model=model, tools=["Agent"], allowed_tools=["Agent"])
    assert answer.text == "It says seven."
    assert answer.cost_usd == pytest.approx(len(model.requests) * 0.0004)
    assert "There are 7." in "".join([message.text for message in answer.messages])
