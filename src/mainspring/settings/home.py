"""Our folder in the user's home (settled 31)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mainspring.settings.values import SettingsError

TRUSTED = "trusted.json"  # in it: see `trust.py`
VARIABLES = ("MAINSPRING_HOME", "CLAUDE_CONFIG_DIR")


def home_folder(environ: Mapping[str, str], *, compatible: bool = False) -> str | None:
    """None: there is no home. `compatible` is for programs that drive Claude Code."""
    for name in VARIABLES:
        if environ.get(name):
            return _normal(_absolute(name, environ[name]))
    user = environ.get("HOME") or users_folder({})
    if not user.startswith("/"):  # no such user, as in some containers
        return None
    return _normal(f"{user.rstrip('/')}/{'.claude' if compatible else '.mainspring'}")


def compatible_home(environ: Mapping[str, str]) -> str | None:
    """For programs that drive Claude Code, and look there themselves. `CLAUDE_CONFIG_DIR` comes first: a client sets
    it for a session that it keeps elsewhere."""
    theirs = environ.get("CLAUDE_CONFIG_DIR")
    return home_folder({"CLAUDE_CONFIG_DIR": theirs} if theirs else environ, compatible=True)


def with_compatible_home(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings and sessions lie where the functions of the client look for them (settled 31)."""
    home = compatible_home(environ)
    return {**environ, **({VARIABLES[0]: home} if home is not None else {})}


def users_folder(environ: Mapping[str, str]) -> str:
    """What `~` stands for: by the environment of the session, which within a program is not that of the process. One
    that is no absolute path stands for nothing."""
    said = environ.get("HOME", "")
    return (said.rstrip("/") or "/") if said.startswith("/") else os.path.expanduser("~")  # noqa: PTH111  # as above


def expand_tilde(path: str, home: str) -> str:
    """With what a leading `~` stands for. Another user's home, `~name`, is not looked up."""
    return home.rstrip("/") + path[1:] or "/" if path == "~" or path.startswith("~/") else path


def _absolute(name: str, said: str) -> str:
    """A relative one would be looked for in whatever repository we are started in: that could bring our settings."""
    if not said.startswith("/"):
        raise SettingsError(f"'{name}' is '{said}'; it must be an absolute path")
    return said


def _normal(path: str) -> str:
    if path.isascii():
        return path
    import unicodedata

    return unicodedata.normalize("NFC", path)  # as the client does it, so that both find the same folder
