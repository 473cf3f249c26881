"""Questions that come as text and are answered with text: a plan, the form of an MCP server, anything else.

What can be answered is read from the text's last lines, which the tool has written itself; what stands above them may
come from a model or a server, and is only shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from mainspring.cli.tui.dialog import OF_A_RUN, STOPS, PageDialog
from mainspring.cli.tui.forms import OTHER
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing, make_markdown_page
from mainspring.cli.tui.menu import Clock, FreeTextChoice, Menu, MenuItem, MenuSelection
from mainspring.core.value import Bundle
from mainspring.permissions.policy import Mode
from mainspring.tools.plan import is_approved

TITLE = "Question"
PLAN = re.compile(r"(?P<plan>.*)\n\nCarry out this plan, in mode '(?P<mode>[^'\n]*)'\? [^\n]*\Z", re.DOTALL)
DECLINES = " y, or n to decline."
NUMBERED = re.compile(r"  (\d+)\. (.*)")
ONE = re.compile(r"A number(?: or a name|, or words of your own)")
MANY = re.compile(r"Numbers, with commas between them")
YES_NO = re.compile(r"y or n\b")
OWN_WORDS = "words of your own"
EMPTY = re.compile(r"; empty (?:to leave it out|for (?P<default>.*))\.\Z")
SHORT = 9  # choices; more are found by typing

Ask = PageDialog[str | None]
Way = tuple[MenuItem, str]  # something to choose, and the words that it stands for


class PlanAnswer(Bundle):
    words: str
    mode: str = ""  # that the person chose: the tool keeps it, if it is set before it hears the words


def make_plan_dialog(text: str, now: Clock) -> PageDialog[PlanAnswer] | None:
    found = PLAN.fullmatch(text)
    if found is None:
        return None
    ways = [(MenuItem(f"Yes, in mode '{clean_for_drawing(found['mode'])}'"), PlanAnswer("yes"))]
    if found["mode"] != Mode.ACCEPT_EDITS:
        ways.append((MenuItem("Yes, and make edits without asking"), PlanAnswer("yes", Mode.ACCEPT_EDITS)))
    if found["mode"] != Mode.DEFAULT:  # Enter alone leads to no mode in which more is allowed
        ways.insert(0, (MenuItem("No, keep planning"), PlanAnswer("no")))
    hint = "say what should be different, or Enter for a plain no"
    no = MenuItem("No, and say what should be different", words="No", hint=hint)

    def meant(picked: MenuSelection | None) -> PlanAnswer:
        if picked is not None and picked.places[0] < len(ways):
            return ways[picked.places[0]][1]
        words = picked.words if picked is not None else ""
        return PlanAnswer(f"no: {words}" if is_approved(words) else words or "no")  # 'ok', but as a no

    choices, out = Menu([*[choice for choice, _ in ways], no]), (("esc", "no"), STOPS)
    return PageDialog(
        "Carry out this plan?", make_markdown_page(found["plan"]), choices, meant, now=now, ways_out=out, grants=True
    )


def make_text_dialog(text: str, now: Clock) -> Ask:
    """By what its last line asks for."""
    above, _, last = text.rpartition("\n")
    if text.endswith(DECLINES):
        ways = [(MenuItem("Yes"), "y"), (MenuItem("No"), "n")]
        return make_choice_dialog(text.removesuffix(DECLINES), ways, now)
    left_out = [(MenuItem(describe_default(found["default"])), "")] if (found := EMPTY.search(last)) else []
    if YES_NO.match(last):
        return make_choice_dialog(above, [(MenuItem("Yes"), "y"), (MenuItem("No"), "n"), *left_out], now)
    above, options = split_numbered_lines(above)
    if options and (ONE.match(last) or MANY.match(last)):
        ways = [
            (MenuItem(clean_for_drawing(title)), choice_answer(options, place)) for place, title in enumerate(options)
        ]
        own = [(OTHER, "")] if OWN_WORDS in last else []
        many = MANY.match(last) is not None
        return make_choice_dialog(above, [*ways, *left_out, *own], now, many=many)
    return make_text_entry_dialog(text, now)


def describe_default(default: str | None) -> str:
    return "Leave it out" if default is None else f"As it is set: {clean_for_drawing(default)}"


def split_numbered_lines(text: str) -> tuple[str, list[str]]:
    """The text without the numbered lines at its end, and those: from 1 on, none missing."""
    lines = text.split("\n")
    found: list[str] = []
    while lines and (line := NUMBERED.fullmatch(lines[-1])) is not None:
        lines.pop()
        found.append(line[2])
        if line[1] == "1":
            return "\n".join(lines), found[::-1]
    return text, []


def choice_answer(options: Sequence[str], place: int) -> str:
    """Its number; its name, if the number is the name of one before it."""
    number = str(place + 1)
    return options[place] if number in [name.casefold() for name in options[:place]] else number


def make_choice_dialog(text: str, ways: Sequence[Way], now: Clock, *, many: bool = False) -> Ask:
    def meant(picked: MenuSelection | None) -> str | None:
        if picked is None:
            return None
        said = [ways[place][1] for place in picked.places]
        return ", ".join([one for one in (*said, picked.words) if one])

    words = any(choice.words for choice, _ in ways)
    choices = Menu([choice for choice, _ in ways], many=many, narrowed=len(ways) > SHORT and not many and not words)
    return PageDialog(TITLE, ScrollPage.of(Text(clean_for_drawing(text))), choices, meant, now=now, ways_out=OF_A_RUN)


def make_text_entry_dialog(text: str, now: Clock) -> Ask:
    def meant(picked: MenuSelection | None) -> str | None:
        return None if picked is None else picked.words

    return PageDialog(
        TITLE, ScrollPage.of(Text(clean_for_drawing(text))), FreeTextChoice(), meant, now=now, ways_out=OF_A_RUN
    )
