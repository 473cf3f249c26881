"""The paths of the project, for whoever types `@`: found by a child in a thread, prepared to be searched key by key.

Nobody waits for any of it. What is offered is what was last found; when that is old, the next look begins beside it.
Which paths may be offered is not decided here: rules change while we run, and only what is shown is held against them.
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
MOST_BYTES = 100 * MOST_FILES  # of their names; a path of a project has about 60
SECONDS = 2.0  # for one look
FRESH = 5.0  # seconds: what is younger is not looked for again
PAUSE = 10  # times as long as a look took, no other one begins: a home folder takes its two seconds each time
LONGEST_QUERY = 200  # characters; no name is longer than 255

_UNTYPABLE = re.compile("[\t\n\u2028\u2029\ud800-\udfff]")


# --- searching ------------------------------------------------------------------------------------------------------


class SearchScan:
    """How far the texts were searched for some letters, and where those begin that hold them."""

    def __init__(self, letters: str, found: list[int], end: int) -> None:
        self.letters, self.found, self.end = letters, found, end


class SearchableLines:
    """Texts that are searched as one, in C: 50,000 of them for a key press leave no time for a step of Python each."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._joined = "\n" + "\n".join(texts) + "\n"
        self._starts = array("L", [found.start() for found in re.finditer("\n", self._joined)])
        self._scan = SearchScan("", [], 0)

    def holding(self, part: str) -> Iterator[int]:
        """The places of those that hold it; with a line feed before it, of those that begin with it. Each once."""
        at = self._joined.find(part)
        while at >= 0:
            place = bisect_right(self._starts, at) - 1
            yield place
            at = self._joined.find(part, self._starts[place + 1])

    def find_scattered(self, letters: str) -> Iterator[int]:
        """Of those that hold the letters in their order. What did not hold the first of them is not read again when
        somebody types on: all the keys of a word together read the texts about once. Two threads may ask at once: then
        a place may come twice."""
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
    """The first place where a letter fits is as good as any later one, so none is given back (`*+`): each text is read
    once, whatever it holds."""
    return re.compile("\n" + "".join([rf"[^\n{re.escape(letter)}]*+{re.escape(letter)}" for letter in letters]))


class PathIndex:
    """Paths, the first ones first where several fit as well."""

    def __init__(self, paths: list[str]) -> None:
        self.all = paths
        low = [path.lower() for path in paths]
        self._whole = SearchableLines(low)
        self._names = SearchableLines([path[path.rfind("/", 0, len(path) - 1) + 1 :] for path in low])

    def rank(self, query: str) -> Iterator[str]:
        """What may be meant, the best first, each once. It is searched as far as it is asked for."""
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
        """The last name begins with it, the path does, the name holds it, the path does; then only its letters."""
        yield self._names.holding(f"\n{query}")
        yield self._whole.holding(f"\n{query}")
        yield self._names.holding(query)
        yield self._whole.holding(query)
        if len(query) > 1:
            yield self._names.find_scattered(query)
            yield self._whole.find_scattered(query)


def build_path_index(files: Iterable[str]) -> PathIndex:
    """With the folders that they are in. Few folders deep first, then short, then by letters."""
    found = frozenset(files)
    return PathIndex(_ordered([*found, *_folders(found)]))


def _folders(files: Iterable[str]) -> set[str]:
    """Those that the files are in, with a slash at the end."""
    found: set[str] = set()
    for file in files:
        end = file.rfind("/")
        while end > 0 and (folder := file[: end + 1]) not in found:
            found.add(folder)
            end = file.rfind("/", 0, end)
    return found


def _ordered(paths: list[str]) -> list[str]:
    """By hand, in small pieces: one sort of all of them would keep the keyboard waiting while it runs."""
    alike: dict[tuple[int, int], list[str]] = {}
    for path in paths:
        alike.setdefault((path.count("/", 0, len(path) - 1), len(path)), []).append(path)
    return [path for kind in sorted(alike) for path in sorted(alike[kind])]


# --- finding --------------------------------------------------------------------------------------------------------


class FilesIndex:
    """The paths below the folder where a session began."""

    def __init__(
        self,
        place: Workspace,
        *,
        now: Callable[[], float] = time.monotonic,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` is called when there is something new to offer, in the thread that found it."""
        self._place, self._now, self._changed = place, now, changed
        self._paths = PathIndex([])
        self._files: frozenset[str] = frozenset()
        self._next_look = float("-inf")
        self._thread: threading.Thread | None = None
        self._halt: HaltSignal | None = None
        self._lock = threading.Lock()  # held for moments: who begins a look, who closes
        self._closed = False
        self._first = threading.Event()

    def paths(self, wait: float = 0.0) -> PathIndex:
        """What is known, at once; what is old is looked for anew beside it. Before the first look is over there is
        nothing: whoever is in a thread anyway may wait so many seconds for it."""
        self.refresh()
        if wait:
            self._first.wait(wait)
        return self._paths

    def refresh(self) -> None:
        """Begins a look, unless one is under way or what is known is fresh."""
        with self._lock:
            looking = self._thread is not None and self._thread.is_alive()
            if self._closed or looking or self._now() < self._next_look:
                return
            self._halt = halt = HaltSignal(SECONDS)
            # No daemon: the interpreter waits for it, two seconds at most, so that its child is ended as well.
            self._thread = threading.Thread(target=self._look, args=(halt,), name="paths")
            self._next_look = self._now() + FRESH
            with contextlib.suppress(RuntimeError):  # no more threads: another time
                self._thread.start()

    def settle(self) -> None:
        """Until the look that is under way is over."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Ends the child, too, if there is one. Nothing begins any more."""
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
                with contextlib.suppress(RuntimeError):  # the loop of whoever wants to know is closed
                    self._changed()
        except (ToolError, OSError):
            pass  # it was ended, or the folder is gone: what was known stays
        finally:
            took = self._now() - began
            self._next_look = max(self._next_look, self._now() + min(took, SECONDS) * PAUSE)
            self._first.set()


def _found(place: Workspace, halt: HaltSignal) -> list[str]:
    """Relative to the folder; as ripgrep sees it, or our own walk where there is none. What ended too early counts."""
    real = os.path.realpath(place.root)
    folder = open_folder(real)
    try:
        output = run_search(FileSearchRequest("names"), SearchLocation(folder, real), place, halt)
    finally:
        os.close(folder)
    return [name for name in parse_names(output.data[:MOST_BYTES]) if is_typable(name)][:MOST_FILES]


def is_typable(name: str) -> bool:
    """Nobody can type what is no text, and what a terminal obeys cannot be shown as it is."""
    return name.isprintable() or (strip_control_characters(name) == name and _UNTYPABLE.search(name) is None)
