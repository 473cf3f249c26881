"""Layer 2: old tool results lose their content; the call, the pair and all thinking stay (D-10 to D-15).

It acts when the prompt must become smaller, or when the old results have by now cost as much to read, turn after turn,
as it costs to write the rest of the prompt anew without them (`rent.py`). Then all of them go at once: the price is
for breaking the prefix, whatever the number.
"""

from __future__ import annotations

from mainspring.context.groups import TurnGroups, ViewItem
from mainspring.context.layers import LayerGoal, LayerLimits
from mainspring.core.messages import Text, ToolResult
from mainspring.core.view import Edit, Replace
from mainspring.processes.output import SpillFolder

CLEARED = "[Old tool result cleared]"  # D-11


class ClearLayer:
    def __init__(self, shelf: SpillFolder) -> None:
        self._shelf = shelf

    def __call__(self, scene: TurnGroups, aim: LayerGoal) -> tuple[Edit, ...]:
        if not aim.limits.clear or not (aim.excess or aim.rent):
            return ()
        return tuple([self._cleared(item, aim.limits) for item in scene.old])

    def _cleared(self, item: ViewItem, limits: LayerLimits) -> Replace:
        """With the place of the original, unless the same call would bring it back (D-13)."""
        assert isinstance(item.message, ToolResult)
        path = "" if item.tool in limits.exempt else self._shelf.put(item.message.id, item.message.text)
        return Replace(item.message.id, (Text(f"{CLEARED} It is in '{path}'." if path else CLEARED),))
