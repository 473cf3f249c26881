"""Options that a person or a program may give as JSON text, where a file's name could stand, too."""

from __future__ import annotations

from typing import Any

from mainspring.agent.options import OptionError, Spell
from mainspring.settings.read import UnreadableSettings, parse_settings_text


def read_option(option: str, said: str, spell: Spell) -> str | dict[str, Any]:
    """What the text holds, if it begins with a brace; else it is a path. Raises `OptionError`."""
    if not said.lstrip().startswith("{"):
        return said
    try:
        return parse_settings_text(said.encode(errors="surrogatepass")).tree
    except UnreadableSettings as broken:
        raise OptionError(option, f" cannot be read{broken.where}: {broken.says}", spell=spell) from None
