"""A file that holds a key: for its owner's eyes only, or it is not used (security K1)."""

from __future__ import annotations

import errno
import os
import stat

from mainspring.core.errors import UsageError
from mainspring.secrets.held import bind_scope
from mainspring.secrets.sources import LONGEST, validate_key

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
OTHERS = 0o077
OTHERS_WRITE = 0o022


class KeyFile:
    def __init__(self, path: str) -> None:
        self.path = path
        self._checked = bind_scope(validate_key)

    def read(self) -> str:
        """What is looked at is what was opened: its name may be another's by then."""
        self._check_folder()
        try:
            fd = os.open(self.path, _READ)
        except OSError as error:
            link = error.errno == errno.ELOOP
            why = "is a link: put the file itself there" if link else f"cannot be read: {error.strerror}"
            raise UsageError(f"'{self.path}' {why}") from None
        try:
            self._check(os.fstat(fd))
            data = os.read(fd, LONGEST + 2)
        finally:
            os.close(fd)
        return self._checked(data.decode(errors="replace"), f"what stands in '{self.path}'")

    async def refresh(self) -> str:
        """Somebody may have put another one there."""
        return self.read()

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"'{self.path}' is no file: put your key into a file, and 'chmod 600' it")
        self._check_owner(found, self.path)
        if stat.S_IMODE(found.st_mode) & OTHERS:
            raise UsageError(
                f"'{self.path}' can be read by others, so it is not used: 'chmod 600 {self.path}'; and if they may "
                "have read it, get a new key"
            )

    def _check_folder(self) -> None:
        """Who can write to it can put a key of their own there, and read what we send with it."""
        folder = os.path.dirname(self.path)  # noqa: PTH120  # pathlib takes 8 ms to load
        found = os.stat(folder)  # noqa: PTH116
        self._check_owner(found, folder)
        if stat.S_IMODE(found.st_mode) & OTHERS_WRITE:
            raise UsageError(f"others can write to '{folder}', so the key in it is not used: 'chmod 700 {folder}'")

    def _check_owner(self, found: os.stat_result, path: str) -> None:
        if found.st_uid not in (os.geteuid(), 0):
            raise UsageError(f"'{path}' belongs to another user, so it is not used: make it your own with 'chown'")
