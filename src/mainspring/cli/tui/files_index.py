"""The paths of the project, for `@` completion: a child process lists them, and an index searches them key by key.

Completion never waits for a scan: it offers the result of the last one, and starts a new scan in a thread if that is
old. The index does not check permissions: rules change during a session, so completion checks only the paths it shows.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from mainspring.core.errors import ToolError
from mainspring.processes.safe_open import open_folder
from mainspring.text import strip_control_characters
from mainspring.tools.base import Workspace
from mainspring.tools.files import HaltSignal
from mainspring.tools.search import run_search
from mainspring.tools.search_child import SearchLocation, parse_names
from mainspring.tools.search_walk import FileSearchRequest

MOST_FILES = 100_000
MOST_BYTES = 100 * MOST_FILES  # of their names; an average project path has about 60
SECONDS = 2.0  # for one scan
FRESH = 5.0  # seconds: a younger result is not refreshed
PAUSE = 10  # pause between scans, in multiples of the last duration: scanning a home folder takes two seconds
LONGEST_QUERY = 200  # characters; file names have at most 255

_UNTYPABLE = re.compile("[\t\n\u2028\u2029\ud800-\udfff]")


# --- searching ------------------------------------------------------------------------------------------------------


class SearchScan:
    """How far the texts were searched for some letters, and where the matches start."""

    def __init__(self, letters: str, found: list[int], end: int) -> None:
        self.letters, self.found, self.end = letters, found, end


class SearchableLines:
    """Texts that are joined and searched in C: a key press leaves no time for a Python step on each of 50,000 texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._joined = "\n" + "\n".join(texts) + "\n"
        self._starts = array("L", [found.start() for found in re.finditer("\n", self._joined)])
        self._scan = SearchScan("", [], 0)

    def holding(self, part: str) -> Iterator[int]:
        """Yield the index of each text that contains the part; with a leading line feed, of each text that starts with
        it."""
        at = self._joined.find(part)
        while at >= 0:
            place = bisect_right(self._starts, at) - 1
            yield place
            at = self._joined.find(part, self._starts[place + 1])

    def find_scattered(self, letters: str) -> Iterator[int]:
        """Yield the index of each text that contains the letters in order. A longer query searches only the matches of
        the shorter one, so typing a word reads the texts about once. Two threads may search at once: then an index may
        come twice."""
        if any(letter not in self._joined for letter in letters):
            return
        pattern = _in_order(letters)
        before = self._scan if self._scan.letters and letters.startswith(self._scan.letters) else SearchScan("", [], 0)
        end = before.end  # read before `found`, which grows first
        known = [start for start in before.found[:] if pattern.match(self._joined, start)]
        self._scan = scan = SearchScan(letters, known, end)
        for start in known[:]:
            yield bisect_right(self._starts, start) - 1
        while found := pattern.search(self._joined, scan.end):
            scan.found.append(found.start())
            scan.end = found.end()
            yield bisect_right(self._starts, found.start()) - 1
        scan.end = len(self._joined)


def _in_order(letters: str) -> re.Pattern[str]:
    """The first match of a letter is as good as any later one, so no backtracking (`*+`): each text is read once,
    whatever it contains."""
    return re.compile("\n" + "".join([rf"[^\n{re.escape(letter)}]*+{re.escape(letter)}" for letter in letters]))


class PathIndex:
    """Paths in order of preference for equal matches."""

    def __init__(self, paths: list[str]) -> None:
        self.all = paths
        low = [path.lower() for path in paths]
        self._whole = SearchableLines(low)
        self._names = SearchableLines([path[path.rfind("/", 0, len(path) - 1) + 1 :] for path in low])

    def rank(self, query: str) -> Iterator[str]:
        """Yield matches lazily, best first, each once."""
        low = query.lower()
        if not low:
            yield from self.all
        if not low or len(low) > LONGEST_QUERY or "\n" in low:
            return
        given: set[int] = set()
        for place in chain.from_iterable(self._tiers(low)):
            if place not in given:
                given.add(place)
                yield self.all[place]

    def _tiers(self, query: str) -> Iterator[Iterator[int]]:
        """Ranks: the last name starts with the query, the path starts with it, the name contains it, the path contains
        it, the path has its letters in order."""
        yield self._names.holding(f"\n{query}")
        yield self._whole.holding(f"\n{query}")
        yield self._names.holding(query)
        yield self._whole.holding(query)
        if len(query) > 1:
            yield self._names.find_scattered(query)
            yield self._whole.find_scattered(query)


def build_path_index(files: Iterable[str]) -> PathIndex:
    """Add the folders of the files. Order: fewest path segments, then shortest, then alphabetical."""
    found = frozenset(files)
    return PathIndex(_ordered([*found, *_folders(found)]))


def _folders(files: Iterable[str]) -> set[str]:
    """The folders of the files, with a slash at the end."""
    found: set[str] = set()
    for file in files:
        end = file.rfind("/")
        while end > 0 and (folder := file[: end + 1]) not in found:
            found.add(folder)
            end = file.rfind("/", 0, end)
    return found


def _ordered(paths: list[str]) -> list[str]:
    """Sort in small groups: sorting all paths at once would block the keyboard."""
    alike: dict[tuple[int, int], list[str]] = {}
    for path in paths:
        alike.setdefault((path.count("/", 0, len(path) - 1), len(path)), []).append(path)
    return [path for kind in sorted(alike) for path in sorted(alike[kind])]


# --- finding --------------------------------------------------------------------------------------------------------


class FilesIndex:
    """The paths below the folder where the session started."""

    def __init__(
        self,
        place: Workspace,
        *,
        now: Callable[[], float] = time.monotonic,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` is called in the scanning thread when there are new paths."""
        self._place, self._now, self._changed = place, now, changed
        self._paths = PathIndex([])
        self._files: frozenset[str] = frozenset()
        self._next_look = float("-inf")
        self._thread: threading.Thread | None = None
        self._halt: HaltSignal | None = None
        self._lock = threading.Lock()  # held briefly: guards the start of a scan and `close`
        self._closed = False
        self._first = threading.Event()

    def paths(self, wait: float = 0.0) -> PathIndex:
        """Return the known paths at once, and start a new scan if they are old. Before the first scan ends there are
        none: a caller in a thread can wait `wait` seconds for it."""
        self.refresh()
        if wait:
            self._first.wait(wait)
        return self._paths

    def refresh(self) -> None:
        """Start a scan, unless one is running or the known paths are fresh."""
        with self._lock:
            looking = self._thread is not None and self._thread.is_alive()
            if self._closed or looking or self._now() < self._next_look:
                return
            self._halt = halt = HaltSignal(SECONDS)
            # Not a daemon: the interpreter waits for it, at most two seconds, so that its child ends, too.
            self._thread = threading.Thread(target=self._look, args=(halt,), name="paths")
            self._next_look = self._now() + FRESH
            with contextlib.suppress(RuntimeError):  # no more threads: try again later
                self._thread.start()

    def settle(self) -> None:
        """Wait for the running scan."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """End the child, if there is one, and start no more scans."""
        with self._lock:
            self._closed = True
            if self._halt is not None:
                self._halt.now()
        self.settle()

    def _look(self, halt: HaltSignal) -> None:
        began = self._now()
        try:
            found = frozenset(_found(self._place, halt))
            if found != self._files:
                self._paths, self._files = build_path_index(found), found
                with contextlib.suppress(RuntimeError):  # the event loop of the listener is closed
                    self._changed()
        except (ToolError, OSError):
            pass  # stopped, or the folder is gone: keep the known paths
        finally:
            took = self._now() - began
            self._next_look = max(self._next_look, self._now() + min(took, SECONDS) * PAUSE)
            self._first.set()


def _found(place: Workspace, halt: HaltSignal) -> list[str]:
    """Return paths relative to the folder, from ripgrep or our own walk. An incomplete list counts, too."""
    real = os.path.realpath(place.root)
    folder = open_folder(real)
    try:
        output = run_search(FileSearchRequest("names"), SearchLocation(folder, real), place, halt)
    finally:
        os.close(folder)
    return [name for name in parse_names(output.data[:MOST_BYTES]) if is_typable(name)][:MOST_FILES]


def is_typable(name: str) -> bool:
    """Invalid text cannot be typed, and control characters cannot be shown."""
    return name.isprintable() or (strip_control_characters(name) == name and _UNTYPABLE.search(name) is None)
