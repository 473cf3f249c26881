"""`mainspring` in a terminal, from the command line to the end: what is created, in which order, and what ends what.

The prompt appears first; the session and rich are loaded while the user looks at it. `ScrollbackLines` prints our
messages: to the scrollback while the terminal is drawn, else to standard output.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring import agent, cli
from mainspring.agent.options import MissingKeyError, sanitize_words
from mainspring.cli.flags import Arguments, show_argument
from mainspring.cli.main import freeze_garbage_collector
from mainspring.cli.output import NoWrap, TerminalOutput, TextStyle, say_once, wants_colour
from mainspring.cli.signals import HURRY, INTERRUPT, Signals, do_nothing
from mainspring.cli.tui.app import TerminalApp

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.input_help import PromptHelpers
    from mainspring.cli.tui.run_view import RunView
    from mainspring.cli.tui.screen import Scrollback


T = TypeVar("T")

STYLES = {
    TextStyle.PLAIN: "",
    TextStyle.BOLD: "bold",
    TextStyle.DIM: "note",
    TextStyle.RED: "error",
    TextStyle.GREEN: "added",
    TextStyle.YELLOW: "warning",
    TextStyle.CYAN: "busy",
}


ABOUT_TRUST = ("directory is not trusted", "mainspring trust")  # in notes of the start


class ScrollbackLines:
    def __init__(
        self, paper: Callable[[], Scrollback | None], shown: Callable[[], RunView | None] = lambda: None
    ) -> None:
        """`paper`: returns None once nothing is drawn any more. `shown`: the run view, which knows the last printed
        line."""
        self._plain = TerminalOutput(colour=wants_colour(), wrap=NoWrap())
        self._paper, self._shown = paper, shown
        self._held: list[str] | None = None  # notes that wait for the question about trust
        self._after_run: list[str] = []  # warnings that wait for the end of the run

    def note(self, words: str) -> None:
        """Print something that the user should know."""
        if self._held is not None:
            self._held.append(words)
        else:
            self.line(words, TextStyle.YELLOW)

    def warn(self, words: str) -> None:
        """Print a warning, but not between a prompt and its answer."""
        shown = self._shown()
        if self._held is None and shown is not None and shown.is_live:
            self._after_run.append(words)
        else:
            self.note(words)

    def end_run(self) -> None:
        after, self._after_run = self._after_run, []
        for words in after:
            self.note(words)

    def hold(self) -> None:
        """Keep notes back: nothing is printed above the question about trust."""
        self._held = []

    def release(self, asked: bool = False) -> None:  # a callback
        """Print the notes that were kept back. `asked`: without those about trust, which the question covered."""
        held, self._held = self._held or [], None
        for words in held:
            if not asked or not any(hint in words for hint in ABOUT_TRUST):
                self.note(words)

    def line(self, text: str = "", style: TextStyle = TextStyle.PLAIN) -> None:
        """The caller has sanitized the text, as for any other output."""
        if (paper := self._paper()) is None:
            self._plain.line(text, style)
            return
        if (shown := self._shown()) is not None:
            shown.tell(text, STYLES[style])
            return
        from rich.text import Text  # imported here: the first prompt does not wait for it

        paper.put(Text(text, STYLES[style]))


OF_CLAUDE_CODE = ("~/.claude/settings.json", "~/.claude.json")  # then the first start offers to copy them
LEFT = "No model is set up. Run 'mainspring' again when you have a key."
AS_BEFORE = b"\x1b[?2004l\x1b[?25h\x1b[0m\r\n"  # bracketed paste off, cursor on, no colour
BREATH = 0.001  # seconds between two imports, so that keys are handled


def has_claude_code() -> bool:
    """Whether it may be worth loading the question about it."""
    return any(os.path.exists(os.path.expanduser(path)) for path in OF_CLAUDE_CODE)  # noqa: PTH110, PTH111  # 8 ms


def run_terminal(arguments: Arguments) -> int:
    with Signals() as signals, asyncio.Runner() as runner:
        signals.kill = terminal_as_it_is()
        runner.run(sit_down(arguments, signals))
    return signals.code


def terminal_as_it_is() -> Callable[[], None]:
    """Return a function that restores the terminal, for ends that skip `finally`."""
    before: list[Any] | None = None
    with suppress(termios.error):
        before = termios.tcgetattr(0)

    def put_back() -> None:
        with suppress(termios.error, OSError):
            os.write(1, AS_BEFORE)
            if before is not None:
                termios.tcsetattr(0, termios.TCSANOW, before)

    return put_back


async def sit_down(arguments: Arguments, signals: Signals) -> None:
    await TerminalStart(arguments, signals, TerminalApp()).go()


class TerminalStart:
    def __init__(self, arguments: Arguments, signals: Signals, desk: TerminalApp) -> None:
        self._words, self._signals, self._desk = arguments.words, signals, desk
        self._picks = arguments.pick_session
        self._lines = ScrollbackLines(lambda: desk.paper, lambda: desk.shown)
        self._options = arguments.session.replace(
            checkpoints=True, notice=say_once(self._lines.warn), remark=self._lines.note, prompt_suggestions=True
        )

    async def go(self) -> None:
        desk = self._desk
        self._hear_signals(desk)
        asyncio.get_running_loop().set_exception_handler(self._hear_of_failure)
        drawing = asyncio.ensure_future(desk.run())
        drawn = asyncio.ensure_future(desk.drawn.wait())
        try:
            await asyncio.wait({drawing, drawn}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(BREATH)
            if self._picks and not drawing.done():
                await self._pick_session(desk, drawing)
            if not drawing.done():
                await self._with_session(desk, drawing)
        finally:
            drawn.cancel()
            self._signals.during(do_nothing)
            desk.end()
            await drawing

    async def _pick_session(self, desk: TerminalApp, drawing: asyncio.Future[None]) -> None:
        """Escape starts a new session."""
        picking = asyncio.ensure_future(cli.choose_first_session(os.environ, desk.stage))
        over: set[asyncio.Future[Any]] = {picking, drawing}
        await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        picking.cancel()
        if not picking.cancelled() and picking.done() and (chosen := picking.result()) is not None:
            self._options = self._options.replace(resume=chosen or None)
            if not chosen:
                self._lines.line("There are no sessions yet. This is a new one.", TextStyle.DIM)

    async def _with_session(self, desk: TerminalApp, drawing: asyncio.Future[None]) -> None:
        """Raises `StartError`: then the prompt is erased, and nothing was started."""
        await asyncio.sleep(BREATH)
        self._lines.hold()
        desk.release_notices, desk.end_notices = self._lines.release, self._lines.end_run
        try:
            await self._with_config(desk, drawing)
        finally:
            self._lines.release()
            self._lines.end_run()

    async def _with_config(self, desk: TerminalApp, drawing: asyncio.Future[None]) -> None:
        from mainspring.agent.open_session import open_session

        if has_claude_code():
            words = await self._while_drawn(cli.offer_claude_code(desk.stage, os.environ), drawing)
            if words:
                self._lines.note(words)
        try:
            config = agent.resolve_config(self._options, dict(os.environ))
        except MissingKeyError:
            made = await self._set_up(desk, drawing)
            if made is None:
                return
            config = made
        asker = cli.TerminalHost(
            self._lines, lambda: desk.stage, lambda: talk.session.permissions, desk.interrupt, config.cwd
        )
        talk = cli.TerminalSession(open_session(config, asker), self._lines)
        self._kill_also(talk.session.kill)
        await asyncio.sleep(BREATH)
        helps = cli.helps_for(talk)
        helps.files.refresh()  # so that the first '@' finds them
        try:
            await self._work(desk, talk, helps, drawing)
        finally:
            desk.end()
            await asyncio.wait({drawing})
            helps.files.close()
            journal = talk.opened.journal
            is_stored = journal is not None and journal.stored and bool(talk.world.session.state.history)
            await talk.close()
        if is_stored and not self._signals.code:
            known_as = talk.world.about.session_id[:8]
            self._lines.line(f"To resume this session, run 'mainspring --resume {known_as}'.", TextStyle.DIM)

    async def _set_up(self, desk: TerminalApp, drawing: asyncio.Future[None]) -> ResolvedConfig | None:
        """Show the start screen. Return None if the user leaves without a choice. Raises `StartError`."""
        chosen = await self._while_drawn(cli.SetupScreen(desk.stage, dict(os.environ)).run(), drawing)
        if chosen is None and drawing.done():
            return None
        if chosen is None:
            desk.end()
            await asyncio.wait({drawing})
            self._lines.line(LEFT, TextStyle.DIM)
            return None
        if chosen.model:
            self._options = self._options.replace(model=chosen.model)
        self._lines.note(chosen.words)
        return agent.resolve_config(self._options, dict(os.environ))

    async def _while_drawn(self, asking: Coroutine[Any, Any, T], drawing: asyncio.Future[None]) -> T | None:
        """None if the terminal is gone before the answer."""
        task = asyncio.ensure_future(asking)
        either: set[asyncio.Future[Any]] = {task, drawing}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        return None

    def _hear_of_failure(self, _: asyncio.AbstractEventLoop, what: dict[str, Any]) -> None:
        """Report failures of background tasks. Python would print them over the live region."""
        error = what.get("exception")
        self._lines.note(sanitize_words(f"Something failed: {error!r}" if error else str(what.get("message"))))

    def _kill_also(self, kill: Callable[[], None]) -> None:
        put_back = self._signals.kill

        def both() -> None:
            kill()
            put_back()

        self._signals.kill = both

    async def _work(
        self, desk: TerminalApp, talk: TerminalSession, helps: PromptHelpers, drawing: asyncio.Future[None]
    ) -> None:
        shown = cli.RunView(
            desk.stage,
            talk.model,
            root=talk.config.cwd,
            summarizes=lambda: agent.wants_tool_summaries(talk.session.config),
        )
        status = cli.StatusLine()
        conversation = cli.SessionController(talk, shown, status, desk)
        cli.print_greeting(self._lines, talk.world)
        desk.begin(talk, helps, conversation, shown, status)
        desk.show_past()
        freeze_garbage_collector()
        words = self._words
        if words:
            conversation.say(show_argument(words[0]))
        desk.say_early()
        work = asyncio.ensure_future(conversation.work())
        await asyncio.wait({work, drawing}, return_when=asyncio.FIRST_COMPLETED)
        conversation.leave()  # if the terminal is gone
        await work

    def _hear_signals(self, desk: TerminalApp) -> None:
        loop, signals = asyncio.get_running_loop(), self._signals

        def heard() -> None:
            if signals.code == INTERRUPT:
                signals.forgive()
                if not desk.is_away:  # else it is for the program that has the terminal
                    desk.stop()
            else:
                desk.leave()
                loop.call_later(HURRY, signals.kill)

        signals.during(lambda: loop.call_soon_threadsafe(heard))
        signals.resumed = lambda: loop.call_soon_threadsafe(desk.take_terminal_again)
