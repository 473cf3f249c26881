"""The way down that needs no model: turns leave from the middle, the front and the end stay (D-20, D-21, Z-01).

In their place stand a few words: how much is gone, which files it was about, and what the user said there.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from mainspring.context.folding import fold_from_front
from mainspring.context.groups import TurnGroup, TurnGroups
from mainspring.context.layers import LayerLimits
from mainspring.context.words import select_user_quotes, words_in
from mainspring.core.messages import Origin, Text, ToolResult, User
from mainspring.core.view import Edit, Fold, Replace
from mainspring.processes.output import both_ends

GONE = "[{count} messages were removed here to make room; nothing of them is summed up.]"
ABOUT = "\nFiles that they were about: {files}"
MOST_FILES = 50
SHORT = 2_000  # characters that are left of a result, where turns alone were not enough


def trim_view(scene: TurnGroups, size: int, limits: LayerLimits, new_id: Callable[[], str]) -> tuple[Edit, ...]:
    """Edits that bring the view down to so many bytes, or as near as can be."""
    edits: list[Edit] = []
    excess = scene.meter.size - size
    start = scene.head()
    end = start
    last = scene.tail(0)
    while end < last and excess > 0:
        excess -= scene.groups[end].size
        end += 1
    if end > start:
        groups = scene.groups[start:end]
        fold = Fold(groups[0].first, groups[-1].last, make_trim_notice(groups, limits, new_id()))
        edits.append(fold_from_front(scene, [fold], limits.words))
    for group in scene.groups[end:]:
        for item in group.results:
            message = item.message
            assert isinstance(message, ToolResult)
            if excess > 0 and len(message.text) > 2 * SHORT:
                short = replace(message, content=(Text(both_ends(message.text, SHORT)),))
                edits.append(Replace(message.id, short.content))
                excess -= len(message.text) - len(short.text)
    return tuple(edits)


def make_trim_notice(groups: list[TurnGroup], limits: LayerLimits, id: str) -> User:
    text = GONE.format(count=sum([len(group.items) for group in groups]))
    if files := paths_in(groups):
        text += ABOUT.format(files=", ".join(files))
    return User((Text(text), *select_user_quotes(words_in(groups), limits.words)), Origin.SUMMARY, id=id)


def paths_in(groups: list[TurnGroup]) -> list[str]:
    """From the calls' own inputs, the newest last."""
    found: dict[str, None] = {}
    for group in groups:
        for call in group.reply.calls if group.reply is not None else ():
            path = call.input.get("file_path")
            if isinstance(path, str):
                found.pop(path, None)
                found[path] = None
    return list(found)[-MOST_FILES:]
