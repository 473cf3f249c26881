"""Permission dialogs, plan and form dialogs, and file changes as diffs.

- A permission dialog shows the whole call, why it needs approval and for which agent, and what a rule would allow.
- Plans, forms of MCP servers and other questions arrive as text and are answered with text. The choices come from the
  last lines, which our tool wrote; the text above them may come from a model or a server, and is only shown.
- A diff line has a number, a sign and its text. Colours are the terminal's, without a background. It reads as a diff
  without colours, too: added lines are bold, unchanged lines dim.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, assert_never

import msgspec
from rich.cells import cell_len
from rich.text import Text

from mainspring.agent.permission_updates import ApprovalScopes, Tell, deny_approval, get_approval_reason, get_rule_offer
from mainspring.cli.tui.dialog import OF_A_RUN, OTHER, STOPS, PageDialog
from mainspring.cli.tui.layout import (
    MOST_OF_LINE,
    ClippedRows,
    ScrollPage,
    clean_for_drawing,
    indent_lines,
    left_out,
    make_markdown_page,
    wrap_rows,
)
from mainspring.cli.tui.menu import Clock, FreeTextChoice, Menu, MenuItem, MenuSelection
from mainspring.core.value import Bundle
from mainspring.permissions.policy import Mode
from mainspring.permissions.rules import WRITERS
from mainspring.text import show_invisible
from mainspring.tools import patch
from mainspring.tools.base import Approval
from mainspring.tools.plan import is_approved

MOST_LINES = 20  # of a change, until it is expanded
MOST_ROWS = 3  # per line, on average
MOST_PROPOSED = 20_000  # lines: more than a user scrolls through; the rest is counted

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
STYLES = {"+": "added", "-": "removed", " ": "kept", "…": "hunk", "\\": "detail"}


class DiffLine(NamedTuple):
    sign: str  # '+', '-', ' '; '…' between two hunks; '\\' a remark
    text: str
    number: int = 0  # 0: none


def parse_unified_diff(diff: str) -> Iterator[DiffLine]:
    """Parse a unified diff. Removed lines have their old number, all others the new one."""
    old = new = 0
    begun = False
    for line in diff.split("\n"):
        if found := HUNK.match(line):
            if begun:
                yield DiffLine("…", "")
            old, new, begun = int(found[1]), int(found[2]), True
        elif not begun:
            continue  # file names: the title has them
        elif line.startswith("-"):
            yield DiffLine("-", line[1:], old)
            old += 1
        elif line.startswith(("+", " ")):
            yield DiffLine(line[0], line[1:], new)
            new, old = new + 1, old + (line[0] == " ")
        elif line:
            yield DiffLine("\\", line.removeprefix("\\ "))


def render_change(diff: str, width: int, most: int = MOST_LINES) -> ClippedRows:
    """A change that was made."""
    changes = list(parse_unified_diff(diff))
    digits = len(str(max([change.number for change in changes[:most]], default=0)))

    def head(change: DiffLine) -> Text:
        number = str(change.number) if change.number else ""
        sign = " " if change.sign == "\\" else change.sign
        return Text.assemble((f"{number:>{digits}} ", "detail"), (f"{sign} ", STYLES[change.sign]))

    rows = (row_of(head(change), change.text, STYLES[change.sign], width) for change in changes[:most])
    return clip_rows(rows, len(changes), most)


def render_new_file(content: str, width: int, most: int) -> ClippedRows:
    """The beginning of a new file."""
    lines = split_lines(content)
    digits = len(str(len(lines[:most])))
    rows = (
        row_of(Text(f"{number:>{digits}}  ", "detail"), line, "", width) for number, line in enumerate(lines[:most], 1)
    )
    return clip_rows(rows, len(lines), most)


def row_of(head: Text, text: str, style: str, width: int) -> list[Text]:
    rows = wrap_rows([clean_for_drawing(text[: MOST_OF_LINE + 1])], style, width - head.cell_len)
    return indent_lines(rows or [Text()], head, head.cell_len)


def clip_rows(lines: Iterable[list[Text]], there_are: int, most: int) -> ClippedRows:
    """A line may take a few rows, but one long generated line must not fill the screen."""
    rows: list[Text] = []
    for at, line in enumerate(lines):
        rows += line
        if len(rows) > most * MOST_ROWS:
            return ClippedRows([*rows[: most * MOST_ROWS], left_out(there_are - at)], cut=True)
    return ClippedRows([*rows, left_out(there_are - most)], cut=True) if there_are > most else ClippedRows(rows)


# --- proposed changes -----------------------------------------------------------------------------------------------


def render_proposed_change(tool: str, input: dict[str, Any]) -> list[Text]:
    """What a call would change, one `Text` per line, of any width; empty if the tool does not change files. The file is
    not read, so edits have no line numbers."""
    changes = diff_proposed_input(tool, input)
    told = changes[:MOST_PROPOSED]
    digits = len(str(max([change.number for change in told], default=0)))
    lines = [
        Text.assemble(
            (f"{change.number:>{digits}} " if change.number else "", "detail"),
            (f"{change.sign} {clean_for_drawing(change.text)}", STYLES[change.sign]),
        )
        for change in told
    ]
    return [*lines, left_out(len(changes) - MOST_PROPOSED, unfolds=False)] if len(changes) > MOST_PROPOSED else lines


def diff_proposed_input(tool: str, input: dict[str, Any]) -> list[DiffLine]:
    match tool:
        case "Edit":
            return diff_texts(get_input_text(input, "old_string"), get_input_text(input, "new_string"))
        case "Write":
            return [
                DiffLine("+", line, number)
                for number, line in enumerate(split_lines(get_input_text(input, "content")), 1)
            ]
        case "NotebookEdit" if get_input_text(input, "edit_mode") == "delete":
            return [DiffLine("-", f"cell '{get_input_text(input, 'cell_id')}'")]
        case "NotebookEdit":
            return [DiffLine("+", line) for line in split_lines(get_input_text(input, "new_source"))]
        case _:
            return []


def get_input_text(input: dict[str, Any], key: str) -> str:
    """The model wrote the input: the value may have any type."""
    found = input.get(key)
    return found if isinstance(found, str) else ""


def split_lines(text: str) -> list[str]:
    return [line.removesuffix("\n") for line in patch.lines_of(text)]


def diff_texts(old: str, new: str) -> list[DiffLine]:
    """Diff the texts of the edit, including the context lines that the model gave."""
    before, after = patch.lines_of(old), patch.lines_of(new)
    changes: list[DiffLine] = []
    for hunk in patch.make_hunks(before, after, patch.ranges_between(before, after)):
        if changes:
            changes.append(DiffLine("…", ""))
        changes += [DiffLine(line[:1], line[1:]) for line in hunk["lines"] if line != patch.NO_NEWLINE]
    return changes


Changes = Callable[[str, dict[str, Any]], Sequence[Text]]  # the change that a tool's input would make, line by line

IN_A_CHOICE = 160  # characters of rules; longer ones are listed on the page, where nothing is cut
MOST_UNSEEN = 10  # kinds of invisible characters that are listed
CHANGED = ("old_string", "new_string", "content", "new_source")  # fields that `render_proposed_change` shows


class ApprovalScope(StrEnum):
    NEVER = "no"
    ONCE = "yes"
    EDITS = "yes, and all edits"
    SESSION = "yes, in this session"
    PROJECT = "yes, in this project"


class PermissionChoice(Bundle):
    scope: ApprovalScope
    words: str = ""  # the reason for a denial


def plain_changes(tool: str, input: dict[str, Any]) -> list[Text]:  # noqa: ARG001  # the input says it all
    """All removed and all added text, with invisible characters made visible."""
    gone, new = input.get("old_string", ""), input.get("new_string", input.get("content", input.get("new_source", "")))
    lines = [Text(f"- {line}", "removed") for line in lines_of(gone)]
    return lines + [Text(f"+ {line}", "added") for line in lines_of(new)]


ALL_EDITS = MenuItem(f"Yes, and allow all edits this session (mode {Mode.ACCEPT_EDITS})", key="s-tab", does="all edits")
NO = MenuItem(
    "No, and tell the model what to do instead",
    words="No",
    hint="tell the model what to do instead, or press Enter to deny",
)


def make_permission_dialog(
    about: dict[str, Any], *, now: Clock, changes: Changes = plain_changes, mode: str = ""
) -> PageDialog[PermissionChoice]:
    """`mode`: the current permission mode."""
    rules, tool = get_rule_offer(about), clean_for_drawing(str(about["tool_name"]))
    covers, names = clean_for_drawing(rules.covers), clean_for_drawing(", ".join(rules.rules))
    listed = len(covers) > IN_A_CHOICE or len(names) > IN_A_CHOICE
    what = ("what is listed above", "the rules above") if listed else (covers, names)
    body = [*body_of(about, changes), Text(clean_for_drawing(get_approval_reason(about)), "detail")]
    if listed:
        body += [Text(f"In this session: {covers}", "detail"), Text(f"Rules: {names}", "detail")]
    offered = [(ApprovalScope.ONCE, MenuItem("Yes"))]
    if mode == Mode.DEFAULT and about["tool_name"] in WRITERS:
        offered.append((ApprovalScope.EDITS, ALL_EDITS))
    if rules:
        offered += [
            (ApprovalScope.SESSION, MenuItem(f"Yes, and don't ask again this session for {what[0]}")),
            (ApprovalScope.PROJECT, MenuItem(f"Yes, and don't ask again in this project for {what[1]}")),
        ]
    offered.append((ApprovalScope.NEVER, NO))

    def meant(picked: MenuSelection | None) -> PermissionChoice:
        return (
            PermissionChoice(ApprovalScope.NEVER)
            if picked is None
            else PermissionChoice(offered[picked.places[0]][0], picked.words)
        )

    def page(width: int) -> list[Text]:
        return [*([Text(tool, "title")] if cell_len(tool) > width else []), *body]  # else the title shows it

    choices, out = Menu([one for _, one in offered]), (("esc", "no"), STOPS)
    return PageDialog(tool, ScrollPage(page), choices, meant, now=now, ways_out=out, grants=True)


async def apply_permission_choice(
    said: PermissionChoice, about: dict[str, Any], granting: ApprovalScopes, tell: Tell, warn: Tell
) -> Approval:
    """Apply the user's choice: new rules and the new mode take effect before the call runs."""
    rules = get_rule_offer(about).rules
    match said.scope:
        case ApprovalScope.NEVER:
            return deny_approval(said.words)
        case ApprovalScope.ONCE:
            pass
        case ApprovalScope.EDITS:
            await granting.set_mode(Mode.ACCEPT_EDITS)
        case ApprovalScope.SESSION:
            await granting.add(rules)
        case ApprovalScope.PROJECT:
            await granting.add(rules)
            await granting.keep(rules, tell, warn)
        case _:
            assert_never(said.scope)
    return Approval("allow")


# --- the call -------------------------------------------------------------------------------------------------------


def body_of(about: dict[str, Any], changes: Changes) -> list[Text]:
    """The text that the rules checked, then the change, then the other fields of the input."""
    tool, given, shown = str(about["tool_name"]), dict[str, Any](about["input"]), str(about["shown"])
    told = {
        name for name, value in given.items() if isinstance(value, str) and shown == f"{tool}: {show_invisible(value)}"
    }
    main = [Text(clean_for_drawing(shown.removeprefix(f"{tool}: ")))] if told or not given else []
    changed = [make_drawable(line) for line in changes(tool, given)]
    unseen = unseen_in("".join([str(given.get(name, "")) for name in CHANGED])) if changed else []
    told |= set(CHANGED) if changed else set()
    rest = [render_field(name, value) for name, value in given.items() if name not in told]
    return [*main, *changed, *unseen, *rest]


def unseen_in(text: str) -> list[Text]:
    """A change is drawn as it will look, so list its invisible characters."""
    found = sorted({show_invisible(one) for one in set(text) - {"\t", "\r"} if show_invisible(one) != one})
    names = ", ".join(found[:MOST_UNSEEN]) + (", …" if len(found) > MOST_UNSEEN else "")
    return [Text(f"It contains invisible characters: {names}", "warning")] if found else []


def render_field(name: str, value: object) -> Text:
    text = clean_for_drawing(show_invisible(value if isinstance(value, str) else msgspec.json.encode(value).decode()))
    between = "\n" if "\n" in text else " "
    return Text.assemble((f"{clean_for_drawing(show_invisible(name))}:", "detail"), between, text)


def make_drawable(line: Text) -> Text:
    """Return the line unchanged if it can be drawn safely."""
    safe = clean_for_drawing(line.plain)
    return line if safe == line.plain else Text(safe, line.style)


def lines_of(text: object) -> list[str]:
    return clean_for_drawing(show_invisible(str(text))).split("\n") if text else []


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
Way = tuple[MenuItem, str]  # a menu item, and the text it sends


class PlanAnswer(Bundle):
    words: str
    mode: str = ""  # chosen by the user: the tool keeps it if it is set before the answer arrives


def make_plan_dialog(text: str, now: Clock) -> PageDialog[PlanAnswer] | None:
    found = PLAN.fullmatch(text)
    if found is None:
        return None
    ways = [(MenuItem(f"Yes, in mode '{clean_for_drawing(found['mode'])}'"), PlanAnswer("yes"))]
    if found["mode"] != Mode.ACCEPT_EDITS:
        ways.append((MenuItem("Yes, and allow all edits"), PlanAnswer("yes", Mode.ACCEPT_EDITS)))
    if found["mode"] != Mode.DEFAULT:  # Enter alone must not lead to a mode that allows more
        ways.insert(0, (MenuItem("No, keep planning"), PlanAnswer("no")))
    hint = "say what to change, or press Enter to deny"
    no = MenuItem("No, and say what to change", words="No", hint=hint)

    def meant(picked: MenuSelection | None) -> PlanAnswer:
        if picked is not None and picked.places[0] < len(ways):
            return ways[picked.places[0]][1]
        words = picked.words if picked is not None else ""
        return PlanAnswer(f"no: {words}" if is_approved(words) else words or "no")  # 'ok' as a reason for a denial

    choices, out = Menu([*[choice for choice, _ in ways], no]), (("esc", "no"), STOPS)
    return PageDialog(
        "Carry out this plan?", make_markdown_page(found["plan"]), choices, meant, now=now, ways_out=out, grants=True
    )


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
