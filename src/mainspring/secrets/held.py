"""The secrets that this process holds, as values: keys, tokens, the passwords of proxies (K3).

Whoever learns one says so (`hold`), once; whoever writes anything down asks here. It is one set for the whole process,
since an error or a crash report does not know whose session it belongs to. Values are added and never taken away: an
old key may still be valid. What merely looks like a secret is in `redaction.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

LEAST_KEY = 16  # characters of a key that is one word
SHORTEST = 6  # characters; a shorter value would blot out ordinary words
_QUOTED = str.maketrans({'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"})

_values: tuple[str, ...] = ()  # with their spellings, the longest first: none survives as a part of another


def hold(*secrets: str) -> None:
    global _values  # noqa: PLW0603  # a process has one set of them
    new = {one for secret in secrets if secret for one in spellings(secret) if len(one) >= SHORTEST}
    if not new <= set(_values):
        _values = tuple(sorted({*_values, *new}, key=lambda value: (-len(value), value)))


def hold_key(value: str) -> None:
    """A key, unless it is a word that somebody put in the place of one for a server that wants none: to cover `ollama`
    or `content` wherever they stand would spoil the files of a session."""
    if len(value) >= LEAST_KEY or not value.isalpha():
        hold(value)


def known() -> tuple[str, ...]:
    return _values


def spellings(secret: str) -> set[str]:
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
            hold(*passwords(user))


def passwords(user: str) -> Iterable[str]:
    """Of `name:password` as it stands in an address: as written, as meant, and both together in base64."""
    from binascii import b2a_base64
    from urllib.parse import unquote

    written = user.partition(":")[2]
    if not written:
        return ()
    return written, unquote(written), b2a_base64(unquote(user).encode(), newline=False).decode()


def covered(data: bytes) -> bytes:
    """For files that are read back: known values give way to as many stars, so that every offset stays what it was.

    What only looks like a secret stays: a session must go on with what was said in it.
    """
    for value in _values:
        written = value.encode(errors="surrogatepass")
        if written in data:
            data = data.replace(written, b"*" * len(written))
    return data


def is_in(value: object) -> bool:
    """Whether a secret that we hold stands anywhere in a value made of JSON, names of fields included. Not recursive:
    a model's input may be nested deeper than Python can follow."""
    if not _values:
        return False
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            if any(secret in one for secret in _values):
                return True
        elif isinstance(one, dict):
            for name, inner in cast("dict[object, object]", one).items():
                left += (name, inner)
        elif isinstance(one, list | tuple):
            left += cast("list[object]", one)
    return False


class Covering:
    """The same for bytes that come in pieces: what may be the beginning of a secret waits for its rest."""

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        data = covered(self._kept + data)
        cut = len(data) - _begun(data)
        self._kept = data[cut:]
        return data[:cut]

    def finish(self) -> bytes:
        kept, self._kept = self._kept, b""
        return kept


def _begun(data: bytes) -> int:
    """How many bytes at the end are the beginning of a known value."""
    longest = 0
    for value in _values:
        written = value.encode(errors="surrogatepass")
        for size in range(min(len(written) - 1, len(data)), longest, -1):
            if data.endswith(written[:size]):
                longest = size
                break
    return longest
