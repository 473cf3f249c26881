"""For testing programs built on mainspring: a scripted `Deps`, a virtual clock, conformance suites, and functions over
recorded sessions.

Nothing in mainspring imports this package.
"""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute
from mainspring.providers.scripted import (
    Break,
    FunctionModel,
    Pause,
    Scripted,
    ScriptedReply,
    ShownConversation,
    call,
    fails,
    says,
)
from mainspring.testing.clock import Stuck, VirtualLoop, virtually
from mainspring.testing.models import TestModel
from mainspring.testing.world import Act, LeftOver, World

if TYPE_CHECKING:
    from mainspring.testing.recorded import compare, fork, replay, what_if

__all__ = [
    "Act",
    "Break",
    "FunctionModel",
    "LeftOver",
    "Pause",
    "Scripted",
    "ScriptedReply",
    "ShownConversation",
    "Stuck",
    "TestModel",
    "VirtualLoop",
    "World",
    "call",
    "compare",
    "fails",
    "fork",
    "replay",
    "says",
    "virtually",
    "what_if",
]

# Loaded on first use: they need a whole agent session.
MODULES = {"compare": "recorded", "fork": "recorded", "replay": "recorded", "what_if": "recorded"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)


Reply = ScriptedReply  # its former name, for one release
