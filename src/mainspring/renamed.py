"""Modules that documentation named before they moved. Their old names work for one release, with a warning."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

# The old module, its successor, and its documented names.
MOVED: dict[str, tuple[str, dict[str, str]]] = {
    "mainspring.hooks.points": ("mainspring.hooks.events", {"Opinion": "HookResult", "Point": "HookPoint"}),
    "mainspring.providers.asking": ("mainspring.providers.http_provider", {"Key": "ApiKey"}),
    "mainspring.providers.openai_chat": ("mainspring.providers.openai.provider", {"OpenAIChat": "OpenAIChat"}),
    "mainspring.providers.openai_responses": (
        "mainspring.providers.openai.provider",
        {"OpenAIResponses": "OpenAIResponses"},
    ),
    "mainspring.sessions.lines": ("mainspring.sessions.line_format", {"Envelope": "Envelope"}),
    "mainspring.simulator.received": ("mainspring.simulator.replies", {"Received": "ReceivedRequest"}),
}


def find_spec(name: str) -> ModuleSpec | None:
    return ModuleSpec(name, MovedModule()) if name in MOVED else None


class MovedModule(Loader):
    """Makes a module with the documented names of one that moved."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:  # noqa: ARG002  # as Python makes them
        return None

    def exec_module(self, module: ModuleType) -> None:
        successor, names = MOVED[module.__name__]
        warnings.warn(f"'{module.__name__}' is now '{successor}'", DeprecationWarning, stacklevel=2)
        found = import_module(successor)
        for old, new in names.items():
            setattr(module, old, getattr(found, new))
