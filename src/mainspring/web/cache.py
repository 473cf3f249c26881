"""Pages that were read a short while ago. In memory, bounded by bytes and by time; the one used last goes last."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from sys import getsizeof

from mainspring.web.page import WebPage

SECONDS = 900.0  # as Claude Code has it: long enough to ask the same page something else
MOST_BYTES = 32 << 20

Key = tuple[str, bool]  # the address, and whether a rule named its host: what was read under a rule is gone with it


class PageCache:
    def __init__(
        self, most: int = MOST_BYTES, seconds: float = SECONDS, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._seconds, self._now = most, seconds, now
        self._kept: OrderedDict[Key, tuple[float, WebPage]] = OrderedDict()
        self.size = 0  # bytes

    def get(self, key: Key) -> WebPage | None:
        found = self._kept.get(key)
        if found is None:
            return None
        until, page = found
        if self._now() >= until:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return page

    def put(self, key: Key, page: WebPage) -> None:
        self._drop(key)
        self._kept[key] = (self._now() + self._seconds, page)
        self.size += _weight(page)
        while self.size > self._most:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        _, page = self._kept.pop(key, (0.0, None))
        if page is not None:
            self.size -= _weight(page)


def _weight(page: WebPage) -> int:
    return getsizeof(page.text) + 1_000  # about, for the rest of it
