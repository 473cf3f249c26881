"""From the command line, the settings and the environment to a session that can run. Nothing else reads them."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from mainspring.cli import rights
from mainspring.cli.about import About
from mainspring.cli.agents import OURS, AgentsOf, Household, kinds_of, spent_before, told
from mainspring.cli.flags import BY_NAME, Options, StartError
from mainspring.cli.mcp_wiring import named_servers, wired
from mainspring.cli.mind import Site, Thinking, around, new_mind, system_text
from mainspring.cli.model import Close, Environment, Reached, least, new_config, new_provider
from mainspring.cli.sandbox import Ground, Sandboxing
from mainspring.cli.sessions import Opened, new_place, open_session
from mainspring.cli.settings import settings_of, tell
from mainspring.cli.system_prompt import own_blocks
from mainspring.core.config import Config
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant, User
from mainspring.core.models import same_model
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.value import Bundle
from mainspring.core.view import view
from mainspring.engine.equipped import Answerer, Equipped
from mainspring.engine.ledger import Ledger
from mainspring.engine.plain import new_id
from mainspring.engine.prompts import Prompts
from mainspring.engine.run import Run
from mainspring.engine.session import Session
from mainspring.engine.shared import Policy
from mainspring.engine.wishes import compaction, token_budget
from mainspring.hooks.points import Hooks
from mainspring.secrets.sources import FILE_NAME
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.places import side_folder
from mainspring.sessions.records import NoteRecord
from mainspring.settings.home import home_folder
from mainspring.settings.values import Settings
from mainspring.tools.base import Offer, Place, offer
from mainspring.tools.catalog import SPECS
from mainspring.tools.gate import Gate
from mainspring.tools.hands import Hands
from mainspring.tools.kit import FOR_PEOPLE, Kit

if TYPE_CHECKING:
    from mainspring.cli.mcp import Found


class Parts(Bundle):
    """Everything that can be known before a session begins."""

    options: Options
    environment: Environment
    cwd: str
    settings: Settings
    config: Config
    system: tuple[str, ...]  # what the command line has for it
    mode: str
    gate: Gate
    kit: Kit
    tools: tuple[str, ...]  # by name
    schema: Offer | None  # for an answer of a given shape
    model: Reached
    sandboxing: Sandboxing
    servers: Found | None = None  # of MCP


class World(Bundle):
    session: Session
    about: About
    hands: Hands
    prompts: Prompts
    open: Close  # what takes the event loop, before the first prompt
    close: Close
    skill: Callable[[str, str], str]  # the text of one, by its name; raises `ToolError`
    agents: AgentsOf

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

    def go_on(self, *, deltas: bool = True) -> Run:
        config = replace(self.session.config, max_turns=self.agents.turns_left)
        return self.session.run(config=config, deltas=deltas)


def prepare(options: Options, environment: Environment) -> Parts:
    """Checks everything and changes nothing: what is wrong is told before anybody waits or pays."""
    refuse_what_is_missing(options)
    cwd = working_folder()
    settings = settings_of(options, cwd, environment)
    environment = environment | settings.own_env
    home, ours = os.path.expanduser("~"), home_folder(environment)  # noqa: PTH111  # pathlib takes 8 ms to load
    gate = rights.new_gate(options, settings, cwd, home, (ours,) if ours else ())
    place = Place(cwd, home=home, folders=rights.folders(options, settings, cwd))
    sandboxing = new_sandboxing(place, gate, environment, settings)
    kit = new_kit(place, gate, environment, settings, sandboxing)
    config = new_config(options, settings)
    parts = Parts(
        options=options,
        environment=environment,
        cwd=cwd,
        settings=settings,
        config=config,
        system=own_blocks(options),
        mode=rights.mode(options, settings, environment),
        gate=gate,
        kit=kit,
        tools=tuple(offered(options, settings, config)),
        schema=structured(options),
        model=new_provider(
            options, settings, environment, cwd, (config.model.name, *[m.name for m in config.fallbacks])
        ),
        sandboxing=sandboxing,
        servers=named_servers(options, settings, environment, cwd),
    )
    tell(settings)
    return parts


def begin(parts: Parts, answer: Answerer | None = None) -> World:
    """A session that begins, or goes on, and its file. `answer` puts a question to a person; None: nobody is there."""
    options, opened = parts.options, open_journal(parts)
    if opened.journal is not None:
        parts.kit.place.spill = f"{side_folder(opened.journal.file)}/tool-results"
    hooks, attended = new_hooks(parts, opened), answer is not None
    surroundings = around(Site(options, parts.environment, parts.cwd, parts.gate, parts.kit))
    stored = opened.journal is not None
    kinds = kinds_of(options, surroundings)
    parts.kit.kinds = told(kinds)
    hands = new_hands(parts, hooks, attended=attended, skills=surroundings.has_skills, stored=stored)
    loaded = opened.loaded
    before = spent_before(loaded)
    ledger = Ledger(money(options, parts.settings), spent=before.spent + before.by_agents)
    system = system_text(parts.system, surroundings, hands.offers, attended=attended)
    searches = service_searches(parts.config, parts.settings)
    features = parts.settings.features
    asked = Thinking(parts.model.provider, parts.config, ledger, parts.environment, searches, features)
    takes_notes = attended and stored and features.auto_memory
    servers = wired(parts, hands, lambda words: setattr(deps, "system", (*system, words)))
    mind = new_mind(asked, surroundings, hands, lambda: deps.system, parts.kit, afterthoughts=takes_notes)
    deps = Equipped(
        parts.model.provider,
        hands,
        journal=opened.journal,
        system=system,
        answer=answer,
        mind=mind,
        before_turn=servers.settle,
    )
    about = About(
        session_id=opened.session_id,
        cwd=parts.cwd,
        model=parts.config.model,
        tools=tuple(hands.offers),
        later=lambda: servers.tools,
        servers=servers.states,
        agents=tuple(kinds) or OURS,
        mode=parts.mode,
        key_source=parts.model.key_source,
        betas=options.betas,
        ignored=tuple([name for name in options.given if BY_NAME[name].later]),
        sandbox=lambda: parts.sandboxing.words,
        spent=before.spent,
    )
    if loaded is None:
        session = Session(deps, parts.config, ledger=ledger)
        session.shared.policy = Policy(parts.mode)
    else:
        session = Session.resumed(deps, parts.config, loaded, ledger=ledger, repeatable=hands.is_repeatable)
        go_on_with(session, parts)
        tell_of_another_model(session, parts.config)
        hands.remember((*view(session.state.history, session.state.edits), *loaded.salvaged))
    session.shared.agent_spent(before.by_agents)  # the first event tells of it
    connect(parts, session, opened.journal)
    agents = AgentsOf(Household(parts, opened, kinds, surroundings, asked, hands, session))
    parts.kit.send_agent = agents.send
    gc.freeze()  # all is loaded, and stays: the collector need not look at it again
    gc.enable()

    prompts = Prompts(hands.hooks, "startup" if loaded is None else "resume")

    async def start() -> None:
        await parts.sandboxing.open()
        await servers.open(wait=not attended)
        await agents.tell_of_lost(before.lost)

    async def close() -> None:
        await agents.close()
        await prompts.ended("other")
        await mind.close()
        await hands.hooks.close()
        await servers.close()
        await parts.kit.close()
        await parts.sandboxing.close()
        await parts.model.close()

    return World(session, about, hands, prompts, start, close, parts.kit.load_skill, agents)


def new_hands(parts: Parts, hooks: Hooks | None, *, attended: bool, skills: bool, stored: bool) -> Hands:
    idle = {*(() if attended else FOR_PEOPLE), *(() if skills else ("Skill",)), *(() if stored else ("Recall",))}
    names = [name for name in parts.tools if name not in idle]
    offers = [*parts.kit.offers(names), *([parts.schema] if parts.schema is not None else [])]
    return Hands(offers, place=parts.kit.place, gate=parts.gate, hooks=hooks, attended=attended)


def connect(parts: Parts, session: Session, journal: FileJournal | None) -> None:
    """Tools that change the mode change that of the session, and see its rules; the one that searches the past
    searches its file."""
    kit, gate = parts.kit, parts.gate

    def past() -> tuple[str, ...] | None:
        if journal is None or not journal.stored:
            return None
        return (sys.executable, "-I", "-m", "mainspring.sessions.past", journal.file)

    async def change(mode: str) -> None:
        await session.change(replace(session.shared.policy, mode=mode))

    kit.mode, kit.change_mode, kit.past = (lambda: session.shared.policy.mode), change, past
    kit.names_host = lambda host: gate.names_host(host, session.shared.policy)
    parts.sandboxing.policy = lambda: gate.policy(session.shared.policy)

    async def note() -> None:
        await session.deps.journal.append(NoteRecord("sandbox", parts.sandboxing.words, session.deps.now()))

    parts.sandboxing.note = lambda: asyncio.ensure_future(note())


def structured(options: Options) -> Offer | None:
    if options.json_schema is None:
        return None
    from mainspring.tools.structured import structured_tool

    try:
        return offer(structured_tool(msgspec.json.decode(options.json_schema, type=dict[str, Any])))
    except (msgspec.MsgspecError, UsageError) as error:
        raise StartError(f"'--json-schema' cannot be understood: {error}") from None


def go_on_with(session: Session, parts: Parts) -> None:
    """Rules that were added in the session stay; the mode is that of this start, as somebody chose it or by default."""
    before = session.shared.policy
    session.shared.policy = Policy(parts.mode, before.model, before.rules, before.tools)


def tell_of_another_model(session: Session, config: Config) -> None:
    """Who goes on with a conversation should know that it goes to another model, perhaps of another company."""
    last = next((m.model for m in session.state.history.newest_first() if isinstance(m, Assistant) and m.model), "")
    if last and not same_model(last, config.model.name):
        print(
            f"mainspring: this session was held with '{last}', and goes on with '{config.model.name}' ('--model' names "
            "another)",
            file=sys.stderr,
        )


def new_sandboxing(place: Place, gate: Gate, environment: Environment, settings: Settings) -> Sandboxing:
    home = home_folder(environment)
    ground = Ground(
        settings.sandbox,
        folders=(place.root, *place.folders),
        home=home,
        path=environment.get("PATH", ""),
        policy=lambda: gate.policy(Policy()),
        may_read=lambda: gate.reading_rules(place.root, Policy()),
        masked=(f"{home}/{FILE_NAME}",) if home else (),
    )
    sandboxing = gate.sandbox = Sandboxing(ground)
    return sandboxing


def new_kit(place: Place, gate: Gate, environment: Environment, settings: Settings, sandboxing: Sandboxing) -> Kit:
    def only_reads(command: str) -> bool:
        return gate.only_reads(command, place.cwd, Policy())

    def env() -> dict[str, str]:
        from mainspring.processes.environment import for_programs

        found = for_programs(environment, settings=settings.env)
        if "PATH" in found:  # a relative folder on it is the project's own, in every project (P6)
            found["PATH"] = ":".join([folder for folder in found["PATH"].split(":") if folder.startswith("/")])
        return found

    kit = Kit(
        place,
        env,
        adopt=True,
        only_reads=only_reads,
        around=sandboxing.around,
        walls=sandboxing.walls,
        notes=sandboxing.notes,
    )
    kit.search_command = settings.search_command or ""
    return kit


def new_hooks(parts: Parts, opened: Opened) -> Hooks | None:
    if not parts.settings.hooks:
        return None
    from mainspring.cli.hooks import hooks_of

    return hooks_of(parts.settings, parts.kit, opened)


def service_searches(config: Config, settings: Settings) -> bool:
    """Anthropic's own does, for its own models; of what stands at another address nobody knows."""
    return config.model.name.startswith("claude-") and not settings.api.base_url


def offered(options: Options, settings: Settings, config: Config) -> list[str]:
    """The tools that exist for this session. Those that a rule takes away as a whole, the model is not told of."""
    exist = tuple(SPECS) if options.tools is None or "default" in options.tools else options.tools
    if unknown := [name for name in exist if name not in SPECS]:
        raise StartError(f"'--tools {unknown[0]}': there is no such tool; there are {', '.join(SPECS)}")
    away = rights.taken_away(options, settings)
    usual = options.tools is None or "default" in options.tools
    if usual and not settings.search_command and not service_searches(config, settings):
        away = {*away, "WebSearch"}  # nobody is there to search; who names the tool is told so by its answer
    return [name for name in exist if name not in away]


def money(options: Options, settings: Settings) -> int | None:
    given = round(options.max_budget_usd * NANOS_PER_USD) if options.max_budget_usd else None
    return least(given, settings.api.max_cost)


def open_journal(parts: Parts) -> Opened:
    place = new_place(parts.environment, parts.cwd, ())
    return open_session(parts.options, place, new_id())


def refuse_what_is_missing(options: Options) -> None:
    for name in options.given:
        if BY_NAME[name].refused:
            raise StartError(f"'{name}' is not there yet: it comes with the pipe to an SDK. Leave it out")


def working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  # pathlib takes 8 ms to load
    except FileNotFoundError:
        raise StartError("the working folder is gone: change into one that is there") from None
