"""Hooks: functions of the host and commands in settings that run at named events of a run."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.hooks.results import DEFERRED as DEFERRED

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "DEFERRED": "results",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
