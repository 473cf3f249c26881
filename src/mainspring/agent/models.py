"""Which model a session is told to ask from now on."""

from __future__ import annotations

from mainspring.agent.config import ResolvedConfig
from mainspring.agent.subagents import ModelRouter
from mainspring.core.errors import UsageError
from mainspring.core.models import Model


def choose_model(name: str | None, config: ResolvedConfig) -> Model | None:
    """None: the session's own. Raises `UsageError` for one that cannot be asked."""
    if name in (None, "", "default"):
        return None
    ways = ModelRouter(config)
    model = ways.model(name)
    if ways.provider(model.name) is not config.model.provider:
        option = config.options.spell("model", name)
        raise UsageError(f"the model '{name}' is on another server: start a session with '{option}'")
    return model
