"""The questions of `AskUserQuestion`, with options: one after another, and at the end a look at all answers.

The tool understands words (`tools/question.meant`): `answer_for_choice` finds those that it takes for what was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from mainspring.cli.tui.dialog import OF_A_RUN, Dialog, PageDialog
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing, one_line
from mainspring.cli.tui.menu import Clock, Menu, MenuItem, MenuSelection
from mainspring.tools.question import UserQuestion, match_answer

OTHER = MenuItem("Other (your own words)", words="Other", hint="your own words", bare=False)
Answers = tuple[str, ...]


def make_question_form(questions: Sequence[UserQuestion], now: Clock) -> QuestionForm:
    return QuestionForm(questions, now)


def answer_for_choice(one: UserQuestion, picked: MenuSelection) -> str:
    """Numbers and labels may look like each other, and labels may hold commas: the first way that is understood."""
    places = [place for place in picked.places if place < len(one.options)]
    labels = [one.options[place].label for place in places]
    if picked.words:
        said = ", ".join([*labels, picked.words])
        return said if match_answer(one, said) == said else f'"{said}"'  # or it would be the name of something else
    numbers = [place + 1 for place in places]
    ways = (labels, [f"{number}" for number in numbers], [f"{number}." for number in numbers])
    said = ", ".join(labels)
    return next((way for way in map(", ".join, ways) if match_answer(one, way) == said), said)


def sheet_of(one: UserQuestion, title: str, now: Clock, before: str = "") -> PageDialog[str | None]:
    """`before`: what was answered already."""
    options = [MenuItem(one_line(option.label), clean_for_drawing(option.description)) for option in one.options]
    lines = [Text(clean_for_drawing(one.question))]
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

    # --- from one to the next ---------------------------------------------------------------------------------------

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
        """Behind the last question is the look at all answers; one question needs none."""
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

        choices = Menu([MenuItem("Send them"), *names])
        return PageDialog("Your answers", ScrollPage.of(*lines), choices, chosen, now=self._now, ways_out=OF_A_RUN)
