"""Layer 1: old turns that say nothing any more leave whole, oldest first (D-06 to D-09, Z-04).

Such a turn is a reply of a few words whose results have all been cleared: reads, searches and logs of long ago. The
first prompt, everything that a user said, the newest turns and all turns that changed something stay, since what a
change came to is short and never cleared. Notes that we put in ourselves, such as a nudge of long ago, leave with them.
Where clearing is switched off, what it would clear counts as cleared.
"""

from __future__ import annotations

from mainspring.context.groups import GroupKind, TurnGroup, TurnGroups
from mainspring.context.layers import LayerGoal
from mainspring.core.messages import Assistant, Message, Origin, Text, User
from mainspring.core.view import Drop, Edit

FEW_WORDS = 300  # characters
STALE = frozenset({Origin.RECOVERY, Origin.BUDGET, Origin.ADVICE, Origin.HOOK})  # said for one turn, long past


def snip_turns(scene: TurnGroups, aim: LayerGoal) -> tuple[Edit, ...]:
    if not aim.limits.snip or not (aim.excess or aim.old_rent):
        return ()
    ids: list[str] = []
    left = aim.excess
    old: set[int] = set() if aim.limits.clear else set(map(id, scene.old))
    for group in select_older_groups(scene, aim.limits.recent_turns, aim.staged):
        if aim.excess and not aim.old_rent and left <= 0:
            break
        if is_spent(group, old):
            ids += [message.id for message in group.messages]
            left -= group.size
    return (Drop(tuple(ids)),) if ids else ()


def select_older_groups(scene: TurnGroups, turns: int, start: int = 0) -> list[TurnGroup]:
    """The groups from this one on, and behind the front, up to the newest turns."""
    for at in range(len(scene.groups) - 1, -1, -1):
        turns -= scene.groups.kind(at) is GroupKind.TURN
        if turns < 0:
            return scene.groups[max(scene.head(), start) : at + 1]
    return []


def is_spent(group: TurnGroup, old: set[int]) -> bool:
    if group.kind is GroupKind.NOTE:
        return is_stale(group.items[0].message)
    if group.kind is not GroupKind.TURN:
        return False
    reply = group.reply
    results = group.results
    return (
        reply is not None
        and bool(results)
        and few_words(reply)
        and all(item.cleared or id(item) in old for item in results)
    )


def is_stale(message: Message) -> bool:
    return isinstance(message, User) and message.origin in STALE


def few_words(reply: Assistant) -> bool:
    return sum([len(block.text) for block in reply.blocks if isinstance(block, Text)]) <= FEW_WORDS
