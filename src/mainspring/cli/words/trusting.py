"""`/trust`: what this folder brings takes effect, from now on and in this conversation; or no longer."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from mainspring.agent.options import StartError
from mainspring.cli import trusting
from mainspring.cli.output import Style
from mainspring.cli.words.telling import tell, usage
from mainspring.core.errors import UsageError

if TYPE_CHECKING:
    from mainspring.cli.talk import Talk


async def trust(talk: Talk, words: str) -> None:
    folder, is_trusted = talk.config.cwd, talk.world.around.memory.where.trusted
    if words not in ("", "remove"):
        usage(talk, "'/trust' trusts this folder, '/trust remove' takes that back.")
    elif is_trusted is not bool(words):
        already = "trusted already: '/trust remove' takes it back" if is_trusted else "not trusted: '/trust' trusts it"
        tell(talk, f"'{folder}' is {already}.", Style.DIM)
    else:
        try:
            await (give(talk, folder) if not words else take_back(talk, folder))
        except (StartError, UsageError, OSError) as error:
            tell(talk, f"Nothing has changed: {error}", Style.YELLOW)


async def give(talk: Talk, folder: str) -> None:
    held = await asyncio.to_thread(trusting.held_back, talk)
    trusting.give(folder, os.environ)
    what = f"From now on these count: {', '.join(held)}." if held else "It brings nothing that waited for it."
    tell(talk, f"'{folder}' is trusted. {what}", Style.DIM)
    await begin_again(talk)


async def take_back(talk: Talk, folder: str) -> None:
    trusting.take_back(folder, os.environ)
    tell(talk, f"'{folder}' is no longer trusted.", Style.DIM)
    await begin_again(talk)


async def begin_again(talk: Talk) -> None:
    """Who is trusted is known from here on at any rate; what cannot take effect now does when one begins anew."""
    try:
        await talk.change(talk.session.reload())
    except (StartError, UsageError) as error:  # such as an address in the environment that was changed meanwhile
        tell(talk, f"This conversation goes on as it was: {error}", Style.YELLOW)
