"""The plain conversation (`mainspring --plain`, or `TERM=dumb`): read a line, stream the answer, a line per event.

It is for screen readers, too: each thing is said once, with a word in front, and no colour, mark or box is needed to
understand it. The cursor never moves.

Between runs the event loop is stopped and the keyboard is read. During a run, Ctrl-C interrupts it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import assert_never

from mainspring import cli
from mainspring.agent.config import ResolvedConfig, resolve_config
from mainspring.agent.loop_notices import describe_freed_room, explain_prefix_break, explain_request, format_run_figures
from mainspring.agent.open_session import open_session
from mainspring.agent.options import MissingKeyError
from mainspring.agent.prompt_expansion import Prompt, parse_compact_command
from mainspring.agent.results import make_outcome
from mainspring.agent.session_parts import SessionParts
from mainspring.agent.slash_commands import lines_of_attached
from mainspring.agent.updates import (
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
from mainspring.cli.flags import Arguments, show_argument
from mainspring.cli.main import freeze_garbage_collector
from mainspring.cli.output import NoWrap, TerminalOutput, TextStyle, get_terminal_columns, say_once, wants_colour
from mainspring.cli.plain_input import PlainHost, TypedAhead, count_changes, load_line_editing, read_typed_line
from mainspring.cli.plain_markdown import PlainMarkdown
from mainspring.cli.signals import Signals, do_nothing
from mainspring.cli.terminal_session import LineWriter, TerminalSession
from mainspring.core.messages import Text, ToolCall
from mainspring.core.models import Model
from mainspring.core.reasons import Failure
from mainspring.core.updates import (
    AgentDone,
    AgentStarted,
    AgentUpdate,
    Appended,
    BlockDone,
    BlockKind,
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
    Rendering,
    ReplyDone,
    ReplyStarted,
    RequestStarted,
    Result,
    Retrying,
    Tombstone,
    ToolSummary,
    Update,
)
from mainspring.settings.load import load_settings
from mainspring.text import describe_wait, plural, shorten_folder, shorten_path, strip_control_characters, truncate
from mainspring.version import __version__

WIDTH = 78  # columns of a line about a call
PATIENCE = 2.0  # seconds until a running call prints progress; each further line takes twice as long,
LONGEST_PATIENCE = 60.0  # up to this
LONGEST_NAME = 30  # columns of a subagent's description
MOST_CHANGES = 20  # lines shown of a change


class PlainScreen:
    def __init__(self, output: TerminalOutput, model: Model, now: Callable[[], float] = time.monotonic) -> None:
        self._output = output
        self._now = now
        self._quiet_until: dict[str, tuple[float, float]] = {}  # call id -> time of its next progress line, and wait
        self._markdown = PlainMarkdown()
        self._line = output.line
        self._model = model
        self._calls: dict[str, ToolCall] = {}
        self._agents: dict[str, str] = {}  # running subagents: id -> description
        self._failure: Failure | None = None

    def show(self, update: Update) -> None:
        match update:
            case Delta() | BlockStarted() | BlockDone() | Tombstone():
                self._text(update)
            case CallStarted():
                self._calls[update.call.id] = update.call
                self._quiet_until[update.call.id] = (self._now() + PATIENCE, PATIENCE)
                self._line(f"Tool: {describe_call(update.call)}", TextStyle.CYAN)
            case CallDone():
                self._call_done(update)
            case RequestStarted() | Retrying() | Boundary() | PrefixBroken():
                self._going_on(update)
            case Failed():
                self._failure = update.failure
            case Result():
                self._end(update)
            case ToolSummary():
                self._line(f"Summary: {truncate(strip_control_characters(update.text), WIDTH)}", TextStyle.DIM)
            case ReplyStarted() | ReplyDone() | Appended() | Injected():
                pass  # not shown
            case CallProgress():
                self._progress(update)
            case AgentStarted() | AgentUpdate() | AgentDone():
                self._agent(update)
            case QuestionAsked() | QuestionAnswered() | MaxTurnsReached():
                pass  # the host prints questions, the result names the limit
            case _:
                assert_never(update)

    def _agent(self, update: AgentStarted | AgentUpdate | AgentDone) -> None:
        """Print the calls of a subagent, with its description. Its report is the result of the Agent call."""
        match update:
            case AgentStarted():
                self._agents[update.agent_id] = truncate(" ".join(update.description.split()), LONGEST_NAME)
            case AgentUpdate(update=CallStarted() as started):
                self._of_agent(update.agent_id, describe_call(started.call), TextStyle.DIM)
            case AgentUpdate(update=CallDone() as done) if done.denied:
                self._of_agent(update.agent_id, strip_control_characters(done.result.text), TextStyle.RED)
            case AgentUpdate():
                pass
            case AgentDone():
                self._agents.pop(update.agent_id, None)
            case _:
                assert_never(update)

    def _of_agent(self, agent_id: str, words: str, style: TextStyle) -> None:
        name = strip_control_characters(self._agents.get(agent_id, "agent"))
        self._line(f"Agent {name}: {truncate(' '.join(words.split()), WIDTH - len(name) - 8)}", style)

    def _progress(self, update: CallProgress) -> None:
        """Print the last line of a long call's output now and then: the result has all of it."""
        last = next((line for line in reversed(update.text.splitlines()) if line.strip()), "")
        due, wait = self._quiet_until.get(update.call_id, (0.0, PATIENCE))
        if last and self._now() >= due:
            wait = min(LONGEST_PATIENCE, wait * 2)
            self._quiet_until[update.call_id] = (self._now() + wait, wait)
            self._line(f"Progress: {truncate(strip_control_characters(last.strip()), WIDTH - 10)}", TextStyle.DIM)

    def _text(self, update: Delta | BlockStarted | BlockDone | Tombstone) -> None:
        match update:
            case Delta():
                if update.kind is BlockKind.TEXT:
                    self._output.piece(self._markdown.add(strip_control_characters(update.text)))
            case BlockStarted():
                if update.kind is BlockKind.THINKING:
                    self._line("(thinking)", TextStyle.DIM)
            case BlockDone():
                self._end_text()
            case Tombstone():
                self._end_text()
                self._line(f"(text above withdrawn: {update.why})", TextStyle.YELLOW)
            case _:
                assert_never(update)

    def _end_text(self) -> None:
        if rest := self._markdown.end():
            self._output.piece(rest)
        self._output.end_text()

    def _going_on(self, update: RequestStarted | Retrying | Boundary | PrefixBroken) -> None:
        match update:
            case RequestStarted():
                if words := explain_request(update):
                    self._line(words, TextStyle.YELLOW)
            case Retrying():
                self._retrying(update)
            case Boundary():
                self._line(f"(context: {update.layer}{describe_freed_room(update)})", TextStyle.DIM)
            case PrefixBroken():
                if words := explain_prefix_break(update, self._model):
                    self._line(words, TextStyle.DIM)
            case _:
                assert_never(update)

    def _retrying(self, update: Retrying) -> None:
        seconds = update.delay / 1_000
        wait = f"{seconds:.1f} s" if seconds < 60 else describe_wait(seconds, time.time())
        if update.beat:
            self._line(f"(still waiting, retrying in {wait})", TextStyle.DIM)
            return
        why = " ".join([str(part) for part in (update.failure.status, update.failure.kind) if part])
        of = f" of {update.most}" if update.most else ""
        self._line(f"({why}: attempt {update.attempt}{of} failed, retrying in {wait})", TextStyle.YELLOW)

    def waits_for(self, agents: int) -> None:
        if agents:
            self._line(f"(waiting for {plural(agents, 'subagent')}; press Ctrl-C to stop waiting)", TextStyle.DIM)

    def stops_waiting(self) -> None:
        self._line("(no longer waiting; the report arrives in a later turn)", TextStyle.DIM)

    def broke_off(self, why: str) -> None:
        self._end_text()
        self._line(f"Run failed: {why}", TextStyle.RED)

    def _call_done(self, done: CallDone) -> None:
        result, call = done.result, self._calls.pop(done.result.call_id, None)
        if done.rendering is not None and not result.is_error:
            self._rendered(done.rendering)
            return
        lines = [line for line in strip_control_characters(result.text).splitlines() if line.strip()]
        what = lines[-1 if result.is_error else 0].strip() if lines else "(no output)"
        more = f" (+{plural(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
        head = f"{'Error' if result.is_error else 'Result'}: " + (f"{call.name}: " if call else "")
        style = TextStyle.RED if result.is_error else TextStyle.DIM
        self._line(f"{head}{truncate(what, WIDTH - len(head) - len(more))}{more}", style)

    def _rendered(self, rendering: Rendering) -> None:
        """One line; for an edit also the changed lines; for a command the first line of its output."""
        body = [line for line in strip_control_characters(rendering.body).splitlines() if line.strip()]
        if rendering.kind == "output" and body:
            more = f" (+{plural(len(body) - 1, 'line')})" if len(body) > 1 else ""
            self._line(f"Result: {truncate(body[0].strip(), WIDTH - len(more) - 8)}{more}", TextStyle.DIM)
            return
        self._line(f"Result: {truncate(strip_control_characters(rendering.summary), WIDTH - 8)}", TextStyle.DIM)
        if rendering.kind != "diff":
            return
        lines = [line for line in body if line[:1] in ("+", "-") and not line.startswith(("+++ ", "--- "))]
        gone, new = [line[1:] for line in lines if line[0] == "-"], [line[1:] for line in lines if line[0] == "+"]
        self._line(f"  {count_changes(len(gone), len(new))}", TextStyle.DIM)
        for line in lines[:MOST_CHANGES]:
            is_new = line.startswith("+")
            words = f"  {'added' if is_new else 'removed'}: {line[1:]}"
            self._line(truncate(words, WIDTH), TextStyle.GREEN if is_new else TextStyle.RED)
        if len(lines) > MOST_CHANGES:
            self._line(f"  ... {plural(len(lines) - MOST_CHANGES, 'more line')}", TextStyle.DIM)

    def _end(self, result: Result) -> None:
        self._end_text()
        out = make_outcome(result, self._failure)
        if result.interrupted:
            self._line("(interrupted)", TextStyle.YELLOW)
        elif out.is_error:
            self._line(f"Error: {strip_control_characters(out.words)}", TextStyle.RED)
        if figures := format_run_figures(result, self._model, ", "):  # for screen readers and simple terminals
            self._line(f"[{figures}]", TextStyle.DIM)


def describe_call(call: ToolCall) -> str:
    """A call in one line."""
    first = next((value for value in call.input.values() if isinstance(value, str)), "")
    return truncate(strip_control_characters(f"{call.name} {' '.join(first.split())}".rstrip()), WIDTH)


MOST_ABSENT = 5  # missing files that are named


def run_plain_conversation(arguments: Arguments) -> int:
    with suppress(MissingKeyError):
        return hold_conversation(arguments)
    from mainspring.cli.commands.login import set_up_first_model

    model = set_up_first_model(load_environment())
    return 0 if model is None else hold_conversation(arguments, model)


def load_environment() -> dict[str, str]:
    """With the variables of the user's settings."""
    return {**os.environ, **load_settings("/", os.environ).own_env}


def hold_conversation(arguments: Arguments, model: str = "") -> int:
    """`model`: instead of that of the arguments and settings. Raises `StartError`."""
    output = TerminalOutput(colour=wants_colour(), wrap=NoWrap())
    with Signals() as signals, asyncio.Runner() as runner:
        keyboard = PlainHost(output, lambda: talk.session.permissions)
        session = arguments.session.replace(model=model) if model else arguments.session
        if arguments.pick_session:
            session = session.replace(resume=cli.ask_for_session(output))
        options = session.replace(notice=say_once(session.notice), checkpoints=True)
        config = resolve_config(options, dict(os.environ))
        signals.check()
        ahead = TypedAhead()
        talk = runner.run(new_talk(config, output, keyboard))

        def kill() -> None:
            talk.session.kill()
            ahead.put_back()

        signals.kill = kill
        freeze_garbage_collector()
        print_greeting(output, talk.world)
        load_line_editing()
        try:
            runner.run(talk.open())
            said = show_argument(arguments.words[0]) if arguments.words else read_typed_line(signals, output)
            while said is not None:
                if said.strip() and (meant := runner.run(expand_typed_line(said, talk))):
                    with ahead:
                        runner.run(PlainRun(talk, output, signals).follow(make_typed_prompt(said, meant)))
                said = read_typed_line(signals, output, keyboard.take_early())
        finally:
            runner.run(talk.close())
    return 0


async def new_talk(config: ResolvedConfig, output: TerminalOutput, keyboard: PlainHost) -> TerminalSession:
    """Raises `StartError`."""
    return TerminalSession(open_session(config, keyboard), output)


async def expand_typed_line(said: str, talk: TerminalSession) -> str:
    """The prompt that the line expands to; empty for a built-in or unknown command: a typo costs nothing."""
    if said.startswith("!") and "\n" not in said:  # a paste is never run
        await cli.run_own_command(said[1:], talk)
        return ""
    word, words = (*said.split(None, 1), "")[:2]
    if not word.startswith("/") or "/" in word[1:] or parse_compact_command(said) is not None:
        return said
    from mainspring.cli.slash import table

    return await table.run_slash_command(word[1:], words.strip(), talk)


def make_typed_prompt(said: str, meant: str) -> Prompt:
    """`meant`: what the typed line expands to."""
    return Prompt((Text(meant),), typed="" if meant == said else said.strip())


def tell_of_mentions(update: PromptExpanded, output: LineWriter) -> None:
    """Warn about missing files: the model would search for them, at the user's cost."""
    for name in update.missing[:MOST_ABSENT]:
        shown = strip_control_characters(name)
        output.line(f"File '{shown}' not found: '@{shown}' is sent as text.", TextStyle.YELLOW)
    for line in lines_of_attached(update.attached):
        output.line(line, TextStyle.DIM)


def print_greeting(output: LineWriter, world: SessionParts) -> None:
    """Two lines that fit into the terminal."""
    about, width = world.about, get_terminal_columns()
    head = f"mainspring {__version__} · {strip_control_characters(about.model.name)}"
    room = width - len(head) - len(" · ")
    folder = shorten_path(shorten_folder(about.cwd, world.kit.place.home), room)
    output.line(truncate(f"{head} · {folder}" if folder else head, width), TextStyle.BOLD)
    facts = [plural(len(about.tools), "tool"), about.sandbox(), f"mode {about.mode}", "/help for commands"]
    while len(" · ".join(facts)) > width and len(facts) > 1:
        del facts[0]
    output.line(truncate(" · ".join(facts), width), TextStyle.DIM)
    tell_of_last(output, world)


def tell_of_last(output: LineWriter, world: SessionParts) -> None:
    """Show where a resumed session stopped."""
    if world.session.state.history:
        from mainspring.agent.slash.session import describe_last_reply

        if words := describe_last_reply(world):
            output.line(words, TextStyle.DIM)


class PlainRun:
    def __init__(self, talk: TerminalSession, output: TerminalOutput, signals: Signals) -> None:
        self._talk, self._signals = talk, signals
        self._screen = PlainScreen(output, talk.model)

    async def follow(self, prompt: Prompt) -> None:
        """Send the prompt and show updates until the session is idle and no subagent is left."""
        session, signals = self._talk.session, self._signals
        await session.submit(prompt)
        signals.during(signals.ending(asyncio.get_running_loop(), lambda: session.interrupt(hold_reports=True)))
        if signals.code:  # a signal arrived before there was anything to interrupt
            session.interrupt(hold_reports=True)
        waits = False
        try:
            async for update in session.updates():
                if isinstance(update, Idle) and not session.queued:
                    if not update.background:
                        break
                    waits = True
                    self._screen.waits_for(update.background)
                self._show(update)
        finally:
            signals.during(do_nothing)
        if waits and self._talk.world.agents.away:
            self._screen.stops_waiting()

    def _show(self, update: AnyUpdate) -> None:
        screen, output = self._screen, self._talk.output
        if not isinstance(update, SessionUpdate):
            screen.show(update)
            return
        match update:
            case PromptExpanded():
                tell_of_mentions(update, output)
            case PromptBlocked():
                screen.broke_off(update.reason)
            case PromptAnswered():
                output.line(
                    strip_control_characters(update.text), TextStyle.YELLOW if update.failed else TextStyle.PLAIN
                )
            case PromptReturned():
                output.line("(interrupted)", TextStyle.YELLOW)
            case RunBroken():
                screen.broke_off(str(update.error))
            case TaskChanged():
                if update.status in ("completed", "failed"):
                    output.line(update.task.report, TextStyle.DIM)
            case Notice():
                self._talk.config.options.say(update.text)
            case (
                StateChanged()
                | RunStarted()
                | Idle()
                | SessionReset()
                | SubagentMoved()
                | HookStarted()
                | HookFinished()
            ):
                pass  # not shown
            case PromptQueued() | PromptSuggested():
                pass  # not asked for here
            case _:
                assert_never(update)
