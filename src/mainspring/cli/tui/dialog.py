"""Dialogs: a rule, a title, a page of text, a menu or text field, and the keys that work there.

A dialog has the keyboard until it is answered or closed. An answering key counts only after the dialog was visible for
a moment, and not as part of a word: such a word was meant for the input and is passed on to it. Escape always counts
at once.

A dialog that grants a permission (`grants`) is stricter about numbers: a number followed at once by another key is the
start of a word. `settle` tells the dialog that no key followed.

`QuestionForm` shows the questions of `AskUserQuestion` one after another, then a review of all answers. The tool parses
text (`match_answer` in `tools/question.py`): `answer_for_choice` finds a text that it parses as the chosen options.

A picker is a menu that narrows as the user types.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from typing import Generic, TypeVar

from rich.text import Text

from mainspring.agent.permission_updates import READ
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing, clip_text, indent_lines, one_line, sanitize_text
from mainspring.cli.tui.menu import TYPED, Clock, FreeTextChoice, Keys, Menu, MenuHeights, MenuItem, MenuSelection
from mainspring.tools.question import UserQuestion, match_answer

T = TypeVar("T")

BURST = 0.1  # seconds: keys that follow sooner come from a held key, a paste or a program
HELD = 0.25  # seconds: an Enter that follows an ignored one sooner may come from a held key, over a slow connection
INDENT = 2
ROOMY = 20  # lines: from here on, a blank line stands above the question, also below a page that is cut
PAGES = {"pageup": -1, "pagedown": 1}
CANCEL: Keys = (("esc", "cancel"),)
STOPS = ("ctrl-c", "stop the run")
OF_A_RUN: Keys = (*CANCEL, STOPS)  # for questions of a tool call


class Dialog(Generic[T]):
    """Waits for one answer. `close` ends the wait from outside with the default answer."""

    note = ""  # next to the title
    is_full_screen = False  # it has the alternate screen: what was on the screen is there again afterwards

    def __init__(self, unanswered: T) -> None:
        self.said = unanswered
        self.broken_off = False  # Ctrl-C: the user wants to stop the run, too
        self.unheard = ""  # keys that had no meaning here: they go to the input
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def say(self, answer: T) -> None:
        if not self.over:
            self.said = answer
            self._over.set()

    def close(self) -> None:
        self.say(self.said)

    async def answer(self) -> T:
        await self._over.wait()
        return self.said

    def miss(self, key: str, text: str) -> None:
        if key in TYPED:
            self.unheard += {"space": " ", "newline": "\n"}.get(key) or sanitize_text(text)

    def settle(self) -> None:
        """The screen calls this regularly while the dialog is visible and no key is waiting to be read."""

    def expect_rest_of_word(self) -> None:
        """The user was typing a word into the input when the dialog opened: the next Enter belongs to that word."""

    def press(self, key: str, text: str = "") -> None:
        raise NotImplementedError

    def draw(self, width: int, height: int) -> Sequence[Text]:
        raise NotImplementedError


class PageDialog(Dialog[T]):
    def __init__(  # noqa: PLR0913  # what is on it
        self,
        title: str,
        page: ScrollPage,
        below: Menu | FreeTextChoice,
        meant: Callable[[MenuSelection | None], T],
        *,
        now: Clock,
        asks: str = "",
        ways_out: Keys = CANCEL,
        grants: bool = False,
    ) -> None:
        """`meant` converts the selection to the result; None means Escape. `title` is one line, and so is `asks`, the
        question above the choices. `ways_out` describes the keys that give no answer, Escape first."""
        super().__init__(meant(None))
        self.asks = asks
        self._title, self._page, self._below, self._meant = title, page, below, meant
        self._now, self._ways_out = now, ways_out
        self._grants = grants
        self._heeds_from = inf  # when answering keys start to count; never before the first drawing
        self._in_word = False  # the user types a word for the input: the next Enter belongs to it
        self._ignored_enter = -inf
        self._number: tuple[str, MenuSelection, float] | None = None  # answers if no key follows at once

    def press(self, key: str, text: str = "") -> None:
        if key in ("escape", "c-c"):
            self.broken_off = key == "c-c" and not self.over
            self.close()
        elif self.over or self._heeds_from == inf:
            self._in_word = key in TYPED or (self._in_word and key != "enter")
            self.miss(key, text)
        elif key in PAGES and self._page.hides:
            self._page.scroll(PAGES[key])
        elif self._number is not None:
            self._go_on_after_number(*self._number, key, text)
        elif self._too_soon(key):
            self.miss(key, text)
        elif not self._below.hears(key, text):
            self._begin_word()
            self.miss(key, text)
        else:
            self._in_word = False
            self._take(key, text)

    def _take(self, key: str, text: str) -> None:
        picked = self._below.press(key, text)
        if picked is None:
            return
        if self._grants and key == "text":
            self._number = text, picked, self._now()
        else:
            self.say(self._meant(picked))

    def expect_rest_of_word(self) -> None:
        self._in_word = True

    def settle(self) -> None:
        if self._number is not None and self._now() - self._number[2] >= BURST:
            self.say(self._meant(self._number[1]))

    def _go_on_after_number(self, number: str, picked: MenuSelection, at: float, key: str, text: str) -> None:
        """After a pause, or with Enter, the number was the answer. Otherwise it starts a word for the input."""
        self._number = None
        if key == "enter" or self._now() - at >= BURST:
            self.say(self._meant(picked))
        else:
            self._begin_word()
            self.miss("text", number)
        if key != "enter":
            self.miss(key, text)

    def _begin_word(self) -> None:
        self._in_word, self._heeds_from = True, self._now() + READ

    def _too_soon(self, key: str) -> bool:
        """A user who was typing when the dialog opened continues for a while, and looks up only at a pause."""
        now = self._now()
        if key == "enter":
            return self._is_stray_enter(now)
        if now >= self._heeds_from:
            return False
        self._heeds_from = now + READ
        self._in_word = self._in_word or key in TYPED
        return self._below.chooses(key)

    def _is_stray_enter(self, now: float) -> bool:
        """Whether an Enter came too soon, ends a word for the input, or comes from a held key."""
        if now >= self._heeds_from and not self._in_word and now - self._ignored_enter >= HELD:
            return False
        if self._in_word:
            self._in_word, self._heeds_from = False, now + READ
        self._ignored_enter = now
        return True

    # --- lines ------------------------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Text]:
        if self._heeds_from == inf:
            self._heeds_from = self._now() + READ
        room = width - INDENT
        asks = [clip_text(Text(self.asks, "asks"), width)] if self.asks else []
        rows, wants = self._page.rows(room), self._below.wants(width, height)
        is_full = asks and height >= ROOMY and rows + wants.whole + len(asks) + 3 > height
        got = share_height(height - 1 if is_full else height, len(asks), rows, wants)
        page = indented_all(self._page.draw(room, got["page"]))
        below = self._below.draw(width, got["below"])
        spare = height - sum(got.values())
        return [
            *[Text("─" * width, "rule")] * got["rule"],
            *[self._head(width)] * got["title"],
            *page,
            *[Text()] * int(spare > 0 and bool(page)),
            *asks[: got["asks"]],
            *below,
            *[Text()] * int(spare > 1),
            *[render_key_hints(self._keys(), self._ways_out, width)] * got["keys"],
        ]

    def _head(self, width: int) -> Text:
        title = clip_text(Text(self._title, "title"), width)
        noted = Text.assemble(title, (f"  {self.note}", "note"))
        return noted if self.note and noted.cell_len <= width else title

    def _keys(self) -> Keys:
        scrolls = (("pgup/pgdn", "scroll"),) if self._page.hides else ()
        return (*scrolls, *self._below.keys)


def share_height(height: int, asks: int, page: int, below: MenuHeights) -> dict[str, int]:
    """Return how many lines each part gets. First every choice gets a line, and then the question; the page gets one
    line and the count of hidden lines. Of the remaining lines, the menu gets up to half, or as many as the page does
    not need."""
    wanted = {"rule": 1, "title": 1, "asks": asks, "page": page, "below": below.whole, "keys": 1}
    got = dict.fromkeys(wanted, 0)
    first = (("below", 1), ("title", 1), ("below", below.first), ("page", 2), ("asks", 1), ("keys", 1))

    def left() -> int:
        return height - sum(got.values())

    def give(part: str, up_to: int) -> None:
        got[part] += max(0, min(min(wanted[part], up_to) - got[part], left()))

    for part, up_to in (*first, ("below", below.marked), ("rule", 1)):
        give(part, up_to)
    give("below", got["below"] + (left() + 1) // 2)
    give("page", page)
    give("below", below.whole)
    return got


def render_key_hints(keys: Keys, ways_out: Keys, width: int) -> Text:
    """As many hints as fit: `ways_out` first, and its first entry always."""
    out, others = told_keys(ways_out), told_keys(keys)
    while others and len(" · ".join([*others, *out])) > width:
        others.pop()
    while len(out) > 1 and len(" · ".join(out)) > width:
        out.pop()
    return clip_text(Text(" · ".join([*others, *out]), "note"), width)


def told_keys(keys: Keys) -> list[str]:
    return [f"{key} {does}" for key, does in keys]


def indented_all(lines: Sequence[Text]) -> list[Text]:
    return indent_lines(lines, Text(" " * INDENT), INDENT)


OTHER = MenuItem("Other (type your own answer)", words="Other", hint="type your own answer", bare=False)
Answers = tuple[str, ...]


def make_question_form(questions: Sequence[UserQuestion], now: Clock) -> QuestionForm:
    return QuestionForm(questions, now)


def answer_for_choice(one: UserQuestion, picked: MenuSelection) -> str:
    """Numbers and labels may look alike, and labels may contain commas: return the first spelling that the tool parses
    correctly."""
    places = [place for place in picked.places if place < len(one.options)]
    labels = [one.options[place].label for place in places]
    if picked.words:
        said = ", ".join([*labels, picked.words])
        return said if match_answer(one, said) == said else f'"{said}"'  # else it names another option
    numbers = [place + 1 for place in places]
    ways = (labels, [f"{number}" for number in numbers], [f"{number}." for number in numbers])
    said = ", ".join(labels)
    return next((way for way in map(", ".join, ways) if match_answer(one, way) == said), said)


def sheet_of(one: UserQuestion, title: str, now: Clock, before: str = "") -> PageDialog[str | None]:
    """`before`: the earlier answer, if the user returns to a question."""
    options = [MenuItem(one_line(option.label), clean_for_drawing(option.description)) for option in one.options]
    lines = [Text(clean_for_drawing(one.question), "asks")]
    if before:
        lines.append(Text(f"Answered: {clean_for_drawing(before)}", "detail"))

    def said(picked: MenuSelection | None) -> str | None:
        return None if picked is None else answer_for_choice(one, picked)

    choices = Menu([*options, OTHER], many=one.multi_select)
    return PageDialog(title, ScrollPage.of(*lines), choices, said, now=now, ways_out=OF_A_RUN)


class QuestionForm(Dialog[Answers | None]):
    def __init__(self, questions: Sequence[UserQuestion], now: Clock) -> None:
        super().__init__(None)
        self._questions, self._now = tuple(questions), now
        self._answers = [""] * len(self._questions)
        self._at = 0
        self._sheet: PageDialog[str | None] = self._asked(0)
        self._look: PageDialog[int | None] | None = None

    def press(self, key: str, text: str = "") -> None:
        if self.over:
            self.miss(key, text)
            return
        if key == "s-tab" and len(self._questions) > 1:
            self._go(max(0, self._at - 1))
        elif self._look is not None:
            self._hand(self._look, key, text)
            self._looked(self._look)
        else:
            self._hand(self._sheet, key, text)
            self._answered(self._sheet)

    def draw(self, width: int, height: int) -> Sequence[Text]:
        shown = self._look or self._sheet
        shown.note = self.note
        return shown.draw(width, height)

    def _hand(self, sheet: Dialog[str | None] | Dialog[int | None], key: str, text: str) -> None:
        sheet.press(key, text)
        self.unheard += sheet.unheard
        sheet.unheard = ""

    # --- navigation -------------------------------------------------------------------------------------------------

    def _answered(self, sheet: PageDialog[str | None]) -> None:
        if not sheet.over:
            return
        if sheet.said is None:
            self._leave(sheet)
            return
        self._answers[self._at] = sheet.said
        left = [at for at, answer in enumerate(self._answers) if not answer]
        self._go(left[0] if left else len(self._questions))

    def _looked(self, look: PageDialog[int | None]) -> None:
        if not look.over:
            return
        if look.said is None:
            self._leave(look)
        elif look.said == 0:
            self.say(tuple(self._answers))
        else:
            self._go(look.said - 1)

    def _leave(self, sheet: Dialog[str | None] | Dialog[int | None]) -> None:
        self.broken_off = sheet.broken_off
        self.close()

    def _go(self, at: int) -> None:
        """After the last question comes the review of all answers; a single question has none."""
        self._at, self._look = at, None
        if at < len(self._questions):
            self._sheet = self._asked(at)
        elif len(self._questions) == 1:
            self.say(tuple(self._answers))
        else:
            self._look = self._all()

    def _asked(self, at: int) -> PageDialog[str | None]:
        one, of = self._questions[at], len(self._questions)
        title = one_line(one.header) or "Question"
        return sheet_of(one, f"{title} ({at + 1} of {of})" if of > 1 else title, self._now, self._answers[at])

    def _all(self) -> PageDialog[int | None]:
        lines: list[Text] = []
        names: list[MenuItem] = []
        for place, (one, answer) in enumerate(zip(self._questions, self._answers, strict=True), 1):
            lines += [
                Text(clean_for_drawing(one.question)),
                Text.assemble(("⎿ ", "detail"), clean_for_drawing(match_answer(one, answer))),
            ]
            names.append(MenuItem(f"Change the answer to: {one_line(one.header) or f'question {place}'}"))

        def chosen(picked: MenuSelection | None) -> int | None:
            return None if picked is None else picked.places[0]

        choices = Menu([MenuItem("Send the answers"), *names])
        return PageDialog("Your answers", ScrollPage.of(*lines), choices, chosen, now=self._now, ways_out=OF_A_RUN)


def make_picker(  # noqa: PLR0913  # what is listed, and what it stands for
    title: str, told: str, choices: Sequence[MenuItem], names: Sequence[str], *, now: Clock, start: int = 0
) -> PageDialog[str | None]:
    def meant(picked: MenuSelection | None) -> str | None:
        return None if picked is None else names[picked.places[0]]

    page = ScrollPage.of(*([Text(told, "note")] if told else []))
    return PageDialog(title, page, Menu(choices, narrowed=True, at=start), meant, now=now)


def format_window(number: int) -> str:
    return f"{number / 1_000_000:g}M tokens" if number >= 1_000_000 else f"{number // 1_000}k tokens"
