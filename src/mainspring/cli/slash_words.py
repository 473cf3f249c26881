"""What the words with a slash do in a conversation. Which there are, for every door, is in `assembly/own_words.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.assembly.harmless import harmless
from mainspring.assembly.options import StartError
from mainspring.assembly.own_words import TERMINAL, names_at, words_at
from mainspring.assembly.said import others
from mainspring.assembly.words import clip
from mainspring.cli.output import Style
from mainspring.core.errors import ToolError, UsageError

if TYPE_CHECKING:
    from mainspring.cli.talk import Talk
    from mainspring.permissions.rules import Broken, Rule

HELP = """\
/NAME [words]           A skill or a command of yours, or of a trusted project: they stand below
@PATH                   A file or a folder that goes along; '@a.py#L10-20' is a part of one
!COMMAND                Run it yourself, here: the model is not told
+500k ...               Go on until so many tokens were written
A backslash at the end of a line says that more is to come.
A paste is one prompt, however many lines it has."""

COLUMN = 23
MOST_LISTED = 50  # skills and commands
MOST_SESSIONS = 20
LONGEST_ABOUT = 90  # columns of what is said of each

Does = Callable[["Talk", str], Awaitable[None]]


async def understood(word: str, words: str, talk: Talk) -> str:
    """The prompt that `/word words` stands for; empty if it was for us, or nobody knows it: a slip costs nothing."""
    own = next((one for one in words_at(TERMINAL) if one.name == word), None)
    if own is not None:
        if words and not own.hint:
            talk.output.line(f"'/{word}' takes no words.", Style.DIM)
        elif word in DOES:
            await DOES[word](talk, words)
        return ""
    try:
        return talk.world.skill(word, words)
    except ToolError as error:
        talk.output.line(f"{harmless(str(error).rstrip('.'))}{hint(word, talk)}", Style.DIM)
        return ""


def hint(word: str, talk: Talk) -> str:
    from mainspring.core.meant import meant

    own = names_at(TERMINAL)
    near = meant(word, (*own, *[one.name for one in others(talk.world.around, own)]))
    return f". Did you mean '/{harmless(near)}'?" if near else ": '/help' says what there is."


async def show_help(talk: Talk, _: str) -> None:
    output = talk.output
    for word in words_at(TERMINAL):
        output.line(f"{f'/{word.name} {word.hint}':<{COLUMN}} {word.about}")
    output.line(HELP)
    found = (*others(talk.world.around, names_at(TERMINAL)), *talk.world.servers.words())
    for one in found[:MOST_LISTED]:
        name = harmless(f"/{one.name} {one.hint}".rstrip())
        output.line(f"{name:<{COLUMN}} {clip(harmless(one.about), LONGEST_ABOUT)}".rstrip(), Style.DIM)
    if len(found) > MOST_LISTED:
        output.line(f"and {len(found) - MOST_LISTED} more", Style.DIM)


async def show_context(talk: Talk, _: str) -> None:
    from mainspring.cli.context_command import lines_of

    try:
        for line in lines_of(talk.world.about.session_id):
            talk.output.line(line)
    except StartError:
        talk.output.line("There is nothing in the conversation yet.", Style.DIM)


async def show_cost(talk: Talk, _: str) -> None:
    for line in talk.cost.lines():
        talk.output.line(line)


# --- which model ------------------------------------------------------------------------------------------


async def model(talk: Talk, name: str) -> None:
    if not name:
        talk.output.line(f"{talk.model.name}. '/model NAME' asks another one, '/model default' {default(talk)} again.")
        return
    from mainspring.assembly.agents import Ways
    from mainspring.assembly.slips import slip_in_model

    session, ways = talk.world.session, Ways(talk.parts)
    try:
        if slip := slip_in_model(name, talk.parts.settings):
            raise UsageError(slip)
        wanted = ways.model(name) if name != "default" else None
        if wanted is not None and ways.provider(wanted.name) is not talk.parts.model.provider:
            raise UsageError(f"the model '{name}' is on another server: 'mainspring --model {name}' asks it")
    except (UsageError, StartError) as error:
        talk.output.line(f"The model stays: {harmless(str(error))}", Style.YELLOW)
        return
    await session.change(replace(session.shared.policy, model=wanted))
    talk.output.line(f"From now on: {talk.model.name}.", Style.DIM)


def default(talk: Talk) -> str:
    return talk.world.about.model.name


# --- permissions ------------------------------------------------------------------------------------------


async def permissions(talk: Talk, _: str) -> None:
    standing = talk.world.session.shared.policy
    rules = talk.parts.gate.policy(standing).rules
    output = talk.output
    output.line(f"Mode: {standing.mode}. Folders: {', '.join([talk.parts.cwd, *talk.parts.kit.place.folders])}")
    for behavior, found in (("deny", rules.deny), ("ask", rules.ask), ("allow", rules.allow)):
        for rule in found:
            output.line(f"{behavior:<6}{harmless(rule.text)}  ({source(rule)})")
    for broken in rules.broken:
        output.line(f"{'void':<6}{harmless(broken.text)}  ({source(broken)}): {harmless(broken.reason)}", Style.YELLOW)
    if not (rules.deny or rules.ask or rules.allow or rules.broken):
        output.line("There are no rules: the mode alone decides.")
    output.line("'mainspring permissions explain TOOL INPUT' says what is decided of a call, and why.", Style.DIM)


SOURCES = {"flag": "command line", "session": "this session", "user": "your settings"}


def source(rule: Rule | Broken) -> str:
    return SOURCES.get(rule.source, f"{rule.source} settings")


# --- another conversation ---------------------------------------------------------------------------------


async def clear(talk: Talk, _: str) -> None:
    before, journal = talk.world.about.session_id, talk.opened.journal
    spoken, stored = bool(talk.world.session.state.history), journal is not None and journal.stored
    try:
        await talk.begin_anew()
    except StartError as error:  # settings that were broken meanwhile
        talk.output.line(f"The conversation goes on: {harmless(str(error))}", Style.YELLOW)
        return
    back = f" '/resume {before[:8]}' goes back to the one before." if spoken and stored else ""
    talk.output.line(f"A new conversation.{back}", Style.DIM)


async def resume(talk: Talk, name: str) -> None:
    from mainspring.assembly.sessions import by_name, new_place, no_conversation
    from mainspring.sessions.places import id_of

    place = new_place(talk.parts.environment, talk.parts.cwd, ())
    if not name:
        list_sessions(talk, place.folder)
        return
    try:
        file = by_name(name, place) if place.home is not None else None
        if file is None:
            raise StartError(no_conversation(name))
        if id_of(file) == talk.world.about.session_id:
            raise StartError("it is the one that you are in")
        await talk.go_on_with(id_of(file))
    except StartError as error:
        talk.output.line(f"The conversation stays: {harmless(str(error))}", Style.YELLOW)
        return
    from mainspring.cli.conversation import tell_of_last

    tell_of_last(talk.output, talk.world)


def list_sessions(talk: Talk, folder: str) -> None:
    from mainspring.cli.sessions_command import rows
    from mainspring.sessions.listing import listed

    found = [one for one in listed(folder, MOST_SESSIONS + 1) if one.session_id != talk.world.about.session_id]
    for row in rows(found[:MOST_SESSIONS]):
        talk.output.line(row)
    how = "'/resume ID' goes on with one." if found else "There is no other session of this folder."
    talk.output.line(how, Style.DIM)


DOES: dict[str, Does] = {
    "help": show_help,
    "context": show_context,
    "cost": show_cost,
    "model": model,
    "permissions": permissions,
    "clear": clear,
    "resume": resume,
}
