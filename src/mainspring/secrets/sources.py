"""Where the key for the model comes from: the first of argument, helper command, environment, stored key, file
(security K1).

A project's files are not among them, and settings take the helper from the user's side only (security T2). Every start
runs this, so a helper, stored keys (`credentials.py`) and a file are loaded only if there is one. A key file must be
readable by its owner only, or it is not used (security K1).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Awaitable, Callable, Mapping

from mainspring import secrets
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.secrets.held import bind_scope, hold_key, hold_proxies

API_KEY, AUTH_TOKEN = "x-api-key", "authorization"  # the headers
BOTH = "both"  # both headers: a helper may print either, and Claude Code sends it as both
VARIABLES = {"ANTHROPIC_API_KEY": API_KEY, "ANTHROPIC_AUTH_TOKEN": AUTH_TOKEN}  # the first that is set counts
ARGUMENT, HELPER, FILE, NONE = "argument", "apiKeyHelper", "key file", "none"
FILE_NAME = "key"  # in our folder in the user's home
CREDENTIALS = "credentials.json"  # there, too: the stored keys, or that they are in the keyring
ANTHROPIC, ANTHROPIC_HOME = "anthropic", "https://api.anthropic.com"
CONSOLE = "sk-ant-api"  # prefix of keys of Anthropic's console; anything else in a file is a token
LONGEST = 16 * 1024  # characters; signed tokens are long


class KeyRequest(Bundle):
    """The sources that may have a key."""

    environ: Mapping[str, str]
    home: str | None  # our folder in the user's home
    cwd: str  # programs in there are not the user's
    argument: str = ""
    helper: str | None = None  # a command, from the settings of the user or the administrator
    lifetime: int | None = None  # seconds that a helper's key is used; None: not set
    address: str = ""  # where the key goes; empty: to Anthropic. A stored key goes only where it was stored for


class ResolvedKey(Bundle):
    """A key, or the way to get it. `refresh` gets another one when this one is refused; `is_stale` says when to get one
    without waiting for that.
    """

    source: str
    value: str = ""  # empty: there is none, or the helper has not run yet
    header: str = API_KEY
    refresh: Callable[[], Awaitable[str]] | None = None
    is_stale: Callable[[], bool] | None = None

    def __repr__(self) -> str:
        return f"Found({self.source})"  # shown in tracebacks and logs

    @property
    def is_any(self) -> bool:
        return bool(self.value) or self.refresh is not None


def find_key(wanted: KeyRequest) -> ResolvedKey:
    """Raises `UsageError` for a key that exists and cannot be used: no other one replaces it."""
    hold_proxies(wanted.environ)
    for name in VARIABLES:
        hold_key(wanted.environ.get(name, "").strip())  # also a key that is not used
    if wanted.argument:
        value = validate_key(wanted.argument, "the given key")
        return ResolvedKey(ARGUMENT, value, header_of(value))
    if wanted.helper:
        helper = secrets.KeyHelper(wanted.helper, wanted.environ, cwd=wanted.cwd, lifetime=wanted.lifetime)
        return ResolvedKey(HELPER, header=BOTH, refresh=helper.refresh, is_stale=helper.is_stale)
    for name, header in VARIABLES.items():
        if value := wanted.environ.get(name, "").strip():
            return ResolvedKey(name, validate_key(value, f"'{name}'"), header)
    if wanted.home is not None and os.path.lexists(f"{wanted.home}/{CREDENTIALS}"):
        stored = secrets.Credentials(wanted.home).find(ANTHROPIC, wanted.address or ANTHROPIC_HOME)
        if stored is not None:
            return stored
    file = f"{wanted.home}/{FILE_NAME}"
    if wanted.home is None or not os.path.lexists(file):
        return ResolvedKey(NONE)
    kept = KeyFile(file)
    value = kept.read()
    return ResolvedKey(FILE, value, header_of(value), refresh=kept.refresh)


def list_present_keys(wanted: KeyRequest) -> list[str]:
    """The names of all sources with a key, in order: only the first is used."""
    found = [ARGUMENT] if wanted.argument else []
    found += [HELPER] if wanted.helper else []
    found += [name for name in VARIABLES if wanted.environ.get(name, "").strip()]
    if wanted.home is not None and os.path.lexists(f"{wanted.home}/{CREDENTIALS}"):
        stored = secrets.Credentials(wanted.home).source_of(ANTHROPIC, wanted.address or ANTHROPIC_HOME)
        found += [stored] if stored else []
    return found + ([FILE] if wanted.home is not None and os.path.lexists(f"{wanted.home}/{FILE_NAME}") else [])


def header_of(value: str) -> str:
    return API_KEY if value.startswith(CONSOLE) else AUTH_TOKEN


def headers_of(header: str, value: str) -> dict[str, str]:
    """The headers of a request. None without a key: a local server needs none."""
    both = {API_KEY: value, AUTH_TOKEN: f"Bearer {value}"}
    return {name: said for name, said in both.items() if value and header in (name, BOTH)}


def validate_key(value: str, name: str) -> str:
    """A key is one word that fits in a header. The value itself is never in a message."""
    value = value.strip()
    if not (value.isascii() and value.isprintable()) or " " in value or not 0 < len(value) <= LONGEST:
        raise UsageError(f"{name} is not a valid key: a key is one word of at most {LONGEST:,} ASCII characters")
    hold_key(value)
    return value


_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
OTHERS = 0o077
OTHERS_WRITE = 0o022


class KeyFile:
    def __init__(self, path: str) -> None:
        self.path = path
        self._checked = bind_scope(validate_key)

    def read(self) -> str:
        data = read_private_file(self.path, LONGEST + 2)
        return self._checked(data.decode(errors="replace"), f"the content of '{self.path}'")

    async def refresh(self) -> str:
        """The user may have stored another key."""
        return self.read()


def read_private_file(path: str, limit: int) -> bytes:
    """A file that only its owner can read, in a folder that only its owner can change; at most `limit` bytes of it.
    Checks the opened file: its name may belong to another file by then."""
    check_private_folder(path)
    try:
        fd = os.open(path, _READ)
    except OSError as error:
        link = error.errno == errno.ELOOP
        why = "is a link: replace it with the file itself" if link else f"cannot be read: {error.strerror}"
        raise UsageError(f"'{path}' {why}") from None
    try:
        check_private_file(os.fstat(fd), path)
        return os.read(fd, limit)
    finally:
        os.close(fd)


def check_private_file(found: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"'{path}' is not a file: put your key into a file, and run 'chmod 600' on it")
    check_owner(found, path)
    if stat.S_IMODE(found.st_mode) & OTHERS:
        raise UsageError(
            f"'{path}' can be read by others, so it is not used: run 'chmod 600 {path}'; if they may have read it, get "
            "a new key"
        )


def check_private_folder(path: str) -> None:
    """A user who can write to the folder can put another key there, and read what we send with it."""
    folder = os.path.dirname(path)  # noqa: PTH120  # pathlib takes 8 ms to load
    found = os.stat(folder)  # noqa: PTH116
    check_owner(found, folder)
    if stat.S_IMODE(found.st_mode) & OTHERS_WRITE:
        raise UsageError(f"others can write to '{folder}', so the key in it is not used: run 'chmod 700 {folder}'")


def check_owner(found: os.stat_result, path: str) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise UsageError(f"'{path}' belongs to another user, so it is not used: change its owner with 'chown'")
