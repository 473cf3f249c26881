"""Sessions of tasks as `mainspring -p` runs them: its system prompt, its tools, the settings of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Unpack

from mainspring.agent.options import SessionOptions
from mainspring.core.errors import UsageError
from mainspring.engine.shared_state import Ledger
from mainspring.library.options import AgentOptions, make_session_options, make_tools
from mainspring.library.session import SessionPlan

# Options of a task under another name in `SessionOptions`; one that is not listed has the same.
FIELDS = {
    "system": "system_prompt",
    "temperature": "sampling",
    "top_p": "sampling",
    "stop_sequences": "sampling",
    "seed": "sampling",
    "tool_choice": "sampling",
}
NOT_HERE = ("about", "env", "expand_prompts", "name", "persist")  # of agents that a program makes


class CommandAgent:
    """The options of the command line, and over them those of a task."""

    def __init__(self, options: SessionOptions, environment: Mapping[str, str] | None = None) -> None:
        self.options = options.replace(
            in_process=True, permission_prompt_tool_name=None, checkpoints=False, lists_commands=False
        )
        self._environment = dict(os.environ if environment is None else environment)

    def plan(
        self, deps: object, *, once: bool = False, deltas: bool = True, ledger: Ledger | None = None
    ) -> SessionPlan:
        assert deps is None, "the command has none"
        return SessionPlan(
            self.options, dict(self._environment), lambda _chat: (), once=once, deltas=deltas, ledger=ledger
        )

    def with_options(self, model: str | None = None, /, **options: Unpack[AgentOptions]) -> CommandAgent:
        """`options`: as `FleetTask.options` has them; they have been checked."""
        for name in NOT_HERE:
            if name in options:
                raise UsageError(f"the option '{name}' has no effect on a task of 'mainspring fleet': remove it")
        builtin, own = make_tools(options.get("tools", ()))
        made = make_session_options(options, model, builtin, tuple([tool.name for tool in own]), None, None)
        names: set[str] = {FIELDS.get(name, name) for name in options}
        if model is not None:
            names.add("model")
        return CommandAgent(self.options.replace(**{name: getattr(made, name) for name in names}), self._environment)
