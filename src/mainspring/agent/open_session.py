"""Opens a session: its file, then its parts, from the lowest to the highest."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring import agent, engine, processes, secrets
from mainspring.agent import permissions
from mainspring.agent.config import ResolvedConfig
from mainspring.agent.context import (
    SideModel,
    build_system_text,
    find_output_style,
    list_output_styles,
    make_service_search,
    make_side_call,
    new_model_context,
    read_context_sources,
)
from mainspring.agent.model import ON_CLOUDS, available_name, least_limit
from mainspring.agent.options import SessionOptions
from mainspring.agent.prompt_expansion import PromptHooks, UserPrompts
from mainspring.agent.resume import OpenedSession, open_journal, wants_checkpoints
from mainspring.agent.session import AgentSession
from mainspring.agent.session_parts import STDIO, HostCallbacks, SessionCleanup, SessionInfo, SessionParts
from mainspring.agent.slash_commands import (
    ONCE,
    PIPE,
    list_other_commands,
    make_mention_attacher,
    names_at,
    skill_names,
    skill_of,
)
from mainspring.agent.subagents import (
    BUILTIN_AGENT_NAMES,
    SessionSubagents,
    SpentBefore,
    SubagentInputs,
    cap_agent_effort,
    describe_agent_types,
    kinds_of,
    spent_before,
)
from mainspring.context.attachments import new_nonce
from mainspring.context.prompt import PromptStyle, insert_nonce
from mainspring.core.config import Config
from mainspring.core.errors import UsageError
from mainspring.core.messages import Assistant
from mainspring.core.models import Model, same_model
from mainspring.core.money import NANOS_PER_USD, Usage
from mainspring.core.value import Bundle
from mainspring.core.view import view
from mainspring.engine.session import EngineSession
from mainspring.engine.session_deps import AgentDeps, Answerer
from mainspring.engine.shared_state import EnginePolicy, Ledger
from mainspring.hooks.events import Hooks
from mainspring.sessions.journal import FileJournal
from mainspring.sessions.line_format import used_by
from mainspring.sessions.paths import read_log, side_folder
from mainspring.sessions.records import NoteRecord
from mainspring.settings.load import home_folder
from mainspring.telemetry import SessionTelemetry
from mainspring.tools.base import Workspace
from mainspring.tools.builtin import FOR_PEOPLE, BuiltinTools, ToolLinks
from mainspring.tools.toolset import Toolset

if TYPE_CHECKING:
    from mainspring.agent.approvals import PermissionTool
    from mainspring.agent.checkpoints import FileCheckpoints
    from mainspring.agent.host import Host
    from mainspring.agent.mcp import SessionMcpServers
    from mainspring.context.agent_types import AgentType
    from mainspring.context.custom_commands import SlashEntry
    from mainspring.context.sources import ContextSources
    from mainspring.core.messages import User
    from mainspring.core.updates import Retrying
    from mainspring.mcp.host_transport import Send
    from mainspring.mcp.resources import May
    from mainspring.permissions.classifier import Classifier
    from mainspring.processes.child import SandboxAccess
    from mainspring.processes.children import Children
    from mainspring.sessions.decoder import LoadedSession
    from mainspring.settings.values import Settings
    from mainspring.tools.shell import WallsOf

Built = Callable[[], SessionParts]  # returns the parts, which a part reaches only when it runs


def open_session(  # noqa: PLR0913  # keywords, nearly all of them
    config: ResolvedConfig,
    host: Host | None = None,
    *,
    opened: OpenedSession | None = None,
    deltas: bool = True,
    mirror: Callable[[str, bytes], None] | None = None,
    released: Callable[[], object] = lambda: None,
    ledger: Ledger | None = None,
) -> AgentSession:
    """Opens the session's file, and builds the session. Raises `StartError`.

    `host`: None if no host can be asked. `opened`: the file, if the caller has already opened it. `deltas`: whether
    updates include deltas of replies. `mirror` receives each line of the session's file; `released` is called when a
    conversation has ended and its memory can be freed. `ledger`: a child of that of another session, which pays for
    this one."""
    return AgentSession(
        config,
        opened or open_journal(config, mirror),
        host,
        build_session_parts,
        deltas=deltas,
        mirror=mirror,
        released=released,
        ledger=ledger,
    )


def build_session_parts(
    config: ResolvedConfig, opened: OpenedSession, links: HostCallbacks, ledger: Ledger | None = None
) -> SessionParts:
    """Builds the parts of a new or resumed conversation, from the lowest to the highest, each complete when it is
    created. `ledger`: that of the previous conversation in this process."""
    loaded = opened.loaded
    config = replace(config, loop=replace(config.loop, nonce=find_nonce(loaded)))
    before = spent_before(loaded)
    side_model = new_side_model(config, open_ledger(ledger or Ledger(), config, opened, before), links.show)
    policy = restore_policy(config, loaded)
    tools = build_tools(config, opened, links, lambda: world)
    surroundings, servers = tools.surroundings, tools.servers
    wanted_style = None if config.options.bare else config.settings.output_style
    style = find_output_style(wanted_style, config.system, surroundings)
    system = make_system_prompt(config, tools, style)
    takes_notes = wants_notes(config, opened, tools)
    mind = new_model_context(
        side_model,
        surroundings,
        tools.hands,
        system,
        takes_notes=takes_notes,
        suggest=links.suggest if wants_suggestions(config, tools, takes_notes=takes_notes) else None,
        summarizes_tools=wants_tool_summaries(config),
    )
    deps = AgentDeps(
        config.model.provider,
        tools.hands,
        journal=opened.journal,
        system=system,
        answer=tools.answer,
        mind=mind,
        before_turn=servers.settle,
        before_request=tools.rewinding.before_request if tools.rewinding is not None else None,
    )
    telemetry = SessionTelemetry(opened.session_id, config.options.tracing, cloud_of(config.environment))
    session = new_session(config, deps, side_model.ledger, loaded, policy, telemetry)
    session.shared.agent_spent(before.by_agents)  # the first event includes it
    attach = make_mention_attacher(
        surroundings, config.gate, session, config.cwd, servers, reads="Read" in tools.hands.offers
    )
    world = SessionParts(
        config=config,
        session=session,
        about=new_session_info(config, opened, links, tools, before, style),
        hands=tools.hands,
        prompts=PromptHooks(tools.hands.hooks, links.source if loaded is None else "resume", attach),
        skill=skill_of(surroundings, servers),
        agents=new_subagents(config, opened, tools, side_model, session),
        lost_agents=before.lost,
        servers=servers,
        waits_for_servers=links.relay is None and (tools.answer is None or tools.answer_any_time is not None),
        around=surroundings,
        kinds=tools.kinds,
        kit=tools.kit,
        mind=mind,
        system=system,
        cleanup=SessionCleanup(config, opened),
        own_words=UserPrompts(),
        rewinding=tools.rewinding,
        notice=config.options.tell,
    )
    return world


class SessionTools(Bundle):
    """The tools of a session, what they work with, and who approves their calls."""

    rewinding: FileCheckpoints | None
    surroundings: ContextSources
    kinds: Mapping[str, AgentType]
    kit: BuiltinTools
    hands: Toolset
    servers: SessionMcpServers | NoMcpServers
    answer: Answerer | None  # None: nobody can approve
    answer_any_time: Answerer | None  # also for a subagent in the background


def build_tools(config: ResolvedConfig, opened: OpenedSession, links: HostCallbacks, built: Built) -> SessionTools:
    journal = opened.journal
    rewinding = new_checkpoints(config, journal, lambda: (place.real, *place.folders))
    place = new_workspace(config, opened, rewinding)
    surroundings = new_context_sources(config, place, lambda: kit.children)
    kinds = cap_agent_effort(kinds_of(config.options, surroundings), config.settings)
    kit = new_builtin_tools(
        config, place, make_tool_links(config, opened, links, kinds, built), make_sandbox_access(config, built)
    )
    answer, any_time = make_answerers(config, links, make_permission_tool(config.options, built))
    hooks = new_hooks(config, kit, opened, links)
    idle = list_idle_tools(opened, surroundings, attended=answer is not None)
    hands = new_toolset(config, kit, hooks, idle, built, attended=answer is not None)
    servers = config.holder.run(connect_mcp_servers, config, kit, hands, links.relay)
    return SessionTools(rewinding, surroundings, kinds, kit, hands, servers, answer, any_time)


# --- what tools work with ---------------------------------------------------------------------------


def make_tool_links(
    config: ResolvedConfig,
    opened: OpenedSession,
    links: HostCallbacks,
    kinds: Mapping[str, AgentType],
    built: Built,
) -> ToolLinks:
    """What tools need of the session, which is built later."""
    policy, gate = config.policy, config.gate
    return ToolLinks(
        mode=lambda: policy.current.mode,
        change_mode=lambda mode: built().session.change(replace(policy.current, mode=mode)),
        past=make_recall_command(opened.journal),
        agent_types=describe_agent_types(kinds),
        send_agent=lambda given, calling: built().agents.send(given, calling),  # noqa: PLW0108  # built later
        task_changed=links.task_changed,
        load_skill=lambda name, arguments: built().around.skills.load(name, arguments).text,
        names_host=lambda host: gate.names_host(host, policy.current),
        ask_small=make_side_call(lambda: built().mind),
        search_command=config.settings.search_command or "",
        search_service=make_service_search(
            lambda: built().mind, lambda: policy.current.model or config.loop.model, config.explain_missing_search
        ),
        denied_domains=lambda: gate.denied_search_domains(policy.current),
    )


def new_workspace(config: ResolvedConfig, opened: OpenedSession, rewinding: FileCheckpoints | None) -> Workspace:
    """With the paths of what tools store beside the session's file: long results, and which files were read. Without a
    file, long results are in the session's private directory, if it has one."""
    journal = opened.journal
    # Resolved before any command runs: from then on no link in the path is followed.
    beside = os.path.realpath(side_folder(journal.file)) if journal is not None else opened.scratch
    spill = f"{beside}/tool-results" if beside else ""
    return Workspace(
        config.cwd,
        home=config.home,
        folders=config.folders,
        spill=spill,
        environ=config.environment,
        nonce=config.loop.nonce,
        read_log=read_log(journal.file) if journal is not None else "",
        keep=rewinding.keep if rewinding is not None else None,
        before_writing=rewinding.before_writing if rewinding is not None else None,
    )


def new_context_sources(config: ResolvedConfig, place: Workspace, children: Callable[[], Children]) -> ContextSources:
    options = config.options
    tells_place = options.exclude_dynamic_sections and not config.system[0] and not options.bare
    return read_context_sources(config, place, children, tells_place=tells_place)


def new_checkpoints(
    config: ResolvedConfig, journal: FileJournal | None, roots: Callable[[], tuple[str, ...]]
) -> agent.FileCheckpoints | None:
    if journal is None or not wants_checkpoints(config):
        return None
    from mainspring.checkpoints.history import FileHistory

    history = FileHistory(journal.file, home_folder(config.environment), home=config.home)
    writable = agent.RewindPermissions(config.gate, config.cwd, lambda: config.policy.current)
    return agent.FileCheckpoints(history, writable, roots, config.options.tell)


def new_builtin_tools(config: ResolvedConfig, place: Workspace, links: ToolLinks, walls: WallsOf) -> BuiltinTools:
    gate, environment, settings, options = config.gate, config.environment, config.settings, config.options

    def only_reads(command: str) -> bool:
        return gate.only_reads(command, place.cwd, EnginePolicy())

    def env() -> dict[str, str]:
        keys = {entry.key_env for entry in settings.models}

        def is_secret(name: str, value: str) -> bool:
            return processes.sounds_secret(name) or name in keys or bool(secrets.find_secrets_in(value))

        # The program that drives us chose this environment, also for its tools (stream-json 1.3).
        named = [name for name, value in environment.items() if not is_secret(name, value)] if options.driven else ()
        found = processes.child_environment(environment, settings=settings.env, names=named)
        if "PATH" in found:  # a relative entry would be a directory of every project (security P6)
            found["PATH"] = ":".join([folder for folder in found["PATH"].split(":") if folder.startswith("/")])
        return found

    return BuiltinTools(
        place,
        env,
        links=links,
        adopt=not options.in_process,
        only_reads=only_reads,
        around=config.sandboxing.around,
        around_waiting=config.sandboxing.around_waiting,
        walls=walls,
        notes=config.sandboxing.notes,
    )


def make_sandbox_access(config: ResolvedConfig, built: Built) -> WallsOf:
    """What a command may reach. The first command also records the sandbox level in the journal."""
    noted: list[asyncio.Future[None]] = []

    async def note() -> None:
        deps = built().session.deps
        await deps.journal.append(NoteRecord("sandbox", config.sandboxing.words, deps.now()))

    def walls(command: str, leave: bool) -> SandboxAccess:  # a callback
        if not noted:
            noted.append(asyncio.ensure_future(note()))
        return config.sandboxing.walls(command, leave)

    return walls


def make_recall_command(journal: FileJournal | None) -> Callable[[], tuple[str, ...] | None]:
    """The command that searches the session's history."""

    def past() -> tuple[str, ...] | None:
        if journal is None or not journal.stored:
            return None
        return (sys.executable, "-I", "-m", "mainspring.sessions.search", journal.file)

    return past


def make_permission_tool(options: SessionOptions, built: Built) -> agent.PermissionTool | None:
    name = options.permission_prompt_tool_name
    if name is None or (name == STDIO and options.driven):
        return None
    return agent.PermissionTool(name, options, lambda: built().mcp)


def make_answerers(
    config: ResolvedConfig, links: HostCallbacks, tool: PermissionTool | None
) -> tuple[Answerer | None, Answerer | None]:
    """The answerer during a run, and the one at any time, also for subagents in the background. Both are None if the
    settings deny every call that needs approval."""
    if config.settings.permissions.asks_nobody:
        return None, None
    if tool is not None:
        return tool.answer, tool.answer
    return links.answer, links.answer if links.in_background else None


def new_hooks(config: ResolvedConfig, kit: BuiltinTools, opened: OpenedSession, links: HostCallbacks) -> Hooks | None:
    if not config.settings.hooks and not links.hooks:
        return None
    told_to = agent.HookListeners(config.options.tell, links.say or config.options.say)
    return agent.hooks_of(config.settings, kit, opened, lambda: config.policy.current.mode, links.hooks, told_to)


def list_idle_tools(opened: OpenedSession, surroundings: ContextSources, *, attended: bool) -> set[str]:
    """Names of the tools that this session cannot use."""
    return {
        *(() if attended else FOR_PEOPLE),
        *(() if surroundings.has_skills else ("Skill",)),
        *(() if opened.journal is not None else ("Recall",)),
    }


def new_toolset(  # noqa: PLR0913  # its inputs
    config: ResolvedConfig, kit: BuiltinTools, hooks: Hooks | None, idle: set[str], built: Built, *, attended: bool
) -> Toolset:
    async def late(name: str) -> str:
        return await built().servers.arrive(name)

    offers = [*kit.offers([name for name in config.tools if name not in idle]), *config.own]
    return Toolset(
        offers,
        place=kit.place,
        gate=config.gate,
        hooks=hooks,
        attended=attended,
        late=late if config.servers is not None else None,
        classifier=make_classifier(built),
        deps=config.options.deps,
    )


def make_classifier(built: Built) -> Callable[[], Classifier]:
    """Loaded for the first call that mode auto leaves to it."""

    @cache
    def classifier() -> engine.CallClassifier:
        from mainspring.permissions.classifier import UserPrompt

        parts = built()
        assert parts.mind.ask is not None
        ask, words = parts.mind.ask, parts.own_words
        return engine.CallClassifier(lambda: ask, lambda: tuple([UserPrompt(*one) for one in words.texts()]))

    return classifier


# --- MCP servers -----------------------------------------------------------------------------------


class NoMcpServers:
    """Used if no server is configured, which is the usual case."""

    tools: tuple[str, ...] = ()
    instructions = ""

    async def open(self, *, wait: bool) -> None:
        pass

    async def settle(self) -> None:
        pass

    async def arrive(self, tool: str) -> str:  # noqa: ARG002  # as `SessionMcpServers` has it
        return ""

    def states(self) -> list[dict[str, str]]:
        return []

    def words(self) -> tuple[SlashEntry, ...]:
        return ()

    def knows(self, word: str, words: str) -> bool:  # noqa: ARG002  # as `SessionMcpServers` has it
        return False

    async def brought(self, said: str, may: May, *, mentions: bool = True) -> tuple[User, ...]:  # noqa: ARG002
        return ()

    async def close(self) -> None:
        pass


def connect_mcp_servers(
    config: ResolvedConfig, kit: BuiltinTools, hands: Toolset, relay: Send | None = None
) -> agent.SessionMcpServers | NoMcpServers:
    """`relay` reaches servers inside the host."""
    if config.servers is None:
        return NoMcpServers()
    is_away = agent.taken_away(permissions.taken_away(config.options, config.settings))
    servers = agent.new_servers(
        config.servers,
        kit,
        config.environment,
        model=config.loop.model,
        is_away=is_away,
        warn=config.options.tell,
        relay=relay,
    )
    return agent.SessionMcpServers(servers, hands)


# --- the system prompt ------------------------------------------------------------------------------


def make_system_prompt(
    config: ResolvedConfig, tools: SessionTools, style: PromptStyle | None
) -> Callable[[], tuple[str, ...]]:
    """Returns a function that builds the system prompt for a request: MCP servers that connect add instructions."""
    if config.options.bare:
        return make_bare_prompt(config, tools)
    attended, nonce = tools.answer is not None, tools.surroundings.nonce
    blocks = build_system_text(config.system, tools.surroundings, tools.hands.offers, attended=attended, style=style)
    alone = insert_nonce(blocks, nonce)

    def system() -> tuple[str, ...]:
        words = tools.servers.instructions
        return insert_nonce((*blocks, words), nonce) if words else alone

    return system


def make_bare_prompt(config: ResolvedConfig, tools: SessionTools) -> Callable[[], tuple[str, ...]]:
    """The program's text alone. Reminders are explained only where there can be any: of built-in tools, of memory and
    skills, of tools that arrive later."""
    own, options, servers = config.system, config.options, tools.servers
    blocks = tuple([text for text in own if text])
    reminds = bool(config.tools or options.setting_sources or config.servers)
    nonce = tools.surroundings.nonce if reminds else ""

    def system() -> tuple[str, ...]:
        words = servers.instructions
        return insert_nonce((*blocks, words) if words else blocks, nonce)

    return system


def wants_notes(config: ResolvedConfig, opened: OpenedSession, tools: SessionTools) -> bool:
    """Notes are for sessions with a user at the terminal, who may come back."""
    return has_person(tools) and opened.journal is not None and config.settings.features.auto_memory


def has_person(tools: SessionTools) -> bool:
    """Whether a person at the terminal approves calls."""
    return tools.answer is not None and tools.answer_any_time is None


def wants_suggestions(config: ResolvedConfig, tools: SessionTools, *, takes_notes: bool) -> bool:
    """At the terminal they come with the notes, in one request, or not at all; a program asks for them."""
    if not config.options.prompt_suggestions or not config.settings.features.suggestions:
        return False
    return takes_notes or not has_person(tools)


def cloud_of(environment: Mapping[str, str]) -> str:
    """Where models with a plain name are: `bedrock`, `vertex`, or empty for Anthropic."""
    if not any(environment.get(name) for name in ON_CLOUDS):
        return ""
    from mainspring.agent.endpoints import is_on

    return next(
        (cloud for cloud, name in zip(("bedrock", "vertex"), ON_CLOUDS, strict=True) if is_on(name, environment)), ""
    )


SUMMARIES = "CLAUDE_CODE_EMIT_TOOL_USE_SUMMARIES"  # as Claude Code has it


def wants_tool_summaries(config: ResolvedConfig) -> bool:
    """Off by default: each is a paid request. The variable is not for programs that use the library."""
    if config.options.tool_use_summaries is not None:
        return config.options.tool_use_summaries
    by_variable = not config.options.bare and config.environment.get(SUMMARIES) in ("1", "true")
    return config.settings.features.tool_use_summaries or by_variable


def new_side_model(
    config: ResolvedConfig, ledger: Ledger, show: Callable[[Retrying], object] | None = None
) -> SideModel:
    settings = config.settings
    return SideModel(
        config.model.provider,
        config.loop,
        ledger,
        config.environment,
        settings.features,
        settings.model_rules,
        show,
    )


# --- the session ------------------------------------------------------------------------------------


def new_subagents(
    config: ResolvedConfig, opened: OpenedSession, tools: SessionTools, side_model: SideModel, session: EngineSession
) -> SessionSubagents:
    return SessionSubagents(
        SubagentInputs(
            config,
            tools.kit,
            opened,
            tools.kinds,
            tools.surroundings,
            side_model,
            tools.hands,
            session,
            tools.answer_any_time,
        )
    )


def new_session_info(  # noqa: PLR0913, PLR0917  # its inputs
    config: ResolvedConfig,
    opened: OpenedSession,
    links: HostCallbacks,
    tools: SessionTools,
    before: SpentBefore,
    style: PromptStyle | None,
) -> SessionInfo:
    options, surroundings, servers = config.options, tools.surroundings, tools.servers
    return SessionInfo(
        session_id=opened.session_id,
        cwd=config.cwd,
        model=config.loop.model,
        tools=tuple(tools.hands.offers),
        later=lambda: servers.tools,
        servers=servers.states,
        agents=tuple(tools.kinds) or BUILTIN_AGENT_NAMES,
        commands=list_slash_commands(options, surroundings, driven=links.relay is not None),
        skills=lambda: skill_names(surroundings),
        words=lambda: tuple([word.name for word in servers.words()]),
        mode=config.mode,
        key_source=config.model.key_source,
        plugins=config.plugins,
        betas=options.betas,
        ignored=options.ignored,
        sandbox=lambda: config.sandboxing.words,
        output_style=style.name if style is not None else "default",
        output_styles=lambda: list_output_styles(surroundings),
        used=load_usage(opened.loaded),
        max_retries=config.loop.max_retries,
        spent=before.spent,
        breaks=opened.loaded.standing.breaks if opened.loaded is not None else (),
    )


def new_session(  # noqa: PLR0913, PLR0917  # its inputs
    config: ResolvedConfig,
    deps: AgentDeps,
    ledger: Ledger,
    loaded: LoadedSession | None,
    policy: EnginePolicy,
    telemetry: SessionTelemetry,
) -> EngineSession:
    hands = deps.hands
    if loaded is None:
        return EngineSession(
            deps,
            config.loop,
            ledger=ledger,
            policy=config.policy,
            side_jobs=deps.side_jobs,
            describe=hands.line,
            telemetry=telemetry,
        )
    session = EngineSession.resumed(
        deps,
        config.loop,
        loaded,
        ledger=ledger,
        policy=config.policy,
        restored=policy,
        repeatable=hands.is_repeatable,
        side_jobs=deps.side_jobs,
        describe=hands.line,
        telemetry=telemetry,
    )
    warn_about_other_model(session, config.loop, config.options)
    hands.remember((*view(session.state.history, session.state.edits), *loaded.salvaged))
    return session


def warn_about_other_model(session: EngineSession, config: Config, options: SessionOptions) -> None:
    """Warns the user that a resumed conversation goes to another model, perhaps of another company."""
    last = next((m.model for m in session.state.history.newest_first() if isinstance(m, Assistant) and m.model), "")
    if last and not same_model(last, config.model.name):
        options.tell(
            f"this session used '{last}' before and continues with '{config.model.name}' "
            f"(choose another with '{options.spell('model')}')"
        )


def list_slash_commands(options: SessionOptions, found: ContextSources, *, driven: bool) -> tuple[str, ...]:
    """Without the skills that the model knows about. Empty, at no cost, if the front end does not list commands."""
    if not options.lists_commands and not driven:
        return ()
    own, skills = names_at(PIPE if driven else ONCE), skill_names(found)
    others = [entry.name for entry in list_other_commands(found, own) if entry.name not in skills]
    return tuple(dict.fromkeys((*own, *others)))


def load_usage(loaded: LoadedSession | None) -> tuple[tuple[str, Usage], ...]:
    """The usage by model of a resumed session."""
    if loaded is None:
        return ()
    return used_by(loaded.state.history) if loaded.standing.used is None else loaded.standing.used


# --- from the earlier session -----------------------------------------------------------------------


def find_nonce(loaded: LoadedSession | None) -> str:
    """A resumed session keeps its nonce, and so does a fork: what the model has seen does not change (law 4). It is
    stored with the config, and never read from messages: hooks and servers can write to those."""
    config = loaded.config if loaded is not None else None
    return (config.nonce if config is not None else "") or new_nonce()


def open_ledger(ledger: Ledger, config: ResolvedConfig, opened: OpenedSession, before: SpentBefore) -> Ledger:
    spent, source = before.spent + before.by_agents, config.options.resume or ""
    ledger.begin_session(
        opened.session_id, spent, source=source, limit=get_budget_limit(config.options, config.settings)
    )
    return ledger


def get_budget_limit(options: SessionOptions, settings: Settings) -> int | None:
    given = round(options.max_budget_usd * NANOS_PER_USD) if options.max_budget_usd else None
    return least_limit(given, settings.api.max_cost)


def restore_policy(config: ResolvedConfig, loaded: LoadedSession | None) -> EnginePolicy:
    """Keeps the rules that were added in the session; the mode is that of this start, and so is the model, if it has
    an option for it."""
    before = loaded.policy if loaded is not None else None
    if before is None:
        return EnginePolicy(config.mode)
    model = check_model_available(before.model, config) if config.options.model is None else None
    return EnginePolicy(config.mode, model, before.rules, before.tools)


def check_model_available(model: Model | None, config: ResolvedConfig) -> Model | None:
    """The model that was chosen in the earlier session; None, with a warning, if the settings no longer allow it."""
    if model is None:
        return None
    try:
        available_name(model.name, config.settings)
    except UsageError as error:
        config.options.tell(f"{error}. The session continues with '{config.loop.model.name}'")
        return None
    return model
