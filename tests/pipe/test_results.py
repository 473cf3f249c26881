"""How a turn ends: the result frame, row by row. See stream-json 6.4."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from claude_agent_sdk import ResultError, ResultMessage

from mainspring.core.money import Usage
from mainspring.simulator.replies import Say
from pipe.stage import Serve, Told, bash, call, exchange

RICH = Usage(input=1_000_000, output=20)  # dear enough to pass any budget of these tests
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "schema": SCHEMA}


def structured(id: str, /, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{id}", "name": "StructuredOutput", "input": input}


def ended(told: Told) -> tuple[str, bool, str | None, int | None]:
    """Subtype, whether it is an error, why, and the exit status that the client saw."""
    status = told.error.exit_code if isinstance(told.error, ResultError) else 0 if told.error is None else None
    return told.result.subtype, told.result.is_error, told.result.terminal_reason, status


@pytest.mark.covers("M-07", "M-08", "M-09", "M-10", "M-19", "H-14")
def test_done(serve: Serve) -> None:
    """6.4: all fields of a good end; usage is the sum over the turn's calls, `num_turns` 1 and one for each result."""
    stage = serve(Say.of(bash("echo a")), Say.of("Done.", usage=Usage(input=30, output=7)))
    told = stage.ask("go", allowed_tools=["Bash"], model="claude-opus-5")
    result = told.result
    assert ended(told) == ("success", False, "completed", 0)
    assert (result.result, result.stop_reason, result.num_turns) == ("Done.", "end_turn", 2)
    assert result.usage is not None
    assert (result.usage["input_tokens"], result.usage["output_tokens"]) == (130, 27)
    assert {"cache_creation_input_tokens", "cache_read_input_tokens"} <= set(result.usage)
    assert result.total_cost_usd == pytest.approx(stage.server.cost / 1e9)
    assert result.model_usage is not None
    [(model, used)] = result.model_usage.items()
    assert model == "claude-opus-5"
    assert (used["inputTokens"], used["outputTokens"]) == (130, 27)
    assert used["costUSD"] == pytest.approx(result.total_cost_usd)
    assert {"cacheReadInputTokens", "cacheCreationInputTokens", "webSearchRequests", "contextWindow"} <= set(used)
    assert (result.permission_denials, result.structured_output, result.uuid is not None) == ([], None, True)
    assert result.duration_ms >= 0
    assert result.duration_api_ms >= 0


@pytest.mark.covers("M-06", "P-01", "P-07")
@pytest.mark.parametrize("turns", [1, 2, 15, 40])
def test_turns_do_not_return_control_to_the_caller(serve: Serve, turns: int) -> None:
    """A turn is one request and the results of its calls. The caller submits once and gets one result, at the end; how
    many turns there are, the model decides alone: the loop adds none and drops none."""
    asked: list[str] = []

    async def prompts() -> AsyncIterator[dict[str, Any]]:
        asked.append("go")
        yield {"type": "user", "message": {"role": "user", "content": "go"}}

    looks = [Say.of(f"Look {n}.", call("Glob", f"look_{n}", pattern=f"*{n}")) for n in range(1, turns)]
    stage = serve(*looks, Say.of("Done."))
    told = stage.ask(prompts(), allowed_tools=["Glob"])
    assert (asked, len(told.results), told.messages[-1]) == (["go"], 1, told.result)
    assert (told.result.result, told.result.num_turns) == ("Done.", turns)
    assert len(stage.requests) == turns
    assert [block.tool_use_id for block in told.outcomes] == [f"toolu_look_{n}" for n in range(1, turns)]
    for number, request in enumerate(stage.requests):
        assert len(request.talk.results()) == request.talk.turns() == number
        assert [message["role"] for message in request.talk.messages][1::2] == ["assistant"] * number
    assert told.texts == [*[f"Look {n}." for n in range(1, turns)], "Done."]


@pytest.mark.covers("H-14")
def test_cost_grows_and_usage_does_not(serve: Serve) -> None:
    """6.4, 17.10: `total_cost_usd` and `modelUsage` are the session's, also behind a resume; `usage` is the turn's."""
    stage = serve(*[Say.of("Hi.")] * 3)
    results: list[ResultMessage] = []

    async def main(client: Any) -> None:
        for text in ("one", "two"):
            results.append((await exchange(client, text)).result)

    stage.talk(main, model="claude-opus-5")
    results.append(stage.ask("three", resume=results[0].session_id, model="claude-opus-5").result)
    costs = [result.total_cost_usd or 0 for result in results]
    assert costs == pytest.approx([costs[0], 2 * costs[0], 3 * costs[0]])
    assert [(result.usage or {})["input_tokens"] for result in results] == [100] * 3
    assert [(result.model_usage or {})["claude-opus-5"]["inputTokens"] for result in results] == [100, 200, 300]


@pytest.mark.covers("M-07", "M-09", "H-08", "L-08")
def test_the_limit_of_turns(serve: Serve) -> None:
    """6.4: `error_max_turns`; no `result`; exit 1; resumed with a higher limit it goes on."""
    stage = serve(Say.of(bash("echo a")), Say.of("Done."))
    told = stage.ask("go", max_turns=1, allowed_tools=["Bash"])
    assert ended(told) == ("error_max_turns", True, "max_turns", 1)
    assert (told.result.result, told.result.errors) == (None, ["Reached maximum number of turns (1)"])
    assert len(stage.requests) == 1
    again = stage.ask("go on", max_turns=5, allowed_tools=["Bash"], resume=told.result.session_id)
    assert again.result.result == "Done."


@pytest.mark.covers("M-07", "H-09", "H-11")
def test_the_limit_of_cost(serve: Serve) -> None:
    """6.4: `error_max_budget_usd`, `budget_exhausted`, exit 1; and no further call."""
    stage = serve(Say.of(bash("echo a"), usage=RICH), Say.of("never"))
    told = stage.ask("go", max_budget_usd=0.5, allowed_tools=["Bash"], model="claude-opus-5")
    assert ended(told) == ("error_max_budget_usd", True, "budget_exhausted", 1)
    assert told.result.result is None
    assert told.result.errors
    assert len(stage.requests) == 1


@pytest.mark.covers("M-10")
def test_other_reasons_to_stop(serve: Serve) -> None:
    """6.4: `stop_reason` is that of the last reply."""
    stage = serve(*[Say.of("I will not.", stop_reason="refusal")] * 3)
    told = stage.ask("go")
    assert told.result.stop_reason == "refusal"


@pytest.mark.covers("G-11", "M-10")
def test_an_output_limit_that_is_used_up(serve: Serve) -> None:
    """Four replies, each cut off, however short: an error for the client, with what there is of the answer."""
    stage = serve(*[Say.of(f"Part {n}. ", stop_reason="max_tokens") for n in range(4)])
    told = stage.ask("go")
    assert ended(told) == ("success", True, "completed", 1)
    assert told.result.result == "Part 0. Part 1. Part 2. Part 3. "
    assert told.result.stop_reason == "max_tokens"
    assert told.result.errors
    assert "output limit" in told.result.errors[0]
    assert len(stage.requests) == 4


# --- structured output ------------------------------------------------------------------------------


@pytest.mark.covers("M-16")
def test_an_object_of_the_callers_form(serve: Serve) -> None:
    """13: a valid call ends the turn at once; `structured_output` is its input, `result` its text."""
    stage = serve(Say.of(structured("s", name="Ada", age=36)), Say.of("never"))
    told = stage.ask("who?", output_format=FORMAT)
    assert ended(told) == ("success", False, "completed", 0)
    assert told.result.structured_output == {"name": "Ada", "age": 36}
    assert (told.result.result or "").replace(" ", "") == '{"name":"Ada","age":36}'
    [offered] = [tool for tool in stage.requests[0].body["tools"] if tool["name"] == "StructuredOutput"]
    assert offered["input_schema"]["required"] == SCHEMA["required"]
    assert "StructuredOutput" in told.init["tools"]
    assert len(stage.requests) == 1


@pytest.mark.covers("M-16")
def test_a_wrong_object_then_none_then_a_right_one(serve: Serve) -> None:
    """13: an error result names what is wrong; a model that stops without the call is told so and goes on."""
    stage = serve(
        Say.of(structured("s1", name="Ada", age="old")),
        Say.of("It is Ada."),
        Say.of(structured("s2", name="Ada", age=36)),
    )
    told = stage.ask("who?", output_format=FORMAT)
    assert told.result.structured_output == {"name": "Ada", "age": 36}
    assert told.outcomes[0].is_error
    assert "age" in str(told.outcomes[0].content)
    assert "StructuredOutput" in stage.said(2).split("It is Ada.")[1]


@pytest.mark.covers("M-07", "M-16")
def test_never_a_right_one(serve: Serve) -> None:
    """6.4, 13: after five attempts `error_max_structured_output_retries`, exit 1."""
    stage = serve(*[Say.of(structured(f"s{n}", name="Ada", age="old")) for n in range(8)], Say.of("Sorry."))
    told = stage.ask("who?", output_format=FORMAT)
    assert ended(told) == (
        "error_max_structured_output_retries",
        True,
        "structured_output_retry_exhausted",
        1,
    )
    assert (told.result.result, bool(told.result.errors)) == (None, True)
    assert len(stage.requests) == 5
