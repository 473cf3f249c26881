"""Slash commands for configuration: memory, skills, model, permissions, folders, hooks, settings and trust.

- `/memory`, `/init`, `/skills`: what the user and the project give to every session.
- `/model`, `/permissions`, `/add-dir`: choices for this conversation.
- `/config`, `/hooks`: show settings and hooks with their sources.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring import agent, context, processes
from mainspring.agent.options import StartError
from mainspring.agent.slash.lines import (
    SlashCommandError,
    TextStyle,
    clean_line,
    print_line,
    shorten_about,
    tell_all,
    tell_list,
)
from mainspring.agent.slash_commands import TERMINAL, YIELDING, names_at
from mainspring.context.memory import LEFT_OUT, MemoryFile
from mainspring.core.errors import UsageError
from mainspring.hooks.events import GUARDS, HookPoint
from mainspring.permissions.rules import RuleSource
from mainspring.secrets.redaction import redact
from mainspring.settings.effective import format_origins
from mainspring.settings.values import HookSetting, ProblemKind, Settings
from mainspring.text import plural, strip_control_characters

if TYPE_CHECKING:
    from mainspring.agent.slash.lines import SlashContext
    from mainspring.context.memory import MemoryFiles
    from mainspring.context.project_files import ConfigFolders
    from mainspring.context.sources import ContextSources
    from mainspring.permissions.rules import BrokenRule, PermissionRule


COLUMN = 23
IN_PROJECTS = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md")  # '/init' improves the first one that exists

INIT = """\
{task} '{path}', the file that every session in this folder begins with.

Look at the project first: what its README and other documents say, how it is built, linted and tested, which parts it \
has and which files hold them together, and what was left here for other tools (.cursor/rules, .cursorrules, \
.github/copilot-instructions.md). Then write down what a newcomer to this project must know and would not see at \
a glance:

- the commands that build it, lint it and test it, and the one that runs a single test, as they are here;
- how it is put together: the parts, what each is for, and what depends on what;
- the rules and conventions that are this project's own, and its traps.

A page is enough. Leave out what is true of every project, what a look into a folder shows, and whatever you have not \
found here yourself.{more}"""
IMPROVED = " Keep what is still true, fix what is not, and remove what is not needed."


# --- memory files -------------------------------------------------------------------------------------------------


async def memory(talk: SlashContext, words: str) -> None:
    found = talk.world.around.memory
    if words and words != "edit":
        raise SlashCommandError("Usage: /memory lists the memory files, /memory edit shows how to edit them.")
    if words:
        tell_all(talk, await asyncio.to_thread(how_to_edit, talk))
    else:
        tell_list(talk, await asyncio.to_thread(rows_of, talk))
        tell_list(talk, [clean_line(problem) for problem in found.problems], TextStyle.YELLOW)
        if not found.files and not found.problems:
            print_line(
                talk, "No memory files. Type /init to create one; 'mainspring help memory' says more.", TextStyle.DIM
            )


def rows_of(talk: SlashContext) -> list[str]:
    """In the order in which the model gets them; later ones take precedence."""
    found = talk.world.around.memory
    sent = get_sent_files(talk)
    files = [
        f"{file.scope:<8} {clean_line(file.path)}  ({describe_file_size(file, sent.get(file.path, ''))})"
        for file in found.files
    ]
    return [*files, *notes_of(talk)]


def get_sent_files(talk: SlashContext) -> dict[str, str]:
    """The texts that the model gets, by file."""
    return {attachment.name: attachment.text for attachment in talk.world.around.memory.attachments}


def describe_file_size(file: MemoryFile, sent: str) -> str:
    whole = plural(len(file.text), "character")
    by = f", included by '{clean_line(file.by)}'" if file.by else ""
    if file.text in sent and file.size is None:
        return f"{whole}{by}"
    return f"{whole}{by}; left out: no room" if LEFT_OUT in sent else f"{whole}{by}; cut"


def notes_of(talk: SlashContext) -> list[str]:
    """The folder with notes that sessions here have written for later ones."""
    where = talk.world.around.memory.where
    folder = agent.get_notes_folder(where.home, where.cwd)
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".md")] if folder else []  # noqa: PTH208
    except OSError:
        return []
    return [f"{'notes':<8} {clean_line(folder)}  ({plural(len(names), 'file')})"] if names else []


def how_to_edit(talk: SlashContext) -> list[str]:
    """Lines for the prompt: a `!COMMAND` has the terminal to itself while it runs, so an editor works."""
    environment = talk.config.environment
    editor = environment.get("VISUAL") or environment.get("EDITOR") or "vi"
    found = talk.world.around.memory
    paths = dict.fromkeys([file.path for file in found.files if not file.by])
    made = [] if any(is_project_file(file) for file in found.files) else [f"{found.where.cwd}/{IN_PROJECTS[0]}"]
    rows = [f"!{editor} {shlex.quote(clean_line(path))}" for path in (*paths, *made)]
    return [
        *rows,
        "Enter one of these lines to edit the file. Changes apply from the next prompt, new files in new sessions.",
    ]


def is_project_file(file: MemoryFile) -> bool:
    return file.scope == "project"


async def init(talk: SlashContext, words: str) -> str:
    """Returns a prompt, as a skill does: it costs a turn."""
    path, there = await asyncio.to_thread(file_for, talk.world.around.memory)
    more = (IMPROVED if there else "") + (f"\n\n{words}" if words else "")
    return INIT.format(task="Improve" if there else "Write", path=clean_line(path), more=more)


def file_for(found: MemoryFiles) -> tuple[str, bool]:
    """The path of the project's memory file, and whether it exists."""
    names = [f"{found.where.cwd}/{name}" for name in IN_PROJECTS]
    there = next((name for name in names if os.path.lexists(name)), "")
    return there or names[0], bool(there)


# --- skills and commands ------------------------------------------------------------------------------------------


async def skills(talk: SlashContext, _: str) -> None:
    rows, problems = await asyncio.to_thread(list_skills_and_commands, talk.world.around)
    prompts = [
        f"{f'/{one.name}':<{COLUMN}} {shorten_about(one.about)}  (prompt of an MCP server)"
        for one in talk.world.servers.words()
    ]
    tell_list(talk, [*rows, *prompts])
    tell_list(talk, problems, TextStyle.YELLOW)
    if not rows and not prompts and not problems:
        print_line(
            talk, "No skills or custom commands. Run 'mainspring help memory' for how to add them.", TextStyle.DIM
        )


def list_skills_and_commands(found: ContextSources) -> tuple[list[str], list[str]]:
    """Rows, and problems. Reads the folders again: the session's own catalog belongs to the event loop's thread."""
    skills = context.Skills(found.memory.places("skills"), states=found.memory.where.skill_states)
    commands = context.CustomCommands(found.memory.places("commands"))
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
    is_hidden = name in names_at(TERMINAL) and name not in YIELDING
    hidden = "; hidden by a built-in command" if is_hidden else ""
    whose = "project" if project else "user"
    return f"{f'/{clean_line(name)}':<{COLUMN}} {shorten_about(what)}  ({whose} {sort} '{clean_line(path)}'{hidden})"


def held_back(places: ConfigFolders) -> list[str]:
    """The folders of a project that are ignored because it is not trusted."""
    if places.trusted:
        return []
    ours = [folder for folder, project in replace(places, trusted=True).folders() if project]
    found = [folder for folder in ours if os.path.isdir(folder)]  # noqa: PTH112
    return [f"Ignored: '{clean_line(folder)}'. Type /trust to trust this folder." for folder in found]


SOURCES = {"flag": "command line", "session": "this session", "user": "your settings"}


async def model(talk: SlashContext, name: str) -> None:
    if not name:
        default = talk.world.about.model.name
        print_line(talk, f"Model: {talk.model.name}. Type /model NAME to switch, /model default for {default}.")
        return
    try:
        if slip := agent.slip_in_model(name, talk.config.settings):
            raise UsageError(slip)
        await talk.session.set_model(name)
    except (UsageError, StartError) as error:
        raise SlashCommandError(f"Model not changed: {error}") from None
    print_line(talk, f"Switched to {talk.model.name}.", TextStyle.DIM)
    if talk.model.price.estimated:
        print_line(talk, f"{agent.explain_unknown_model(talk.model, talk.config.settings)}.", TextStyle.YELLOW)


# --- permissions ------------------------------------------------------------------------------------------


async def permissions(talk: SlashContext, _: str) -> None:
    standing = talk.world.session.shared.policy
    rules = talk.config.gate.policy(standing).rules
    print_line(talk, f"Mode: {standing.mode}. Folders: {', '.join([talk.config.cwd, *talk.world.kit.place.folders])}")
    for behavior, found in (("deny", rules.deny), ("ask", rules.ask), ("allow", rules.allow)):
        loaded = {rule.text for rule in found if rule.source is not RuleSource.SESSION}
        for rule in found:
            if rule.source is not RuleSource.SESSION:
                print_line(talk, f"{behavior:<6}{rule.text}  ({describe_rule_source(rule)})")
            elif rule.text not in loaded:  # else it was saved, and loaded since
                saved = talk.session.permissions.saved.get(f"{behavior} {rule.text}")
                where = f"saved in {SOURCES.get(saved, f'{saved} settings')}" if saved else describe_rule_source(rule)
                print_line(talk, f"{behavior:<6}{rule.text}  ({where})")
    for broken in rules.broken:
        print_line(
            talk, f"{'error':<6}{broken.text}  ({describe_rule_source(broken)}): {broken.reason}", TextStyle.YELLOW
        )
    if not (rules.deny or rules.ask or rules.allow or rules.broken):
        print_line(talk, "No rules. The mode decides every call.")
    print_line(talk, "Run 'mainspring permissions explain TOOL INPUT' to see the decision for a call.", TextStyle.DIM)


def describe_rule_source(rule: PermissionRule | BrokenRule) -> str:
    return SOURCES.get(rule.source, f"{rule.source} settings")


# --- additional folders -----------------------------------------------------------------------------------


async def add_dir(talk: SlashContext, named: str) -> None:
    """Also stored in the options, so that later conversations of this process have it."""
    if not named:
        raise SlashCommandError("Usage: /add-dir FOLDER lets the tools work in one more folder, until you exit.")
    place = talk.world.kit.place
    folder = agent.resolve_folder(named, place.root, place.home)
    if not await asyncio.to_thread(os.path.isdir, folder):
        raise SlashCommandError(f"Folder '{named}' not found (looked for '{folder}').")
    held = next((one for one in (place.root, *place.folders) if processes.is_within(folder, one)), None)
    if held is not None:
        print_line(
            talk,
            f"Tools can already work in '{folder}': it is {describe_folder_place(folder, held)}.",
            TextStyle.DIM,
        )
        return
    talk.session.add_directory(folder)
    print_line(
        talk,
        f"Tools can now work in '{folder}'. The permission mode applies there too.",
        TextStyle.DIM,
    )
    await tell_of_walls(talk)


def describe_folder_place(folder: str, held: str) -> str:
    return "a working folder" if folder == held else f"in '{strip_control_characters(held)}'"


async def tell_of_walls(talk: SlashContext) -> None:
    """The sandbox was set up for the folders that were known at the start."""
    if await asyncio.to_thread(lambda: talk.config.sandboxing.in_force):
        print_line(talk, "Sandboxed commands cannot write there until the next /clear or /resume.", TextStyle.DIM)


MOST_VALUES = 200  # rows of settings


async def config(talk: SlashContext, words: str) -> None:
    if words == "reload":
        await reload_settings(talk)
        return
    if words:
        raise SlashCommandError("Usage: /config shows the settings, /config reload reads them again.")
    lines = await asyncio.to_thread(lambda: list(set_here(talk)))
    tell_list(talk, lines or ["No settings: all values are defaults."], most=MOST_VALUES)


async def reload_settings(talk: SlashContext) -> None:
    """Ends and starts MCP servers again, and would end background tasks: with these, it waits."""
    world = talk.world
    if world.agents.at_work() or world.kit.background.running:
        told = "Background tasks are running. Type /config reload when they are done, or start a new session."
        raise SlashCommandError(told)
    try:
        await talk.change(talk.session.reload())
    except (StartError, UsageError) as error:
        raise SlashCommandError(f"Takes effect in the next session: {clean_line(str(error))}") from None
    print_line(talk, "Settings reloaded.", TextStyle.DIM)


def set_here(talk: SlashContext) -> Iterator[str]:
    """What `mainspring config` prints, for the settings that this session started with."""
    settings = talk.config.settings
    yield from format_origins(settings)
    for problem, way_out in agent.broken_rules(settings):
        yield f"{problem.kind}: {problem}. To fix it: {way_out}"
    for slip in agent.slips_in_rules(talk.config.options, settings):
        yield f"{ProblemKind.UNKNOWN}: {redact(slip)}"


# --- hooks --------------------------------------------------------------------------------------------------------


async def hooks(talk: SlashContext, _: str) -> None:
    settings = talk.config.settings
    tell_list(talk, [format_hook_row(hook) for hook in settings.hooks])
    held = hooks_held_back(settings)
    for words in held:
        print_line(talk, words, TextStyle.YELLOW)
    tell_all(talk, switched_off(settings), TextStyle.DIM)
    if not settings.hooks and not held:
        print_line(talk, 'No hooks. Add them under "hooks" in your settings.', TextStyle.DIM)


def format_hook_row(hook: HookSetting) -> str:
    at = strip_control_characters(f"{hook.event}({hook.matcher})" if hook.matcher else hook.event)
    what = next((str(hook.command[name]) for name in ("command", "prompt", "url") if name in hook.command), "")
    return (
        f"{at:<22} {shorten_about(what)}  ({hook.origin.source}: {clean_line(hook.origin.place)}{explain_hook(hook)})"
    )


def explain_hook(hook: HookSetting) -> str:
    """Why the hook never runs or denies calls; empty if it works."""
    point = next((one for one in HookPoint if one == hook.event), None)
    kind = clean_line(str(hook.command.get("type")))
    if point is None:
        return "; never runs: unknown event"
    if hook.broken:
        return f"; cannot run, so the calls that it guards are denied: {hook.broken}"
    if kind == "command":
        return ""
    guards = ", so the calls that it guards are denied" if point in GUARDS else ""
    return f"; type '{kind}' is not supported yet{guards}"


def hooks_held_back(settings: Settings) -> list[str]:
    """Hooks in files of an untrusted project: a settings problem names the ignored keys and the reason."""
    found = [one for one in settings.problems if one.kind is ProblemKind.UNTRUSTED]
    named = [one for one in found if "hooks" in one.says.partition(":")[0].split(", ")]
    return [f"Ignored: hooks in '{clean_line(one.place)}'. Type /trust to trust this folder." for one in named]


def switched_off(settings: Settings) -> list[str]:
    keys = ("disableAllHooks", "allowManagedHooksOnly")
    found = [one for one in settings.effective if one.name in keys and one.shown == "true"]
    return [f"'{one.name}' is set ({one.origin.source}: {clean_line(one.origin.place)})." for one in found]
