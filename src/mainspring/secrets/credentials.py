"""The keys that the user has stored with `mainspring login`: one per provider, in the system's keyring or in a file.

`credentials.json` in our folder lists every stored key. If the system has a keyring that we trust, the file says only
that the key is there; otherwise the file holds the key itself. Without the file no keyring is asked, so a start
without stored keys costs one look at the disk.

A key is stored for one address, and is found for that address only: a name in the settings cannot lead it to another
server (security T2). The file is used only if its owner alone can read it; it is closed to every tool and command, see
`permissions/closed_files.py`.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

import msgspec

from mainspring.core.errors import UsageError
from mainspring.core.value import Value
from mainspring.processes.atomic_write import digest, write_atomically
from mainspring.processes.paths import resolve_path
from mainspring.secrets.held import bind_scope, hold_key
from mainspring.secrets.keyring_store import KEYRING, KeyringStore, open_keyring
from mainspring.secrets.sources import (
    CREDENTIALS,
    OTHERS,
    ResolvedKey,
    header_of,
    read_private_file,
    validate_key,
)

FILE_MODE, FOLDER_MODE = 0o600, 0o700
LARGEST = 1 << 20  # bytes of the file


class StoredKey(Value):
    """Where the key of a provider is. `key` is empty if it is in the keyring."""

    store: str
    url: str
    key: str = ""

    def __repr__(self) -> str:
        return f"StoredKey({self.store!r}, {self.url!r})"  # shown in tracebacks and logs


class StoredKeys(Value, tag="Credentials"):
    """The file. The tag names its format."""

    providers: dict[str, StoredKey] = msgspec.field(default_factory=dict)


class Credentials:
    """The stored keys of one home. Every method raises `UsageError` for a file or a keyring that cannot be used."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.path = f"{home}/{CREDENTIALS}"
        self._checked, self._held = bind_scope(validate_key), bind_scope(hold_key)

    def sources(self) -> dict[str, str]:
        """Where the key of each provider is: 'keyring' or 'credentials.json'."""
        return {name: one.store for name, one in sorted(self._load().providers.items())}

    def source_of(self, provider: str, url: str) -> str:
        """Without a question to the keyring. Empty: no key is stored for this provider and address."""
        stored = self._load().providers.get(provider)
        return stored.store if stored is not None and is_same_server(stored.url, url) else ""

    def find(self, provider: str, url: str) -> ResolvedKey | None:
        """The key of a provider, for its address. None: none is stored for it."""
        stored = self._load().providers.get(provider)
        if stored is None or not is_same_server(stored.url, url):
            return None
        value = self._value(provider, stored)

        async def refresh() -> str:
            """The user may have stored another key since."""
            again = self.find(provider, url)
            return again.value if again is not None else value

        return ResolvedKey(stored.store, value, header_of(value), refresh=refresh)

    def store(self, provider: str, url: str, key: str) -> str:
        """Returns where the key is now."""
        value = self._checked(key, "the given key")
        keyring = open_keyring()
        with self._changed() as keys:
            if keyring is not None:
                keyring.set(provider, value)
                keys.providers[provider] = StoredKey(KEYRING, url)
            else:
                keys.providers[provider] = StoredKey(CREDENTIALS, url, value)
        return keys.providers[provider].store

    def remove(self, provider: str) -> str:
        """Returns where the key was; empty: none was stored."""
        if not os.path.lexists(self.path) or provider not in self._load().providers:
            return ""
        with self._changed() as keys:
            stored = keys.providers.pop(provider)
            if stored.store == KEYRING:
                self._keyring_of(provider).delete(provider)
        return stored.store

    def _value(self, provider: str, stored: StoredKey) -> str:
        if stored.store != KEYRING:
            return self._checked(stored.key, f"the key for '{provider}' in '{self.path}'")
        value = read_from(self._keyring_of(provider), provider)
        return self._checked(value, f"the key for '{provider}' in the keyring")

    def _keyring_of(self, provider: str) -> KeyringStore:
        keyring = open_keyring()
        if keyring is None:
            raise UsageError(
                f"the key for '{provider}' is in the system's keyring, which is not available here: start or unlock "
                f"it, or set the key in the environment. To store it without a keyring, remove '{self.path}' and run "
                f"'mainspring login {provider}'"
            )
        return keyring

    # --- the file ---------------------------------------------------------------------------------------------------

    def _load(self) -> StoredKeys:
        if not os.path.lexists(self.path):
            return StoredKeys()
        return self._parse(read_private_file(self.path, LARGEST))

    def _parse(self, data: bytes) -> StoredKeys:
        try:
            found = msgspec.json.decode(data, type=StoredKeys)
        except msgspec.MsgspecError:
            raise UsageError(
                f"'{self.path}' cannot be read: remove it, and store your keys again with 'mainspring login'"
            ) from None
        for stored in found.providers.values():
            self._held(stored.key)  # also a key that this session does not use
        return found

    @contextmanager
    def _changed(self) -> Generator[StoredKeys]:
        """Under a lock: two processes that store two keys at the same moment lose neither."""
        os.makedirs(self.home, FOLDER_MODE, exist_ok=True)  # noqa: PTH103  # 8 ms
        lock = os.open(self.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = os.fstat(lock)
            if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & OTHERS:
                os.fchmod(lock, stat.S_IMODE(found.st_mode) & ~OTHERS)
            data = read_private_file(self.path, LARGEST) if os.path.lexists(self.path) else None
            keys = self._parse(data) if data is not None else StoredKeys()
            yield keys
            written = msgspec.json.format(msgspec.json.encode(keys))
            file = resolve_path(self.path, "/")
            write_atomically(file, written, before=digest(data) if data is not None else None, mode=FILE_MODE)
        finally:
            os.close(lock)


def read_from(keyring: KeyringStore, provider: str) -> str:
    value = keyring.get(provider)
    if not value:
        raise UsageError(
            f"the system's keyring has no key for '{provider}' any more: run 'mainspring login {provider}' to store "
            "it again"
        )
    return value


def is_same_server(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")
