"""`/memory`, `/init`, `/skills`: what the user and the project want every session to know.

`/model`, `/permissions`, `/add-dir`: what somebody chooses for the conversation, and what was chosen.

`/doctor`, `/config` and `/hooks`: whether everything is there, what is set, and by whom.

`/trust`: what this folder brings takes effect, from now on and in this conversation; or no longer.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.agent.options import StartError
from mainspring.agent.slash_commands import TERMINAL, names_at
from mainspring.cli import trust as cli_trust
from mainspring.cli.output import TextStyle
from mainspring.cli.slash.table import clean_line, print_to_terminal, print_usage, shorten_about, tell_all, tell_list
from mainspring.context.memory import LEFT_OUT, MemoryFile
from mainspring.core.errors import UsageError
from mainspring.secrets.redaction import redact
from mainspring.settings.values import HookSetting, ProblemKind, Settings
from mainspring.text import plural, strip_control_characters

if TYPE_CHECKING:
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.context.memory import MemoryFiles
    from mainspring.context.project_files import ConfigFolders
    from mainspring.context.sources import ContextSources
    from mainspring.permissions.rules import BrokenRule, PermissionRule


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


SOURCES = {"flag": "command line", "session": "this session", "user": "your settings"}


async def model(talk: TerminalSession, name: str) -> None:
    if not name:
        default = talk.world.about.model.name
        print_to_terminal(talk, f"{talk.model.name}. '/model NAME' asks another one, '/model default' {default} again.")
        return
    from mainspring.agent.config_checks import slip_in_model

    try:
        if slip := slip_in_model(name, talk.config.settings):
            raise UsageError(slip)
        await talk.session.set_model(name)
    except (UsageError, StartError) as error:
        print_to_terminal(talk, f"The model stays: {error}", TextStyle.YELLOW)
        return
    print_to_terminal(talk, f"From now on: {talk.model.name}.", TextStyle.DIM)


# --- permissions ------------------------------------------------------------------------------------------


async def permissions(talk: TerminalSession, _: str) -> None:
    standing = talk.world.session.shared.policy
    rules = talk.config.gate.policy(standing).rules
    print_to_terminal(
        talk, f"Mode: {standing.mode}. Folders: {', '.join([talk.config.cwd, *talk.world.kit.place.folders])}"
    )
    for behavior, found in (("deny", rules.deny), ("ask", rules.ask), ("allow", rules.allow)):
        for rule in found:
            print_to_terminal(talk, f"{behavior:<6}{rule.text}  ({describe_rule_source(rule)})")
    for broken in rules.broken:
        print_to_terminal(
            talk, f"{'void':<6}{broken.text}  ({describe_rule_source(broken)}): {broken.reason}", TextStyle.YELLOW
        )
    if not (rules.deny or rules.ask or rules.allow or rules.broken):
        print_to_terminal(talk, "There are no rules: the mode alone decides.")
    print_to_terminal(
        talk, "'mainspring permissions explain TOOL INPUT' says what is decided of a call, and why.", TextStyle.DIM
    )


def describe_rule_source(rule: PermissionRule | BrokenRule) -> str:
    return SOURCES.get(rule.source, f"{rule.source} settings")


# --- one more folder --------------------------------------------------------------------------------------


async def add_dir(talk: TerminalSession, named: str) -> None:
    """Kept among the options, too, so that a conversation that begins here later has it as well."""
    if not named:
        print_usage(talk, "'/add-dir FOLDER' lets the tools work in one more folder, until you leave.")
        return
    from mainspring.agent.permissions import resolve_folder
    from mainspring.processes.paths import is_within

    place = talk.world.kit.place
    folder = resolve_folder(named, place.root, place.home)
    if not await asyncio.to_thread(os.path.isdir, folder):
        print_to_terminal(talk, f"There is no folder '{named}': '{folder}' was looked for.", TextStyle.YELLOW)
        return
    held = next((one for one in (place.root, *place.folders) if is_within(folder, one)), None)
    if held is not None:
        print_to_terminal(
            talk,
            f"The tools can work in '{folder}' already: it is {describe_folder_place(folder, held)}.",
            TextStyle.DIM,
        )
        return
    talk.session.add_directory(folder)
    print_to_terminal(
        talk,
        f"From now on the tools can work in '{folder}', too. Who may do what there, the mode decides.",
        TextStyle.DIM,
    )
    await tell_of_walls(talk)


def describe_folder_place(folder: str, held: str) -> str:
    return "one of the folders" if folder == held else f"in '{strip_control_characters(held)}'"


async def tell_of_walls(talk: TerminalSession) -> None:
    """They were put up around the folders of the start."""
    if await asyncio.to_thread(lambda: talk.config.sandboxing.in_force):
        print_to_terminal(
            talk, "Commands in the sandbox cannot write there before the next '/clear' or '/resume'.", TextStyle.DIM
        )


MOST_VALUES = 200  # of the settings


async def doctor(talk: TerminalSession, _: str) -> None:
    """One check after the other, each in a thread: some try the sandbox out, which takes seconds."""
    from mainspring.cli.commands.doctor import format_doctor_summary, format_finding, run_checks
    from mainspring.cli.commands.doctor_checks import CheckState, Finding

    checks = iter(run_checks(talk.config.options))
    problems = 0
    while (found := await asyncio.to_thread(next, checks, None)) is not None:
        problems += found.state is CheckState.PROBLEM
        shown = Finding(found.name, found.state, clean_line(found.words), clean_line(found.way_out))
        print_to_terminal(
            talk, format_finding(shown), TextStyle.YELLOW if found.state is CheckState.PROBLEM else TextStyle.PLAIN
        )
    print_to_terminal(talk, format_doctor_summary(problems))


async def config(talk: TerminalSession, _: str) -> None:
    lines = await asyncio.to_thread(lambda: list(set_here(talk)))
    tell_list(talk, lines or ["Nothing is set: everything has its default."], most=MOST_VALUES)


def set_here(talk: TerminalSession) -> Iterator[str]:
    """What `mainspring config` prints, of the settings that this session began with."""
    from mainspring.agent.config_checks import broken_rules, slips_in_rules
    from mainspring.settings.effective import format_origins

    settings = talk.config.settings
    yield from format_origins(settings)
    for problem, way_out in broken_rules(settings):
        yield f"{problem.kind}: {problem}. The way out: {way_out}"
    for slip in slips_in_rules(talk.config.options, settings):
        yield f"{ProblemKind.UNKNOWN}: {redact(slip)}"


# --- hooks --------------------------------------------------------------------------------------------------------


async def hooks(talk: TerminalSession, _: str) -> None:
    settings = talk.config.settings
    tell_list(talk, [format_hook_row(hook) for hook in settings.hooks])
    held = hooks_held_back(settings)
    for words in held:
        print_to_terminal(talk, words, TextStyle.YELLOW)
    tell_all(talk, switched_off(settings), TextStyle.DIM)
    if not settings.hooks and not held:
        print_to_terminal(talk, "There are no hooks: 'hooks' in the settings names them.", TextStyle.DIM)


def format_hook_row(hook: HookSetting) -> str:
    at = strip_control_characters(f"{hook.event}({hook.matcher})" if hook.matcher else hook.event)
    what = next((str(hook.command[name]) for name in ("command", "prompt", "url") if name in hook.command), "")
    return (
        f"{at:<22} {shorten_about(what)}  ({hook.origin.source}: {clean_line(hook.origin.place)}{explain_hook(hook)})"
    )


def explain_hook(hook: HookSetting) -> str:
    """Why it does not do what somebody may expect of it."""
    from mainspring.hooks.events import GUARDS, HookPoint

    point = next((one for one in HookPoint if one == hook.event), None)
    kind = clean_line(str(hook.command.get("type")))
    if point is None:
        return "; never asked: there is no such point"
    if hook.broken:
        return f"; it cannot run, so what it guards is refused: {hook.broken}"
    if kind == "command":
        return ""
    guards = ", so what it guards is refused" if point in GUARDS else ""
    return f"; the type '{kind}' is not there yet{guards}"


def hooks_held_back(settings: Settings) -> list[str]:
    """By files of a project that nobody trusts: a problem names the keys that are not used, and why."""
    found = [one for one in settings.problems if one.kind is ProblemKind.UNTRUSTED]
    named = [one for one in found if "hooks" in one.says.partition(":")[0].split(", ")]
    return [
        f"Held back: the hooks in '{clean_line(one.place)}'. 'mainspring trust' trusts this folder." for one in named
    ]


def switched_off(settings: Settings) -> list[str]:
    keys = ("disableAllHooks", "allowManagedHooksOnly")
    found = [one for one in settings.effective if one.name in keys and one.shown == "true"]
    return [f"'{one.name}' is set ({one.origin.source}: {clean_line(one.origin.place)})." for one in found]


async def trust(talk: TerminalSession, words: str) -> None:
    folder, is_trusted = talk.config.cwd, talk.world.around.memory.where.trusted
    if words not in ("", "remove"):
        print_usage(talk, "'/trust' trusts this folder, '/trust remove' takes that back.")
    elif is_trusted is not bool(words):
        already = "trusted already: '/trust remove' takes it back" if is_trusted else "not trusted: '/trust' trusts it"
        print_to_terminal(talk, f"'{folder}' is {already}.", TextStyle.DIM)
    else:
        try:
            await (trust_named_folder(talk, folder) if not words else take_back(talk, folder))
        except (StartError, UsageError, OSError) as error:
            print_to_terminal(talk, f"Nothing has changed: {error}", TextStyle.YELLOW)


async def trust_named_folder(talk: TerminalSession, folder: str) -> None:
    held = await asyncio.to_thread(cli_trust.list_untrusted_content, talk)
    cli_trust.trust_folder(folder, os.environ)
    what = f"From now on these count: {', '.join(held)}." if held else "It brings nothing that waited for it."
    print_to_terminal(talk, f"'{folder}' is trusted. {what}", TextStyle.DIM)
    await begin_again(talk)


async def take_back(talk: TerminalSession, folder: str) -> None:
    cli_trust.take_back(folder, os.environ)
    print_to_terminal(talk, f"'{folder}' is no longer trusted.", TextStyle.DIM)
    await begin_again(talk)


async def begin_again(talk: TerminalSession) -> None:
    """Who is trusted is known from here on at any rate; what cannot take effect now does when one begins anew."""
    try:
        await talk.change(talk.session.reload())
    except (StartError, UsageError) as error:  # such as an address in the environment that was changed meanwhile
        print_to_terminal(talk, f"This conversation goes on as it was: {error}", TextStyle.YELLOW)
