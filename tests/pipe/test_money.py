"""The limit of a driven session: one ledger, whatever the program says to it (settled 43, decision 29, stream-json
6.4)."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient

from mainspring.core.models import MODELS
from mainspring.core.money import NANOS_PER_USD, Usage, cost
from mainspring.simulator.replies import ReceivedRequest, Reply, Say
from pipe.stage import Serve, Told, bash, exchange
from pipe.test_agents import GREETER, is_below, spawn

MODEL = "claude-sonnet-4-5"
USED = Usage(input=1_000, output=200)  # less than is reserved for a request
ONE = cost(USED, MODELS[MODEL].price) / NANOS_PER_USD  # dollars
LIMIT = 16 * ONE
WORDS = ["hello", "/clear", "/compact", "run", "/context"]


def choose(received: ReceivedRequest) -> Reply:
    """Every request costs the same."""
    said = json.dumps(received.body["messages"])
    if "Write down what is needed to go on" in said:
        return Say.of("<summary>It went on.</summary>", usage=USED)
    if "run" in received.talk.prompt and not received.talk.results():
        return Say.of(bash("true"), usage=USED)
    return Say.of("Hi.", usage=USED)


@pytest.mark.covers("H-14")
@pytest.mark.parametrize("seed", range(4))
def test_no_sequence_of_commands_goes_round_the_limit(serve: Serve, seed: int) -> None:
    """Prompts, tools, `/clear`, `/compact` at random: what all requests cost together stays below the limit, and when
    it is reached, `/clear` does not begin it anew."""
    random_ = random.Random(seed)
    stage = serve(choose=choose)
    said: list[tuple[str, Told]] = []

    async def main(client: ClaudeSDKClient) -> None:
        for word in [random_.choice(WORDS) for _ in range(12)]:
            said.append((word, await exchange(client, word)))
        for word in ["hello", "/clear"] * 18:
            said.append((word, await exchange(client, word)))

    stage.talk(main, model=MODEL, max_budget_usd=LIMIT, permission_mode="bypassPermissions", thinking=DISABLED)
    done = [f"{word}: {told.result.subtype}" for word, told in said]
    asked = len(stage.requests)
    assert 0 < asked * ONE <= LIMIT, done
    assert [told.result.subtype for word, told in said[-4:] if word == "hello"] == ["error_max_budget_usd"] * 2, done
    assert asked >= 8, done  # the limit is used, too


DISABLED = {"type": "disabled"}


def test_a_resumed_session_goes_on_with_what_it_has_spent(serve: Serve) -> None:
    stage = serve(choose=choose)
    chosen = {"model": MODEL, "max_budget_usd": LIMIT, "thinking": DISABLED}
    session = stage.ask("hello", **chosen).result.session_id
    results = [stage.ask("hello", resume=session, **chosen).result for _ in range(18)]
    assert results[-1].subtype == "error_max_budget_usd"
    assert len(stage.requests) * ONE <= LIMIT
    assert results[-1].total_cost_usd == pytest.approx(len(stage.requests) * ONE)


def test_the_usage_of_a_model_is_the_sessions_whatever_was_compacted(serve: Serve) -> None:
    """6.4: what was used before a summary, by agents, and for the summary itself counts after a resume as before it."""

    def choosing(received: ReceivedRequest) -> Reply:
        if is_below(received):
            return Say.of("Hello from below.", usage=USED)
        if "delegate" in received.talk.prompt and not received.talk.results():
            return Say.of(spawn(), usage=USED)
        return choose(received)

    stage = serve(choose=choosing)
    given: Any = {"model": MODEL, "permission_mode": "bypassPermissions", "agents": {"greeter": GREETER}}
    rows: list[dict[str, Any]] = []

    async def main(client: ClaudeSDKClient) -> None:
        for word in ("hello", "delegate", "run", "/compact", "hello"):
            told = await exchange(client, word)
        rows.append(told.result.model_usage or {})
        given["resume"] = told.result.session_id

    async def again(client: ClaudeSDKClient) -> None:
        told = await exchange(client, "hello")
        rows.append(told.result.model_usage or {})

    stage.talk(main, **given)
    stage.talk(again, **given)
    stage.talk(again, **given)
    asked = Counter(str(request.body["model"]) for request in stage.requests)
    assert len(asked) == 2
    for later, row in enumerate(rows):
        tokens = {model: (used["inputTokens"], used["outputTokens"]) for model, used in row.items()}
        count = {model: n - (2 - later) * (model == MODEL) for model, n in asked.items()}
        assert tokens == {model: (n * USED.input, n * USED.output) for model, n in count.items()}
