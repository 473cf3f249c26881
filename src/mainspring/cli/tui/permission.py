"""May this call be made? All of it is shown, why it is asked and for whom, and what a rule would allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, assert_never

import msgspec
from rich.cells import cell_len
from rich.text import Text

from mainspring.agent.permission_updates import ApprovalScopes, Tell, deny_approval, get_approval_reason, get_rule_offer
from mainspring.cli.tui.dialog import STOPS, PageDialog
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing
from mainspring.cli.tui.menu import Clock, Menu, MenuItem, MenuSelection
from mainspring.core.value import Bundle
from mainspring.permissions.policy import Mode
from mainspring.permissions.rules import WRITERS
from mainspring.text import show_invisible
from mainspring.tools.base import Approval

Changes = Callable[[str, dict[str, Any]], Sequence[Text]]  # what a tool's input would change, line by line

IN_A_CHOICE = 160  # characters of rules; longer ones stand on the page, where nothing is cut
MOST_UNSEEN = 10  # kinds of characters that are named
CHANGED = ("old_string", "new_string", "content", "new_source")  # what `FileChanges` shows


class ApprovalScope(StrEnum):
    NEVER = "no"
    ONCE = "yes"
    EDITS = "yes, and all edits"
    SESSION = "yes, in this session"
    PROJECT = "yes, in this project"


class PermissionChoice(Bundle):
    scope: ApprovalScope
    words: str = ""  # with a no


def plain_changes(tool: str, input: dict[str, Any]) -> list[Text]:  # noqa: ARG001  # the input says it all
    """All that goes and all that comes, with what cannot be seen made visible."""
    gone, new = input.get("old_string", ""), input.get("new_string", input.get("content", input.get("new_source", "")))
    lines = [Text(f"- {line}", "removed") for line in lines_of(gone)]
    return lines + [Text(f"+ {line}", "added") for line in lines_of(new)]


ALL_EDITS = MenuItem(
    f"Yes, and make all edits in this session without asking (mode {Mode.ACCEPT_EDITS})", key="s-tab", does="all edits"
)
NO = MenuItem(
    "No, and tell the model what to do instead",
    words="No",
    hint="tell the model what to do instead, or Enter for a plain no",
)


def make_permission_dialog(
    about: dict[str, Any], *, now: Clock, changes: Changes = plain_changes, mode: str = ""
) -> PageDialog[PermissionChoice]:
    """`mode`: in which it is asked."""
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
            (ApprovalScope.SESSION, MenuItem(f"Yes, and allow for this session: {what[0]}")),
            (ApprovalScope.PROJECT, MenuItem(f"Yes, and do not ask again in this project: {what[1]}")),
        ]
    offered.append((ApprovalScope.NEVER, NO))

    def meant(picked: MenuSelection | None) -> PermissionChoice:
        return (
            PermissionChoice(ApprovalScope.NEVER)
            if picked is None
            else PermissionChoice(offered[picked.places[0]][0], picked.words)
        )

    def page(width: int) -> list[Text]:
        return [*([Text(tool, "title")] if cell_len(tool) > width else []), *body]  # else the title has it

    choices, out = Menu([one for _, one in offered]), (("esc", "no"), STOPS)
    return PageDialog(tool, ScrollPage(page), choices, meant, now=now, ways_out=out, grants=True)


async def apply_permission_choice(
    said: PermissionChoice, about: dict[str, Any], granting: ApprovalScopes, tell: Tell, warn: Tell
) -> Approval:
    """What was said, done: rules and the mode count before the call goes on."""
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


# --- what will be done ----------------------------------------------------------------------------------------------


def body_of(about: dict[str, Any], changes: Changes) -> list[Text]:
    """What the rules have looked at first, then the change, then everything else that is in the input."""
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
    """A change is drawn as it will look. What it holds that cannot be seen is named."""
    found = sorted({show_invisible(one) for one in set(text) - {"\t", "\r"} if show_invisible(one) != one})
    names = ", ".join(found[:MOST_UNSEEN]) + (", …" if len(found) > MOST_UNSEEN else "")
    return [Text(f"It holds characters that cannot be seen: {names}", "warning")] if found else []


def render_field(name: str, value: object) -> Text:
    text = clean_for_drawing(show_invisible(value if isinstance(value, str) else msgspec.json.encode(value).decode()))
    between = "\n" if "\n" in text else " "
    return Text.assemble((f"{clean_for_drawing(show_invisible(name))}:", "detail"), between, text)


def make_drawable(line: Text) -> Text:
    """As it is, if it can be drawn as it is."""
    safe = clean_for_drawing(line.plain)
    return line if safe == line.plain else Text(safe, line.style)


def lines_of(text: object) -> list[str]:
    return clean_for_drawing(show_invisible(str(text))).split("\n") if text else []
