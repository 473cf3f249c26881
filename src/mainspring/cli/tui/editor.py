"""The input: several lines, history, completions below it, and history search."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_width
from prompt_toolkit.history import History
from prompt_toolkit.layout import ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import AfterInput, ConditionalProcessor
from prompt_toolkit.utils import get_cwidth
from prompt_toolkit.widgets import SearchToolbar

PROMPT, MORE = "❯ ", "  "
MOST_LINES = 12  # input lines visible at once, at most half of the terminal
MOST_COMPLETIONS = 10
LEAST_FOR_RULE = 10  # rows of the terminal: in a smaller one the rule above the input is left out
NAME = 26  # columns for the inserted text of a completion


class Editor:
    """`hint`: dim text shown while the input is empty."""

    def __init__(self, completer: Completer | None, history: History | None, hint: Callable[[], str]) -> None:
        self.buffer = Buffer(
            multiline=True,
            completer=completer,
            complete_while_typing=Condition(self._completes),
            history=history,
            enable_history_search=False,
        )
        search = SearchToolbar(ignore_case=True, forward_search_prompt="search: ", backward_search_prompt="search: ")
        empty = Condition(lambda: not self.buffer.text)
        self.control = BufferControl(
            self.buffer,
            search_buffer_control=search.control,
            preview_search=True,
            input_processors=[ConditionalProcessor(AfterInput(lambda: [("class:footer", hint())]), empty)],
        )
        self._input = Window(
            self.control,
            height=self._lines,
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=lambda line, wrap: [("class:chosen", PROMPT if not (line or wrap) else MORE)],
        )
        offered = Condition(lambda: self._offered is not None) & ~is_searching
        self._below = Window(FormattedTextControl(self._completions), dont_extend_height=True, wrap_lines=False)
        rule = Window(height=1, char="─", style="class:frame")
        self._has_room = Condition(lambda: self._rows > LEAST_FOR_RULE)
        self.windows = (
            ConditionalContainer(rule, self._has_room),
            self._input,
            search,
            ConditionalContainer(self._below, offered),
        )
        self._all = HSplit(list(self.windows))
        self._width, self._rows = 80, 24

    def height(self, size: Size) -> int:
        """Lines that the input takes now."""
        self._width, self._rows = size.columns, size.rows
        return self._all.preferred_height(size.columns, size.rows).preferred

    def _lines(self) -> Dimension:
        return Dimension(min=1, max=max(1, min(MOST_LINES, self._rows // 2)))

    def _completes(self) -> bool:
        """Complete while typing only after '@' and '/'; Tab completes anywhere."""
        before = self.buffer.document.text_before_cursor
        word = before.rsplit(None, 1)[-1] if before and not before[-1].isspace() else ""
        return word.startswith("@") or (before.startswith("/") and "\n" not in before)

    # --- completions ------------------------------------------------------------------------------------------------

    @property
    def _offered(self) -> CompletionState | None:
        state = self.buffer.complete_state
        return state if state is not None and state.completions else None

    @property
    def is_choosing(self) -> bool:
        """A completion is inserted, but not accepted yet."""
        return self._offered is not None and self._offered.current_completion is not None

    @property
    def is_offering(self) -> bool:
        return self._offered is not None

    def take_completion(self) -> None:
        """Accept the selected completion, else the first."""
        if (state := self._offered) is None:
            self.buffer.start_completion(select_first=False)
        elif state.current_completion is not None:
            self.buffer.complete_state = None
        else:
            self.buffer.apply_completion(state.completions[0])

    def is_half_a_word(self) -> bool:
        """Whether the input is a slash command that is not exactly one of the completions."""
        if (state := self._offered) is None or not self.buffer.text.startswith("/") or " " in self.buffer.text:
            return False
        return self.buffer.text not in [one.text.strip() for one in state.completions]

    def drop_completions(self) -> None:
        if self.is_choosing:
            self.buffer.cancel_completion()
        else:
            self.buffer.complete_state = None

    def _completions(self) -> StyleAndTextTuples:
        if (state := self._offered) is None:
            return []
        found, at = state.completions, self._marked(state)
        most = max(1, min(MOST_COMPLETIONS, self._rows // 2))
        first = max(0, min((at or 0) - most // 2, len(found) - most))
        drawn: StyleAndTextTuples = []
        for place, one in enumerate(found[first : first + most], first):
            drawn += [("", "\n")] if drawn else []
            drawn += self._completion(one, marked=place == at)
        below = len(found) - first - most
        counts = [f"{arrow} {count}" for arrow, count in (("↑", first), ("↓", below)) if count > 0]
        return [*drawn, ("class:footer", f"\n  {' '.join(counts)} more")] if counts else drawn

    def _marked(self, state: CompletionState) -> int | None:
        """The selected completion; for a slash command, else the one that Enter would take."""
        if state.complete_index is not None:
            return state.complete_index
        return 0 if self.buffer.text.startswith("/") and " " not in self.buffer.text else None

    def _completion(self, one: Completion, *, marked: bool) -> StyleAndTextTuples:
        name = cut_to_width(one.display_text, max(NAME, self._width // 2))
        pad = " " * max(1, NAME - get_cwidth(name))
        about = cut_to_width(one.display_meta_text, self._width - max(NAME, get_cwidth(name) + 1) - 3)
        if marked:
            return [("class:chosen", f"{PROMPT}{name}{pad}{about}".rstrip())]
        return [("", f"{MORE}{name}"), ("class:footer", f"{pad}{about}".rstrip())]

    # --- the text ---------------------------------------------------------------------------------------------------

    def take(self) -> str:
        text = self.buffer.text
        self.clear()
        return text

    def clear(self) -> None:
        self.buffer.reset(Document(""))

    def put(self, text: str) -> None:
        """Replace the input."""
        self.buffer.reset(Document(text, len(text)))


def cut_to_width(text: str, width: int) -> str:
    if width < 1:
        return ""
    if fragment_list_width([("", text)]) <= width:
        return text
    while text and get_cwidth(text) > width - 1:
        text = text[:-1]
    return f"{text}…"
