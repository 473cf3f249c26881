"""Where the cached part of a request may end (settled 24). At most three: the system text has the fourth.

- At its last message, so that the next request finds it.
- Where the last request ended: the cache looks back over 20 blocks only, and a reply with a dozen calls makes more. If
  the prefix was broken since, this is of no use; then the mark stands where it was broken.
- Before the first result that is not cleared: there the next clearing will break the prefix, and what stands before it
  is found only if it was kept alive until then.
"""

from __future__ import annotations

from mainspring.context.groups import TurnGroups
from mainspring.core.messages import Assistant


def choose_cache_marks(scene: TurnGroups, broken: str = "") -> tuple[str, ...]:
    """`broken`: the message behind which this request differs from the last."""
    found: list[str] = []
    replied = False
    for item in scene.newest_first():
        if isinstance(item.message, Assistant):
            replied = True
        elif not found or replied:
            found.append(item.message.id)
            if replied:
                break
    if broken:
        found[1:] = [broken]
    return tuple(dict.fromkeys([*found, scene.border] if scene.border else found))
