"""The secrets that this process holds, as values: keys, tokens, proxy passwords (security K3).

Code that learns a secret registers it once (`hold_secrets`); code that stores text asks here. There is one set for the
whole process, since an error or a crash report does not know its session.

A session holds values through its own `SecretScope`, and releases them when it ends: a host may have had thousands of
sessions, each with a key. A value stays until no scope holds it, and some time longer, for late writes. A value that
is held outside any session stays until the process ends. Patterns of secrets are in `redaction.py`.

The search for many secrets takes one pass: its cost hardly depends on their number. Almost every secret has fifteen
consecutive characters of the alphabet of keys. Every eight consecutive characters of such a part go into a table. In a
text, only runs of at least fifteen such characters are examined, at every eighth position: wherever a secret is, one
of these positions is within its part. A match in the table is compared with the values themselves. Secrets without
such a part, such as short passwords, are searched one by one.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, cast
from weakref import finalize

if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")


LEAST_KEY = 16  # characters of a key that is one word
SHORTEST = 6  # characters; redacting a shorter value would hide ordinary words
FEW = 128  # values: up to here, a search for each of them is faster than the index (250 us in 20 KB of code)
LATE = 256  # released values that are still redacted: for an error, a last line, a crash
_QUOTED = str.maketrans({'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


class HeldSecrets:
    """The values, with their spellings and their reference counts. Readers take no lock: sessions may be in several
    threads, and texts are long.
    """

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}
        self._late: dict[str, None] = {}  # those with no holder, the oldest first
        self._ended: deque[set[str]] = deque()  # released values that are not counted yet
        self._lock = threading.RLock()
        self._longest_first: tuple[str, ...] | None = ()
        self._index: SecretIndex | None = None  # None: they are few
        self._not_ours: set[str] = set()  # those that are only redacted, and may be passed to their owners

    def add(self, values: Iterable[str]) -> None:
        with self._lock:
            self._settle()
            for value in values:
                self._late.pop(value, None)
                if value not in self._holders:
                    self._holders[value] = 0
                    self._take(value)
                self._holders[value] += 1

    def are_ours(self, values: set[str], ours: bool) -> None:
        """Called before they are added. A value that is once ours stays so."""
        with self._lock:
            self._not_ours = self._not_ours - values if ours else self._not_ours | (values - self._holders.keys())

    def is_ours(self, value: str) -> bool:
        return value not in self._not_ours

    def give_back(self, values: set[str]) -> None:
        """May be called at any time, also by the garbage collector while other code is in here: it only records the
        release.
        """
        self._ended.append(values)

    def settle(self) -> None:
        with self._lock:
            self._settle()

    def _settle(self) -> None:
        while self._ended:
            for value in self._ended.popleft():
                self._holders[value] -= 1
                if not self._holders[value]:
                    self._late[value] = None
        while len(self._late) > LATE:
            value = next(iter(self._late))
            del self._late[value], self._holders[value]
            self._not_ours.discard(value)
            self._longest_first = None
            if self._index is not None:
                self._index.drop(value)

    def _take(self, value: str) -> None:
        self._longest_first = None
        if self._index is not None:
            self._index.add(value)
        elif len(self._holders) > FEW:
            self._index = SecretIndex(self._holders)

    def all(self) -> tuple[str, ...]:
        """The longest first, so that none survives as a part of another."""
        found = self._longest_first
        if found is None:
            with self._lock:
                found = self._longest_first = tuple(sorted(self._holders, key=lambda value: (-len(value), value)))
        return found

    def within(self, text: str) -> list[str]:
        """Those that occur in a text, the longest first."""
        if self._index is None:
            return [value for value in self.all() if value in text]
        found = self._index.within(text.encode(errors="surrogatepass"))
        return sorted([one.decode(errors="surrogatepass") for one in found], key=len, reverse=True)

    def within_bytes(self, data: bytes) -> list[bytes]:
        if self._index is not None:
            return sorted(self._index.within(data), key=len, reverse=True)
        return [value for value in self._written() if value in data]

    def by_letters(self) -> list[bytes]:
        return self._index.by_letters() if self._index is not None else sorted(self._written())

    def _written(self) -> list[bytes]:
        return [value.encode(errors="surrogatepass") for value in self.all()]


_held = HeldSecrets()  # a process has one set of them


# --- holders ------------------------------------------------------------------------------------------------------


class SecretScope:
    """Holds values for a time, as a session does. `release` gives them back, or the garbage collector, for a session
    that was prepared and never started.
    """

    def __init__(self) -> None:
        self._mine: set[str] = set()
        self._all = _held
        self._giving_back = finalize(self, _held.give_back, self._mine)
        self._giving_back.atexit = False  # no reader is left then

    def add(self, values: set[str]) -> None:
        if not self._giving_back.alive:  # released: a value that it learns so late is redacted like other late ones
            self._all.add(values)
            self._all.give_back(values)
            return
        new = values - self._mine
        self._all.add(new)
        self._mine |= new

    def release(self) -> None:
        self._giving_back()
        self._all.settle()

    def run(self, make: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Secrets that are registered during this call belong to this scope."""
        before = _holder.set(self)
        try:
            return make(*args, **kwargs)
        finally:
            _holder.reset(before)


_holder: ContextVar[SecretScope | None] = ContextVar("holder", default=None)


def bind_scope(make: Callable[P, R]) -> Callable[P, R]:
    """For objects that are made later: secrets that they register then belong to the current scope."""
    holder = _holder.get()
    return make if holder is None else lambda *args, **kwargs: holder.run(make, *args, **kwargs)


def hold_secrets(*secrets: str, ours: bool = True) -> None:
    """`ours`: never passed to a program. Others belong to a server or to the commands of tools, which get them."""
    new = {one for secret in secrets if secret for one in list_spellings(secret) if len(one) >= SHORTEST}
    holder = _holder.get()
    _held.are_ours(new, ours)
    if new and holder is not None:
        holder.add(new)
    elif new:
        _held.add(new)


def hold_key(value: str, *, ours: bool = True) -> None:
    """A key, unless it is a placeholder word for a server that needs none: redacting every `ollama` or `content` would
    spoil the files of a session.
    """
    if len(value) >= LEAST_KEY or not value.isalpha():
        hold_secrets(value, ours=ours)


def list_spellings(secret: str) -> set[str]:
    """As it is, line by line, in JSON spelling, and URL-encoded."""
    if secret.isascii() and secret.replace("-", "").replace("_", "").isalnum():
        return {secret}  # usual for keys: all three are the same
    from urllib.parse import quote  # 3 ms, only for a password with odd characters

    return {secret, *secret.splitlines(), secret.translate(_QUOTED), quote(secret, safe="", errors="surrogatepass")}


def hold_proxies(environ: Mapping[str, str]) -> None:
    """The passwords in the addresses of proxies, and the values of the proxy header that are derived from them."""
    for name, value in environ.items():
        if name.lower().endswith("_proxy") and "@" in value:
            user = value.rpartition("://")[2].rpartition("@")[0]
            hold_secrets(*spell_password(user))


def spell_password(user: str) -> Iterable[str]:
    """Of `name:password` in an address: as written, decoded, and both together in base64."""
    from binascii import b2a_base64
    from urllib.parse import unquote

    written = user.partition(":")[2]
    if not written:
        return ()
    return written, unquote(written), b2a_base64(unquote(user).encode(), newline=False).decode()


# --- readers ------------------------------------------------------------------------------------------------------


def list_secrets() -> tuple[str, ...]:
    return _held.all()


def find_secrets_in(text: str) -> list[str]:
    """Those that occur in it, the longest first."""
    return _held.within(text)


def mask_secrets(data: bytes) -> bytes:
    """For files that are read back: replaces known values with as many stars, so that every offset stays the same.

    Text that only looks like a secret stays: a session must continue with its own content.
    """
    for written in _held.within_bytes(data):
        data = data.replace(written, b"*" * len(written))
    return data


def is_in(value: object, *, ours: bool = False) -> bool:
    """Whether a secret that we hold occurs anywhere in a JSON value, including field names; `ours`: only secrets that
    are never passed on. Not recursive: a model's input may be nested deeper than Python's recursion limit.
    """
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            found = _held.within(one)
            if any(map(_held.is_ours, found)) if ours else found:
                return True
        elif isinstance(one, dict):
            for name, inner in cast("dict[object, object]", one).items():
                left += (name, inner)
        elif isinstance(one, list | tuple):
            left += cast("list[object]", one)
    return False


class SecretMask:
    """The same for bytes that arrive in chunks: a possible beginning of a secret waits for the rest."""

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        data = mask_secrets(self._kept + data)
        cut = len(data) - _begun(data)
        self._kept = data[cut:]
        return data[:cut]

    def finish(self) -> bytes:
        kept, self._kept = self._kept, b""
        return kept


def _begun(data: bytes) -> int:
    """How many bytes at the end are the beginning of a known value. In sorted order, a value that begins with some
    bytes comes right after them.
    """
    from bisect import bisect_right  # not on the start path

    ordered = _held.by_letters()
    longest = max(map(len, ordered), default=0)
    for size in range(min(longest - 1, len(data)), 0, -1):
        end = data[len(data) - size :]
        at = bisect_right(ordered, end)
        if at < len(ordered) and ordered[at].startswith(end):
            return size
    return 0


STEP = 8  # characters: the size of a table entry, and the distance of positions
PART = 2 * STEP - 1
_ROW = re.compile(rb"[A-Za-z0-9_-]{%d,}" % PART)


class SecretSpot(NamedTuple):
    """Where a secret would be, relative to a table entry."""

    before: int  # bytes of it before the entry
    size: int


class SecretIndex:
    """Readers need no lock while another thread changes it: each access is one dict operation."""

    def __init__(self, values: Iterable[str]) -> None:
        self._whole: set[bytes] = set()
        self._spots: dict[bytes, dict[SecretSpot, int]] = {}  # by their pieces; and how many values have each
        self._odd: dict[bytes, None] = {}  # without such a part
        self._by_letters: list[bytes] | None = None
        self._changes = 0
        for value in values:
            self.add(value)

    def add(self, value: str) -> None:
        written = value.encode(errors="surrogatepass")
        pieces = _pieces(written)
        if pieces:
            self._whole.add(written)
        else:
            self._odd[written] = None
        self._changed()
        for piece, spot in pieces:
            spots = self._spots.setdefault(piece, {})
            spots[spot] = spots.get(spot, 0) + 1

    def drop(self, value: str) -> None:
        written = value.encode(errors="surrogatepass")
        self._odd.pop(written, None)
        self._whole.discard(written)
        self._changed()
        for piece, spot in _pieces(written):
            spots = self._spots[piece]
            spots[spot] -= 1
            if not spots[spot]:
                del spots[spot]
            if not spots:
                del self._spots[piece]

    def _changed(self) -> None:
        self._changes += 1
        self._by_letters = None

    def by_letters(self) -> list[bytes]:
        found, changes = self._by_letters, self._changes
        if found is None:
            found = sorted([*self._whole, *self._odd])
            if changes == self._changes:  # else another thread has added one meanwhile, and this is not stored
                self._by_letters = found
        return found

    def within(self, data: bytes) -> set[bytes]:
        found = {value for value in tuple(self._odd) if value in data}
        spots_of = self._spots.get
        for row in _ROW.finditer(data):
            for at in range(row.start(), row.end() - STEP + 1, STEP):
                if spots := spots_of(data[at : at + STEP]):
                    around = [(at - before, size) for before, size in tuple(spots)]
                    values = [data[start : start + size] for start, size in around if start >= 0]
                    found.update([value for value in values if value in self._whole])
        return found


def _pieces(written: bytes) -> list[tuple[bytes, SecretSpot]]:
    """From the end of the longest run: keys of one vendor begin alike."""
    row = max(_ROW.finditer(written), key=lambda found: found.end() - found.start(), default=None)
    if row is None:
        return []
    starts = range(row.end() - PART, row.end() - STEP + 1)
    return [(written[at : at + STEP], SecretSpot(at, len(written))) for at in starts]
