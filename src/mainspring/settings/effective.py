"""The effective settings and where each comes from, as text: `mainspring config`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.core.money import NANOS_PER_USD
from mainspring.secrets.redaction import redact
from mainspring.settings.keys import BY_NAME, MergeRule
from mainspring.settings.values import (
    EffectiveSetting,
    McpServerMatch,
    SettingEntry,
    SettingOrigin,
    Settings,
    SettingsSource,
)

if TYPE_CHECKING:
    from mainspring.settings.layers import SettingsLayer


def format_origins(settings: Settings) -> list[str]:
    """Lines: each effective value and its origin. Then the problems."""
    width = max([len(value.name) for value in settings.effective], default=0)
    lines = [
        f"{value.name:<{width}}  {value.shown}  ({value.origin.source}: {value.origin.place})"
        for value in settings.effective
    ]
    return [*lines, *[f"{problem.kind}: {problem}" for problem in settings.problems]]


def fill_effective(
    settings: Settings, last: Mapping[str, tuple[object, SettingOrigin]], layers: Sequence[SettingsLayer]
) -> Settings:
    """The same settings, with `effective` filled in."""
    found = [
        EffectiveSetting(name, _shown(name, value), origin)
        for name, (value, origin) in last.items()
        if BY_NAME[name].merge in (MergeRule.OVERRIDE, MergeRule.LEAST)
        and not (name == "statusLine" and settings.status_line is None)  # it is switched off with the hooks
    ]
    lists: dict[str, tuple[SettingEntry, ...]] = {
        "permissions.allow": settings.permissions.allow,
        "permissions.deny": settings.permissions.deny,
        "permissions.ask": settings.permissions.ask,
        "permissions.additionalDirectories": settings.permissions.directories,
    }
    found += [EffectiveSetting(name, entry.text, entry.origin) for name, entries in lists.items() for entry in entries]
    found += [EffectiveSetting(f"hooks.{hook.event}", hook.matcher or "*", hook.origin) for hook in settings.hooks]
    domains, managed_only = "sandbox.network.allowedDomains", settings.sandbox.managed_domains_only
    found += [
        value
        for value in _named(layers)
        if not (managed_only and value.name == domains and value.origin.source is not SettingsSource.ADMINISTRATOR)
    ]
    return replace(settings, effective=tuple(sorted(found, key=lambda value: value.name)))


def _named(layers: Sequence[SettingsLayer]) -> list[EffectiveSetting]:
    """Variables by name only, since their values are often secrets; and lists that have no entries of their own."""
    said: dict[str, EffectiveSetting] = {}
    for layer in layers:
        for key, value in layer.values.items():
            if BY_NAME[key].merge is MergeRule.BY_NAME and isinstance(value, dict):
                for name in value:  # pyright: ignore[reportUnknownVariableType]
                    said[f"{key}.{name}"] = EffectiveSetting(f"{key}.{name}", "set", layer.origin)
            elif BY_NAME[key].merge is MergeRule.ADD and not key.startswith(("permissions.", "hooks")):
                shown = ", ".join(map(_item, value)) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType]
                said[f"{key} {layer.origin.place}"] = EffectiveSetting(key, shown, layer.origin)
    return list(said.values())


def _item(value: object) -> str:
    """An entry of a list."""
    if isinstance(value, McpServerMatch):
        return value.name or value.url or " ".join(value.command)
    return str(value)


def _shown(name: str, value: object) -> str:
    if name == "api.maxCostUsd" and isinstance(value, int):
        return f"{value / NANOS_PER_USD:g}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join([str(item) for item in value])  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    return redact(str(value))
