"""Questions that come as text and are answered with text: a plan, the form of an MCP server, anything else.

What can be answered is read from the text's last lines, which the tool has written itself; what stands above them may
come from a model or a server, and is only shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from mainspring.cli.repl.forms import OTHER
from mainspring.cli.repl.menus import Choice, Choices, Clock, Field, Picked
from mainspring.cli.repl.page import Page, clean, markdown
from mainspring.cli.repl.sheet import OF_A_RUN, STOPS, Sheet
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

Ask = Sheet[str | None]
Way = tuple[Choice, str]  # something to choose, and the words that it stands for


class PlanSaid(Bundle):
    words: str
    mode: str = ""  # that the person chose: the tool keeps it, if it is set before it hears the words


def of_plan(text: str, now: Clock) -> Sheet[PlanSaid] | None:
    found = PLAN.fullmatch(text)
    if found is None:
        return None
    ways = [(Choice(f"Yes, in mode '{clean(found['mode'])}'"), PlanSaid("yes"))]
    if found["mode"] != Mode.ACCEPT_EDITS:
        ways.append((Choice("Yes, and make edits without asking"), PlanSaid("yes", Mode.ACCEPT_EDITS)))
    if found["mode"] != Mode.DEFAULT:  # Enter alone leads to no mode in which more is allowed
        ways.insert(0, (Choice("No, keep planning"), PlanSaid("no")))
    hint = "say what should be different, or Enter for a plain no"
    no = Choice("No, and say what should be different", words="No", hint=hint)

    def meant(picked: Picked | None) -> PlanSaid:
        if picked is not None and picked.places[0] < len(ways):
            return ways[picked.places[0]][1]
        words = picked.words if picked is not None else ""
        return PlanSaid(f"no: {words}" if is_approved(words) else words or "no")  # 'ok', but as a no

    choices, out = Choices([*[choice for choice, _ in ways], no]), (("esc", "no"), STOPS)
    return Sheet("Carry out this plan?", markdown(found["plan"]), choices, meant, now=now, ways_out=out, grants=True)


def of_text(text: str, now: Clock) -> Ask:
    """By what its last line asks for."""
    above, _, last = text.rpartition("\n")
    if text.endswith(DECLINES):
        ways = [(Choice("Yes"), "y"), (Choice("No"), "n")]
        return chosen(text.removesuffix(DECLINES), ways, now)
    left_out = [(Choice(without(found["default"])), "")] if (found := EMPTY.search(last)) else []
    if YES_NO.match(last):
        return chosen(above, [(Choice("Yes"), "y"), (Choice("No"), "n"), *left_out], now)
    above, options = numbered(above)
    if options and (ONE.match(last) or MANY.match(last)):
        ways = [(Choice(clean(title)), sign(options, place)) for place, title in enumerate(options)]
        own = [(OTHER, "")] if OWN_WORDS in last else []
        many = MANY.match(last) is not None
        return chosen(above, [*ways, *left_out, *own], now, many=many)
    return written(text, now)


def without(default: str | None) -> str:
    return "Leave it out" if default is None else f"As it is set: {clean(default)}"


def numbered(text: str) -> tuple[str, list[str]]:
    """The text without the numbered lines at its end, and those: from 1 on, none missing."""
    lines = text.split("\n")
    found: list[str] = []
    while lines and (line := NUMBERED.fullmatch(lines[-1])) is not None:
        lines.pop()
        found.append(line[2])
        if line[1] == "1":
            return "\n".join(lines), found[::-1]
    return text, []


def sign(options: Sequence[str], place: int) -> str:
    """Its number; its name, if the number is the name of one before it."""
    number = str(place + 1)
    return options[place] if number in [name.casefold() for name in options[:place]] else number


def chosen(text: str, ways: Sequence[Way], now: Clock, *, many: bool = False) -> Ask:
    def meant(picked: Picked | None) -> str | None:
        if picked is None:
            return None
        said = [ways[place][1] for place in picked.places]
        return ", ".join([one for one in (*said, picked.words) if one])

    words = any(choice.words for choice, _ in ways)
    choices = Choices([choice for choice, _ in ways], many=many, narrowed=len(ways) > SHORT and not many and not words)
    return Sheet(TITLE, Page.of(Text(clean(text))), choices, meant, now=now, ways_out=OF_A_RUN)


def written(text: str, now: Clock) -> Ask:
    def meant(picked: Picked | None) -> str | None:
        return None if picked is None else picked.words

    return Sheet(TITLE, Page.of(Text(clean(text))), Field(), meant, now=now, ways_out=OF_A_RUN)
