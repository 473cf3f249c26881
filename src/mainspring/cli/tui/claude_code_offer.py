"""The question of the first start about a set-up of Claude Code: use all of it, a part, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rich.text import Text

from mainspring.agent.options import StartError
from mainspring.cli.claude_code_setup import (
    BOTH,
    NOTHING,
    SERVERS,
    SETTINGS,
    ClaudeCodeSetup,
    copy_claude_code,
    describe_parts,
    describe_read_anyway,
    find_claude_code,
)
from mainspring.cli.tui.dialog import PageDialog
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing
from mainspring.cli.tui.menu import Clock, Menu, MenuItem, MenuSelection
from mainspring.cli.tui.setup_screen import SetupStage, ask_on

ONLY = {SETTINGS: "Only the settings", SERVERS: "Only the MCP servers"}


async def offer_claude_code(stage: SetupStage, environ: Mapping[str, str]) -> str:
    """Returns a line for the user; empty: nothing was copied. Escape means later: the next start asks again."""
    found = await asyncio.to_thread(find_claude_code, environ)
    if found is None:
        return ""
    answer = await ask_on(stage, make_offer(found, now=stage.attended))
    if answer is None:
        return ""
    try:
        return await asyncio.to_thread(copy_claude_code, found, answer, environ)
    except StartError as error:
        return f"Not copied: {error}."


def make_offer(found: ClaudeCodeSetup, *, now: Clock) -> PageDialog[str | None]:
    parts, anyway = describe_parts(found), describe_read_anyway(found)
    lines = [Text("Found in your home:", "note"), *[Text(f"  • {clean_for_drawing(one)}") for one in parts.values()]]
    if anyway:
        lines += [Text(), Text(f"mainspring reads these already: {anyway}.", "note")]
    lines += [
        Text(),
        Text("Hooks, allow rules and MCP servers among them can run commands, as in Claude Code.", "note"),
    ]
    rows = [(BOTH if len(parts) > 1 else next(iter(parts)), "Yes, copy them to my settings of mainspring")]
    rows += [(part, ONLY[part]) for part in parts] if len(parts) > 1 else []
    rows += [(NOTHING, "No, and do not ask again")]

    def meant(picked: MenuSelection | None) -> str | None:
        return None if picked is None else rows[picked.places[0]][0]

    menu = Menu([MenuItem(words) for _, words in rows])
    return PageDialog(
        "Claude Code", ScrollPage.of(*lines), menu, meant, now=now, asks="Use your Claude Code set-up here?",
        ways_out=(("esc", "later"),), grants=True,
    )  # fmt: skip
