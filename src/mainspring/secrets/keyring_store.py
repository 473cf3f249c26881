"""The system's keyring, through the package `keyring` (the extra of that name). It is loaded when a key is stored or
read.

Only back ends that encrypt are used, by a list of their modules: `keyring` would otherwise also take one that writes
plain text, one that forgets (null), or one that fails. Which one it takes depends on what is installed and on files
and variables of the user, so the list is checked each time.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

from mainspring.core.errors import UsageError

KEYRING = "keyring"  # the source of such a key
SERVICE = "mainspring"
ENCRYPTED = (
    "keyring.backends.SecretService",
    "keyring.backends.libsecret",
    "keyring.backends.kwallet",
    "keyring.backends.macOS",
    "keyring.backends.Windows",
)
CHAIN = "keyring.backends.chainer"  # asks several back ends in turn


class KeyringBackend(Protocol):
    """A back end of the package `keyring`."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


class KeyringStore:
    def __init__(self, backend: KeyringBackend) -> None:
        self._backend = backend

    def get(self, provider: str) -> str:
        """Empty: it has none. May wait for the user to unlock the keyring."""
        try:
            return self._backend.get_password(SERVICE, provider) or ""
        except Exception as error:  # noqa: BLE001  # each back end has its own
            raise explain_failure("read", provider, error) from None

    def set(self, provider: str, key: str) -> None:
        try:
            self._backend.set_password(SERVICE, provider, key)
        except Exception as error:  # noqa: BLE001
            raise explain_failure("store", provider, error) from None

    def delete(self, provider: str) -> None:
        try:
            if self._backend.get_password(SERVICE, provider) is not None:
                self._backend.delete_password(SERVICE, provider)
        except Exception as error:  # noqa: BLE001
            raise explain_failure("remove", provider, error) from None


def explain_failure(what: str, provider: str, error: Exception) -> UsageError:
    return UsageError(
        f"cannot {what} the key for '{provider}' in the system's keyring ({type(error).__name__}): unlock the keyring, "
        "and try again"
    )


def open_keyring() -> KeyringStore | None:
    """None: the package is not installed, or this system has no keyring that encrypts."""
    if find_spec("keyring") is None:
        return None
    try:
        package: Any = import_module("keyring")
        backend = find_encrypted_backend(package.get_keyring())
    except Exception:  # noqa: BLE001  # such as a broken configuration of that package: then the file is used
        return None
    return KeyringStore(backend) if backend is not None else None


def find_encrypted_backend(backend: object) -> KeyringBackend | None:
    """The back end itself, or the first good one of a chain. A subclass elsewhere may do anything, so it is none."""
    module = type(backend).__module__
    if module == CHAIN:
        chained = [find_encrypted_backend(one) for one in cast("Any", backend).backends]
        return next((one for one in chained if one is not None), None)
    return cast("KeyringBackend", backend) if module in ENCRYPTED else None
