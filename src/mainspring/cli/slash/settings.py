"""`/memory`, `/init`, `/skills`: what the user and the project want every session to know."""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.agent.slash_commands import TERMINAL, names_at
from mainspring.cli.output import TextStyle
from mainspring.cli.slash.telling import clean_line, print_to_terminal, print_usage, shorten_about, tell_all, tell_list
from mainspring.context.memory import LEFT_OUT, MemoryFile
from mainspring.text import plural

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.context.memory import MemoryFiles
    from mainspring.context.project_files import ConfigFolders
    from mainspring.context.sources import ContextSources

COLUMN = 23
IN_PROJECTS = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md")  # of which '/init' improves the first that is there

INIT = """\
{task} '{path}', the file that every session in this folder begins with.

Look at the project first: what its README and other documents say, how it is built, linted and tested, which parts it \
has and which files hold them together, and what was left here for other tools (.cursor/rules, .cursorrules, \
.github/copilot-instructions.md). Then write down what somebody who begins to work here must know and would not see at \
a glance:

- the commands that build it, lint it and test it, and the one that runs a single test, as they are here;
- how it is put together: the parts, what each is for, and what depends on what;
- the rules and conventions that are this project's own, and its traps.

A page is enough. Leave out what is true of every project, what a look into a folder shows, and whatever you have not \
found here yourself.{more}"""
IMPROVED = " Keep what stands there and is still true, mend what is not, and take out what nobody needs."


# --- memory files -------------------------------------------------------------------------------------------------


async def memory(talk: TerminalSession, words: str) -> None:
    found = talk.world.around.memory
    if words and words != "edit":
        print_usage(talk, "'/memory' shows the files, '/memory edit' says how to change one.")
    elif words:
        tell_all(talk, await asyncio.to_thread(how_to_edit, talk))
    else:
        tell_list(talk, await asyncio.to_thread(rows_of, talk))
        tell_list(talk, [clean_line(problem) for problem in found.problems], TextStyle.YELLOW)
        if not found.files and not found.problems:
            print_to_terminal(
                talk, "There is no memory file: '/init' has one written. docs/memory.md has the names.", TextStyle.DIM
            )


def rows_of(talk: TerminalSession) -> list[str]:
    """In the order in which the model gets them: the later ones count for more."""
    found = talk.world.around.memory
    sent = {attachment.name: attachment.text for attachment in found.attachments}
    files = [
        f"{file.scope:<8} {clean_line(file.path)}  ({describe_file_size(file, sent.get(file.path, ''))})"
        for file in found.files
    ]
    return [*files, *notes_of(talk)]


def describe_file_size(file: MemoryFile, sent: str) -> str:
    whole = plural(len(file.text), "character")
    by = f", included by '{clean_line(file.by)}'" if file.by else ""
    if file.text in sent and file.size is None:
        return f"{whole}{by}"
    return f"{whole}{by}; left out: there is no room for it" if LEFT_OUT in sent else f"{whole}{by}; cut"


def notes_of(talk: TerminalSession) -> list[str]:
    """What sessions here have noted for later ones."""
    from mainspring.agent.context import get_notes_folder

    where = talk.world.around.memory.where
    folder = get_notes_folder(where.home, where.cwd)
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".md")] if folder else []  # noqa: PTH208
    except OSError:
        return []
    return [f"{'notes':<8} {clean_line(folder)}  ({plural(len(names), 'file')})"] if names else []


def how_to_edit(talk: TerminalSession) -> list[str]:
    """The terminal is the editor's as long as a command of the user's own runs in it."""
    environment = talk.config.environment
    editor = environment.get("VISUAL") or environment.get("EDITOR") or "vi"
    found = talk.world.around.memory
    paths = dict.fromkeys([file.path for file in found.files if not file.by])
    made = [] if any(is_project_file(file) for file in found.files) else [f"{found.where.cwd}/{IN_PROJECTS[0]}"]
    rows = [f"!{editor} {shlex.quote(clean_line(path))}" for path in (*paths, *made)]
    return [
        *rows,
        "Such a line opens the file here. A change counts from the next prompt on, a new file in new sessions.",
    ]


def is_project_file(file: MemoryFile) -> bool:
    return file.scope == "project"


async def init(talk: TerminalSession, words: str) -> str:
    """A prompt, as a skill is one: it costs a turn."""
    path, there = await asyncio.to_thread(file_for, talk.world.around.memory)
    more = (IMPROVED if there else "") + (f"\n\n{words}" if words else "")
    return INIT.format(task="Improve" if there else "Write", path=clean_line(path), more=more)


def file_for(found: MemoryFiles) -> tuple[str, bool]:
    """And whether it is there."""
    names = [f"{found.where.cwd}/{name}" for name in IN_PROJECTS]
    there = next((name for name in names if os.path.lexists(name)), "")
    return there or names[0], bool(there)


# --- skills and commands ------------------------------------------------------------------------------------------


async def skills(talk: TerminalSession, _: str) -> None:
    rows, problems = await asyncio.to_thread(list_skills_and_commands, talk.world.around)
    prompts = [
        f"{f'/{one.name}':<{COLUMN}} {shorten_about(one.about)}  (prompt of an MCP server)"
        for one in talk.world.servers.words()
    ]
    tell_list(talk, [*rows, *prompts])
    tell_list(talk, problems, TextStyle.YELLOW)
    if not rows and not prompts and not problems:
        print_to_terminal(
            talk, "There are no skills and no commands. docs/memory.md says where they lie.", TextStyle.DIM
        )


def list_skills_and_commands(found: ContextSources) -> tuple[list[str], list[str]]:
    """What lies there now, and what of it is left out. Read anew: what the session has read is the loop's."""
    from mainspring.context.custom_commands import CustomCommands
    from mainspring.context.skills import Skills

    skills = Skills(found.memory.places("skills"), states=found.memory.where.skill_states)
    commands = CustomCommands(found.memory.places("commands"))
    for shelf in (skills, commands):
        shelf.refresh()
    of_commands = [one for one in commands.by_name.values() if one.name not in skills.by_name]
    rows = [
        format_knowledge_row("skill", one.name, one.about, one.path, project=one.project)
        for one in skills.by_name.values()
    ]
    rows += [format_knowledge_row("command", one.name, one.about, one.path, project=one.project) for one in of_commands]
    held = [words for sort in ("skills", "commands") for words in held_back(found.memory.places(sort))]
    return rows, [*map(clean_line, (*skills.problems, *commands.problems)), *held]


def format_knowledge_row(sort: str, name: str, what: str, path: str, *, project: bool) -> str:
    hidden = "; hidden: the word is ours" if name in names_at(TERMINAL) else ""
    whose = "the project's" if project else "your"
    return f"{f'/{clean_line(name)}':<{COLUMN}} {shorten_about(what)}  ({whose} {sort} '{clean_line(path)}'{hidden})"


def held_back(places: ConfigFolders) -> list[str]:
    """Of a project that nobody trusts."""
    if places.trusted:
        return []
    ours = [folder for folder, project in replace(places, trusted=True).folders() if project]
    found = [folder for folder in ours if os.path.isdir(folder)]  # noqa: PTH112
    return [f"Held back: '{clean_line(folder)}'. 'mainspring trust' trusts this folder." for folder in found]
