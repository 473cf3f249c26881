"""Renders the updates of an agent session as stream-json frames: for print mode, the pipe and the SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, assert_never

from mainspring.agent.updates import (
    AnySessionUpdate,
    AnyUpdate,
    HookFinished,
    HookStarted,
    Idle,
    Notice,
    PromptAnswered,
    PromptBlocked,
    PromptExpanded,
    PromptQueued,
    PromptReturned,
    PromptSuggested,
    RunBroken,
    RunStarted,
    SessionReset,
    SessionUpdate,
    StateChanged,
    SubagentMoved,
    TaskChanged,
)
from mainspring.core.updates import Injected, RequestStarted, Result
from mainspring.hooks.events import HookPoint
from mainspring.messages_api import Object
from mainspring.stream_json.frames import FrameEncoder
from mainspring.stream_json.incoming import WirePrompt

if TYPE_CHECKING:
    from mainspring.agent.session import AgentSession
    from mainspring.hooks.invocation import HookCallFinished, HookCallStarted

BY_REPORT = {"kind": "task-notification"}  # the origin of a run that a subagent's report started


# Seconds, at most, that `init` is later than it could be: until the request begins, for which tools may be waited for,
# and from then until it is out, which takes one millisecond, and longer where its connection does.
UNTIL_REQUEST, UNTIL_SENT = 0.1, 0.02


async def read_ahead(started: RunStarted, session: AgentSession) -> list[AnyUpdate]:
    """The updates of a session's first run until its request is under way, to be rendered then.

    `init` reports the sandbox, skills and output styles. To find them out takes 12 ms, and 70 where the sandbox was
    never tried, and the request does not need them. The run goes on while its updates are read. Hooks of the host see
    the prompt after `init`, so with hooks nothing is read ahead.
    """
    read: list[AnyUpdate] = [started]
    if session.world.hands.hooks.any_at(HookPoint.USER_PROMPT_SUBMIT):
        return read
    updates, loop = session.updates(), asyncio.get_running_loop()
    due = loop.time() + UNTIL_REQUEST
    while (left := due - loop.time()) > 0:
        reading = asyncio.ensure_future(updates.__anext__())
        try:
            await asyncio.wait({reading}, timeout=left)
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})
        if reading.cancelled() or isinstance(reading.exception(), StopAsyncIteration):
            break
        read.append(reading.result())
        if isinstance(read[-1], RequestStarted):
            due = loop.time() + UNTIL_SENT
        elif not isinstance(read[-1], Injected):
            break
    while updates.unread:  # before the time that `init` takes counts as that of the reply
        read.append(await anext(updates))
    return read


class Renderer:
    """Holds frames of hooks and prompts between runs until the next one: clients expect none after a result."""

    def __init__(self, session: AgentSession, *, notices: bool = False, states: Object | None = None) -> None:
        """`states`: extra fields of frames about the state; None: send no such frames."""
        self._session, self._notices, self._states = session, notices, states
        self._held: list[Object] = []
        self._in_run = self._began = False
        self.frames = self._new_frames()

    def _new_frames(self) -> FrameEncoder:
        session, options = self._session, self._session.config.options
        deps = session.world.session.deps
        return FrameEncoder(
            session.world.about,
            session.usage,
            new_id=deps.new_id,
            now=deps.now,
            partial=options.include_partial_messages,
            replay=options.replay_user_messages,
            forward=options.forward_subagent_text,
        )

    async def read_on(self, update: AnyUpdate) -> list[AnyUpdate]:
        """The update, with more of them if it begins the first run: see `read_ahead`."""
        if self._began or not isinstance(update, RunStarted):
            return [update]
        self._began = True
        return await read_ahead(update, self._session)

    def render(self, update: AnyUpdate) -> list[Object]:
        if not isinstance(update, SessionUpdate):
            if isinstance(update, Result):
                self._in_run = False
            return self.frames.of(update)
        return self._of_session(update)

    def _of_session(self, update: AnySessionUpdate) -> list[Object]:
        frames = self.frames
        match update:
            case RunStarted():
                return self._started(update)
            case PromptBlocked() | PromptAnswered() | PromptReturned() | RunBroken():
                return self._ended(update)
            case SessionReset():
                self.frames = self._new_frames()
                return [self.frames.reset(update.before)]
            case StateChanged():
                return self._state(update.state)
            case HookStarted() | HookFinished():
                return self._of_hook(update)
            case PromptQueued():
                return self._in_a_run(self.frames.queued(update))
            case TaskChanged():
                return frames.of_shell(update.task, update.status)
            case SubagentMoved():
                return self._in_a_run(frames.system("task_updated", moved_fields(update.agent_id)))
            case Notice():
                told = {"content": update.text, "level": update.level}
                return [frames.system("informational", told)] if self._notices else []
            case PromptSuggested():
                return [frames.suggestion(update.text)]
            case Idle() | PromptExpanded():
                return []
            case _:
                assert_never(update)

    def _started(self, update: RunStarted) -> list[Object]:
        policy, prompt = self._session.world.session.shared.policy, update.prompt
        self._in_run = True
        self.frames.standing(policy.mode, policy.model)
        origin = prompt.origin if prompt is not None else None
        self.frames.origin = BY_REPORT if update.cause == "report" else dict(origin) if origin is not None else None
        as_blocks = isinstance(prompt, WirePrompt) and prompt.as_blocks
        held, self._held = self._held, []
        wish = prompt.text if prompt is not None else None
        return [*self.frames.opening(update.message, wish, as_blocks=as_blocks), *held]

    def _ended(self, update: PromptBlocked | PromptAnswered | PromptReturned | RunBroken) -> list[Object]:
        self._in_run = False
        match update:
            case PromptBlocked():
                return self.frames.refused(update.reason)
            case PromptAnswered():
                return self.frames.refused(update.text, failed=update.failed)
            case PromptReturned():
                return self.frames.interrupted()
            case RunBroken():
                return self.frames.broke_off(f"the run failed: {update.error}")
            case _:
                assert_never(update)

    def _state(self, state: str) -> list[Object]:
        if self._states is None:
            return []
        return [self.frames.system("session_state_changed", {"state": state} | self._states)]

    def _of_hook(self, update: HookStarted | HookFinished) -> list[Object]:
        frame = (
            self.frames.system("hook_started", hook_fields(update.hook))
            if isinstance(update, HookStarted)
            else self.frames.system("hook_response", hook_fields(update.hook) | hook_outcome_fields(update.hook))
        )
        return self._in_a_run(frame)

    def _in_a_run(self, frame: Object) -> list[Object]:
        """The frame, if a run has begun; else it is held until `init` of the next one."""
        if self._in_run:
            return [frame]
        self._held.append(frame)
        return []


def moved_fields(agent_id: str) -> Object:
    return {"task_id": agent_id, "patch": {"is_backgrounded": True}}


def hook_fields(hook: HookCallStarted | HookCallFinished) -> Object:
    return {"hook_id": hook.id, "hook_name": hook.name, "hook_event": str(hook.point)}


def hook_outcome_fields(hook: HookCallFinished) -> Object:
    said = {"output": hook.output, "stdout": hook.stdout, "stderr": hook.stderr, "exit_code": hook.code}
    return said | {"outcome": hook.outcome}


def states_in(environment: dict[str, str]) -> Object | None:
    """Extra fields of frames about the state; None: the client did not ask for these frames."""
    host_only = environment.get("CLAUDE_CODE_SDK_READS_SESSION_STATE") == "1"
    for_all = environment.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1"
    if not host_only and not for_all:
        return None
    return {} if for_all else {"sdk_host_only": True}
