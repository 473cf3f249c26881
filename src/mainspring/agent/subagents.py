"""The subagents of a session: the agent types, and the parts of each subagent.

The built-in types need no disk access; everything else is loaded when the first subagent starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring import agent, context, engine, providers, sessions
from mainspring.agent.options import SessionOptions, StartError
from mainspring.context.project_files import ConfigFolders
from mainspring.core.config import Effort
from mainspring.core.errors import UsageError
from mainspring.core.messages import Origin
from mainspring.core.value import Bundle
from mainspring.providers.base import list_models
from mainspring.settings.values import Settings
from mainspring.tools.catalog import SPECS

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.agent.context import SideModel
    from mainspring.agent.resume import OpenedSession
    from mainspring.agent.session_parts import SessionParts
    from mainspring.context.agent_types import AgentType
    from mainspring.context.sources import ContextSources
    from mainspring.core.config import Config
    from mainspring.core.models import Model
    from mainspring.engine.model_context import ModelContext
    from mainspring.engine.session import EngineSession
    from mainspring.engine.session_deps import Answerer
    from mainspring.engine.shared_state import Ledger
    from mainspring.engine.subagents import SubagentRegistry, SubagentStatus
    from mainspring.providers.base import Provider
    from mainspring.providers.router import ProviderRouter
    from mainspring.sessions.decoder import LoadedSession
    from mainspring.sessions.records import AgentRecord
    from mainspring.tools.agent import AgentInput
    from mainspring.tools.base import ToolAnswer, ToolContext
    from mainspring.tools.builtin import BuiltinTools
    from mainspring.tools.toolset import Toolset

BUILTIN_AGENT_NAMES = ("general-purpose", "Explore")  # the names in `context/agent_types.py`


def kinds_of(options: SessionOptions, found: ContextSources) -> Mapping[str, AgentType]:
    """Empty: only the built-in types. Warns once about skipped ones."""
    places = found.memory.places("agents")
    tell_of_untrusted(places, options)
    if options.agents is None and not places.are_there():
        return {}
    odd: list[str] = []
    try:
        given = context.parse_agent_types(options.agents, odd) if options.agents is not None else {}
    except UsageError as error:
        raise options.error("agents", f" is not valid: {error}") from None
    made = context.find_agent_types(
        places, given, {*SPECS, "Task", "ToolSearch", "StructuredOutput"}, options.spell("agents")
    )
    for problem in (*odd, *made.problems):
        options.tell(problem)
    return made.kinds


def cap_agent_effort(kinds: Mapping[str, AgentType], settings: Settings) -> Mapping[str, AgentType]:
    """Applies `maxEffortLevel` to the agent types."""
    if settings.max_effort is None:
        return kinds

    def capped(kind: AgentType) -> AgentType:
        most = agent.capped_effort(kind.effort, settings) if kind.effort else None
        return replace(kind, effort=Effort(most)) if most else kind

    return {name: capped(kind) for name, kind in kinds.items()}


def tell_of_untrusted(places: ConfigFolders, options: SessionOptions) -> None:
    if places.trusted:
        return
    ours = [folder for folder, project in replace(places, trusted=True).folders() if project]
    found = next((folder for folder in ours if os.path.isdir(folder)), "")  # noqa: PTH112  # pathlib takes 8 ms to load
    if found:
        options.tell(
            f"the agents in '{found}' are skipped: this directory is not trusted. Run 'mainspring trust' to trust it"
        )


def describe_agent_types(kinds: Mapping[str, AgentType]) -> str:
    """The description for the model; empty: only the built-in types."""
    if not kinds:
        return ""
    return context.format_agent_types(kinds.values())


def list_agent_types(parts: SessionParts) -> list[AgentType]:
    """Built-in types and your own."""
    return list((parts.kinds or context.BUILTIN_AGENT_TYPES).values())


class SubagentInputs(Bundle):
    """What a session provides for its subagents."""

    config: ResolvedConfig
    kit: BuiltinTools
    opened: OpenedSession
    kinds: Mapping[str, AgentType]
    found: ContextSources
    asked: SideModel
    hands: Toolset
    session: EngineSession
    ask: Answerer | None = None  # approves calls at any time, also for subagents in the background


class SessionSubagents:
    """The subagents of one session. The registry is created with the first one."""

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
        """The user sent a prompt: so many turns may follow, including those after reports of subagents (law 1)."""
        self._left = limit

    def took(self, turns: int) -> None:
        self._left -= turns

    @property
    def turns_left(self) -> int:
        return self._left

    async def tell_of_lost(self, lost: tuple[AgentRecord, ...]) -> None:
        """Reports lost subagents to a resumed session."""
        if lost:
            await self.agents.tell_of_lost(lost)

    @property
    def away(self) -> int:
        return self._made.away if self._made is not None else 0

    @property
    def has_begun(self) -> bool:
        return self._made is not None

    def at_work(self) -> tuple[SubagentStatus, ...]:
        """The running subagents."""
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
    """What a resumed session has spent, in nano-dollars."""

    spent: int = 0  # recorded in its events
    by_agents: int = 0  # by subagents, not recorded in an event yet
    lost: tuple[AgentRecord, ...] = ()  # subagents that were running when the process ended


def spent_before(loaded: LoadedSession | None) -> SpentBefore:
    if loaded is None:
        return SpentBefore()
    lost = lost_agents(loaded) if loaded.standing.away else ()
    return SpentBefore(loaded.spent, loaded.standing.unbooked + sum([one.cost for one in lost]), lost)


def lost_agents(loaded: LoadedSession) -> tuple[AgentRecord, ...]:
    """With what each had spent."""
    found: list[AgentRecord] = []
    for one in loaded.standing.away:
        try:
            spent = sessions.load_session(sessions.agent_file(loaded.file, one.agent_id)).spent
        except (OSError, UsageError):
            spent = 0  # it had not begun to write
        found.append(replace(one, ended=True, cost=spent))
    return tuple(found)


def new_agents(household: SubagentInputs) -> engine.SubagentRegistry:
    config, session, ways = household.config, household.session, ModelRouter(household.config)
    home = engine.SubagentEnvironment(
        kinds=household.kinds or context.BUILTIN_AGENT_TYPES,
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

    return engine.SubagentRegistry(home, deliver)


# --- the parts of a subagent ------------------------------------------------------------------------


def system_of(kind: AgentType, hands: Toolset, household: SubagentInputs) -> tuple[str, ...]:
    from mainspring.context import attachments

    found = household.found
    place = (
        () if found.tells_place else (attachments.describe_workspace(hands.place.cwd, git=found.memory.project.git),)
    )
    return context.insert_nonce((kind.prompt, *place), found.nonce)


def mind_of(  # noqa: PLR0913, PLR0917  # its inputs
    ways: ModelRouter,
    config: Config,
    hands: Toolset,
    system: tuple[str, ...],
    ledger: Ledger,
    household: SubagentInputs,
) -> ModelContext:
    """Memory files of the user and the project apply to subagents, too; only the session takes notes."""
    kit = household.kit
    around = context.ContextSourceOptions(
        household.found.memory.where,
        environ=household.config.environment,
        read=lambda: hands.place.read,
        children=lambda: kit.children,
        skills="Skill" in hands.offers,
        nonce=household.found.nonce,
        told_cwd=hands.place.cwd if household.found.tells_place else "",  # it starts in the shell's directory
    )
    surroundings = context.ContextSources(around)
    provider = ways.provider(config.model.name)  # its summaries go to the same server as its conversation
    asked = replace(household.asked, provider=provider, config=config, ledger=ledger)
    return agent.new_model_context(asked, surroundings, hands, lambda: system)


def journal_of(agent_id: str, about: dict[str, str], household: SubagentInputs) -> engine.SubagentJournal:
    """A file beside the session's, and a `.meta.json` that names the call (stream-json 14.4)."""
    above = household.opened.journal
    if above is None or not above.stored:
        return engine.SubagentJournal(sessions.NoJournal())
    config = household.config
    envelope = agent.new_place(config.environment, config.cwd, ()).envelope(household.opened.session_id)
    journal = sessions.open_journal(above, envelope, agent_id, about)
    return engine.SubagentJournal(journal, journal.file, journal.close)


class ModelRouter:
    """Finds the provider of a subagent's model: the session's, if it serves the model; else the model's own server."""

    def __init__(self, config: ResolvedConfig) -> None:
        self._parts = config
        self._router: ProviderRouter | None = None

    def model(self, name: str) -> Model:
        """Raises `UsageError` for a model that is not available."""
        model = agent.chosen_model(
            name, self._parts.options, self._parts.settings, list_models(self._parts.model.provider)
        )
        self.provider(model.name)
        return model

    def provider(self, name: str) -> Provider:
        reached, settings, environment = self._parts.model, self._parts.settings, self._parts.environment
        if reached.transport is None:
            return reached.provider
        if not agent.is_elsewhere(name, settings, environment):
            if reached.key_source == "none" and not settings.api.base_url:
                raise UsageError(
                    "there is no key for Anthropic's models: run 'mainspring login anthropic', or set ANTHROPIC_API_KEY"
                )
            return reached.provider
        if self._router is None:
            known = reached.provider
            patience = agent.patience_of(self._parts.options, settings)
            made = agent.build_router(settings, environment, reached.transport, lambda: known, patience)
            self._router = known if isinstance(known, providers.ProviderRouter) else made
        try:
            self._router.provider(name)  # raises now if something is wrong with it
        except StartError as error:
            raise UsageError(str(error)) from None
        return self._router
