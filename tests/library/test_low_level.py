"""`open_run`: the loop alone, with the same checks as `Agent`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring import ToolContext, UsageError, open_run
from mainspring.core.config import Config, Effort
from mainspring.core.models import Model, model_named
from mainspring.testing import Scripted, call, says
from mainspring.testing.plugin import LiveServer

WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"provider": "anthropic"},
        "'provider' must be a provider, such as 'Anthropic(key)', not 'anthropic': pass a",
    ),
    ({"provider": 5}, "'provider' must be a provider, such as 'Anthropic(key)', not 5"),
    ({"model": 5}, "'model' must be a name such as 'haiku', or a 'Model', not 5"),
    ({"max_turns": "3"}, "'max_turns' must be a whole number, not '3'"),
    ({"max_turns": 0}, "'max_turns' is 0; a run needs at least 1"),
    ({"max_turnz": 3}, "'open_run' has no option 'max_turnz'. Did you mean 'max_turns'?"),
    ({"thinking": 1}, "'thinking' must be True or False, not 1"),
    ({"effort": "hihg"}, "'effort' must be one of low, medium, high, xhigh, max, not 'hihg'"),
    ({"config": 3}, "'config' must be a 'Config', not 3"),
    ({"config": Config(), "max_turns": 3}, "'max_turns' and 'config' cannot be combined"),
    ({"config": Config(), "model": "haiku"}, "'model' and 'config' cannot be combined"),
    ({"tools": [5]}, "'tools' has 5: use functions, and tools made by 'mainspring.tool'"),
]


@pytest.mark.parametrize(("given", "told"), WRONG, ids=[told[:30] for _, told in WRONG])
def test_what_is_wrong_is_told_at_once(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as raised:
        open_run("go", **({"provider": Scripted([])} | given))
    assert str(raised.value).startswith(told)


def test_a_prompt_is_text() -> None:
    with pytest.raises(UsageError, match="'prompt' must be a string, not 5"):
        open_run(5, provider=Scripted([]))  # type: ignore[arg-type]


def test_no_provider_and_no_key() -> None:
    with pytest.raises(UsageError, match="no API key found"):
        open_run("go")


def find_in(context: ToolContext[dict[str, str]]) -> str:
    """Find."""
    return context.deps["name"]


async def play(**given: Any) -> str:
    async with open_run("Who?", **given) as run:
        async for _ in run:
            pass
    return run.result.text


def test_a_name_a_system_prompt_tools_and_deps() -> None:
    model = Scripted([says(call("find_in")), says("Ada")])
    assert (
        asyncio.run(play(provider=model, model="haiku", system="Be brief.", tools=[find_in], deps={"name": "Ada"}))
        == "Ada"
    )
    shown = model.conversations[1]
    assert (shown.system, shown.results[0].text) == ("Be brief.", "Ada")
    assert model.requests[0].model.startswith("claude-haiku-")


@pytest.mark.parametrize("model", [None, "claude-haiku-4-5", model_named("claude-haiku-4-5")])
def test_the_provider_comes_from_the_environment(
    model: str | Model | None, model_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model_server.url)
    model_server.answers("Ada")
    assert asyncio.run(play(model=model, max_turns=3, effort="low")) == "Ada"
    assert model_server.requests[0].body["model"] == ("claude-sonnet-5-5" if model is None else "claude-haiku-4-5")


def test_settings_are_fields_of_the_config() -> None:
    model = Scripted(["hi"])
    asyncio.run(play(provider=model, effort="low", max_output=500))
    assert (model.requests[0].effort, model.requests[0].max_output) == (Effort.LOW, 500)
