"""A session that can run, made of its parts, and what the doors do with it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.agent.about import About
from mainspring.agent.agents import (
    OURS,
    AgentsOf,
    Before,
    Household,
    kinds_of,
    spent_before,
    told,
    with_capped_effort,
)
from mainspring.agent.mcp_wiring import wired
from mainspring.agent.mind import (
    Site,
    Thinking,
    Thoughts,
    around,
    mind_for,
    searcher,
    small_asker,
    style_names,
    style_of,
    system_text,
)
from mainspring.agent.model import Close, patience_of
from mainspring.agent.options import SessionOptions
from mainspring.agent.parts import Parts, money, new_kit, service_searches
from mainspring.agent.said import attaching, others, skill_names, skill_of
from mainspring.agent.sessions import Opened
from mainspring.context.attachments import new_nonce
from mainspring.context.prompt import with_nonce
from mainspring.core.config import Config
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, User
from mainspring.core.models import Model, same_model
from mainspring.core.money import Usage
from mainspring.core.value import Bundle
from mainspring.core.view import view
from mainspring.engine.equipped import Answerer, Equipped
from mainspring.engine.ledger import Ledger
from mainspring.engine.prompts import Prompts
from mainspring.engine.run import Run
from mainspring.engine.session import Session
from mainspring.engine.shared import Policy
from mainspring.engine.wishes import compaction, token_budget
from mainspring.hooks.points import Hooks
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.lines import used_by
from mainspring.sessions.places import read_log, side_folder
from mainspring.sessions.records import NoteRecord
from mainspring.settings.home import home_folder
from mainspring.tools.base import Place
from mainspring.tools.hands import Hands
from mainspring.tools.kit import FOR_PEOPLE, Kit, ToolLinks

if TYPE_CHECKING:
    from mainspring.agent.mcp import Wired
    from mainspring.agent.mcp_wiring import NoServers
    from mainspring.agent.permission_tool import PermissionTool
    from mainspring.agent.rewinding import Rewinding
    from mainspring.context.agents import AgentKind
    from mainspring.context.surroundings import Surroundings
    from mainspring.hooks.runner import Hook
    from mainspring.processes.child import Walls
    from mainspring.processes.children import Children
    from mainspring.sessions.loaded import Loaded
    from mainspring.tools.background import Running
    from mainspring.tools.mcp.relayed import Send
    from mainspring.tools.mcp.servers import Servers
    from mainspring.tools.shell_walls import WallsOf

CHECKPOINTS = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"


class Outside(Bundle):
    """What the front end of a session, and the program around it, bring."""

    answer: Answerer | None = None  # who is asked about calls; None: nobody
    in_background: bool = False  # also for a subagent in the background
    hooks: tuple[Hook, ...] = ()  # functions of the program
    say: Callable[[str], object] | None = None  # hears what hooks have for the person
    relay: Send | None = None  # the way to MCP servers that live in the program
    suggest: Callable[[str], object] | None = None  # hears what the person may say next
    task_changed: Callable[[Running], object] = lambda _: None  # hears of commands in the background
    source: str = "startup"  # why the session begins, as `SessionStart` hooks are told


class World(Bundle):
    session: Session
    about: About
    hands: Hands
    prompts: Prompts
    open: Close  # what takes the event loop, before the first prompt
    close: Callable[..., Awaitable[None]]  # with the reason, as `SessionEnd` hooks are told
    skill: Callable[[str, str], str]  # the text of one, or of a command, by its name; raises `ToolError`
    agents: AgentsOf
    servers: Wired | NoServers  # of MCP
    around: Surroundings
    kinds: Mapping[str, AgentKind]  # of agents; empty: ours alone
    kit: Kit

    system: Callable[[], tuple[str, ...]]
    rewinding: Rewinding | None = None  # None: nobody wants to go back

    async def rewind(self, user_message_id: str) -> dict[str, Any]:
        """Every file that our tools have changed since that prompt is what it was when it came (stream-json 4). Raises
        `UsageError`, in words for the driving program."""
        if self.rewinding is None:
            raise UsageError(
                f"File checkpointing is not enabled: start the session with 'enable_file_checkpointing' ({CHECKPOINTS}"
                "=true), and where it can be stored"
            )
        return await self.rewinding.rewind(user_message_id)

    @property
    def mcp(self) -> Servers | None:
        """None: nobody named any."""
        return mcp_in(self.servers)

    async def stop(self, task: str) -> None:
        """An agent or a command in the background, if it still works."""
        await self.agents.stop(task)
        await self.kit.stop(task)

    async def settle(self) -> None:
        """Before a turn is announced: tools of servers that have come meanwhile."""
        await self.servers.settle()

    def run(self, said: str, heard: tuple[User, ...], *, deltas: bool = True) -> Run:
        """What was said may be a wish to the loop itself."""
        session = self.session
        self.agents.begin(session.config.max_turns)
        if (words := compaction(said)) is not None:
            return session.compact(words)
        tokens = token_budget(said)
        config = replace(session.config, token_budget=tokens) if tokens is not None else session.config
        return session.run(heard, config=config, deltas=deltas)

    @property
    def has_more(self) -> bool:
        """Agents in the background still work, or have reported: the conversation goes on by itself."""
        waits = self.agents.away or self.session.shared.inbox.waiting()
        return bool(waits) and self.agents.turns_left > 0

    async def wait_for_more(self) -> None:
        if not self.session.shared.inbox.waiting():
            await self.agents.next_report()

    def go_on(self, *, deltas: bool = True, anew: bool = False) -> Run:
        """With what waits. `anew`: somebody has spoken, and turns are counted from here."""
        if anew:
            self.agents.begin(self.session.config.max_turns)
        config = replace(self.session.config, max_turns=self.agents.turns_left)
        return self.session.run(config=config, deltas=deltas)


def begin(parts: Parts, opened: Opened, outside: Outside, ledger: Ledger | None = None) -> World:
    """A session that begins, or goes on: from the lowest part to the highest, each of them complete when it is made.
    What a part asks of a later one, it asks when it runs. `ledger`: of the session before it in this process."""
    options, relay, loaded, journal = parts.options, outside.relay, opened.loaded, opened.journal
    parts = replace(parts, config=replace(parts.config, nonce=nonce_of(loaded)))
    policy, gate, features = parts.policy, parts.gate, parts.settings.features
    cleanup = SessionCleanup(parts, opened)
    before = spent_before(loaded)
    ledger = drawn_on(ledger or Ledger(), parts, opened, before)
    policy.current = first_policy(parts, loaded)

    # What tools work with.
    rewinding = new_rewinding(parts, journal)
    place = new_place(parts, journal, rewinding)
    surroundings = surroundings_of(parts, place, lambda: kit.children)
    kinds = with_capped_effort(kinds_of(options, surroundings), parts.settings)
    asked = side_model(parts, ledger)
    kit = new_kit(
        parts,
        place,
        ToolLinks(
            mode=lambda: policy.current.mode,
            change_mode=lambda mode: session.change(replace(policy.current, mode=mode)),
            past=past_of(journal),
            agent_types=told(kinds),
            send_agent=lambda given, calling: agents.send(given, calling),  # noqa: PLW0108  # made later
            task_changed=outside.task_changed,
            load_skill=lambda name, arguments: surroundings.skills.load(name, arguments).text,
            names_host=lambda host: gate.names_host(host, policy.current),
            ask_small=small_asker(lambda: mind),
            search_command=parts.settings.search_command or "",
            search_service=searcher(lambda: mind) if asked.searches else None,
            keep=rewinding.keep if rewinding is not None else None,
        ),
        noting(parts, lambda: session),
    )
    tool = permission_tool(options, lambda: mcp_in(servers))
    answer, ask = answerers(parts, outside, tool)
    attended, stored = answer is not None, journal is not None
    hooks = new_hooks(parts, kit, opened, outside)
    hands = new_hands(parts, kit, hooks, attended=attended, skills=surroundings.has_skills, stored=stored)

    # What the model is told.
    style = style_of(parts.settings.output_style, parts.system, surroundings)
    system = system_text(parts.system, surroundings, hands.offers, attended=attended, style=style)

    def instruct(words: str) -> None:
        deps.system = with_nonce((*system, words), surroundings.nonce)

    servers = parts.holder.run(wired, parts, kit, hands, instruct, relay)
    takes_notes = attended and ask is None and stored and features.auto_memory  # for a person who comes back
    thoughts = Thoughts(outside.suggest if features.suggestions else None) if takes_notes else None
    mind = mind_for(asked, surroundings, hands, lambda: deps.system, thoughts)
    deps = Equipped(
        parts.model.provider,
        hands,
        journal=journal,
        system=with_nonce(system, surroundings.nonce),
        answer=answer,
        mind=mind,
        before_turn=servers.settle,
    )

    # The session, and what goes with it.
    session = new_session(parts, deps, ledger, loaded, hands)
    session.shared.agent_spent(before.by_agents)  # the first event tells of it
    agents = AgentsOf(Household(parts, kit, opened, kinds, surroundings, asked, hands, session, ask))
    attach = attaching(surroundings, gate, session, parts.cwd, servers)
    prompts = Prompts(hands.hooks, outside.source if loaded is None else "resume", attach)
    about = About(
        session_id=opened.session_id,
        cwd=parts.cwd,
        model=parts.config.model,
        tools=tuple(hands.offers),
        later=lambda: servers.tools,
        servers=servers.states,
        agents=tuple(kinds) or OURS,
        commands=slash_words(options, surroundings, driven=relay is not None),
        skills=lambda: skill_names(surroundings),
        words=lambda: tuple([word.name for word in servers.words()]),
        mode=parts.mode,
        key_source=parts.model.key_source,
        betas=options.betas,
        ignored=options.ignored,
        sandbox=lambda: parts.sandboxing.words,
        output_style=style.name if style is not None else "default",
        output_styles=lambda: style_names(surroundings),
        used=used_before(loaded),
        max_retries=patience_of(parts.settings).tries - 1,
        spent=before.spent,
    )

    async def start() -> None:
        cleanup.start()
        await parts.sandboxing.open()
        await servers.open(wait=relay is None and (not attended or ask is not None))
        await agents.tell_of_lost(before.lost)

    async def close(reason: str = "other") -> None:
        await agents.close()
        await prompts.ended(reason)
        await mind.close()
        await hands.hooks.close()
        await servers.close()
        await kit.close()
        await parts.sandboxing.close()
        await parts.model.close()
        parts.holder.release()
        await cleanup.close()

    return World(
        session=session,
        about=about,
        hands=hands,
        prompts=prompts,
        open=start,
        close=close,
        skill=skill_of(surroundings, servers),
        agents=agents,
        servers=servers,
        around=surroundings,
        kinds=kinds,
        kit=kit,
        system=lambda: deps.system,
        rewinding=rewinding,
    )


def new_place(parts: Parts, journal: FileJournal | None, rewinding: Rewinding | None) -> Place:
    """With what tools store beside the session's file: long results, and which files were read."""
    # Where it really is, before any command runs: from then on no link on the way is followed.
    spill = f"{os.path.realpath(side_folder(journal.file))}/tool-results" if journal is not None else ""
    return Place(
        parts.cwd,
        home=parts.home,
        folders=parts.folders,
        spill=spill,
        environ=parts.environment,
        nonce=parts.config.nonce,
        read_log=read_log(journal.file) if journal is not None else "",
        keep=rewinding.keep if rewinding is not None else None,
    )


def past_of(journal: FileJournal | None) -> Callable[[], tuple[str, ...] | None]:
    """The program that searches what was said before."""

    def past() -> tuple[str, ...] | None:
        if journal is None or not journal.stored:
            return None
        return (sys.executable, "-I", "-m", "mainspring.sessions.past", journal.file)

    return past


def noting(parts: Parts, session: Callable[[], Session]) -> WallsOf:
    """What a command may reach. The level of the sandbox is put down in the journal with the first one."""
    noted: list[asyncio.Future[None]] = []

    async def note() -> None:
        deps = session().deps
        await deps.journal.append(NoteRecord("sandbox", parts.sandboxing.words, deps.now()))

    def walls(command: str, leave: bool) -> Walls:  # as it is asked
        if not noted:
            noted.append(asyncio.ensure_future(note()))
        return parts.sandboxing.walls(command, leave)

    return walls


def side_model(parts: Parts, ledger: Ledger) -> Thinking:
    settings = parts.settings
    searches = service_searches(parts.config, settings)
    return Thinking(
        parts.model.provider,
        parts.config,
        ledger,
        parts.environment,
        searches,
        settings.features,
        settings.model_rules,
    )


class SessionCleanup:
    """Removes sessions that are older than the settings want to keep them, in the home that the settings are of."""

    PATIENCE = 0.5  # seconds: a short one is finished at the end, what is left of a long one comes next time

    def __init__(self, parts: Parts, opened: Opened) -> None:
        self._days, self._keep = parts.settings.cleanup_days, opened.session_id
        self._home = home_folder(parts.environment) if self._days is not None else None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._days is not None and self._home is not None:
            from mainspring.sessions.retention import start_cleanup

            self._thread = start_cleanup(self._home, self._days, now=time.time(), keep=self._keep)

    async def close(self) -> None:
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, self.PATIENCE)


STDIO = "stdio"  # as the permission prompt tool: the program that drives us is asked


def mcp_in(servers: Wired | NoServers) -> Servers | None:
    """None: nobody named any."""
    return getattr(servers, "servers", None)


def permission_tool(options: SessionOptions, servers: Callable[[], Servers | None]) -> PermissionTool | None:
    name = options.permission_prompt_tool_name
    if name is None or (name == STDIO and options.driven):
        return None
    from mainspring.agent.permission_tool import PermissionTool

    return PermissionTool(name, options, servers)


def answerers(parts: Parts, outside: Outside, tool: PermissionTool | None) -> tuple[Answerer | None, Answerer | None]:
    """Who is asked, and who can be asked at any time, also for a subagent in the background. Nobody, if the settings
    want what would be asked to be denied."""
    if parts.settings.permissions.asks_nobody:
        return None, None
    if tool is not None:
        return tool.answer, tool.answer
    return outside.answer, outside.answer if outside.in_background else None


def new_rewinding(parts: Parts, journal: FileJournal | None) -> Rewinding | None:
    if journal is None or parts.environment.get(CHECKPOINTS) not in ("1", "true"):
        return None
    from mainspring.agent.rewinding import Rewinding

    return Rewinding(journal, parts.gate, parts.cwd, lambda: parts.policy.current)


def first_policy(parts: Parts, loaded: Loaded | None) -> Policy:
    """Rules that were added in the session stay; the mode is that of this start, as somebody chose it or by default."""
    before = loaded.policy if loaded is not None else None
    if before is None:
        return Policy(parts.mode)
    return Policy(parts.mode, still_available(before.model, parts), before.rules, before.tools)


def new_session(parts: Parts, deps: Equipped, ledger: Ledger, loaded: Loaded | None, hands: Hands) -> Session:
    if loaded is None:
        return Session(
            deps, parts.config, ledger=ledger, policy=parts.policy, side_jobs=deps.side_jobs, describe=hands.line
        )
    session = Session.resumed(
        deps,
        parts.config,
        loaded,
        ledger=ledger,
        policy=parts.policy,
        repeatable=hands.is_repeatable,
        side_jobs=deps.side_jobs,
        describe=hands.line,
    )
    tell_of_another_model(session, parts.config, parts.options)
    hands.remember((*view(session.state.history, session.state.edits), *loaded.salvaged))
    return session


def drawn_on(ledger: Ledger, parts: Parts, opened: Opened, before: Before) -> Ledger:
    spent, source = before.spent + before.by_agents, parts.options.resume or ""
    ledger.begin_session(opened.session_id, spent, source=source, limit=money(parts.options, parts.settings))
    return ledger


def used_before(loaded: Loaded | None) -> tuple[tuple[str, Usage], ...]:
    """What each model was told and said, in a session that is taken up again."""
    if loaded is None:
        return ()
    return used_by(loaded.state.history) if loaded.standing.used is None else loaded.standing.used


def nonce_of(loaded: Loaded | None) -> str:
    """A session that goes on keeps its own, and so does a fork: what the model has seen stays as it was (law 4). It is
    stored with the config, never read from messages: hooks and servers have a say in those."""
    config = loaded.config if loaded is not None else None
    return (config.nonce if config is not None else "") or new_nonce()


def surroundings_of(parts: Parts, place: Place, children: Callable[[], Children]) -> Surroundings:
    options = parts.options
    found = around(Site(options, parts.environment, parts.gate, place, children, parts.settings))
    if options.skills is not None:
        found.tell_only(options.skills)
    if options.exclude_dynamic_sections and not parts.system[0]:  # our own prompt: another does not tell it
        found.tell_place()
    return found


def slash_words(options: SessionOptions, found: Surroundings, *, driven: bool) -> tuple[str, ...]:
    """Beside the skills that the model is told of. Who gets bare text is not told of them, and does not pay for it."""
    if not options.lists_commands and not driven:
        return ()
    from mainspring.agent.own_words import ONCE, PIPE, names_at

    own, skills = names_at(PIPE if driven else ONCE), skill_names(found)
    return (*own, *[entry.name for entry in others(found, own) if entry.name not in skills])


def new_hands(  # noqa: PLR0913  # keywords, half of them
    parts: Parts, kit: Kit, hooks: Hooks | None, *, attended: bool, skills: bool, stored: bool
) -> Hands:
    idle = {*(() if attended else FOR_PEOPLE), *(() if skills else ("Skill",)), *(() if stored else ("Recall",))}
    names = [name for name in parts.tools if name not in idle]
    offers = [*kit.offers(names), *parts.own]
    return Hands(offers, place=kit.place, gate=parts.gate, hooks=hooks, attended=attended)


def still_available(model: Model | None, parts: Parts) -> Model | None:
    """A model that was chosen in the session before; None, and told, if the settings rule it out by now."""
    if model is None:
        return None
    from mainspring.agent.model import available_name

    try:
        available_name(model.name, parts.settings)
    except UsageError as error:
        parts.options.tell(f"{error}. The session goes on with '{parts.config.model.name}'")
        return None
    return model


def tell_of_another_model(session: Session, config: Config, options: SessionOptions) -> None:
    """Who goes on with a conversation should know that it goes to another model, perhaps of another company."""
    last = next((m.model for m in session.state.history.newest_first() if isinstance(m, Assistant) and m.model), "")
    if last and not same_model(last, config.model.name):
        options.tell(
            f"this session was held with '{last}', and goes on with '{config.model.name}' "
            f"('{options.spell('model')}' names another)"
        )


def new_hooks(parts: Parts, kit: Kit, opened: Opened, outside: Outside) -> Hooks | None:
    brought, said = outside.hooks, outside.say
    if not parts.settings.hooks and not brought:
        return None
    from mainspring.agent.hooks import Said, hooks_of

    told_to = Said(parts.options.tell, said or parts.options.say)
    return hooks_of(parts.settings, kit, opened, lambda: parts.policy.current.mode, brought, told_to)
