"""For testing programs built on mainspring: a scripted `Deps`, a virtual clock, conformance suites.

Nothing in mainspring imports this package.
"""

from mainspring.providers.scripted import Break, Pause, Scripted, ScriptedReply, call, fails, says
from mainspring.testing.clock import Stuck, VirtualLoop, virtually
from mainspring.testing.world import Act, LeftOver, World

__all__ = [
    "Act",
    "Break",
    "LeftOver",
    "Pause",
    "Scripted",
    "ScriptedReply",
    "Stuck",
    "VirtualLoop",
    "World",
    "call",
    "fails",
    "says",
    "virtually",
]

Reply = ScriptedReply  # its former name, for one release
