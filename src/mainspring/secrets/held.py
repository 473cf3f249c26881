"""The secrets that this process holds, as values: keys, tokens, the passwords of proxies (security K3).

Whoever learns one says so (`hold_secrets`), once; whoever writes anything down asks here. It is one set for the whole
process, since an error or a crash report does not know whose session it belongs to.

A session holds through a `SecretScope` of its own, and gives back what it held when it is over: a program may have had
thousands, each with a key. A value stays until nobody holds it, and some time longer, for what is written late. What is
held outside of any session stays for good. What merely looks like a secret is in `redaction.py`.

Many secrets, looked for in one pass: what a text costs hardly depends on how many they are.

Almost every secret has fifteen characters in a row of which keys are made. Of such a part every eight in a row are
written into a table; of a text, only rows of at least fifteen such characters are looked at, and of those every eighth
place: wherever a secret stands, one of these places is within its part. What the table then says is compared with the
values themselves. Secrets that have no such part, as short passwords, are looked for one by one.
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
SHORTEST = 6  # characters; a shorter value would blot out ordinary words
FEW = 128  # values: up to here, to look for each of them is faster than the index (250 us in 20 KB of code)
LATE = 256  # values that nobody holds any more and that are covered still: an error, a last line, a crash
_QUOTED = str.maketrans({'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


class HeldSecrets:
    """The values, with their spellings, and how many hold each. Who only looks takes no lock: sessions may be in
    several threads, and texts are long."""

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}
        self._late: dict[str, None] = {}  # those of them that nobody holds any more, the oldest first
        self._ended: deque[set[str]] = deque()  # what was given back, and is not counted yet
        self._lock = threading.RLock()
        self._longest_first: tuple[str, ...] | None = ()
        self._index: SecretIndex | None = None  # None: they are few
        self._not_ours: set[str] = set()  # those that are covered only, and may be given to whom they belong

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
        """Before they are added. What was ours once stays so."""
        with self._lock:
            self._not_ours = self._not_ours - values if ours else self._not_ours | (values - self._holders.keys())

    def is_ours(self, value: str) -> bool:
        return value not in self._not_ours

    def give_back(self, values: set[str]) -> None:
        """May be called at any moment, also by the garbage collector while somebody is in here: it is only noted."""
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
        """Those that stand in a text, the longest first."""
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


# --- who holds ----------------------------------------------------------------------------------------------------


class SecretScope:
    """Whoever holds values for a time: a session. They are given back by `release`, or when nobody has it any more, as
    one that was prepared and never began."""

    def __init__(self) -> None:
        self._mine: set[str] = set()
        self._all = _held
        self._giving_back = finalize(self, _held.give_back, self._mine)
        self._giving_back.atexit = False  # nobody asks then

    def add(self, values: set[str]) -> None:
        if not self._giving_back.alive:  # it is over: what it learns so late is covered as all that is late
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
        """What is learned in the meantime is held by this one."""
        before = _holder.set(self)
        try:
            return make(*args, **kwargs)
        finally:
            _holder.reset(before)


_holder: ContextVar[SecretScope | None] = ContextVar("holder", default=None)


def bind_scope(make: Callable[P, R]) -> Callable[P, R]:
    """For what is made later: what it learns then is held by whoever holds now."""
    holder = _holder.get()
    return make if holder is None else lambda *args, **kwargs: holder.run(make, *args, **kwargs)


def hold_secrets(*secrets: str, ours: bool = True) -> None:
    """`ours`: they go to nobody. Others belong to a server or to the commands of tools, which get them."""
    new = {one for secret in secrets if secret for one in list_spellings(secret) if len(one) >= SHORTEST}
    holder = _holder.get()
    _held.are_ours(new, ours)
    if new and holder is not None:
        holder.add(new)
    elif new:
        _held.add(new)


def hold_key(value: str, *, ours: bool = True) -> None:
    """A key, unless it is a word that somebody put in the place of one for a server that wants none: to cover `ollama`
    or `content` wherever they stand would spoil the files of a session."""
    if len(value) >= LEAST_KEY or not value.isalpha():
        hold_secrets(value, ours=ours)


def list_spellings(secret: str) -> set[str]:
    """As it is, line by line, as JSON writes it, and as an address does."""
    if secret.isascii() and secret.replace("-", "").replace("_", "").isalnum():
        return {secret}  # as keys are: all three are one
    from urllib.parse import quote  # 3 ms, only for a password with odd characters

    return {secret, *secret.splitlines(), secret.translate(_QUOTED), quote(secret, safe="", errors="surrogatepass")}


def hold_proxies(environ: Mapping[str, str]) -> None:
    """The passwords in the addresses of proxies, and what is made of them for the proxy's header."""
    for name, value in environ.items():
        if name.lower().endswith("_proxy") and "@" in value:
            user = value.rpartition("://")[2].rpartition("@")[0]
            hold_secrets(*spell_password(user))


def spell_password(user: str) -> Iterable[str]:
    """Of `name:password` as it stands in an address: as written, as meant, and both together in base64."""
    from binascii import b2a_base64
    from urllib.parse import unquote

    written = user.partition(":")[2]
    if not written:
        return ()
    return written, unquote(written), b2a_base64(unquote(user).encode(), newline=False).decode()


# --- who asks -----------------------------------------------------------------------------------------------------


def list_secrets() -> tuple[str, ...]:
    return _held.all()


def find_secrets_in(text: str) -> list[str]:
    """Those that stand in it, the longest first."""
    return _held.within(text)


def mask_secrets(data: bytes) -> bytes:
    """For files that are read back: known values give way to as many stars, so that every offset stays what it was.

    What only looks like a secret stays: a session must go on with what was said in it.
    """
    for written in _held.within_bytes(data):
        data = data.replace(written, b"*" * len(written))
    return data


def is_in(value: object, *, ours: bool = False) -> bool:
    """Whether a secret that we hold stands anywhere in a value made of JSON, names of fields included; `ours`: one that
    goes to nobody. Not recursive: a model's input may be nested deeper than Python can follow."""
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
    """The same for bytes that come in pieces: what may be the beginning of a secret waits for its rest."""

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
    """How many bytes at the end are the beginning of a known value. Of all that begin with some bytes, one stands right
    behind them in the order of letters."""
    from bisect import bisect_right  # not on the start path

    ordered = _held.by_letters()
    longest = max(map(len, ordered), default=0)
    for size in range(min(longest - 1, len(data)), 0, -1):
        end = data[len(data) - size :]
        at = bisect_right(ordered, end)
        if at < len(ordered) and ordered[at].startswith(end):
            return size
    return 0


STEP = 8  # characters: what is looked up, and how far apart
PART = 2 * STEP - 1
_ROW = re.compile(rb"[A-Za-z0-9_-]{%d,}" % PART)


class SecretSpot(NamedTuple):
    """Where, around a piece that is in the table, a secret would be."""

    before: int  # bytes of it that stand before the piece
    size: int


class SecretIndex:
    """May be read while another thread changes it: each look is one step of a dict."""

    def __init__(self, values: Iterable[str]) -> None:
        self._whole: set[bytes] = set()
        self._spots: dict[bytes, dict[SecretSpot, int]] = {}  # by their pieces; and how many values have each
        self._odd: dict[bytes, None] = {}  # that have no such part
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
            if changes == self._changes:  # else another thread has added one meanwhile, and this is not kept
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
    """Of the end of the longest row: keys of one kind begin alike."""
    row = max(_ROW.finditer(written), key=lambda found: found.end() - found.start(), default=None)
    if row is None:
        return []
    starts = range(row.end() - PART, row.end() - STEP + 1)
    return [(written[at : at + STEP], SecretSpot(at, len(written))) for at in starts]
