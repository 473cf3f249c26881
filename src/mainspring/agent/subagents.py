"""The agents of a session of the command: which kinds there are, and what each is made of.

Ours are known without a look at the disk, and everything else is loaded when the first one is sent out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.agent.options import SessionOptions, StartError
from mainspring.context.project_files import ConfigFolders
from mainspring.core.config import Effort
from mainspring.core.errors import UsageError
from mainspring.core.messages import Origin
from mainspring.core.value import Bundle
from mainspring.settings.values import Settings
from mainspring.tools.catalog import SPECS

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.agent.context import SideModel
    from mainspring.agent.resume import OpenedSession
    from mainspring.context.agent_types import AgentType
    from mainspring.context.sources import ContextSources
    from mainspring.core.config import Config
    from mainspring.core.models import Model
    from mainspring.engine.model_context import ModelContext
    from mainspring.engine.session import EngineSession
    from mainspring.engine.session_deps import Answerer
    from mainspring.engine.shared_state import Ledger
    from mainspring.engine.subagents import SubagentJournal, SubagentRegistry, SubagentStatus
    from mainspring.providers.base import Provider
    from mainspring.providers.router import ProviderRouter
    from mainspring.sessions.decoder import LoadedSession
    from mainspring.sessions.records import AgentRecord
    from mainspring.tools.agent import AgentInput
    from mainspring.tools.base import ToolAnswer, ToolContext
    from mainspring.tools.builtin import BuiltinTools
    from mainspring.tools.toolset import Toolset

OURS = ("general-purpose", "Explore")  # as `context/agent_types.py` has them


def kinds_of(options: SessionOptions, found: ContextSources) -> Mapping[str, AgentType]:
    """Empty: ours alone. What is left out is told, once."""
    places = found.memory.places("agents")
    tell_of_untrusted(places, options)
    if options.agents is None and not places.are_there():
        return {}
    from mainspring.context.agent_types import find_agent_types, parse_agent_types

    odd: list[str] = []
    try:
        given = parse_agent_types(options.agents, odd) if options.agents is not None else {}
    except UsageError as error:
        raise options.error("agents", f" cannot be understood: {error}") from None
    made = find_agent_types(places, given, {*SPECS, "Task", "ToolSearch", "StructuredOutput"}, options.spell("agents"))
    for problem in (*odd, *made.problems):
        options.tell(problem)
    return made.kinds


def cap_agent_effort(kinds: Mapping[str, AgentType], settings: Settings) -> Mapping[str, AgentType]:
    """By `maxEffortLevel`, which holds for agents, too."""
    if settings.max_effort is None:
        return kinds
    from mainspring.agent.model import capped_effort

    def capped(kind: AgentType) -> AgentType:
        most = capped_effort(kind.effort, settings) if kind.effort else None
        return replace(kind, effort=Effort(most)) if most else kind

    return {name: capped(kind) for name, kind in kinds.items()}


def tell_of_untrusted(places: ConfigFolders, options: SessionOptions) -> None:
    if places.trusted:
        return
    ours = [folder for folder, project in replace(places, trusted=True).folders() if project]
    found = next((folder for folder in ours if os.path.isdir(folder)), "")  # noqa: PTH112  # pathlib takes 8 ms to load
    if found:
        options.tell(
            f"the agents in '{found}' are left out: this folder is not trusted ('mainspring trust' changes that)"
        )


def describe_agent_types(kinds: Mapping[str, AgentType]) -> str:
    """As the model is told of them; empty: ours alone."""
    if not kinds:
        return ""
    from mainspring.context.agent_types import format_agent_types

    return format_agent_types(kinds.values())


class SubagentInputs(Bundle):
    """What there is in a session for its agents."""

    config: ResolvedConfig
    kit: BuiltinTools
    opened: OpenedSession
    kinds: Mapping[str, AgentType]
    found: ContextSources
    asked: SideModel
    hands: Toolset
    session: EngineSession
    ask: Answerer | None = None  # who can be asked at any time, also for an agent in the background


class SessionSubagents:
    """The agents of one session, made with the first one that is sent out."""

    def __init__(self, household: SubagentInputs) -> None:
        self._household = household
        self._made: SubagentRegistry | None = None
        self._left = 0

    async def send(self, given: AgentInput, calling: ToolContext) -> ToolAnswer:
        return await self.agents.send(given, calling)

    @property
    def agents(self) -> SubagentRegistry:
        if self._made is None:
            self._made = new_agents(self._household)
        return self._made

    def begin(self, limit: int) -> None:
        """Somebody has said something: so many turns may come of it, those after reports of agents included (law 1)."""
        self._left = limit

    def took(self, turns: int) -> None:
        self._left -= turns

    @property
    def turns_left(self) -> int:
        return self._left

    async def tell_of_lost(self, lost: tuple[AgentRecord, ...]) -> None:
        """When a session is taken up again."""
        if lost:
            await self.agents.tell_of_lost(lost)

    @property
    def away(self) -> int:
        return self._made.away if self._made is not None else 0

    def at_work(self) -> tuple[SubagentStatus, ...]:
        """Those that are away."""
        return self._made.at_work() if self._made is not None else ()

    async def next_report(self) -> None:
        if self._made is not None:
            await self._made.next_report()

    async def stop(self, agent_id: str) -> None:
        if self._made is not None:
            await self._made.stop(agent_id)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


class SpentBefore(Bundle):
    """What a session that is taken up has spent, in nano-dollars."""

    spent: int = 0  # as its events tell,
    by_agents: int = 0  # and of which none has told
    lost: tuple[AgentRecord, ...] = ()  # agents that were at work when the program ended


def spent_before(loaded: LoadedSession | None) -> SpentBefore:
    if loaded is None:
        return SpentBefore()
    lost = lost_agents(loaded) if loaded.standing.away else ()
    return SpentBefore(loaded.spent, loaded.standing.unbooked + sum([one.cost for one in lost]), lost)


def lost_agents(loaded: LoadedSession) -> tuple[AgentRecord, ...]:
    """With what each had spent by then."""
    from mainspring.sessions.paths import agent_file
    from mainspring.sessions.resume import load_session

    found: list[AgentRecord] = []
    for one in loaded.standing.away:
        try:
            spent = load_session(agent_file(loaded.file, one.agent_id)).spent
        except (OSError, UsageError):
            spent = 0  # it had not begun to write
        found.append(replace(one, ended=True, cost=spent))
    return tuple(found)


def new_agents(household: SubagentInputs) -> SubagentRegistry:
    from mainspring.context import agent_types
    from mainspring.engine.subagents import SubagentEnvironment, SubagentRegistry

    config, session, ways = household.config, household.session, ModelRouter(household.config)
    home = SubagentEnvironment(
        kinds=household.kinds or agent_types.OURS,
        provider=ways.provider,
        config=config.loop,
        hands=household.hands,
        system=lambda kind, hands: system_of(kind, hands, household),
        mind=lambda config, hands, system, ledger: mind_of(ways, config, hands, system, ledger, household),
        journal=lambda agent_id, about: journal_of(agent_id, about, household),
        model=ways.model,
        shared=lambda: household.session.shared,
        note=session.deps.journal.append,
        now=session.deps.now,
        ask=household.ask,
    )

    async def deliver(text: str) -> None:
        await session.submit(text, origin=Origin.REPORT)

    return SubagentRegistry(home, deliver)


# --- what one is made of ----------------------------------------------------------------------------


def system_of(kind: AgentType, hands: Toolset, household: SubagentInputs) -> tuple[str, ...]:
    from mainspring.context import attachments
    from mainspring.context.prompt import insert_nonce

    found = household.found
    place = (
        () if found.tells_place else (attachments.describe_workspace(hands.place.cwd, git=found.memory.project.git),)
    )
    return insert_nonce((kind.prompt, *place), found.nonce)


def mind_of(  # noqa: PLR0913, PLR0917  # what a mind is made of
    ways: ModelRouter,
    config: Config,
    hands: Toolset,
    system: tuple[str, ...],
    ledger: Ledger,
    household: SubagentInputs,
) -> ModelContext:
    """What the user and the project want to be known counts for agents, too; notes are taken by the session alone."""
    from mainspring.agent.context import new_model_context
    from mainspring.context.sources import ContextSourceOptions, ContextSources

    kit = household.kit
    around = ContextSourceOptions(
        household.found.memory.where,
        environ=household.config.environment,
        read=lambda: hands.place.read,
        children=lambda: kit.children,
        skills="Skill" in hands.offers,
        nonce=household.found.nonce,
        told_cwd=hands.place.cwd if household.found.tells_place else "",  # it begins where the shell is
    )
    surroundings = ContextSources(around)
    provider = ways.provider(config.model.name)  # its summaries go where its conversation goes, and nowhere else
    asked = replace(household.asked, provider=provider, config=config, ledger=ledger)
    return new_model_context(asked, surroundings, hands, lambda: system)


def journal_of(agent_id: str, about: dict[str, str], household: SubagentInputs) -> SubagentJournal:
    """A file beside the session's, and one that says whose it is (stream-json 14.4)."""
    from mainspring.engine.subagents import SubagentJournal
    from mainspring.sessions.records import NoJournal

    above = household.opened.journal
    if above is None or not above.stored:
        return SubagentJournal(NoJournal())
    from mainspring.agent.resume import new_place
    from mainspring.sessions.subagents import open_journal

    config = household.config
    envelope = new_place(config.environment, config.cwd, ()).envelope(household.opened.session_id)
    journal = open_journal(above, envelope, agent_id, about)
    return SubagentJournal(journal, journal.file, journal.close)


class ModelRouter:
    """To the models of agents: that of the session, where it reaches one; else to the model's own server."""

    def __init__(self, config: ResolvedConfig) -> None:
        self._parts = config
        self._router: ProviderRouter | None = None

    def model(self, name: str) -> Model:
        """Raises `UsageError` for one that cannot be asked."""
        from mainspring.agent.model import chosen_model

        model = chosen_model(name, self._parts.options, self._parts.settings)
        self.provider(model.name)
        return model

    def provider(self, name: str) -> Provider:
        from mainspring.agent.model import is_elsewhere

        reached, settings, environment = self._parts.model, self._parts.settings, self._parts.environment
        if reached.transport is None:
            return reached.provider
        if not is_elsewhere(name, settings, environment):
            if reached.key_source == "none" and not settings.api.base_url:
                raise UsageError("there is no key for Anthropic's models")
            return reached.provider
        from mainspring.agent.endpoints import build_router
        from mainspring.providers.router import ProviderRouter

        if self._router is None:
            known = reached.provider
            made = build_router(settings, environment, reached.transport, lambda: known)
            self._router = known if isinstance(known, ProviderRouter) else made
        try:
            self._router.provider(name)  # what is wrong with it is told now
        except StartError as error:
            raise UsageError(str(error)) from None
        return self._router
