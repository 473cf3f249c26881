"""The rung that takes images and documents out of the view, when the API will not have them (Z-06)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from mainspring.context.folding import fold_from_front
from mainspring.context.groups import TurnGroups, media_in
from mainspring.context.layers import LayerLimits
from mainspring.core.messages import Assistant, Content, Document, Image, Message, Text, ToolResult, User
from mainspring.core.view import Edit, Fold, Replace

STRIPPED = Text("[An image or document stood here. It was removed because the model's service would not take it.]")


def strip_media(scene: TurnGroups, limits: LayerLimits, new_id: Callable[[], str]) -> tuple[Edit, ...]:
    """Results are replaced. A message of a user cannot be: another one stands in its place, with all of its words."""
    edits: list[Edit] = []
    for group in scene.groups:
        for message in group.messages:
            if not media_in(message):
                continue
            if isinstance(message, ToolResult):
                edits.append(Replace(message.id, strip_media_content(message.content)))
            elif isinstance(message, User):
                words = replace(message, content=strip_media_content(message.content), id=new_id())
                edits.append(fold_from_front(scene, [Fold(group.first, group.last, words)], limits.words))
    return tuple(edits)


def strip_media_content(content: tuple[Content, ...]) -> tuple[Content, ...]:
    return tuple([STRIPPED if isinstance(part, Image | Document) else part for part in content])


def without_media(message: Message) -> Message:
    if isinstance(message, Assistant) or not media_in(message):
        return message
    return replace(message, content=strip_media_content(message.content))
