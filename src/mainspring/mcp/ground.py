"""Where servers that are programs start, and which programs are none of theirs (security T1).

The user has chosen a server, and not what a repository has put in its place: many a program runs what it finds in the
folder that it is started in (`python -m`, `npx`). So where the working folder is not trusted, servers start in a folder
of ours, and no program and no library is looked for in the working folders. What the user names in `args` is passed as
it stands: whoever gives the whole path of a project's script there has chosen the script, and a relative one counts
from where the server starts.
"""

# ruff: noqa: PTH103, PTH111  # pathlib takes 8 ms to load

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.processes.paths import is_within

NAME = "mcp"  # of the folder, in our home
NOWHERE = "/"  # where nobody but the administrator writes
WAY_OUT = "this folder is not trusted; 'mainspring trust' trusts it"

# Variables whose folders bring programs and libraries. A relative folder is the project's own, too.
BRINGS_CODE = (
    "PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NODE_PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PERL5LIB",
    "RUBYLIB", "GEM_HOME", "GEM_PATH", "CLASSPATH",
)  # fmt: skip


class ServerDirectory(Bundle):
    project: str  # the working folder
    trusted: bool = False  # by the user
    home: str | None = None  # our folder in the user's home
    folders: tuple[str, ...] = ()  # other working folders

    def folder(self) -> str:
        """Where to start; ours is made where it is missing. Raises `UsageError` if it is not ours alone."""
        if self.trusted:
            return self.project
        if self.home is None:
            return NOWHERE
        place = f"{self.home}/{NAME}"
        try:
            os.makedirs(place, 0o700, exist_ok=True)
            found = os.lstat(place)
        except FileExistsError:
            raise UsageError(f"'{place}' is no folder of ours: remove it") from None
        except OSError:  # nothing can be written there, so nobody has put anything there either
            return NOWHERE
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise UsageError(f"'{place}' is no folder of ours: remove it")
        if stat.S_IMODE(found.st_mode) & 0o022:
            raise UsageError(f"'{place}' can be written by others: look into it, then 'chmod 700 {place}'")
        return place

    def is_theirs(self, place: str) -> bool:
        """Whether an absolute path, or what it leads to, lies in a working folder that is not trusted."""
        if self.trusted:
            return False
        names = (os.path.normpath(place), os.path.realpath(place))
        folders = [name for one in (self.project, *self.folders) for name in (one, os.path.realpath(one))]
        return any(is_within(name, folder) for name in names for folder in folders if folder.strip("/"))

    def relative(self, args: Iterable[str]) -> str:
        """The first of these words that names something as seen from the project, but is looked for elsewhere; else
        nothing."""
        if self.trusted:
            return ""
        named = [word for word in args if word and not word.startswith(("/", "-", "~"))]
        return next((word for word in named if os.path.lexists(os.path.join(self.project, word))), "")  # noqa: PTH118

    def safe(self, env: Mapping[str, str]) -> dict[str, str]:
        """What a server finds in its environment."""
        if self.trusted:
            return dict(env)
        found = {name: self._outside(value) if name in BRINGS_CODE else value for name, value in env.items()}
        return {name: value for name, value in found.items() if value or name not in BRINGS_CODE}

    def _outside(self, value: str) -> str:
        return ":".join([one for one in value.split(":") if one.startswith("/") and not self.is_theirs(one)])

    def find(self, name: str, path: str) -> str:
        """The program itself: a name is looked for along `path`, anything else is a path. Raises `UsageError`."""
        return self._by_path(name) if "/" in name else self._along(name, path)

    def _by_path(self, name: str) -> str:
        named = os.path.expanduser(name)
        place = os.path.join(self.project, named)  # noqa: PTH118
        if not self.trusted and not named.startswith("/"):  # also '../x': who stands elsewhere means another one
            raise UsageError(f"'{name}' is a relative path, and {WAY_OUT}. Or give its whole path as 'command'")
        if self.is_theirs(place):
            raise UsageError(f"'{place}' lies in the working folder, and {WAY_OUT}")
        if os.access(place, os.X_OK):
            return place
        raise UsageError(f"there is no program '{place}': mend 'command'")

    def _along(self, name: str, path: str) -> str:
        passed_over = ""
        for folder in path.split(":"):
            place = f"{folder}/{name}"
            if not folder.startswith("/") or not os.access(place, os.X_OK) or os.path.isdir(place):  # noqa: PTH112
                continue
            if not self.is_theirs(place):
                return place
            passed_over = passed_over or place
        if passed_over:
            raise UsageError(f"'{name}' is on PATH in the working folder only ('{passed_over}'), and {WAY_OUT}")
        raise UsageError(f"there is no program '{name}' on PATH: install it, or give its whole path as 'command'")
