"""Permission dialogs, and plan and form dialogs.

- A permission dialog shows the whole call, asks one question about it, and offers three answers: yes, yes without
  asking again, and no. Finer rules are on a second page, where the safe choice is selected (settled 36). The reason is
  shown only if it is not the default, which is that no rule covers the call.
- Plans, forms of MCP servers and other questions arrive as text and are answered with text. The choices come from the
  last lines, which our tool wrote; the text above them may come from a model or a server, and is only shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, assert_never

import msgspec
from rich.cells import cell_len
from rich.text import Text

from mainspring.agent.permission_updates import (
    ApprovalScopes,
    RuleOffer,
    Tell,
    deny_approval,
    get_rule_offer,
    get_special_reason,
    get_wider_rule_offer,
)
from mainspring.cli.tui.dialog import OF_A_RUN, OTHER, STOPS, Dialog, PageDialog
from mainspring.cli.tui.diff_view import render_proposed_change
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing, frame_text, make_markdown_page, one_line
from mainspring.cli.tui.menu import Clock, FreeTextChoice, Menu, MenuItem, MenuSelection
from mainspring.core.value import Bundle
from mainspring.permissions import READERS, WRITERS
from mainspring.permissions.policy import Mode
from mainspring.text import show_invisible
from mainspring.tools.base import Approval
from mainspring.tools.plan import is_approved

IN_A_CHOICE = 160  # characters of rules; longer ones are listed on the page, where nothing is cut
MOST_UNSEEN = 10  # kinds of invisible characters that are listed
CHANGED = ("old_string", "new_string", "content", "new_source")  # fields that `render_proposed_change` shows

# By tool: the title and the question. '{}' is the name of the file.
QUESTIONS = {
    "Bash": ("Bash command", "Run this command?"),
    "Edit": ("Edit file", "Make this edit to {}?"),
    "Write": ("Write file", "Write {}?"),
    "NotebookEdit": ("Edit notebook", "Make this edit to {}?"),
    "Read": ("Read file", "Read {}?"),
    "Grep": ("Search files", "Search here?"),
    "Glob": ("Find files", "Search here?"),
    "WebFetch": ("Fetch a page", "Fetch this page?"),
    "WebSearch": ("Search the web", "Search for this?"),
    "Skill": ("Skill", "Use this skill?"),
}
ANY = "Allow this call?"


class ApprovalScope(StrEnum):
    NEVER = "no"
    ONCE = "yes"
    EDITS = "yes, and all edits"
    SESSION = "yes, in this session"
    PROJECT = "yes, in this project"


class PermissionChoice(Bundle):
    scope: ApprovalScope
    words: str = ""  # the reason for a denial
    rules: tuple[str, ...] = ()  # to add


Way = tuple[MenuItem, PermissionChoice | None]  # a menu item, and what it means; None: the other page

DENIES = PermissionChoice(ApprovalScope.NEVER)
ALL_EDITS = MenuItem("Yes, and allow all edits this session", key="s-tab", does="all edits")
NO = MenuItem(
    "No, and tell the model what to do instead",
    words="No",
    hint="tell the model what to do instead, or press Enter to deny",
)
MORE = MenuItem("More choices…", "rules for this session or for this project")
BACK = MenuItem("Back")


class PermissionDialog(Dialog[PermissionChoice]):
    """Two pages: the question, and the rules that can be added."""

    def __init__(self, about: dict[str, Any], *, now: Clock, mode: str, root: str) -> None:
        super().__init__(DENIES)
        self._about, self._now = about, now
        self._exact, self._wider = get_rule_offer(about), get_wider_rule_offer(about)
        self._offers_edits = mode == Mode.DEFAULT and bool(about.get("suggested_mode"))
        self._call = CallPage(about, root, [one for one in (self._exact, self._wider) if is_long(one)])
        self._page = ScrollPage(self._call.draw)
        self._sheet = self._first()

    # --- the two pages ---

    def _first(self) -> PageDialog[PermissionChoice | None]:
        ways: list[Way] = [(MenuItem("Yes"), PermissionChoice(ApprovalScope.ONCE))]
        common = self._wider if self._about["tool_name"] == "Bash" and self._wider else self._exact
        if self._offers_edits:
            ways.append((ALL_EDITS, PermissionChoice(ApprovalScope.EDITS)))
        elif common:
            label = f"Yes, and don't ask again this session for {describe_offer(common)}"
            ways.append((MenuItem(label), PermissionChoice(ApprovalScope.SESSION, rules=common.rules)))
        ways.append((NO, DENIES))
        if self._exact:
            ways.append((MORE, None))
        return self._make(self._call.title, self._call.question, ways, at=0)

    def _rules(self) -> PageDialog[PermissionChoice | None]:
        """Back is selected: Enter alone adds no rule."""
        offers = [offer for offer in (self._exact, self._wider) if offer]
        scopes = ((ApprovalScope.SESSION, "this session"), (ApprovalScope.PROJECT, "in this project"))
        ways: list[Way] = [
            (
                MenuItem(f"Yes, and don't ask again {where} for {describe_offer(offer)}", describe_rules(offer)),
                PermissionChoice(scope, rules=offer.rules),
            )
            for scope, where in scopes
            for offer in offers
        ]
        return self._make(
            self._call.title, "Which calls should not need approval?", [*ways, (BACK, None)], at=len(ways)
        )

    def _make(self, title: str, question: str, ways: Sequence[Way], *, at: int) -> PageDialog[PermissionChoice | None]:
        def meant(picked: MenuSelection | None) -> PermissionChoice | None:
            if picked is None:
                return DENIES
            choice = ways[picked.places[0]][1]
            return choice and PermissionChoice(choice.scope, picked.words, choice.rules)

        return PageDialog(
            title,
            self._page,
            Menu([item for item, _ in ways], at=at),
            meant,
            now=self._now,
            asks=question,
            ways_out=(("esc", "no"), STOPS),
            grants=True,
        )

    # --- keys ---

    def press(self, key: str, text: str = "") -> None:
        if self.over:
            self.miss(key, text)
            return
        self._sheet.press(key, text)
        self._hear()

    def settle(self) -> None:
        self._sheet.settle()
        self._hear()

    def expect_rest_of_word(self) -> None:
        self._sheet.expect_rest_of_word()

    def _hear(self) -> None:
        sheet = self._sheet
        self.unheard += sheet.unheard
        sheet.unheard = ""
        if not sheet.over or self.over:
            return
        self.broken_off = sheet.broken_off
        if sheet.said is not None:
            self.say(sheet.said)
        else:
            self._sheet = self._rules() if sheet.asks == self._call.question else self._first()

    def draw(self, width: int, height: int) -> Sequence[Text]:
        self._sheet.note = self.note
        return self._sheet.draw(width, height)


def make_permission_dialog(about: dict[str, Any], *, now: Clock, mode: str = "", root: str = "") -> PermissionDialog:
    """`mode`: the current permission mode. `root`: the folder that paths are relative to."""
    return PermissionDialog(about, now=now, mode=mode, root=root)


def is_long(offer: RuleOffer) -> bool:
    return len(offer.covers) > IN_A_CHOICE or len(", ".join(offer.rules)) > IN_A_CHOICE


def describe_offer(offer: RuleOffer) -> str:
    return "the rules listed above" if is_long(offer) else clean_for_drawing(offer.covers)


def describe_rules(offer: RuleOffer) -> str:
    return "" if is_long(offer) else clean_for_drawing(", ".join(offer.rules))


async def apply_permission_choice(said: PermissionChoice, granting: ApprovalScopes, tell: Tell, warn: Tell) -> Approval:
    """Apply the user's choice: new rules and the new mode take effect before the call runs."""
    match said.scope:
        case ApprovalScope.NEVER:
            return deny_approval(said.words)
        case ApprovalScope.ONCE:
            pass
        case ApprovalScope.EDITS:
            await granting.set_mode(Mode.ACCEPT_EDITS)
        case ApprovalScope.SESSION:
            await granting.add(said.rules)
        case ApprovalScope.PROJECT:
            await granting.add(said.rules)
            await granting.keep(said.rules, tell, warn)
        case _:
            assert_never(said.scope)
    return Approval("allow")


# --- the call -------------------------------------------------------------------------------------------------------


class CallPage:
    """Everything in the input of a call: nothing is left out, and invisible characters are made visible."""

    def __init__(self, about: dict[str, Any], root: str, listed: Sequence[RuleOffer]) -> None:
        self._tool, self._input = str(about["tool_name"]), dict[str, Any](about["input"])
        self._about, self._root, self._listed = about, root, listed
        self._path = self._find_path()
        title, question = QUESTIONS.get(self._tool, (clean_for_drawing(self._tool), ANY))
        name = one_line(show_invisible(self._path.rstrip("/").rpartition("/")[2])) or "this file"
        self.title, self.question = title, question.format(name)

    def _find_path(self) -> str:
        field = WRITERS.get(self._tool) or READERS.get(self._tool)
        path = self._input.get(field) if field else None
        return path if isinstance(path, str) else ""

    def draw(self, width: int) -> list[Text]:
        long_title = [Text(self.title, "title")] if cell_len(self.title) > width else []  # else it is in the title
        return [*long_title, *self._draw_call(width), *self._draw_reasons()]

    def _draw_call(self, width: int) -> list[Text]:
        if self._tool == "Bash" and isinstance(self._input.get("command"), str):
            return self._draw_command(width)
        given, shown = self._input, str(self._about["shown"])
        told = {
            name
            for name, value in given.items()
            if isinstance(value, str) and shown == f"{self._tool}: {show_invisible(value)}"
        }
        main = [Text(clean_for_drawing(shown.removeprefix(f"{self._tool}: ")))] if told or not given else []
        if self._path:
            main = [Text(clean_for_drawing(show_invisible(make_relative(self._path, self._root))))]
            told.add(str(WRITERS.get(self._tool) or READERS.get(self._tool)))
        changed = render_proposed_change(self._tool, given, width, preview=str(self._about.get("preview", "")))
        unseen = unseen_in("".join([str(given.get(name, "")) for name in CHANGED])) if changed else []
        told |= set(CHANGED) if changed else set()
        rest = [render_field(name, value) for name, value in given.items() if name not in told]
        return [*main, *changed, *unseen, *rest]

    def _draw_command(self, width: int) -> list[Text]:
        """The description above the command is the model's own text."""
        about = self._input.get("description")
        above = [Text(one_line(show_invisible(about)))] if isinstance(about, str) and about.strip() else []
        framed = frame_text(clean_for_drawing(show_invisible(str(self._input["command"]))), width)
        told = ("command", *(["description"] if above else []))
        rest = [describe_field(name, value) for name, value in self._input.items() if name not in told]
        return [*above, *framed, *rest]

    def _draw_reasons(self) -> list[Text]:
        lines = [Text(clean_for_drawing(words), "detail") for words in get_special_reason(self._about)]
        rules = [clean_for_drawing(", ".join(offer.rules)) for offer in self._listed]
        return [*lines, *[Text(f"Rules: {words}", "detail") for words in rules]]


def make_relative(path: str, root: str) -> str:
    start = f"{root.rstrip('/')}/"
    return path.removeprefix(start) if root and path != start else path


def describe_field(name: str, value: object) -> Text:
    """Other fields of a command, in words where there are some."""
    match name, value:
        case "run_in_background", True:
            return Text("Runs in the background", "detail")
        case "timeout", int() if not isinstance(value, bool):
            return Text(f"Time limit: {value / 1_000:g} s", "detail")
        case "dangerouslyDisableSandbox", True:
            return Text("Runs outside the sandbox", "warning")
        case _:
            return render_field(name, value)


def unseen_in(text: str) -> list[Text]:
    """A change is drawn as it will look, so list its invisible characters."""
    found = sorted({show_invisible(one) for one in set(text) - {"\t", "\r"} if show_invisible(one) != one})
    names = ", ".join(found[:MOST_UNSEEN]) + (", …" if len(found) > MOST_UNSEEN else "")
    return [Text(f"It contains invisible characters: {names}", "warning")] if found else []


def render_field(name: str, value: object) -> Text:
    text = clean_for_drawing(show_invisible(value if isinstance(value, str) else msgspec.json.encode(value).decode()))
    between = "\n" if "\n" in text else " "
    return Text.assemble((f"{clean_for_drawing(show_invisible(name))}:", "detail"), between, text)


TITLE = "Question"
PLAN = re.compile(r"(?P<plan>.*)\n\nCarry out this plan, in mode '(?P<mode>[^'\n]*)'\? [^\n]*\Z", re.DOTALL)
DECLINES = " y, or n to decline."
NUMBERED = re.compile(r"  (\d+)\. (.*)")
ONE = re.compile(r"A number(?: or a name|, or words of your own)")
MANY = re.compile(r"Numbers, with commas between them")
YES_NO = re.compile(r"y or n\b")
OWN_WORDS = "words of your own"
EMPTY = re.compile(r"; empty (?:to leave it out|for (?P<default>.*))\.\Z")
SHORT = 9  # items; a longer list gets a filter

Ask = PageDialog[str | None]
AnswerWay = tuple[MenuItem, str]  # a menu item, and the text it sends


class PlanAnswer(Bundle):
    words: str
    mode: str = ""  # chosen by the user: the tool keeps it if it is set before the answer arrives


def make_plan_dialog(text: str, now: Clock) -> PageDialog[PlanAnswer] | None:
    found = PLAN.fullmatch(text)
    if found is None:
        return None
    asked_first = found["mode"] == Mode.DEFAULT
    yes = "Yes, and ask before each edit" if asked_first else f"Yes, in mode '{clean_for_drawing(found['mode'])}'"
    ways = [(MenuItem(yes), PlanAnswer("yes"))]
    if found["mode"] != Mode.ACCEPT_EDITS:
        ways.append((MenuItem("Yes, and allow all edits"), PlanAnswer("yes", Mode.ACCEPT_EDITS)))
    if not asked_first:  # Enter alone must not lead to a mode that allows more
        ways.insert(0, (MenuItem("No, keep planning"), PlanAnswer("no")))
    hint = "say what to change, or press Enter to deny"
    no = MenuItem("No, and say what to change", words="No", hint=hint)

    def meant(picked: MenuSelection | None) -> PlanAnswer:
        if picked is not None and picked.places[0] < len(ways):
            return ways[picked.places[0]][1]
        words = picked.words if picked is not None else ""
        return PlanAnswer(f"no: {words}" if is_approved(words) else words or "no")  # 'ok' as a reason for a denial

    choices, out = Menu([*[choice for choice, _ in ways], no]), (("esc", "no"), STOPS)
    page = make_markdown_page(found["plan"])
    asks = "Carry out this plan?"
    return PageDialog("Plan", page, choices, meant, now=now, asks=asks, ways_out=out, grants=True)


def make_text_dialog(text: str, now: Clock) -> Ask:
    """Choose the dialog by what the last line of the text asks for."""
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
    return "Leave it out" if default is None else f"Keep the default: {clean_for_drawing(default)}"


def split_numbered_lines(text: str) -> tuple[str, list[str]]:
    """Split off the numbered lines at the end: from 1 on, without gaps."""
    lines = text.split("\n")
    found: list[str] = []
    while lines and (line := NUMBERED.fullmatch(lines[-1])) is not None:
        lines.pop()
        found.append(line[2])
        if line[1] == "1":
            return "\n".join(lines), found[::-1]
    return text, []


def choice_answer(options: Sequence[str], place: int) -> str:
    """Return its number, or its name if an earlier option is named like that number."""
    number = str(place + 1)
    return options[place] if number in [name.casefold() for name in options[:place]] else number


def make_choice_dialog(text: str, ways: Sequence[AnswerWay], now: Clock, *, many: bool = False) -> Ask:
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
