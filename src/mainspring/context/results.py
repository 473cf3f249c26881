"""Layer 0: no single result, and no reply's results together, may take more than their share (D-03 to D-05).

It acts on results that no request has held yet, so it breaks no cached prefix. What it decided stands in the edits:
later requests replace alike.
"""

from __future__ import annotations

from mainspring.context.groups import TurnGroups, ViewItem
from mainspring.context.layers import LayerGoal, LayerLimits
from mainspring.core.messages import Content, Text, ToolResult
from mainspring.core.view import Edit, Replace
from mainspring.processes.output import SpillFolder, both_ends


class ResultBudgetLayer:
    """The layer, with the folder that it stores in."""

    def __init__(self, shelf: SpillFolder) -> None:
        self._shelf = shelf

    def __call__(self, scene: TurnGroups, aim: LayerGoal) -> tuple[Edit, ...]:
        limits = aim.limits
        sizes = {item.message.id: item.size for item in scene.fresh}
        total = sum(sizes.values())
        if total <= min(limits.per_result, limits.per_message):
            return ()
        edits: list[Edit] = []
        for item in sorted(scene.fresh, key=lambda item: -item.size):
            alone = item.size > limits.per_result
            together = total > limits.per_message and item.size > limits.shown
            if item.tool in limits.exempt or not (alone or together) or len(item.message.text) <= limits.shown:
                continue  # the size of a short text is in its images
            content = self._cut(item, limits)
            total -= item.size - sum([len(part.text) for part in content if isinstance(part, Text)])
            edits.append(Replace(item.message.id, content))
        return tuple(edits)

    def _cut(self, item: ViewItem, limits: LayerLimits) -> tuple[Content, ...]:
        assert isinstance(item.message, ToolResult)
        text = item.message.text
        path = self._shelf.put(item.message.id, text)
        others = tuple([part for part in item.message.content if not isinstance(part, Text)])
        return (Text(both_ends(text, limits.shown, path)), *others)
