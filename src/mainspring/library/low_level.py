"""`open_run`: the loop alone, with a provider and tools; no session file, no permissions, no hooks, no compaction.

    async with open_run("What is 2 + 3?", model="haiku", tools=[add]) as run:
        async for update in run:
            ...
    print(run.result.text)

`Agent` is the comfortable way. This one shows every step, and lets you replace every part.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from mainspring import agent
from mainspring.core.config import Config, Effort, Sampling
from mainspring.core.errors import CallerMistakes, UsageError
from mainspring.core.models import Model
from mainspring.engine.run import Run
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import BasicDeps
from mainspring.engine.shared_state import Ledger
from mainspring.providers.base import list_models
from mainspring.text import did_you_mean
from mainspring.tools.base import Tool

if TYPE_CHECKING:
    from mainspring.providers.base import Provider
    from mainspring.sessions.records import Journal

EffortName = Literal["low", "medium", "high", "xhigh", "max"]


class RunSettings(TypedDict, total=False):
    """The fields of `Config` that a caller of `open_run` may want to set."""

    max_turns: int
    max_tokens: int
    token_budget: int
    task_budget: int
    max_output: int
    max_retries: int
    thinking: bool
    effort: EffortName | Effort
    sampling: Sampling
    fallbacks: tuple[Model, ...]
    auto_compact: bool
    early_safe: bool
    early_unsafe: bool
    advise_after: int
    end_after: int


NUMBERS = (
    "max_turns", "max_tokens", "token_budget", "task_budget", "max_output", "max_retries", "advise_after", "end_after",
)  # fmt: skip
FLAGS = ("thinking", "auto_compact", "early_safe", "early_unsafe")


def open_run(  # noqa: PLR0913  # keywords, all of them
    prompt: str,
    *,
    provider: Provider | None = None,
    model: str | Model | None = None,
    system: str = "",
    tools: Iterable[Tool | Callable[..., Any]] = (),
    deps: object = None,
    config: Config | None = None,
    journal: Journal | None = None,
    ledger: Ledger | None = None,
    deltas: bool = True,
    **settings: Unpack[RunSettings],
) -> Run:
    """A run in its own session: `async with open_run(...) as run: async for update in run: ...`, then `run.result`.

    `provider`: where the model is; None: by the name of the model, with the key of the environment. `deps`: your object
    for your tools, which they find in `ToolContext.deps`. `settings` are fields of `Config`, for callers who need only
    one or two; with `config` there are none. Raises `UsageError`.

    Example:
        async with open_run("What is 2 + 3?", model="haiku", max_turns=3) as run:
            async for update in run:
                print(update)
        print(run.result.text)
    """
    with CallerMistakes():
        check_arguments(prompt, provider, model, config, settings)
        checked = checked_settings(settings)
        own, close = find_model(provider, model if config is None else config.model)
    chosen = config or Config(model=own[1], **checked)
    blocks = (system,) if system else ()
    world = BasicDeps(own[0], as_tools(tools), journal=journal, system=blocks, injected=deps)
    session = EngineSession(world, chosen, ledger=ledger, describe=world.describe)
    run = session.run(prompt, deltas=deltas)
    run.on_leave = close
    return run


Close = Callable[[], Awaitable[None]]


def check_arguments(prompt: object, provider: object, model: object, config: object, settings: RunSettings) -> None:
    if not isinstance(prompt, str):
        raise UsageError(f"'prompt' must be a string, not {prompt!r}")
    if provider is not None and not callable(getattr(provider, "stream", None)):
        hint = ": pass a name such as 'haiku' as 'model'" if isinstance(provider, str) else ""
        raise UsageError(f"'provider' must be a provider, such as 'Anthropic(key)', not {provider!r}{hint}")
    if model is not None and not isinstance(model, str | Model):
        raise UsageError(f"'model' must be a name such as 'haiku', or a 'Model', not {model!r}")
    if config is not None and not isinstance(config, Config):
        raise UsageError(f"'config' must be a 'Config', not {config!r}")
    if config is not None and (settings or model is not None):
        extra = next(iter(settings), "model")
        raise UsageError(f"'{extra}' and 'config' cannot be combined: set it in the 'Config'")


def checked_settings(settings: RunSettings) -> dict[str, Any]:
    known = RunSettings.__annotations__
    made = dict(settings)
    for name, value in made.items():
        if name not in known:
            raise UsageError(f"'open_run' has no option '{name}'{did_you_mean(name, known)}")
        if name in NUMBERS and (not isinstance(value, int) or isinstance(value, bool)):
            raise UsageError(f"'{name}' must be a whole number, not {value!r}")
        if name in FLAGS and not isinstance(value, bool):
            raise UsageError(f"'{name}' must be True or False, not {value!r}")
    if "effort" in made:
        try:
            made["effort"] = Effort(cast("str", made["effort"]))
        except ValueError:
            raise UsageError(f"'effort' must be one of {', '.join(Effort)}, not {made['effort']!r}") from None
    return made


def as_tools(given: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    made: list[Tool] = []
    for one in given:
        if isinstance(one, Tool):
            made.append(one)
        elif callable(one):
            from mainspring.tools.custom import tool

            made.append(tool(one))
        else:
            raise UsageError(f"'tools' has {one!r}: use functions, and tools made by 'mainspring.tool'")
    return tuple(made)


def find_model(provider: Provider | None, model: str | Model | None) -> tuple[tuple[Provider, Model], Close | None]:
    """The provider and the model, and how to close a provider that was made for this run."""
    if provider is None:
        return find_provider(model.name if isinstance(model, Model) else model)
    if isinstance(model, Model):
        return (provider, model), None
    return (provider, agent.find_model(model or "default", list_models(provider))), None


def find_provider(model: str | None) -> tuple[tuple[Provider, Model], Close]:
    """By the name of the model and the environment, as every front end finds it. Raises `UsageError`."""
    from mainspring.agent.options import SessionOptions, StartError

    options = SessionOptions(model=model, tools=(), setting_sources=(), strict_mcp_config=True, in_process=True)
    try:
        found = agent.resolve_config(options, dict(os.environ))
    except StartError as error:
        raise UsageError(str(error)) from None

    async def close() -> None:
        try:
            await found.model.close()
        finally:
            found.holder.release()

    return (found.model.provider, found.loop.model), close
