"""One agent session behind every front end: prompts in, updates out, and everything that can be asked of it between.

    session = open_session(resolve_config(options, environment), host)
    await session.start()
    await session.submit("Fix the failing test")
    session.finish()
    async for update in session.updates():
        ...
    await session.close()

It keeps its identity over clear, resume, rewind and reload; what changes is one private bundle (`SessionParts`), which
is complete when it is made. Nothing runs before the updates are read. The host is called only when the reader has taken
every earlier update, and no method here waits for the reader: a program may read and call in one task.

What stays when another session takes the place of the one before it in this process: `/clear`, `/resume`, `/rewind`,
`/trust` and a reload in the terminal, `/clear` in the pipe.

One rule: money, mode, rules and folders belong to the process. What was spent counts against the limit, whichever
session spent it, and the ledger is the same object; what somebody has allowed or chosen holds until they leave.

Which model a session is told to ask from now on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from mainspring.agent.config import ResolvedConfig
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.prompt_expansion import Prompt, QueuedPrompt, text_prompt
from mainspring.agent.resume import open_journal
from mainspring.agent.run_loop import InterruptResult, LocalCommand, RunLoop
from mainspring.agent.session_parts import HostCallbacks, SessionParts
from mainspring.agent.subagents import ModelRouter
from mainspring.agent.updates import AnyUpdate, Notice, SessionReset, State, TaskChanged, UpdateStream
from mainspring.agent.usage import OBSERVED, UsageMeter
from mainspring.core.errors import UsageError
from mainspring.core.models import Model
from mainspring.core.updates import Result
from mainspring.core.value import Bundle
from mainspring.engine.shared_state import EnginePolicy, Ledger
from mainspring.engine.tasks import await_uncancellable
from mainspring.tools.base import Workspace

if TYPE_CHECKING:
    from mainspring.agent.approvals import HostQuestions
    from mainspring.agent.host import Host
    from mainspring.agent.permission_updates import PermissionUpdates
    from mainspring.agent.resume import OpenedSession
    from mainspring.mcp.servers import McpServers
    from mainspring.tools.background import BackgroundCommand


BuildWorld = Callable[["ResolvedConfig", "OpenedSession", HostCallbacks, "Ledger | None"], SessionParts]
Why = Literal["clear", "resume", "rewind", "reload"]


class AgentSession:
    def __init__(  # noqa: PLR0913  # what it is made of
        self,
        config: ResolvedConfig,
        opened: OpenedSession,
        host: Host | None,
        build: BuildWorld,
        *,
        deltas: bool,
        suggest: Callable[[str], object] | None,
        mirror: Callable[[str, bytes], None] | None,
        released: Callable[[], object],
    ) -> None:
        """For `open_session`, which knows what these are. `build` makes what each conversation is made of."""
        self.config, self.host = config, host
        self._build, self._suggest = build, suggest
        self._mirror, self._released = mirror, released
        self._updates = UpdateStream(self._begin, self._observe, OBSERVED | {Result})
        self._runs = RunLoop(lambda: self.world, self._updates, self._commands(), deltas=deltas)
        self._closing: asyncio.Task[None] | None = None
        self._hooks_watched = False
        self._may_bypass = config.mode == "bypassPermissions"
        self._questions: HostQuestions | None = None
        self._permissions: PermissionUpdates | None = None
        self._take(config, opened, "startup")

    # --- life ---

    async def start(self) -> None:
        """Sandbox, MCP servers, reports of subagents that were lost. Before the first prompt."""
        await self.world.open()

    async def close(self, reason: str = "other") -> None:
        """Ends what is under way, with all that it started, and stores the session. Whoever is cancelled meanwhile
        still waits for that, and so does whoever asks a second time."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(reason))
        await await_uncancellable(self._closing)

    async def _close(self, reason: str) -> None:
        try:
            await self._runs.close()
            await self._close_world(reason)
        finally:
            self._updates.close()

    async def _close_world(self, reason: str) -> None:
        try:
            await self.world.close(reason)
        finally:
            if self.opened.journal is not None:
                self.opened.journal.close()

    def kill(self) -> None:
        """All child processes, at once. For a signal handler."""
        self.world.kit.kill()

    def _take(self, config: ResolvedConfig, opened: OpenedSession, source: str, ledger: Ledger | None = None) -> None:
        self.config, self.opened = config, opened
        self._permissions = None
        self.world: SessionParts = self._build(config, opened, self._links(config, source), ledger)
        session = self.world.session
        session.shared.watch(self._updates.push)
        about = self.world.about
        self.usage = UsageMeter(about.model, session.deps.now, about.spent, about.used)
        if self._hooks_watched:
            self.watch_hooks()

    def _links(self, config: ResolvedConfig, source: str) -> HostCallbacks:
        host, options, asked = self.host, config.options, None
        if host is not None:
            from mainspring.agent.approvals import HostQuestions  # who asks nobody does not pay for it

            asked = HostQuestions(host, self._updates.caught_up, self._runs.asks, self.update_permissions)
        self._questions = asked
        return HostCallbacks(
            answer=asked.answer if host is not None and asked is not None and host.reach != "never" else None,
            in_background=host is not None and host.reach == "always",
            hooks=asked.hooks(options.host_hooks, options.tell) if asked is not None else (),
            say=lambda words: self._updates.push(Notice(words)),
            relay=host.call_mcp if host is not None and options.driven else None,
            suggest=self._suggest,
            task_changed=self._task_changed,
            source=source,
        )

    # --- prompts and updates ---

    def updates(self) -> UpdateStream:
        """For one reader. Ends after `close()`, or after `finish()` when all is done."""
        return self._updates

    async def submit(self, prompt: Prompt | str) -> QueuedPrompt:
        """For the next run; a steering one goes to the run under way with its next request, and is journaled first."""
        return await self._runs.submit(text_prompt(prompt) if isinstance(prompt, str) else prompt)

    def enqueue(self, prompt: Prompt) -> QueuedPrompt:
        """For a run of its own, behind those that wait."""
        return self._runs.enqueue(prompt)

    @property
    def queued(self) -> tuple[QueuedPrompt, ...]:
        return self._runs.queued

    async def withdraw(self, id: str) -> Prompt | None:
        """None: it is on its way to the model, or nobody knows it."""
        return await self._runs.withdraw(id)

    def release(self) -> None:
        """Send what was restored, and let reports of subagents go on."""
        self._runs.release()

    def finish(self) -> None:
        """No more prompts: the updates end when the queue, the reports and the open calls are done."""
        self._runs.finish()

    def abandon(self) -> None:
        """No more prompts, and what waits is dropped: the run under way is interrupted, and its result is the end."""
        self._runs.abandon()

    def in_use(self) -> AbstractContextManager[None]:
        """`finish` waits for the end of this block."""
        return self._runs.in_use()

    def interrupt_target(self) -> int | None:
        """The run that an interrupt which comes now is about: the one under way, or the one that is about to begin."""
        return self._runs.interrupt_target()

    def interrupt(self, target: int | None = None, *, hold_reports: bool = False) -> InterruptResult:
        """The run under way, wherever it is, or the next one that waits. Never waits itself."""
        return self._runs.interrupt(target, hold_reports=hold_reports)

    @property
    def state(self) -> State:
        return self._runs.state

    @property
    def has_more(self) -> bool:
        """Subagents in the background still work, or have reported: another run will follow by itself."""
        return self._runs.has_more

    # --- what is seen of updates on their way out ---

    def _begin(self) -> None:
        self._runs.begin()

    def _observe(self, update: AnyUpdate) -> None:
        if isinstance(update, Result):
            self._runs.ended(update.turns)
            if self._questions is not None:
                self._questions.forget()
        self.usage.observe(update)

    def _task_changed(self, task: BackgroundCommand) -> None:
        self._updates.push(TaskChanged(task))

    # --- change the session ---

    async def clear(self) -> None:
        """A new conversation under a new id. Raises `StartError`, and then nothing has changed."""
        await self._change_to(self._next_options(), "clear")

    async def resume(self, session_id: str) -> None:
        """Raises `StartError`, and then nothing has changed."""
        await self._change_to(self._next_options(session_id), "resume")

    async def rewind_to(self, message_id: str) -> None:
        """A fork of this conversation up to this line of its file, and with it."""
        options = self._next_options(self.world.about.session_id)
        await self._change_to(options.replace(fork_session=True, resume_session_at=message_id), "rewind")

    async def reload(self) -> None:
        """The same conversation, with settings read anew. Raises `StartError`, and then nothing has changed."""
        said, journal = bool(self.world.session.state.history), self.opened.journal
        if said and (journal is None or not journal.stored):
            raise StartError("nothing of it is stored. '/clear' begins a new one")
        options = self._next_options(self.world.about.session_id if said else None)
        await self._change_to(options, "reload")

    def _next_options(self, session_id: str | None = None) -> SessionOptions:
        return options_for_next(self.config.options, session_id)

    async def _change_to(self, options: SessionOptions, why: Why) -> None:
        if self._runs.under_way:
            raise StartError("a run is under way: interrupt it first")
        await self._runs.leave_run()
        config = self.config.resolve_again(options)
        opened = None if why == "reload" else open_journal(config, self._mirror)  # a file can be open only once
        with self._runs.paused():
            await self._switch(config, opened, why)

    async def _switch(self, config: ResolvedConfig, opened: OpenedSession | None, why: Why) -> None:
        before, carried = self.world.about.session_id, take_along(self.world, self.config)
        await self._close_world(why if why in ("clear", "resume") else "other")
        if opened is None:
            config, opened = self._opened_again(config)
        self._take(config, opened, "clear" if why == "clear" else "startup", carried.ledger)
        self._released()
        await self.world.open()
        await carry_over(carried, self.world, config, reloaded=why == "reload")
        self._updates.push(SessionReset(before, self.world.about.session_id, why))

    def _opened_again(self, config: ResolvedConfig) -> tuple[ResolvedConfig, OpenedSession]:
        try:
            return config, open_journal(config, self._mirror)
        except StartError as error:  # somebody was faster, or has removed it
            self._updates.push(Notice(f"It cannot be resumed: {error}. A new one begins.", "warning"))
            config = replace(config, options=config.options.replace(resume=None))
            return config, open_journal(config, self._mirror)

    def _commands(self) -> dict[str, LocalCommand]:
        """Slash commands that need no model, in every front end."""
        return {
            "/clear": LocalCommand(self._clear_by_prompt, starts_anew=True),
            "/context": LocalCommand(self._context),
        }

    async def _clear_by_prompt(self) -> str:
        try:
            config = self.config.resolve_again(self._next_options())
            opened = open_journal(config, self._mirror)
        except StartError as error:  # this one goes on
            return f"No new conversation can begin: {error}"
        await self._switch(config, opened, "clear")
        return ""

    async def _context(self) -> str:
        return self.context_text()

    async def compact(self, focus: str = "") -> QueuedPrompt:
        """Summarize the conversation now: a run of its own."""
        return await self.submit(f"/compact {focus}".rstrip())

    @property
    def model(self) -> Model:
        """The one that the next request goes to."""
        return self.world.session.shared.policy.model or self.world.about.model

    async def set_model(self, name: str | None) -> Model:
        """None: the session's own. Raises `UsageError` for one that cannot be asked."""
        session = self.world.session
        model = choose_model(name, self.config)
        await session.change(replace(session.shared.policy, model=model))
        return model or session.config.model

    async def set_mode(self, mode: object) -> str:
        """Raises `UsageError` for one that is not to be had."""
        return await self.permissions.set_mode(mode)

    async def update_permissions(self, updates: object) -> None:
        """Rules, directories and the mode, for this session or for longer (stream-json 5.1)."""
        await self.permissions.apply(updates)

    @property
    def permissions(self) -> PermissionUpdates:
        if self._permissions is None:
            from mainspring.agent.permission_updates import permission_updates

            self._permissions = permission_updates(
                self.config, self.world.kit.place, self.world.session, may_bypass=self._may_bypass
            )
        return self._permissions

    def add_directory(self, folder: str) -> None:
        """One more that tools may touch, also after the settings are read anew."""
        options = self.config.options
        self.permissions.set_folders((*self.world.kit.place.folders, folder))
        self.config = replace(self.config, options=options.replace(add_dirs=(*options.add_dirs, folder)))

    async def stop_task(self, id: str) -> None:
        """A subagent or a command in the background, if it still works."""
        await self.world.stop(id)

    async def rewind_files(self, user_message_id: str) -> dict[str, Any]:
        """Every file that tools have changed since that prompt is what it was when it came. Raises `UsageError`."""
        return await self.world.rewind(user_message_id)

    async def rename(self, title: str) -> None:
        """Raises `UsageError` where nothing is stored, or nothing was said yet."""
        journal = self.opened.journal
        if journal is None or not journal.stored:
            raise UsageError("nothing of this session is stored")
        journal.rename(title)

    async def reconnect_mcp(self, server: str) -> None:
        await self._mcp(server).reconnect(server)

    async def enable_mcp(self, server: str, *, enabled: bool) -> None:
        servers = self._mcp(server)
        await (servers.reconnect(server) if enabled else servers.switch_off(server))

    def _mcp(self, name: str) -> McpServers:
        if (servers := self.world.mcp) is None:
            raise UsageError(f"there is no MCP server '{name}', nor any other")
        return servers

    # --- read ---

    def mcp_status(self) -> list[dict[str, Any]]:
        servers = self.world.mcp
        return servers.status() if servers is not None else []

    def context_usage(self) -> dict[str, Any]:
        """What fills the model's window, as the next request would send it."""
        from mainspring.agent.context_usage import context_usage

        return context_usage(self.world)

    def context_text(self) -> str:
        from mainspring.agent.context_usage import context_text

        return context_text(self.world)

    def watch_hooks(self) -> None:
        """From now on there are updates for each hook, when it is asked and when it has answered."""
        from mainspring.agent.hooks import attach_hook_watcher

        self._hooks_watched = True
        attach_hook_watcher(self.world.hands.hooks, self._updates)


class SessionCarryOver(Bundle):
    ledger: Ledger  # for `build_session_parts`
    policy: EnginePolicy
    settings_mode: str  # as the settings and the command line had it
    folders: tuple[str, ...]  # additional ones


def take_along(world: SessionParts, config: ResolvedConfig) -> SessionCarryOver:
    """Of the session that ends."""
    shared = world.session.shared
    return SessionCarryOver(shared.ledger, shared.policy, config.mode, tuple(world.kit.place.folders))


async def carry_over(
    carried: SessionCarryOver, world: SessionParts, config: ResolvedConfig, *, reloaded: bool = False
) -> None:
    """To the session that was begun with `carried.ledger`. `reloaded`: what counts has changed, so that a mode nobody
    chose, and folders that came from settings, are those of `config`."""
    policy = carried.policy
    if reloaded and policy.mode == carried.settings_mode:
        policy = replace(policy, mode=config.mode)
    if not reloaded:
        set_folders(config, world.kit.place, carried.folders)
    if policy != world.session.shared.policy:
        await world.session.change(policy)


def set_folders(config: ResolvedConfig, place: Workspace, folders: tuple[str, ...]) -> None:
    place.folders = folders
    config.gate.set_folders((place.root, *folders))


def options_for_next(options: SessionOptions, session_id: str | None = None) -> SessionOptions:
    """The same, but for what they say of an earlier session. `session_id`: the one to resume."""
    return options.replace(
        resume=session_id,
        continue_conversation=False,
        fork_session=False,
        resume_session_at=None,
        resume_drops_turn=None,
        session_id=None,
    )


def choose_model(name: str | None, config: ResolvedConfig) -> Model | None:
    """None: the session's own. Raises `UsageError` for one that cannot be asked."""
    if name in (None, "", "default"):
        return None
    ways = ModelRouter(config)
    model = ways.model(name)
    if ways.provider(model.name) is not config.model.provider:
        option = config.options.spell("model", name)
        raise UsageError(f"the model '{name}' is on another server: start a session with '{option}'")
    return model
