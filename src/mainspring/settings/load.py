"""The way in. Where nobody said anything, which is most often, nothing but this is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mainspring.core.value import Bundle
from mainspring.settings.home import home_folder
from mainspring.settings.places import ADDRESS, ADMINISTRATOR_FILES, VARIABLES, SettingsPaths, is_anything_said
from mainspring.settings.values import ApiSettings, EffectiveSetting, SettingOrigin, Settings, SettingsSource


def by_name(option: str, value: str = "") -> str:
    return f"{option}={value}" if value else option


class SettingsRequest(Bundle):
    """What the options of a session say about settings."""

    settings: str | Mapping[str, Any] | None = None  # a file, or what one holds
    sources: tuple[str, ...] | None = None  # None: all
    consented: bool = False  # a program drives us, and its explicit sources load what a project describes (settled 37)
    compatible: bool = False  # we are driven by a program that was written for Claude Code
    spell: Callable[..., str] = by_name  # the name of an option, as the user knows it
    shows_refused: bool = False  # nothing is started: keys that would stop a start are named among the problems


def load_settings(
    cwd: str,
    environ: Mapping[str, str],
    asked: SettingsRequest = SettingsRequest(),  # noqa: B008  # a frozen value
    *,
    administrator: tuple[str, ...] = ADMINISTRATOR_FILES,
) -> Settings:
    """What holds in this folder.

    Raises `SettingsError` when the administrator's file or the one that an option names is broken. Everything else that
    is wrong is in `problems`, and gives no right to anybody.
    """
    places = SettingsPaths(home_folder(environ, compatible=asked.compatible), cwd, administrator)
    if asked.settings is None and not is_anything_said(places, asked.sources, environ):
        return only_address(environ.get(ADDRESS, "").strip())
    from mainspring.settings.combine import combine_settings

    return combine_settings(places, environ, asked)


def only_address(address: str) -> Settings:
    """Many who set nothing else set this: it need not load all the rest."""
    if not address:
        return Settings()
    shown = address
    if "@" in address:
        from mainspring.secrets.redaction import redact

        shown = redact(address)
    value = EffectiveSetting(VARIABLES[ADDRESS], shown, SettingOrigin(SettingsSource.ENVIRONMENT, ADDRESS))
    return Settings(api=ApiSettings(base_url=address), effective=(value,))
