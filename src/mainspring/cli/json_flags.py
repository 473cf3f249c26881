"""Flags whose value is JSON: read once, here; what the session gets are values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mainspring.agent.options import OptionError, read_option
from mainspring.cli.flags import spell_option
from mainspring.cli.telling import print_stderr


def read_json_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of them that are JSON. Raises `OptionError`."""
    read: dict[str, Any] = {}
    if "settings" in given:
        read["settings"] = read_option("settings", given["settings"], spell_option)
    if "mcp_servers" in given:
        read["mcp_servers"] = tuple([read_option("mcp_servers", text, spell_option) for text in given["mcp_servers"]])
    if "output_schema" in given:
        read["output_schema"] = decode_json_flag("output_schema", given["output_schema"], "")
    if "agents" in given:
        read["agents"] = decode_json_flag("agents", given["agents"], "it is no object of agents by name: ")
        for name in named_twice(given["agents"]):
            print_stderr(f"'--agents' has '{name}' twice: the last one counts")
    return read


def decode_json_flag(option: str, text: str, why: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise OptionError(option, f" cannot be understood: {why}{error}", spell=spell_option) from None


def named_twice(text: str) -> list[str]:
    import json  # it tells of each name; msgspec does not

    found: list[str] = []

    def pairs(all_of_them: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in all_of_them]
        found[:] = sorted({name for name in names if names.count(name) > 1})  # the outermost is the last
        return dict(all_of_them)

    json.loads(text, object_pairs_hook=pairs)
    return found
