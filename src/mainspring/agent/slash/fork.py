"""`/fork`: continue with a branch of this conversation. The original is kept; files are not changed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mainspring.agent.options import StartError
from mainspring.agent.prompt_list import list_prompts_in_file
from mainspring.agent.rewind import find_prompt_in_file
from mainspring.agent.slash.lines import SlashCommandError, TextStyle, clean_line, file_of, print_line
from mainspring.text import plural, strip_control_characters

if TYPE_CHECKING:
    from mainspring.agent.slash.lines import SlashContext


async def fork(talk: SlashContext, number: str) -> None:
    file, journal = file_of(talk), talk.opened.journal
    if journal is None or not journal.stored:
        raise SlashCommandError("Cannot fork: this session is not stored.")
    prompts = await asyncio.to_thread(list_prompts_in_file, file) if file else []
    if not prompts:
        raise SlashCommandError("Nothing to fork yet.")
    if number and not (number.isdecimal() and 0 < int(number) <= len(prompts)):
        raise SlashCommandError(
            f"No prompt '{clean_line(number)}': {plural(len(prompts), 'prompt')} so far; 1 is the last one."
        )
    await fork_at(talk, file, prompts[-int(number)].id if number else "")


async def fork_at(talk: SlashContext, file: str, prompt_id: str) -> None:
    """Before this prompt; without one, with the whole conversation."""
    original, point = talk.world.about.session_id, None
    try:
        if prompt_id:
            point = await asyncio.to_thread(find_prompt_in_file, file, prompt_id)
        begins_anew = point is not None and not point.last
        last = point.last if point is not None else None
        await talk.change(talk.session.clear() if begins_anew else talk.session.fork(last))
    except StartError as error:
        raise SlashCommandError(f"Cannot fork: {error}") from None
    where = "before that prompt" if point is not None else "here"
    if point is not None:
        talk.draft = strip_control_characters(point.text)
    told = f"Forked {where}. This is a new session; the original is unchanged. Type /resume {original[:8]} to go back."
    print_line(talk, told, TextStyle.DIM)
