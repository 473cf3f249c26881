"""Where settings are looked for. No file is opened here, and little is loaded: most starts find none of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from mainspring.core.value import Bundle
from mainspring.settings.values import SettingsSource, WrongOptionError

# In each row the later file wins. In a project ours stands above Claude Code's (settled 31).
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
)  # the words of the option "setting_sources"

# Variables that say what a key says (stream-json 1.3). They stand above the files, and below
# the command line and the administrator.
ADDRESS = "ANTHROPIC_BASE_URL"
VARIABLES = {
    ADDRESS: "api.baseUrl",
    "ANTHROPIC_MODEL": "model",
    "CLAUDE_CODE_MAX_RETRIES": "api.maxRetries",
    "MAX_THINKING_TOKENS": "maxThinkingTokens",
}


class SettingsPaths(Bundle):
    """Where to look."""

    home: str | None  # our folder in the user's home
    cwd: str
    administrator: tuple[str, ...] = ADMINISTRATOR_FILES

    def files(self, sources: tuple[str, ...] | None) -> Iterator[tuple[SettingsSource, str]]:
        """User, project and local, as far as they were chosen (None: all), then the administrator's."""
        chosen = CHOSEN if sources is None else sources
        for word in chosen:
            if word not in CHOSEN:
                raise WrongOptionError("setting_sources", f" has '{word}'; it takes {', '.join(CHOSEN)}")
        roots = ((SettingsSource.USER, self.home, USER_FILES), (SettingsSource.PROJECT, self.cwd, PROJECT_FILES))
        for source, folder, names in (*roots, (SettingsSource.LOCAL, self.cwd, LOCAL_FILES)):
            if folder and source in chosen:
                yield from [(source, f"{folder}/{name}") for name in names]
        yield from [(SettingsSource.ADMINISTRATOR, path) for path in self.administrator]


def is_anything_said(places: SettingsPaths, sources: tuple[str, ...] | None, environ: Mapping[str, str]) -> bool:
    """Whether there is any file, or variable but the address. What cannot be looked up counts: it will be reported."""
    variables = [name for name in VARIABLES if name != ADDRESS and environ.get(name)]
    return bool(variables) or any(_is_there(path) for _, path in places.files(sources))


def _is_there(path: str) -> bool:
    try:
        os.stat(path)  # noqa: PTH116  # pathlib takes 8 ms to load
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
