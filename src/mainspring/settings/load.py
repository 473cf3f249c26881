"""Finds and loads settings. Without any settings, which is the usual case, no other module of settings is loaded.

It defines our folder in the user's home (settled 31), the paths of settings files, and `load_settings`. Finding the
files opens none of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mainspring import secrets
from mainspring.core.value import Bundle
from mainspring.settings.values import (
    ApiSettings,
    EffectiveSetting,
    SettingOrigin,
    Settings,
    SettingsError,
    SettingsSource,
    WrongOptionError,
)

TRUSTED = "trusted.json"  # in our folder: see `trust.py`
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


def other_homes(environ: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    """Where other front ends and programs store sessions (settled 31), without our own home; and whether ours is the
    usual one, which no variable names. With a variable, the user separates sessions: then lists show ours alone."""
    own, user = home_folder(environ), users_folder(environ).rstrip("/")
    said = [environ[name] for name in VARIABLES if environ.get(name, "").startswith("/")]
    usual = [f"{user}/.mainspring", f"{user}/.claude"] if user else []
    found = dict.fromkeys([_normal(one) for one in (*said, *usual)])
    return tuple([one for one in found if one != own]), not any(environ.get(name) for name in VARIABLES)


def compatible_home(environ: Mapping[str, str]) -> str | None:
    """For programs that drive Claude Code, and look there themselves. `CLAUDE_CONFIG_DIR` comes first: a client sets it
    for a session that it stores elsewhere.
    """
    theirs = environ.get("CLAUDE_CONFIG_DIR")
    return home_folder({"CLAUDE_CONFIG_DIR": theirs} if theirs else environ, compatible=True)


def with_compatible_home(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings and sessions are where the functions of the client look for them (settled 31)."""
    home = compatible_home(environ)
    return {**environ, **({VARIABLES[0]: home} if home is not None else {})}


def users_folder(environ: Mapping[str, str]) -> str:
    """The value of `~` in the session's environment, which in a host is not that of the process. Empty if it is not an
    absolute path.
    """
    said = environ.get("HOME", "")
    return (said.rstrip("/") or "/") if said.startswith("/") else os.path.expanduser("~")  # noqa: PTH111  # as above


def expand_tilde(path: str, home: str) -> str:
    """Replaces a leading `~`. Another user's home, `~name`, is not looked up."""
    return home.rstrip("/") + path[1:] or "/" if path == "~" or path.startswith("~/") else path


def _absolute(name: str, said: str) -> str:
    """A relative path would be looked up in whatever repository we are started in, which could then supply our
    settings.
    """
    if not said.startswith("/"):
        raise SettingsError(f"'{name}' is '{said}', but it must be an absolute path")
    return said


def _normal(path: str) -> str:
    if path.isascii():
        return path
    import unicodedata

    return unicodedata.normalize("NFC", path)  # as the client does, so that both find the same folder


# In each row the later file wins. In a project ours wins over Claude Code's (settled 31).
USER_FILES = ("settings.json", "settings.toml", "config.toml")
PROJECT_FILES = (
    ".claude/settings.json",
    ".mainspring/settings.json",
    ".mainspring/settings.toml",
    ".mainspring/config.toml",
)
LOCAL_FILES = (
    ".claude/settings.local.json",
    ".mainspring/settings.local.json",
    ".mainspring/settings.local.toml",
)
ADMINISTRATOR_FILES = (
    "/etc/claude-code/managed-settings.json",
    "/etc/mainspring/managed-settings.json",
    "/etc/mainspring/managed-settings.toml",
)
CHOSEN = (
    SettingsSource.USER,
    SettingsSource.PROJECT,
    SettingsSource.LOCAL,
)  # the values of the option "setting_sources"

# Variables that set a key (stream-json 1.3). They win over the files; the command line and the administrator win over
# them.
ADDRESS = "ANTHROPIC_BASE_URL"
SETTINGS_VARIABLES = {
    ADDRESS: "api.baseUrl",
    "ANTHROPIC_MODEL": "model",
    "CLAUDE_CODE_MAX_RETRIES": "api.maxRetries",
    "MAX_THINKING_TOKENS": "maxThinkingTokens",
}


class SettingsPaths(Bundle):
    """The paths of settings files."""

    home: str | None  # our folder in the user's home
    cwd: str
    administrator: tuple[str, ...] = ADMINISTRATOR_FILES

    def files(self, sources: tuple[str, ...] | None) -> Iterator[tuple[SettingsSource, str]]:
        """User, project and local, as far as they are selected (None: all), then the administrator's."""
        chosen = CHOSEN if sources is None else sources
        for word in chosen:
            if word not in CHOSEN:
                raise WrongOptionError("setting_sources", f" has '{word}'; valid values are {', '.join(CHOSEN)}")
        roots = ((SettingsSource.USER, self.home, USER_FILES), (SettingsSource.PROJECT, self.cwd, PROJECT_FILES))
        for source, folder, names in (*roots, (SettingsSource.LOCAL, self.cwd, LOCAL_FILES)):
            if folder and source in chosen:
                yield from [(source, f"{folder}/{name}") for name in names]
        yield from [(SettingsSource.ADMINISTRATOR, path) for path in self.administrator]


def is_anything_said(places: SettingsPaths, sources: tuple[str, ...] | None, environ: Mapping[str, str]) -> bool:
    """Whether there is any file, or any variable besides the address. A path that cannot be checked counts: the reader
    will report it.
    """
    variables = [name for name in SETTINGS_VARIABLES if name != ADDRESS and environ.get(name)]
    return bool(variables) or any(_is_there(path) for _, path in places.files(sources))


def _is_there(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116  # pathlib takes 8 ms to load
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def by_name(option: str, value: str = "") -> str:
    return f"{option}={value}" if value else option


class SettingsRequest(Bundle):
    """The options of a session that concern settings."""

    settings: str | Mapping[str, Any] | None = None  # a file, or the content of one
    sources: tuple[str, ...] | None = None  # None: all
    consented: bool = False  # a host drives us, and its explicit sources load what a project describes (settled 37)
    compatible: bool = False  # a program that was written for Claude Code drives us
    spell: Callable[..., str] = by_name  # the name of an option, as the user knows it
    shows_refused: bool = False  # nothing is started: keys that would stop a start are reported as problems


def load_settings(
    cwd: str,
    environ: Mapping[str, str],
    asked: SettingsRequest = SettingsRequest(),  # noqa: B008  # a frozen value
    *,
    administrator: tuple[str, ...] = ADMINISTRATOR_FILES,
) -> Settings:
    """The settings of this folder.

    Raises `SettingsError` if the administrator's file or the one that an option names is invalid. All other mistakes
    are in `problems`, and grant no right.
    """
    places = SettingsPaths(home_folder(environ, compatible=asked.compatible), cwd, administrator)
    if asked.settings is None and not is_anything_said(places, asked.sources, environ):
        return only_address(environ.get(ADDRESS, "").strip())
    from mainspring.settings.combine import combine_settings

    return combine_settings(places, environ, asked)


def only_address(address: str) -> Settings:
    """Many users set only this variable: it need not load all the rest."""
    if not address:
        return Settings()
    shown = address
    if "@" in address:
        shown = secrets.redact(address)
    value = EffectiveSetting(SETTINGS_VARIABLES[ADDRESS], shown, SettingOrigin(SettingsSource.ENVIRONMENT, ADDRESS))
    return Settings(api=ApiSettings(base_url=address), effective=(value,))
