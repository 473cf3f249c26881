"""WebSearch by the model's service: a side call over real sockets, decided by rules, paid from the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.stage import Stage, play, read_until_idle
from mainspring.agent.session import AgentSession
from mainspring.core.messages import ToolResult
from mainspring.core.money import NANOS_PER_USD, WEB_SEARCH, Usage
from mainspring.engine.side_calls import MOST_PAUSES
from mainspring.sessions.resume import load_session
from mainspring.simulator.replies import Json, ReceivedRequest, Refuse, Reply, Say, make_web_search

pytestmark = pytest.mark.covers("N-04")

SONNET, GPT = "claude-sonnet-5-5", "openai/gpt-5"
PAGES = (("https://docs.a.test/new", "What is new"), ("https://b.test/", "B"))
CITED = {
    "type": "text",
    "text": "A is new.",
    "citations": [
        {
            "type": "web_search_result_location",
            "url": PAGES[0][0],
            "title": PAGES[0][1],
            "encrypted_index": "e30=",
            "cited_text": "It is new since 2026.",
        }
    ],
}
FOUND = Say.of(*make_web_search("what is new", *PAGES), CITED)
ALLOWED: dict[str, Any] = {"allowed_tools": ("WebSearch",)}


def searches(received: ReceivedRequest) -> bool:
    return any(str(tool.get("type", "")).startswith("web_search") for tool in received.body.get("tools") or ())


def answers(*replies: Reply, **given: Any) -> Callable[[ReceivedRequest], Reply]:
    """The model calls WebSearch once; `replies` are those of the service."""
    coming = iter(replies)
    call = {"type": "tool_use", "id": "toolu_1", "name": "WebSearch", "input": {"query": "what is new", **given}}

    def choose(received: ReceivedRequest) -> Reply:
        if searches(received):
            return next(coming)
        return Say.of("Done.") if received.talk.results() else Say.of(call)

    return choose


def declare(stage: Stage, more: str = "") -> None:
    """The server searches for both models, as the user's settings say."""
    own = f'[models."{SONNET}"]\nweb_search = true\n'
    own += f'[models."{GPT}"]\nweb_search = true\nprotocol = "responses"\nbase_url = "{stage.server.url}/v1"\n'
    with (stage.home / "settings.toml").open("a") as file:
        file.write(own + more)


async def run(session: AgentSession) -> ToolResult:
    await session.start()
    await session.submit("go")
    await read_until_idle(session)
    return next(one for one in session.world.session.state.history if isinstance(one, ToolResult))


def side_requests(stage: Stage) -> list[Json]:
    return [received.body for received in stage.server.requests if searches(received)]


def spent(session: AgentSession) -> int:
    return session.world.session.shared.ledger.account.spent


@pytest.mark.parametrize("model", [SONNET, GPT])
def test_a_search_is_a_side_call_that_is_paid_for(tmp_path: Path, model: str) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED, model=model, max_budget_usd=5)
        found = await run(session)
        assert not found.is_error
        assert "What is new\n  https://docs.a.test/new" in found.text
        assert "https://b.test/" in found.text
        assert "A is new." in found.text
        assert spent(session) == session.usage.cost
        assert session.usage.by_model()[model]["webSearchRequests"] == 1
        assert [sum(map(bool, [answer.usage.web_searches])) for answer in stage.server.answers] == [0, 1, 0]
        await session.close()
        assert session.opened.journal is not None
        loaded = load_session(session.opened.journal.file)
        assert loaded.spent + loaded.standing.unbooked == spent(session)

    play(main, tmp_path, choose=answers(FOUND))


def test_the_price_of_a_search_is_that_of_the_server(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED)
        await run(session)
        assert spent(session) == stage.server.cost
        assert stage.server.usage.web_searches == 1
        assert stage.server.cost > WEB_SEARCH
        await session.close()

    play(main, tmp_path, choose=answers(FOUND))


def test_what_the_service_is_told(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED)
        await run(session)
        (asked,) = side_requests(stage)
        assert asked["tools"] == [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]
        assert "what is new" in asked["messages"][0]["content"][0]["text"]
        assert "system" not in asked  # nothing of the conversation but the query
        session = stage.open(**ALLOWED, model=GPT)
        await run(session)
        asked = side_requests(stage)[1]
        assert asked["tools"] == [{"type": "web_search"}]
        assert (asked["max_tool_calls"], asked["store"]) == (5, False)
        assert "web_search_call.action.sources" in asked["include"]
        await session.close()

    play(main, tmp_path, choose=answers(FOUND, FOUND))


def test_a_snippet_is_what_the_answer_cites(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED)
        assert "https://docs.a.test/new\n  It is new since 2026." in (await run(session)).text
        await session.close()

    play(main, tmp_path, choose=answers(FOUND))


# --- rules ----------------------------------------------------------------------------------------------------------


def offered(stage: Stage, **options: Any) -> bool:
    session = stage.open(**options)
    try:
        return "WebSearch" in session.world.hands.offers
    finally:
        session.world.config.holder.release()


def test_a_rule_decides_before_it_is_offered(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        assert not offered(stage)  # another server than Anthropic's, which does not declare it
        declare(stage)
        assert offered(stage)
        assert offered(stage, model=GPT)
        assert not offered(stage, disallowed_tools=("WebSearch",))
        assert offered(stage, disallowed_tools=("WebSearch(domain:a.test)",))
        assert not offered(stage, model="ollama/qwen3")

    play(main, tmp_path)


@pytest.mark.parametrize(
    ("limits", "options", "denied"),
    [
        ({"allowed_domains": ["docs.a.test"]}, {"allowed_tools": ("WebSearch(domain:*.a.test)",)}, False),
        ({"allowed_domains": ["docs.a.test", "b.test"]}, {"allowed_tools": ("WebSearch(domain:*.a.test)",)}, True),
        ({}, {"allowed_tools": ("WebSearch(domain:*.a.test)",)}, True),
        ({}, {"allowed_tools": ("WebSearch(what is new)",)}, False),
        ({}, {"allowed_tools": ("WebSearch(what is old)",)}, True),
        ({"allowed_domains": ["b.test"]}, {**ALLOWED, "disallowed_tools": ("WebSearch(domain:b.test)",)}, True),
        ({"allowed_domains": ["b.test"]}, {**ALLOWED, "disallowed_tools": ("WebFetch(domain:b.test)",)}, True),
        ({}, {**ALLOWED, "disallowed_tools": ("WebSearch(query:what*)",)}, True),
    ],
)
def test_rules_about_domains_and_queries(
    tmp_path: Path, limits: dict[str, Any], options: dict[str, Any], denied: bool
) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**options, permission_mode="dontAsk")
        assert (await run(session)).is_error is denied
        assert len(side_requests(stage)) == (not denied)
        await session.close()

    play(main, tmp_path, choose=answers(FOUND, **limits))


@pytest.mark.parametrize("rule", ["WebSearch(domain:b.test)", "WebFetch(domain:b.test)"])
def test_pages_of_a_denied_domain_are_left_out(tmp_path: Path, rule: str) -> None:
    """And what the service says with them: its words may repeat such a page."""

    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED, disallowed_tools=(rule, "WebSearch(domain:*.c.test)"))
        found = await run(session)
        assert "docs.a.test" in found.text
        assert "b.test" not in found.text
        assert "A is new." not in found.text
        (asked,) = side_requests(stage)
        assert asked["tools"][0]["blocked_domains"] == ["b.test"]  # services take no wildcards
        await session.close()

    play(main, tmp_path, choose=answers(FOUND))


def test_with_a_deny_rule_that_names_no_domain_nothing_is_searched_unasked(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        wrong = ("WebSearch(domain:https://b.test)",)
        session = stage.open(**ALLOWED, disallowed_tools=wrong, permission_mode="dontAsk")
        found = await run(session)
        assert found.is_error
        assert "names no domain" in found.text
        assert side_requests(stage) == []
        await session.close()

    play(main, tmp_path, choose=answers())


# --- money ----------------------------------------------------------------------------------------------------------


def test_a_search_that_could_exceed_the_limit_is_not_started(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED, max_budget_usd=0.09)
        found = await run(session)
        assert found.is_error
        assert "not enough money left" in found.text
        assert side_requests(stage) == []
        await session.close()

    play(main, tmp_path, choose=answers())


def test_little_money_pays_for_fewer_searches(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED, max_budget_usd=0.25)
        await run(session)
        (asked,) = side_requests(stage)
        assert 0 < asked["tools"][0]["max_uses"] < 5
        assert spent(session) == stage.server.cost < 0.25 * NANOS_PER_USD
        await session.close()

    play(main, tmp_path, choose=answers(FOUND))


# --- errors and pauses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [SONNET, GPT])
@pytest.mark.parametrize(
    ("error", "said"),
    [("max_uses_exceeded", "needed more than 5 searches"), ("too_many_requests", "rate limit for searches is reached")],
)
def test_errors_of_the_service(tmp_path: Path, model: str, error: str, said: str) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED, model=model)
        found = await run(session)
        assert found.is_error
        assert (said if model == SONNET else "The service could not search") in found.text
        assert session.usage.by_model()[model]["webSearchRequests"] == (model == GPT)  # OpenAI does not say it is free
        await session.close()

    play(main, tmp_path, choose=answers(Say.of(*make_web_search("what is new", error=error), "Sorry.")))


def test_a_server_that_knows_no_search_after_all(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED)
        found = await run(session)
        assert found.is_error
        assert "web search is not enabled" in found.text
        await session.close()

    refused = Refuse(400, "invalid_request_error", "web search is not enabled for this organization")
    play(main, tmp_path, choose=answers(refused))


def test_a_paused_search_is_continued(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED)
        found = await run(session)
        assert "docs.a.test" in found.text
        assert "https://b.test/" in found.text
        first, second = side_requests(stage)
        assert second["messages"][:1] == first["messages"][:1]
        assert [block["type"] for block in second["messages"][1]["content"]][:1] == ["server_tool_use"]
        assert second["tools"][0]["max_uses"] == 4
        assert spent(session) == stage.server.cost
        assert stage.server.usage.web_searches == 2
        await session.close()

    paused = Say.of(*make_web_search("one", PAGES[0]), stop_reason="pause_turn")
    play(main, tmp_path, choose=answers(paused, Say.of(*make_web_search("two", PAGES[1], id="srvtoolu_2"), "So.")))


def test_a_service_that_always_pauses_is_asked_a_bounded_number_of_times(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        declare(stage)
        session = stage.open(**ALLOWED)
        assert "docs.a.test" in (await run(session)).text
        assert len(side_requests(stage)) == 1 + MOST_PAUSES
        await session.close()

    paused = [
        Say.of(*make_web_search("one", PAGES[0], id=f"srvtoolu_{number}"), stop_reason="pause_turn")
        for number in range(1, 9)
    ]
    play(main, tmp_path, choose=answers(*paused))


def test_another_model_without_search(tmp_path: Path) -> None:
    """The tool stays offered, so the prefix stays (law 4); the call says why nothing was searched."""

    async def main(stage: Stage) -> None:
        declare(stage, f'[models."local/small"]\nbase_url = "{stage.server.url}/v1"\n')
        session = stage.open(**ALLOWED, model=GPT)
        await session.start()
        await session.set_model("local/small")
        found = await run(session)
        assert found.is_error
        assert "the Chat Completions protocol has no web search" in found.text
        assert "'webSearch.command'" in found.text
        await session.close()

    play(main, tmp_path, choose=answers())


def test_usage_counts_searches() -> None:
    assert (Usage(web_searches=1) + Usage(input=2, web_searches=2)).web_searches == 3
