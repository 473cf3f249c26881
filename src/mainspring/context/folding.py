"""A fold right behind earlier summaries takes them in, word for word: there is one summary at the front, and it grows.

It could stand beside them, were it not for histories that have forgotten: there, a fold that begins with the first
message still here means everything before it, too (`core/view.py`), and would swallow the earlier summaries.
"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.context.groups import GroupKind, TurnGroups
from mainspring.context.words import LEFT_OUT_MARK, SAID, select_user_quotes, words_of
from mainspring.core.messages import Content, Origin, Text, User
from mainspring.core.view import Fold


def fold_from_front(scene: TurnGroups, folds: list[Fold], words: int) -> Fold:
    """The folds, which follow each other, as one, with the summaries that stand before them."""
    span = scene.span(folds[0].first, folds[0].last)
    before = scene.groups[: span[0]] if span else []
    if not all(group.kind is GroupKind.SUMMARY for group in before):
        before = []
    earlier = [message for group in before for message in group.messages if isinstance(message, User)]
    if not earlier and len(folds) == 1:
        return folds[0]
    told = [*earlier, *[fold.summary for fold in folds]]
    first = before[0].first if before else folds[0].first
    summary = replace(folds[-1].summary, content=merge_summaries(told, words), origin=Origin.SUMMARY)
    return Fold(first, folds[-1].last, summary)


def merge_summaries(messages: list[User], words: int) -> tuple[Content, ...]:
    """What was summed up, in order, then the user's own words."""
    parts = [part for message in messages if message.origin is Origin.SUMMARY for part in message.content]
    told = [part for part in parts if not isinstance(part, Text) or not part.text.startswith((SAID, LEFT_OUT_MARK))]
    return (*told, *select_user_quotes([text for message in messages for text in words_of(message)], words))
