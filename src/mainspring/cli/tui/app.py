"""The terminal application: the screen, the input, the key bindings and the status line, put together.

This module needs neither the session nor rich, so that the first prompt appears before they are loaded. Completion and
history are loaded after the first prompt: until then the input completes nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output

from mainspring import cli
from mainspring.cli.output import is_terminal
from mainspring.cli.signals import DOUBLE
from mainspring.cli.tui.editor import Editor
from mainspring.cli.tui.keys import ACTIONS, TerminalKeyBindings
from mainspring.cli.tui.screen import Screen
from mainspring.cli.tui.theme import ColourDepth, choose_theme, find_colour_depth
from mainspring.cli.tui.vi_mode import ViMode
from mainspring.settings.load import home_folder
from mainspring.text import shorten_folder, strip_control_characters

if TYPE_CHECKING:
    from rich.text import Text

    from mainspring.cli.terminal_session import TerminalSession
    from mainspring.cli.tui.full_view import FullViews
    from mainspring.cli.tui.input_help import PromptHelpers
    from mainspring.cli.tui.run_view import RunView
    from mainspring.cli.tui.screen import Scrollback
    from mainspring.cli.tui.session import SessionController
    from mainspring.cli.tui.status import StatusCommand, StatusLine


class LateCompleter(Completer):
    inner: Completer | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return self.inner.get_completions(document, complete_event) if self.inner is not None else ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        if self.inner is not None:
            async for one in self.inner.get_completions_async(document, complete_event):
                yield one


class LateHistory(History):
    def __init__(self) -> None:
        super().__init__()
        self._inner: History | None = None
        self._ready = asyncio.Event()

    def begin(self, inner: History) -> None:
        self._inner = inner
        self._ready.set()

    async def load(self) -> AsyncGenerator[str, None]:
        await self._ready.wait()
        assert self._inner is not None
        async for text in self._inner.load():
            yield text

    def append_string(self, string: str) -> None:
        if self._inner is not None:
            self._inner.append_string(string)

    def load_history_strings(self) -> Iterable[str]:
        return ()

    def store_string(self, string: str) -> None:
        pass  # the inner handler does


BEAT = 0.1  # seconds between two redraws during a run
LONG = 10  # seconds: after a longer wait the user may have looked away
AGAIN = "Press Ctrl-C again to exit"
REWINDS = "Press Esc again to rewind"
CLEARS = "Press Esc again to clear"
COLUMN = 28  # width of the key column in the help


def this_terminal() -> Output:
    """Do not ask the terminal for the cursor position: some terminals do not answer, and we do not need it."""

    def size() -> Size:
        try:
            columns, rows = os.get_terminal_size(1)
        except OSError:  # the terminal is gone
            columns, rows = 0, 0
        return Size(rows=rows or 24, columns=columns or 80)

    return ErasingOutput(sys.stdout, size, term=os.environ.get("TERM"), enable_cpr=False)


class ErasingOutput(Vt100_Output):
    def erase_down(self) -> None:
        """Erase the line, then everything after its first cell. If the cursor is in the upper left corner, tmux would
        take a plain `CSI J` for a cleared screen, and keep what is erased in its scrollback."""
        self.write_raw("\x1b[K\x1b[C\x1b[J\x1b[D")


class LoadedTerminal(NamedTuple):
    """What exists once everything is loaded."""

    talk: TerminalSession
    helps: PromptHelpers
    conversation: SessionController
    shown: RunView
    status: StatusLine


class TerminalApp:
    def __init__(self, *, input: Input | None = None, output: Output | None = None) -> None:
        self.drawn = asyncio.Event()  # set when the first prompt is on the screen
        self._sat: LoadedTerminal | None = None  # None until the session is loaded,
        self._early: list[str] = []  # and prompts submitted before that wait here
        self._suggested = ""  # suggested next prompt
        self._completer, self._history = LateCompleter(), LateHistory()
        self._editor = Editor(self._completer, self._history, lambda: self._suggested)
        self._changing = asyncio.Lock()
        self._helping, self._remarked = False, ""
        self._stopped = -DOUBLE  # when Ctrl-C last found nothing to stop,
        self._escaped = -DOUBLE  # and Esc nothing to close or to interrupt
        self._had_text = False  # at that Esc
        self._raw: list[Any] | None = None  # terminal attributes while we own the terminal
        self.is_away = False  # a program of the user has the terminal
        self._suspended = False  # by Ctrl-Z
        self._over = False  # the terminal is no longer drawn
        self._folder = self._branch = ""
        self._beat: asyncio.TimerHandle | None = None  # the next drawing during a run
        self._own_status: StatusCommand | None = None  # the user's command for the status line
        self._status_command: str | None = None
        self._title = ""  # of the window; empty: as it was
        self._stashed = ""  # input that was put aside
        self._own_work: set[asyncio.Task[None]] = set()  # of keys: dialogs, and reading the clipboard
        self.release_notices: Callable[[bool], object] = bool  # prints the warnings of the start
        self.end_notices: Callable[[], object] = bool  # prints the warnings that came during the run
        output = output or this_terminal()
        self._keys = TerminalKeyBindings(self._editor, self)
        depth = find_colour_depth(os.environ) if is_terminal() else ColourDepth.NONE
        self.stage = Screen(self._editor, self._keys.made, self._footer, input=input, output=output, depth=depth)
        self._vi = ViMode(self.stage.app)
        self._keys.take_vi(self._vi)
        self.stage.app.after_render += self._is_drawn
        self.stage.app.after_render += self._keep_drawing
        self.stage.app.after_render += self._show_title

    def begin(
        self,
        talk: TerminalSession,
        helps: PromptHelpers,
        conversation: SessionController,
        shown: RunView,
        status: StatusLine,
    ) -> None:
        self._folder = shorten_folder(talk.config.cwd, talk.world.kit.place.home)
        self._branch = cli.find_branch(talk.config.cwd)
        self._sat = LoadedTerminal(talk, helps, conversation, shown, status)
        self._follow_settings(self._sat)
        self._take_own_keys(talk)
        talk.write_sequence = self.stage.write_sequence
        self._completer.inner = helps.completer
        self._history.begin(helps.history)
        self.stage.above = (shown, conversation.waiting, self)
        self.stage.redraw()

    def _follow_settings(self, sat: LoadedTerminal) -> None:
        """Apply the settings of the terminal. They change during a session if the folder becomes trusted."""
        settings = sat.talk.config.settings
        self.stage.set_theme(choose_theme(settings.theme, os.environ))
        self._vi.switch(on=settings.editor_mode == "vim")
        if settings.status_line != self._status_command:
            self._status_command = settings.status_line
            if self._own_status is not None:
                self._own_status.close()
            command = settings.status_line
            self._own_status = cli.StatusCommand(sat.talk, command, self.stage.redraw) if command else None
        if self._own_status is not None:
            self._own_status.ask()

    def _take_own_keys(self, talk: TerminalSession) -> None:
        environ = talk.config.environment
        own = cli.load_own_keys(cli.find_key_folders(home_folder(environ), environ), ACTIONS)
        self._keys.take_own(own.changes)
        if own.warning:
            talk.config.options.say(own.warning)

    @property
    def paper(self) -> Scrollback | None:
        """The scrollback; None once nothing is drawn any more."""
        return None if self._over else self.stage

    @property
    def shown(self) -> RunView | None:
        """The view of the run, once everything is loaded."""
        return self._sat.shown if self._sat is not None else None

    def interrupt(self) -> bool:
        """Return whether there was anything to interrupt."""
        return self._sat is not None and self._sat.conversation.interrupt()

    def say_early(self) -> None:
        """Submit the prompts that the user typed before everything was loaded."""
        for text in self._early:
            self._say(text)

    async def run(self) -> None:
        """Run until `end`, or until the terminal is gone."""
        try:
            with suppress(EOFError):
                await self.stage.app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            self._over = True
            for task in self._own_work:
                task.cancel()
            self.stage.close_all()
            if self._beat is not None:
                self._beat.cancel()
            if self._own_status is not None:
                self._own_status.close()

    def _is_drawn(self, _: object) -> None:
        if not self.drawn.is_set():
            self.drawn.set()
            with suppress(termios.error):
                self._raw = termios.tcgetattr(0)

    def end(self) -> None:
        if self.stage.app.is_running and not self.stage.app.is_done:
            if self._title:
                self.stage.write_sequence(cli.RESTORE_TITLE)
            self.stage.app.exit()

    def _keep_drawing(self, _: object) -> None:
        """Something that is running changes with time: after each drawing, draw again. An idle terminal sets no timer,
        so that it does not wake up."""
        if self._sat is not None and self._sat.shown.is_live and self._beat is None and not self._over:
            self._beat = asyncio.get_running_loop().call_later(BEAT, self._draw_again)

    def _show_title(self, _: object) -> None:
        """The window's title says whether something runs or waits for the user."""
        if self._sat is None or self._over:
            return
        mark = "? " if self.stage.has_dialog else "✻ " if self._sat.shown.is_live else ""
        title = f"{mark}mainspring · {self._folder.rpartition('/')[2] or self._folder}"
        if title != self._title:
            begin = cli.SAVE_TITLE if not self._title else ""
            self._title = title
            self.stage.write_sequence(begin + cli.make_title(title))

    def _draw_again(self) -> None:
        self._beat = None
        self.stage.redraw()

    def take_terminal_again(self) -> None:
        """Restore the terminal modes after another process changed them, such as the shell while we were stopped. Do
        nothing if a program of the user has the terminal, or if prompt-toolkit stopped us: it restores the modes
        itself."""
        if self._raw is not None and not self.is_away and not self._suspended:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._raw)
            self.stage.app.renderer.reset()
            self.stage.redraw()
        self._suspended = False

    # --- drawing ----------------------------------------------------------------------------------------------------

    def _footer(self) -> StyleAndTextTuples:
        if self._sat is None:
            return []
        talk, own_status = self._sat.talk, self._own_status
        running = talk.world.background_count
        waits = f"{running} in the background (↓)" if running else ""
        waits = " · ".join([one for one in (waits, "input stashed" if self._stashed else "") if one])
        if self._sat.conversation.waits_for_a_word:
            waits = "Enter sends queued prompts, Up edits one"
        facts = cli.SessionFacts(
            talk.model, self._folder, self._branch, talk.world.session.shared.ledger.account.spent, waits, self._vi.name
        )
        own = own_status.text if own_status is not None else ""
        mode = talk.world.session.shared.policy.mode
        return self._sat.status.line(self.stage.size.columns, mode, facts, remark=self._remarked, own=own)

    def suggest(self, words: str) -> None:
        """Suggest the next prompt. Text that starts like a command is ignored: only the user runs commands."""
        self._suggested = "" if words.lstrip().startswith(("/", "!")) else strip_control_characters(words)
        self.stage.redraw()

    def draw(self, width: int, height: int) -> Sequence[Text]:
        if not self._helping:
            return ()
        from rich.text import Text

        rows = [f"  {shown:<{COLUMN}}{about}" for shown, about in self._keys.help_rows()]
        lines = [Text(row, "note") for row in rows[:height]]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines

    # --- key actions ------------------------------------------------------------------------------------------------

    def send(self) -> None:
        text = self._editor.take()
        self._helping, self._suggested = False, ""
        self._vi.insert()
        if text.strip() and self._stashed:
            self.stash()
        if not text.strip():
            if self._sat is not None:
                self._sat.conversation.go_on()
            return
        if self._sat is None:
            self._early.append(text)
            return
        self._say(text)

    def _say(self, text: str) -> None:
        assert self._sat is not None  # everything is loaded
        self._history.append_string(text)
        self._sat.conversation.say(self._sat.helps.pastes.expand(text))

    def stop(self) -> None:
        now = time.monotonic()
        if self.interrupt():
            return
        if self._editor.buffer.text:
            self._editor.clear()
        elif now - self._stopped < DOUBLE:
            self.leave()
        else:
            self._stopped = now
            self._remark(AGAIN)

    def _remark(self, words: str) -> None:
        """Show a note in the status line for a moment."""
        self._remarked = words
        asyncio.get_running_loop().call_later(DOUBLE, self._forget_remark)

    def _forget_remark(self) -> None:
        self._remarked = ""
        self.stage.redraw()

    def escape(self) -> None:
        now, escaped = time.monotonic(), self._escaped
        used, self._helping, self._escaped = self._helping, False, -DOUBLE
        if self.interrupt() or used:
            return  # this Esc had a purpose: it is not the first of two
        had_text, self._had_text = self._had_text, bool(self._editor.buffer.text)
        again = now - escaped < DOUBLE and had_text is self._had_text
        if self._editor.buffer.text:
            self._clear_input(again=again)
        elif not self._can_rewind or self._sat is None:
            return
        elif again:
            self._sat.conversation.press("/rewind")
            return
        else:
            self._remark(REWINDS)
        self._escaped = -DOUBLE if again else now

    def _clear_input(self, *, again: bool) -> None:
        """The second of two. The text stays in the history, so that Up brings it back."""
        if not again:
            self._remark(CLEARS)
            return
        text = self._editor.take()
        self._vi.insert()
        self._remarked = ""
        if self._sat is not None and text.strip():
            self._history.append_string(text)

    @property
    def _can_rewind(self) -> bool:
        """The session is idle, and has a prompt to rewind to."""
        if self._sat is None or self._sat.conversation.is_busy or self._sat.conversation.waiting:
            return False
        return bool(self._sat.talk.world.session.state.history)

    def stash(self) -> None:
        text, self._stashed = self._stashed, ""
        if self._editor.buffer.text:
            self._stashed = self._editor.take()
            self._remark("Stashed: Ctrl-S brings it back, or your next prompt")
        if text:
            self.draft(text)

    def search_history(self) -> None:
        if self._sat is not None:
            self._begin_work(self._search_history(self._sat))

    async def _search_history(self, sat: LoadedTerminal) -> None:
        text = await cli.choose_past_prompt(sat.helps.history, self.stage)
        if text is not None:
            self._editor.put(text)
            self._vi.insert()

    def paste_image(self) -> None:
        if self._sat is not None:
            self._begin_work(self._paste_image(self._sat))

    async def _paste_image(self, sat: LoadedTerminal) -> None:
        self._remark("Reading the clipboard…")
        path, why_not = await cli.save_clipboard_image(sat.talk)
        self._remark(why_not)
        if path:
            self._editor.buffer.insert_text(sat.helps.pastes.put_image(path))
        self.stage.redraw()

    def pick_model(self) -> None:
        if self._sat is not None:
            self._sat.conversation.press("/model")

    def _begin_work(self, work: Coroutine[Any, Any, None]) -> None:
        """One at a time: these are keys."""
        if self._own_work:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._own_work.add(task)
        task.add_done_callback(self._own_work.discard)

    def leave(self) -> None:
        if self._sat is not None:
            self._sat.conversation.leave()
        else:
            self.end()

    def next_mode(self) -> None:
        if self._sat is not None:
            self._sat.talk.beside(self._change_mode(self._sat.talk))

    async def _change_mode(self, talk: TerminalSession) -> None:
        """Changes run one after the other: each starts from the mode that the previous one set."""
        async with self._changing:
            session, policy = talk.world.session, talk.world.session.shared.policy
            config = talk.world.config
            mode = cli.next_mode(policy.mode, config.mode, may_bypass=config.may_bypass)
            await session.change(replace(policy, mode=mode))
        self.rests(0)
        self.stage.redraw()

    def show_transcript(self) -> None:
        if self._sat is not None:
            self._sat.talk.beside(self._views.show_conversation())

    def show_board(self) -> bool:
        if self._sat is None or not self._sat.talk.session.tasks():
            return False
        self._sat.talk.beside(self._show_board(self._sat.talk))
        return True

    async def _show_board(self, talk: TerminalSession) -> None:
        await cli.show_board(talk, self.stage, self._views)

    @property
    def _views(self) -> FullViews:
        assert self._sat is not None  # only a loaded terminal has views
        return cli.FullViews(self._sat.talk, self.stage, self._sat.shown, self.given_away)

    def move_to_background(self) -> None:
        if self._sat is not None:
            self._sat.talk.beside(self._move_to_background(self._sat.talk))

    async def _move_to_background(self, talk: TerminalSession) -> None:
        if not await talk.session.background():
            self._remark("nothing to move to the background")
            self.stage.redraw()

    def toggle_tasks(self) -> None:
        if self._sat is not None:
            self._sat.shown.tasks_shown = not self._sat.shown.tasks_shown

    def toggle_help(self) -> None:
        self._helping = not self._helping

    def edit(self) -> None:
        self.is_away = True
        self._editor.buffer.open_in_editor().add_done_callback(self._is_back)

    def _is_back(self, _: object) -> None:
        self.is_away = False

    def suspend(self) -> None:
        self._suspended = True
        self.stage.app.suspend_to_background()

    def take_back(self) -> bool:
        if self._sat is None or not self._sat.conversation.waiting:
            return False
        self._sat.talk.beside(self._take_back(self._sat.conversation))
        return True

    async def _take_back(self, conversation: SessionController) -> None:
        if text := await conversation.waiting.take_back():
            self.draft(text)

    def complete(self) -> None:
        if self._suggested and not self._editor.buffer.text:
            self._editor.put(self._suggested)
        else:
            self._editor.take_completion()

    def paste(self, text: str) -> None:
        document = self._editor.buffer.document
        if self._sat is not None:
            text = self._sat.helps.pastes.put(text, document.text_before_cursor, document.text_after_cursor)
        self._editor.buffer.insert_text(text)

    def erase(self) -> None:
        buffer = self._editor.buffer
        at = buffer.cursor_position
        buffer.delete_before_cursor(self._sat.helps.pastes.before(buffer.text, at) if self._sat is not None else 1)

    def erase_next(self) -> None:
        buffer = self._editor.buffer
        at = buffer.cursor_position
        buffer.delete(self._sat.helps.pastes.after(buffer.text, at) if self._sat is not None else 1)

    # --- for the session controller ---------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self.stage.put(*cli.render_prompt(text))

    def rests(self, seconds: float) -> None:
        self.end_notices()
        if self._sat is not None:
            self._branch = cli.find_branch(self._sat.talk.config.cwd)
            self._follow_settings(self._sat)
        if seconds > LONG:
            self.ring("mainspring is done")

    def draft(self, text: str) -> None:
        """Insert before the text that was typed in the meantime."""
        typed = self._editor.buffer.text
        self._editor.put(f"{text}\n{typed}" if typed else text)
        self.stage.redraw()

    def ring(self, words: str) -> None:
        if self._sat is not None and not self._over:
            channel = self._sat.talk.config.settings.notifications
            self.stage.write_sequence(cli.make_notification(words, channel, os.environ))

    def redraw(self) -> None:
        self.stage.redraw()

    @asynccontextmanager
    async def given_away(self) -> AsyncGenerator[None]:
        await self.stage.settled()
        async with in_terminal():
            self.is_away = True
            try:
                yield
            finally:
                self.is_away = False

    def show_past(self) -> None:
        assert self._sat is not None  # only the session calls this
        cli.put_past(self.stage, self._sat.talk)

    def tell_of_start(self, *, asked: bool) -> None:
        self.release_notices(asked)

    async def trusts(self, held: list[str]) -> bool:
        assert self._sat is not None
        return await cli.ask_for_trust(held, self._sat.talk.config.cwd, self.stage)

    def chooses(self, word: str) -> bool:
        return word in cli.CHOICES or word in cli.PANELS or word == "tasks"

    async def choose(self, word: str) -> str | None:
        assert self._sat is not None  # only the session calls this
        if word == "tasks":
            await self._show_board(self._sat.talk)
            return None
        if word in cli.PANELS:
            return await cli.open_panel(word, cli.PanelContext(self._sat.talk, self.stage, self.given_away))
        return await cli.CHOICES[word](self._sat.talk, self.stage)
