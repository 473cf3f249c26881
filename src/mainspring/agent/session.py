"""The agent session that every front end drives: prompts in, updates out, and methods to control it.

    session = open_session(resolve_config(options, environment), host)
    await session.start()
    await session.submit("Fix the failing test")
    session.finish()
    async for update in session.updates():
        ...
    await session.close()

The object stays the same over clear, resume, rewind and reload; only its `SessionParts` are replaced, which are
complete when they are created. Nothing runs before the updates are read. The session calls the host only once the
reader has read every earlier update, and no method here waits for the reader: a program may read and call in one task.

Some state survives when another session replaces this one in the process (`/clear`, `/resume`, `/rewind`, `/trust` and
a reload in the terminal, `/clear` in stream-json): money, mode, rules and directories belong to the process. All
spending counts against the limit, whichever session caused it, and the ledger is the same object; what the user
allowed or chose applies until the process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from mainspring import agent
from mainspring.agent.config import ResolvedConfig
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.prompt_expansion import Prompt, QueuedPrompt, text_prompt
from mainspring.agent.resume import open_journal
from mainspring.agent.run_loop import InterruptResult, LocalCommand, RunLoop
from mainspring.agent.session_parts import HostCallbacks, SessionParts
from mainspring.agent.subagents import ModelRouter
from mainspring.agent.updates import (
    AnyUpdate,
    Notice,
    SessionReset,
    State,
    SubagentMoved,
    TaskChanged,
    UpdateStream,
)
from mainspring.agent.usage import OBSERVED, UsageMeter
from mainspring.core.errors import UsageError
from mainspring.core.models import Model
from mainspring.core.updates import CallDone, CallStarted, Result
from mainspring.core.value import Bundle
from mainspring.engine.shared_state import EnginePolicy, Ledger
from mainspring.engine.tasks import await_uncancellable
from mainspring.tools.base import Workspace

if TYPE_CHECKING:
    from mainspring.agent.approvals import HostQuestions
    from mainspring.agent.background_tasks import BackgroundTask
    from mainspring.agent.denied_calls import DeniedCalls
    from mainspring.agent.host import Host
    from mainspring.agent.permission_updates import PermissionUpdates
    from mainspring.agent.resume import OpenedSession
    from mainspring.checkpoints.entries import FileCheckpoint, PromptChanges, RewindReport
    from mainspring.core.messages import ToolCall
    from mainspring.mcp.servers import McpServers
    from mainspring.settings.values import SettingsSource
    from mainspring.tools.background import BackgroundCommand


BuildWorld = Callable[["ResolvedConfig", "OpenedSession", HostCallbacks, "Ledger | None"], SessionParts]
Why = Literal["clear", "resume", "rewind", "reload"]


class AgentSession:
    def __init__(  # noqa: PLR0913  # its inputs
        self,
        config: ResolvedConfig,
        opened: OpenedSession,
        host: Host | None,
        build: BuildWorld,
        *,
        deltas: bool,
        mirror: Callable[[str, bytes], None] | None,
        released: Callable[[], object],
        ledger: Ledger | None = None,
    ) -> None:
        """Called by `open_session`, which describes the arguments. `build` builds the parts of each conversation."""
        self.config, self.host = config, host
        self._build, self._mirror, self._released = build, mirror, released
        self._updates = UpdateStream(self._begin, self._observe, OBSERVED | {CallStarted, CallDone, Result})
        self._calls: dict[str, ToolCall] = {}  # that run
        self._denied: DeniedCalls | None = None  # created with the first one
        self._runs = RunLoop(lambda: self.world, self._updates, self._find_command, deltas=deltas)
        self._closing: asyncio.Task[None] | None = None
        self._hooks_watched = self._killed = False
        self._may_bypass = config.may_bypass
        self._questions: HostQuestions | None = None
        self._permissions: PermissionUpdates | None = None
        self._saved_rules: dict[str, SettingsSource] = {}  # of this process: see `PermissionUpdates`
        self._take(config, opened, "startup", ledger)

    # --- start and close ---

    async def start(self) -> None:
        """Starts the sandbox and MCP servers, and reports lost subagents. Call it before the first prompt."""
        await self.world.open()

    async def close(self, reason: str = "other") -> None:
        """Ends the current run and everything it started, and stores the session. A caller that is cancelled meanwhile
        still waits for that, and so does a second call."""
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
            self.opened.close()

    def kill(self) -> None:
        """Kills all child processes at once. For a signal handler."""
        self._killed = True
        self.world.kit.kill()

    def _take(self, config: ResolvedConfig, opened: OpenedSession, source: str, ledger: Ledger | None = None) -> None:
        self.config, self.opened = config, opened
        self._permissions = None
        self.world: SessionParts = self._build(config, opened, self._links(config, source), ledger)
        session = self.world.session
        session.shared.watch(self._updates.push)
        about = self.world.about
        self.usage = UsageMeter(about.model, session.deps.now, about.spent, about.used, about.breaks)
        if self._hooks_watched:
            self.watch_hooks()

    def _links(self, config: ResolvedConfig, source: str) -> HostCallbacks:
        host, options, asked = self.host, config.options, None
        if host is not None:
            asked = agent.HostQuestions(host, self._updates.caught_up, self._runs.asks, self.update_permissions)
        self._questions = asked
        return HostCallbacks(
            answer=asked.answer if host is not None and asked is not None and host.reach != "never" else None,
            in_background=host is not None and host.reach == "always",
            hooks=asked.hooks(options.host_hooks, options.tell) if asked is not None else (),
            say=lambda words: self._updates.push(Notice(words)),
            show=self._updates.push,
            relay=host.call_mcp if host is not None and options.driven else None,
            suggest=self._runs.suggest,
            task_changed=self._task_changed,
            source=source,
        )

    # --- prompts and updates ---

    def updates(self) -> UpdateStream:
        """For one reader. Ends after `close()`, or after `finish()` when everything is done."""
        return self._updates

    async def submit(self, prompt: Prompt | str) -> QueuedPrompt:
        """Queues a prompt for the next run; a steering prompt joins the current run with its next request, and is
        journaled first."""
        return await self._runs.submit(text_prompt(prompt) if isinstance(prompt, str) else prompt)

    def enqueue(self, prompt: Prompt) -> QueuedPrompt:
        """Queues a prompt for a run of its own, after those already queued."""
        return self._runs.enqueue(prompt)

    def continue_run(self) -> None:
        """Starts a run without a new prompt, on the conversation as it is."""
        self._runs.continue_run()

    @property
    def queued(self) -> tuple[QueuedPrompt, ...]:
        return self._runs.queued

    async def withdraw(self, id: str) -> Prompt | None:
        """None: it was already sent to the model, or the id is unknown."""
        return await self._runs.withdraw(id)

    def release(self) -> None:
        """Sends restored prompts, and lets reports of subagents start runs again."""
        self._runs.release()

    def finish(self) -> None:
        """No more prompts: the updates end when the queue, the reports and the open calls are done."""
        self._runs.finish()

    def abandon(self) -> None:
        """No more prompts: drops the queue and interrupts the current run, whose result is the last."""
        self._runs.abandon()

    def suspend(self) -> None:
        """No more prompts: stops the current run without a notice in the conversation, which another process
        continues."""
        self._runs.suspend()

    def in_use(self) -> AbstractContextManager[None]:
        """`finish` waits for the end of this block."""
        return self._runs.in_use()

    def interrupt_target(self) -> int | None:
        """The run that an interrupt would stop now: the current one, or the one about to begin."""
        return self._runs.interrupt_target()

    def interrupt(self, target: int | None = None, *, hold_reports: bool = False) -> InterruptResult:
        """Stops the current run at any point, or the next queued one. Never waits itself."""
        return self._runs.interrupt(target, hold_reports=hold_reports)

    @property
    def state(self) -> State:
        return self._runs.state

    @property
    def has_more(self) -> bool:
        """Subagents in the background still run, or have reported: another run will follow by itself."""
        return self._runs.has_more

    # --- updates on their way to the reader ---

    def _begin(self) -> None:
        self._runs.begin()

    def _observe(self, update: AnyUpdate) -> None:
        if isinstance(update, CallStarted):
            self._calls[update.call.id] = update.call
        elif isinstance(update, CallDone):
            self._note_call(update)
        elif isinstance(update, Result):
            self._calls.clear()
            if self._denied is not None:
                self._denied.end_run()
            self._runs.ended(update.turns)
            if self._questions is not None:
                self._questions.forget()
        self.usage.observe(update)

    def _note_call(self, done: CallDone) -> None:
        call = self._calls.pop(done.result.call_id, None)
        if call is not None and done.denied:
            self.denied_calls.add(call, done.result.text)
        elif call is not None and self._denied is not None:
            self._denied.end_call(call)

    @property
    def denied_calls(self) -> DeniedCalls:
        """The user can allow one of them afterwards."""
        if self._denied is None:
            from mainspring.agent.denied_calls import DeniedCalls

            self._denied = DeniedCalls(self)
        return self._denied

    def _task_changed(self, task: BackgroundCommand) -> None:
        self._updates.push(TaskChanged(task, task.status))
        if task.status in ("completed", "failed") and not self._killed:
            self._runs.report(agent.make_task_notification(task))

    # --- change the session ---

    async def clear(self) -> None:
        """Starts a new conversation with a new id. If it raises `StartError`, nothing has changed."""
        await self._change_to(self._next_options(), "clear")

    async def resume(self, session_id: str) -> None:
        """If it raises `StartError`, nothing has changed."""
        await self._change_to(self._next_options(session_id), "resume")

    async def rewind_to(self, message_id: str) -> None:
        """Continues with a fork of this conversation up to and including this message."""
        options = self._next_options(self.world.about.session_id)
        await self._change_to(options.replace(fork_session=True, resume_session_at=message_id), "rewind")

    async def rewind_before(self, last: str, prompt: str) -> None:
        """Continues with the conversation up to the line `last`, which is before this prompt; with an empty one if
        there is none. The file checkpoints stay available."""
        before = self.opened.journal
        await (self.rewind_to(last) if last else self._change_to(self._next_options(), "rewind"))
        after = self.opened.journal
        if self.world.rewinding is not None and before is not None and after is not None:
            await self.world.rewinding.take_over(before.file, prompt)

    @property
    def is_running(self) -> bool:
        return self._runs.under_way and not self._runs.switching

    async def fork(self, message_id: str | None = None) -> None:
        """Continues with a copy of this conversation, up to and including this message, or all of it. If it raises
        `StartError`, nothing has changed."""
        options = self._next_options(self.world.about.session_id)
        await self._change_to(options.replace(fork_session=True, resume_session_at=message_id), "resume")

    async def reload(self, *, model: str | None = None) -> None:
        """Reads the settings again, in the same conversation. `model`: the session's own from now on; None: as it was.
        If it raises `StartError`, nothing has changed."""
        said, journal = bool(self.world.session.state.history), self.opened.journal
        if said and (journal is None or not journal.stored):
            raise StartError("this conversation is not stored. '/clear' starts a new one")
        options = self._next_options(self.world.about.session_id if said else None)
        await self._change_to(options if model is None else options.replace(model=model), "reload")

    def _next_options(self, session_id: str | None = None) -> SessionOptions:
        return options_for_next(self.config.options, session_id)

    async def _change_to(self, options: SessionOptions, why: Why) -> None:
        if self._runs.under_way and not self._runs.switching:
            raise StartError("a run is in progress: interrupt it first")
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
        except StartError as error:  # another process opened or removed it
            self._updates.push(Notice(f"The session cannot be resumed: {error}. A new session was started.", "warning"))
            config = replace(config, options=config.options.replace(resume=None))
            return config, open_journal(config, self._mirror)

    def _find_command(self, text: str) -> LocalCommand | None:
        """The slash command that needs no model, for every front end."""
        return agent.find_local_command(text, self)

    async def compact(self, focus: str = "") -> QueuedPrompt:
        """Compacts the conversation now, in a run of its own."""
        return await self.submit(f"/compact {focus}".rstrip())

    @property
    def model(self) -> Model:
        """The model of the next request."""
        return self.world.session.shared.policy.model or self.world.about.model

    async def set_model(self, name: str | None) -> Model:
        """None: the session's own. Raises `UsageError` for a model that is not available."""
        session = self.world.session
        model = choose_model(name, self.config)
        await session.change(replace(session.shared.policy, model=model))
        return model or session.config.model

    async def set_mode(self, mode: object) -> str:
        """Raises `UsageError` for a mode that is not available."""
        return await self.permissions.set_mode(mode)

    async def update_permissions(self, updates: object) -> None:
        """Changes rules, directories and the mode, for this session or permanently (stream-json 5.1)."""
        await self.permissions.apply(updates)

    @property
    def permissions(self) -> PermissionUpdates:
        if self._permissions is None:
            from mainspring.agent.permission_updates import permission_updates

            self._permissions = permission_updates(
                self.config,
                self.world.kit.place,
                self.world.session,
                may_bypass=self._may_bypass,
                saved=self._saved_rules,
            )
        return self._permissions

    @property
    def effort(self) -> str | None:
        """None: the model's default."""
        return self.world.session.config.effort

    def set_effort(self, level: str | None) -> str | None:
        """From the next run on; it stays after `/clear` and a resume. None: as configured. Returns the level in force,
        which `maxEffortLevel` may limit. Raises `UsageError` for an unknown level."""
        session = self.world.session
        effort = agent.choose_effort(level, self.config.settings)
        session.config = replace(session.config, effort=effort)
        self.config = replace(self.config, options=self.config.options.replace(effort=effort))
        return effort

    async def ask_beside(self, text: str) -> str:
        """The answer to a side question (`/btw`), which leaves no trace in the conversation. Raises `UsageError`."""
        return await agent.ask_side_question(text, self.world)

    def note_shell_output(self, command: str, output: str, ended: str) -> int:
        """A command that the user ran: the model gets it with the next prompt. Returns how many lines it gets."""
        if self._runs.shell_outputs is None:
            self._runs.shell_outputs = agent.ShellOutputs()
        return self._runs.shell_outputs.add(command, output, ended)

    def add_directory(self, folder: str) -> None:
        """Adds a working directory, which stays after a reload."""
        options = self.config.options
        self.permissions.set_folders((*self.world.kit.place.folders, folder))
        self.config = replace(self.config, options=options.replace(add_dirs=(*options.add_dirs, folder)))

    def remove_directory(self, folder: str) -> None:
        """Tools can no longer work there without approval, until the settings are read again."""
        options = self.config.options
        self.permissions.set_folders(tuple([one for one in self.world.kit.place.folders if one != folder]))
        self.config = replace(
            self.config, options=options.replace(add_dirs=tuple([one for one in options.add_dirs if one != folder]))
        )

    # --- what runs beside the conversation ---

    def tasks(self) -> tuple[BackgroundTask, ...]:
        """The subagents and the commands in the background: those that run, and the last that have ended."""
        return agent.list_tasks(self.world) if self.world.has_tasks else ()

    async def stop_task(self, id: str) -> None:
        """Stops a subagent or a command in the background, if it still runs. A stopped command starts no run."""
        await self.world.stop(id)

    async def background(self, call_id: str | None = None) -> tuple[str, ...]:
        """Moves the command or subagent that this call waits for to the background; None: every one. The call returns
        with a result that says so, and the run goes on. Returns the ids of the calls."""

        def moved(agent_id: str) -> None:
            self._updates.push(SubagentMoved(agent_id))

        return await agent.move_to_background(self.world, call_id, moved)

    async def message_task(self, id: str, text: str) -> bool:
        """Sends the user's message to a subagent, with its next request. It is journaled before this returns. False:
        the subagent has ended, or there is none with this id."""
        return await agent.message_subagent(self.world, id, text)

    async def rewind(
        self,
        to: str,
        *,
        conversation: bool = True,
        files: bool = False,
        dry_run: bool = False,
        include: Collection[str] = (),
    ) -> RewindReport:
        """Goes back to before a prompt: `to` is its message id, or the id of a checkpoint (for files alone). The
        conversation continues in a fork, as with `rewind_to`. Files that the user changed since stay as they are,
        unless they, or a folder that they are in, are in `include`. Raises `UsageError` or `StartError`; then nothing
        has changed, unless the report would have said so."""
        return await agent.rewind_session(
            self, to, conversation=conversation, files=files, dry_run=dry_run, include=include
        )

    async def undo_rewind(self, report: RewindReport) -> RewindReport:
        """Restores the files as they were before this rewind, and resumes the conversation."""
        return await agent.undo_rewind(self, report)

    async def checkpoints(self) -> tuple[FileCheckpoint, ...]:
        """One for each prompt that files can be rewound to, the oldest first. Empty: file checkpoints are off."""
        rewinding = self.world.rewinding
        return await rewinding.list() if rewinding is not None else ()

    async def rewind_points(self) -> tuple[FileCheckpoint, ...]:
        """The same, and the moments before earlier rewinds: to go back there undoes them."""
        rewinding = self.world.rewinding
        return await rewinding.list_points() if rewinding is not None else ()

    async def changed_files(self, from_prompt: str | None = None) -> tuple[PromptChanges, ...]:
        """What this session changed, by prompt, with diffs. `from_prompt`: from this one on. Raises `UsageError`."""
        return await self.world.checkpoints.changes(from_prompt)

    async def rewind_files(self, user_message_id: str) -> dict[str, Any]:
        """Restores every file that tools have changed since that prompt. Raises `UsageError`."""
        return await self.world.rewind(user_message_id)

    async def rename(self, title: str) -> None:
        """Raises `UsageError` if the session is not stored, or is empty."""
        journal = self.opened.journal
        if journal is None or not journal.stored:
            raise UsageError("this session is not stored")
        journal.rename(title)

    async def reconnect_mcp(self, server: str) -> None:
        await self._mcp(server).reconnect(server)

    async def enable_mcp(self, server: str, *, enabled: bool) -> None:
        servers = self._mcp(server)
        await (servers.reconnect(server) if enabled else servers.switch_off(server))

    def _mcp(self, name: str) -> McpServers:
        if (servers := self.world.mcp) is None:
            raise UsageError(f"there is no MCP server '{name}': none is configured")
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
        return agent.context_text(self.world)

    def watch_hooks(self) -> None:
        """From now on, pushes an update when a hook starts and when it finishes."""
        self._hooks_watched = True
        agent.attach_hook_watcher(self.world.hands.hooks, self._updates)


class SessionCarryOver(Bundle):
    ledger: Ledger  # for `build_session_parts`
    policy: EnginePolicy
    settings_mode: str  # as settings and options set it
    folders: tuple[str, ...]  # additional ones


def take_along(world: SessionParts, config: ResolvedConfig) -> SessionCarryOver:
    """Collects the state to carry over from the session that ends."""
    shared = world.session.shared
    return SessionCarryOver(shared.ledger, shared.policy, config.mode, tuple(world.kit.place.folders))


async def carry_over(
    carried: SessionCarryOver, world: SessionParts, config: ResolvedConfig, *, reloaded: bool = False
) -> None:
    """Applies it to the session that was opened with `carried.ledger`. `reloaded`: the settings may have changed, so a
    mode that the user did not choose, and the directories, are those of `config`."""
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
    """The same options without those about an earlier session. `session_id`: the one to resume."""
    return options.replace(
        resume=session_id,
        continue_conversation=False,
        fork_session=False,
        resume_session_at=None,
        resume_drops_turn=None,
        session_id=None,
    )


def choose_model(name: str | None, config: ResolvedConfig) -> Model | None:
    """None: the session's own. Raises `UsageError` for a model that is not available."""
    if name in (None, "", "default"):
        return None
    ways = ModelRouter(config)
    model = ways.model(name)
    if ways.provider(model.name) is not config.model.provider:
        option = config.options.spell("model", name)
        raise UsageError(f"the model '{name}' is on another server: start a session with '{option}'")
    return model
