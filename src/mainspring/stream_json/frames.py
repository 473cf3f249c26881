"""Encodes the updates of a run as frames (stream-json 6 and 7). Pure: the caller passes in ids and time.

Withdrawn replies (settled 33): a block's frame is sent when the block is finished, so the block may be withdrawn later.
stream-json has no frame that withdraws another, and its clients know none. We send a `system/informational` frame that
says so as text and names the message in `withdrawn` (`tombstone_frame`): all frames with this message id are void. With
partial messages the reply has no `message_stop` either, like every reply that broke off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from mainspring.agent.prompt_expansion import parse_compact_command
from mainspring.agent.results import LOCAL, error_name, make_outcome, prose_of
from mainspring.agent.session_parts import SessionInfo
from mainspring.agent.updates import PromptQueued
from mainspring.agent.usage import UsageMeter
from mainspring.core.effects import CompactionKind
from mainspring.core.messages import Origin, Stop, Text, Thinking, ToolCall, ToolResult, User
from mainspring.core.models import Model
from mainspring.core.money import NANOS_PER_USD, Usage
from mainspring.core.reasons import Cause, Failure, Subtype, Terminal
from mainspring.core.updates import (
    AgentDone,
    AgentStarted,
    AgentUpdate,
    Appended,
    BlockDone,
    BlockStarted,
    Boundary,
    CallDone,
    CallProgress,
    CallStarted,
    Delta,
    Failed,
    Injected,
    MaxTurnsReached,
    PrefixBroken,
    QuestionAnswered,
    QuestionAsked,
    ReplyDone,
    ReplyStarted,
    RequestStarted,
    Result,
    Retrying,
    Tombstone,
    ToolSummary,
    Update,
)
from mainspring.messages_api import (
    Object,
    block_id,
    block_to_wire,
    content_to_wire,
    delta_to_wire,
    empty_block,
    message_to_wire,
    tool_result,
    usage_to_wire,
)
from mainspring.stream_json.task_frames import (
    LoopUpdate,
    ShellTask,
    TaskFrames,
    deferred_tool_fields,
    explain_loop,
    heartbeat_fields,
    progress_frame,
    rate_limit,
    retry_frame,
    shell_frames,
    tombstone_frame,
)
from mainspring.version import __version__

PROTOCOL = "2.1.325"  # the Claude Code version whose protocol docs/spec/stream-json.md describes

CONTEXT_EDIT = "mainspring_context_edit"  # a layer other than a summary removed something from the view
PROMPT = "mainspring_prompt"  # what becomes of a prompt that was submitted to steer
HEARTBEAT = "mainspring_heartbeat"  # the wait that `api_retry` announced still lasts (settled 41)


class FrameEncoder:
    """One per session: cost and API time add up over its runs."""

    def __init__(  # noqa: PLR0913  # keywords, all but one
        self,
        about: SessionInfo,
        usage: UsageMeter,
        *,
        new_id: Callable[[], str],
        now: Callable[[], int],
        partial: bool = False,
        replay: bool = False,
        forward: bool = False,
    ) -> None:
        """`usage` observes each update before it comes here. `forward`: also send text and thinking of subagents."""
        self._about, self._usage = about, usage
        self._new_id, self._now = new_id, now
        self._partial = partial
        self.origin: Object | None = None  # of the current run's prompt: repeated in its result
        self._replay = replay
        self._first_model = about.model
        self._started = ReplyStarted("", about.model.name, Usage())
        self._open = -1  # the index of the streaming block
        self._failure: Failure | None = None
        self._calls: dict[str, tuple[ToolCall, int]] = {}  # running, with their start times
        self._denials: list[Object] = []  # of this run
        self._asked: set[str] = set()  # calls that the host was asked about
        self._trigger = "auto"  # of a summary in this run
        self._steering: set[str] = set()  # ids of steering prompts that wait
        self._agents = TaskFrames(self._frame, now, forward=forward)

    @property
    def partial(self) -> bool:
        return self._partial

    def standing(self, mode: str, model: Model | None) -> None:
        """Updates what may have changed since the session began, for the next `init`."""
        self._about = replace(self._about, mode=mode, model=model or self._first_model)

    def opening(self, prompt: User | None, wish: str | None = None, *, as_blocks: bool = False) -> list[Object]:
        """The first frames of a run. `wish`: the prompt's text without the data that was added to it. Without a prompt
        the run started by itself."""
        about = self._about
        init: Object = {
            "cwd": about.cwd,
            # The names that clients know (8).
            "tools": ["Task" if name == "Agent" else name for name in (*about.tools, *about.later())],
            "mcp_servers": about.servers(),
            "model": about.model.name,
            "permissionMode": about.mode,
            "apiKeySource": about.key_source,
            "claude_code_version": PROTOCOL,
            "mainspring_version": __version__,
            "output_style": about.output_style,
            "slash_commands": [*about.commands, *about.skills(), *about.words()],
            "agents": list(about.agents),
            "skills": list(about.skills()),
            "plugins": [
                {"name": one.name, "path": one.path, **({"version": one.version} if one.version else {})}
                for one in about.plugins
            ],
            "betas": list(about.betas),
            "flags_not_honoured": list(about.ignored),
            "sandbox": about.sandbox(),
        }
        said = prompt.text if prompt is not None else ""
        self._begin(said if wish is None else wish)
        frames = [self.system("init", init)]
        if self._replay and prompt is not None:
            frames.append(self._said(prompt, as_blocks=as_blocks) | {"isReplay": True})
        return frames

    def _begin(self, wish: str = "") -> None:
        self._failure, self._denials = None, []
        self._trigger = "auto" if parse_compact_command(wish) is None else "manual"

    def of_shell(self, shell: ShellTask, status: str) -> list[Object]:
        """A command in the background has started or ended."""
        return shell_frames(shell, status, self.system, self._now())

    def broke_off(self, why: str) -> list[Object]:
        """Replaces the result: something outside the run ended it, such as a full disk."""
        return [self._without_turns(Subtype.ERROR_DURING_EXECUTION, {"is_error": True, "errors": [why]})]

    def _without_turns(self, subtype: Subtype, fields: Object) -> Object:
        """A result without a finished run."""
        told: Object = {
            "subtype": subtype,
            "duration_ms": 0,
            "duration_api_ms": self._usage.api_ms,
            "num_turns": 0,
            "total_cost_usd": self._usage.cost / NANOS_PER_USD,
            "usage": usage_to_wire(Usage()),
            "modelUsage": self._usage.by_model(),
            "permission_denials": self._denials,
        }
        return self._frame("result", told | fields)

    def interrupted(self) -> list[Object]:
        """The run was interrupted before the model was called, while hooks were still running."""
        frames = self.broke_off("The request was interrupted")
        frames[0]["terminal_reason"] = Terminal.ABORTED_STREAMING
        return frames

    def reset(self, before: str) -> Object:
        """Another conversation begins; this is the last frame of the old one (6.7)."""
        told = {"type": "conversation_reset", "new_conversation_id": self._about.session_id}
        return told | {"session_id": before, "uuid": self._new_id()}

    def status(self, mode: str) -> Object:
        return self.system("status", {"status": None, "permissionMode": mode})

    def suggestion(self, text: str) -> Object:
        """A suggestion for the next prompt, after a result."""
        return self._frame("prompt_suggestion", {"suggestion": text})

    def refused(self, why: str, *, failed: bool = False) -> list[Object]:
        """A hook blocked the prompt, or it was a local slash command: there was no turn (6.4)."""
        return [self._without_turns(Subtype.SUCCESS, {"is_error": failed, "result": why})]

    def of(self, update: Update) -> list[Object]:
        match update:
            case Delta():
                return [self._event(delta_to_wire(update))] if self._partial else []
            case ReplyStarted() | BlockStarted() | BlockDone() | ReplyDone():
                return self._reply(update)
            case CallDone():
                return self._call_done(update)
            case Appended():
                return [self._appended(update.message)]
            case Injected():
                return self._injected(update.message)
            case (
                Retrying()
                | Tombstone()
                | Boundary()
                | RequestStarted()
                | PrefixBroken()
                | MaxTurnsReached()
                | ToolSummary()
            ):
                return self._aside(update)
            case Failed():
                return self._failed(update.failure)
            case Result():
                return [self._result(update)]
            case CallStarted() | CallProgress() | QuestionAsked():
                return self._noted(update)
            case AgentStarted() | AgentUpdate() | AgentDone():
                return self._agents.of(update)
            case QuestionAnswered():
                return []  # stream-json has no frame for it
            case _:
                assert_never(update)

    def _progress(self, update: CallProgress) -> list[Object]:
        """The progress of a call, for clients that show it live."""
        call, began = self._calls.get(update.call_id, (None, 0))
        if call is None:
            return []
        return [self._frame("tool_progress", progress_frame(update, call, self._now() - began))]

    def _noted(self, update: CallStarted | CallProgress | QuestionAsked) -> list[Object]:
        """Usually no frame: the end of it has one."""
        match update:
            case CallProgress():
                return self._progress(update) if self._partial else []
            case CallStarted():
                self._calls[update.call.id] = (update.call, self._now())
            case QuestionAsked():
                self._asked.add(update.call_id)
        return []

    # --- every frame ---

    def _frame(self, kind: str, fields: Object, id: str = "") -> Object:
        return {"type": kind} | fields | {"session_id": self._about.session_id, "uuid": id or self._new_id()}

    def system(self, subtype: str, fields: Object) -> Object:
        return self._frame("system", {"subtype": subtype} | fields)

    def _event(self, event: Object) -> Object:
        """Written out for speed: there is one for each text delta."""
        return {
            "type": "stream_event",
            "event": event,
            "parent_tool_use_id": None,
            "session_id": self._about.session_id,
            "uuid": self._new_id(),
        }

    # --- replies ---

    def _reply(self, update: ReplyStarted | BlockStarted | BlockDone | ReplyDone) -> list[Object]:
        match update:
            case BlockDone():
                return self._block_done(update)
            case BlockStarted():
                return [self._block_begins(update.index, empty_block(update))] if self._partial else []
            case ReplyStarted():
                self._started, self._open = update, -1
                made = message_to_wire(update.reply_id, update.model, [], update.usage)
                return [self._event({"type": "message_start", "message": made})] if self._partial else []
            case ReplyDone():
                return self._reply_ends(update) if self._partial else []
            case _:
                assert_never(update)

    def _block_begins(self, index: int, shown: Object) -> Object:
        self._open = index
        return self._event({"type": "content_block_start", "index": index, "content_block": shown})

    def _block_done(self, done: BlockDone) -> list[Object]:
        """The block's own frame comes after its last delta and before its `content_block_stop`."""
        shown, frames = block_to_wire(done.block), list[Object]()
        if self._partial and self._open != done.index:
            frames.append(self._block_begins(done.index, shown))  # it arrived complete, without deltas
        elif self._partial and isinstance(done.block, Thinking) and done.block.signature:
            signature = {"type": "signature_delta", "signature": done.block.signature}
            frames.append(self._event({"type": "content_block_delta", "index": done.index, "delta": signature}))
        frames.append(self._assistant(done, shown))
        if self._partial:
            frames.append(self._event({"type": "content_block_stop", "index": done.index}))
            self._open = -1
        return frames

    def _assistant(self, done: BlockDone, shown: Object) -> Object:
        made = message_to_wire(done.reply_id, self._started.model, [shown], self._started.usage)
        return self._frame(
            "assistant", {"message": made, "parent_tool_use_id": None}, block_id(done.reply_id, done.index)
        )

    def _reply_ends(self, done: ReplyDone) -> list[Object]:
        why = {"stop_reason": done.stop, "stop_sequence": None}
        ends = {"type": "message_delta", "delta": why, "usage": usage_to_wire(done.usage)}
        return [self._event(ends), self._event({"type": "message_stop"})]

    # --- user messages and tool results ---

    def _user(self, parts: list[Object] | str, id: str) -> Object:
        fields = {"message": {"role": "user", "content": parts}, "parent_tool_use_id": None}
        return self._frame("user", fields, id)

    def _said(self, said: User, *, as_blocks: bool = False) -> Object:
        match said.content:
            case (Text() as only,) if said.origin is Origin.PROMPT and not as_blocks:
                return self._user(only.text, said.id)  # a string, as the client sent it
            case parts:
                return self._user([content_to_wire(part) for part in parts], said.id)

    def _call_done(self, done: CallDone) -> list[Object]:
        (call, _), frames = self._calls.pop(done.result.call_id, (None, 0)), list[Object]()
        if done.denied and call is not None:
            self._denials.append({"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input})
            if call.id not in self._asked:  # the client does not know of it
                told = {"tool_name": call.name, "tool_use_id": call.id, "message": done.result.text}
                frames.append(self.system("permission_denied", told))
        self._asked.discard(done.result.call_id)
        return [*frames, self._result_of(done.result, done.data)]

    def _result_of(self, result: ToolResult, data: object = None) -> Object:
        """Clients expect the text alone for a failed call (6.3)."""
        own = f"Error: {result.text}" if result.is_error else result.text if data is None else data
        return self._user([tool_result(result)], result.id) | {"tool_use_result": own}

    def _appended(self, said: User | ToolResult) -> Object:
        if isinstance(said, ToolResult):
            return self._result_of(said)
        frame = self._said(said)
        return frame if said.origin is Origin.INTERRUPTION else frame | {"isSynthetic": True}

    def _injected(self, said: User) -> list[Object]:
        """Prompts of the user are echoed only if the client asks for it; reminders for the model are not sent."""
        if said.origin is Origin.ATTACHMENT:
            return []
        if said.origin is not Origin.PROMPT:
            return [self._said(said) | {"isSynthetic": True}]
        echo = [self._said(said) | {"isReplay": True}] if self._replay else []
        if said.id not in self._steering:
            return echo
        self._steering.discard(said.id)
        return [self.system(PROMPT, {"prompt_id": said.id, "status": "delivered"}), *echo]

    def queued(self, update: PromptQueued) -> Object:
        if update.delivery == "steer":
            self._steering.add(update.id)
        return self.system(PROMPT, {"prompt_id": update.id, "status": "queued", "delivery": update.delivery})

    # --- the rest ---

    def _boundary(self, update: Boundary) -> list[Object]:
        """Clients know only a summary as a boundary: the conversation begins again there."""
        if update.layer != CompactionKind.SUMMARY:
            return [self.system(CONTEXT_EDIT, {"layer": update.layer, "freed_tokens": update.freed})]
        sizes = {"pre_tokens": update.before, "post_tokens": update.after, "freed": update.freed}
        frame = self.system("compact_boundary", {"compact_metadata": {"trigger": self._trigger} | sizes})
        begins = self.system("status", {"status": "compacting", "permissionMode": self._about.mode})
        return [begins, frame, self.status(self._about.mode)]

    def _aside(self, update: Retrying | Tombstone | Boundary | LoopUpdate | ToolSummary) -> list[Object]:
        match update:
            case Retrying():
                retry = retry_frame(update, self._about.max_retries)
                if update.beat:
                    return [self.system(HEARTBEAT, retry | heartbeat_fields(update, self._now()))]
                frames = [self.system("api_retry", retry)]
                if (limit := rate_limit(update, self._now())) is not None:
                    frames.append(self._frame("rate_limit_event", {"rate_limit_info": limit}))
                return frames
            case Tombstone():
                return [self.system("informational", tombstone_frame(update))]
            case Boundary():
                return self._boundary(update)
            case RequestStarted() | PrefixBroken() | MaxTurnsReached():
                return [self.system(*explain_loop(update))]
            case ToolSummary():
                told = {"summary": update.text, "preceding_tool_use_ids": list(update.call_ids)}
                return [self._frame("tool_use_summary", told)]
            case _:
                assert_never(update)

    def _failed(self, failure: Failure) -> list[Object]:
        """A failure of the API becomes one synthetic message; other failures are only in the result."""
        self._failure = failure
        error = error_name(failure)
        if error is None:
            return []
        own_id = self._new_id()
        made = message_to_wire(own_id, "<synthetic>", [{"type": "text", "text": prose_of(failure)}], Usage())
        return [self._frame("assistant", {"message": made, "parent_tool_use_id": None, "error": error}, own_id)]

    def _result(self, result: Result) -> Object:
        out = make_outcome(result, self._failure)
        fields: Object = {
            "subtype": out.subtype,
            "is_error": out.is_error,
            "duration_ms": result.duration,
            "duration_api_ms": self._usage.api_ms,
            "num_turns": 0 if result.cause in LOCAL else result.num_turns,
            "stop_reason": None if result.stop is Stop.UNFINISHED else result.stop,
            "total_cost_usd": self._usage.cost / NANOS_PER_USD,
            "usage": usage_to_wire(result.usage),
            "modelUsage": self._usage.by_model(),
            "permission_denials": self._denials,
            "terminal_reason": out.reason,
            "cause": result.cause,
        }
        if out.text is not None:
            fields["result"] = out.text
        if out.errors or out.is_error:
            fields["errors"] = list(out.errors)
        if out.status is not None:
            fields["api_error_status"] = out.status
        if result.estimated:
            fields["estimated"] = True  # settled 14: a server did not report the cost of a call
        if result.output is not None:
            fields["structured_output"] = result.output
        if self.origin is not None:
            fields["origin"] = self.origin
        if result.cause is Cause.HOOK and self._denials:
            fields |= deferred_tool_fields(result, self._denials[-1])
        self._begin()  # another run may follow by itself
        return self._frame("result", fields)
