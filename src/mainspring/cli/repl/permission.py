"""May this call be made? All of it is shown, why it is asked and for whom, and what a rule would allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, assert_never

import msgspec
from rich.cells import cell_len
from rich.text import Text

from mainspring.cli.granting import Granting, Tell, offer, reason, refused
from mainspring.cli.repl.menus import Choice, Choices, Clock, Picked
from mainspring.cli.repl.page import Page, clean
from mainspring.cli.repl.sheet import STOPS, Sheet
from mainspring.core.value import Bundle
from mainspring.permissions.policy import Mode
from mainspring.permissions.shown import show_invisible
from mainspring.permissions.sorted_rules import WRITERS
from mainspring.tools.approval import Approval

Changes = Callable[[str, dict[str, Any]], Sequence[Text]]  # what a tool's input would change, line by line

IN_A_CHOICE = 160  # characters of rules; longer ones stand on the page, where nothing is cut
MOST_UNSEEN = 10  # kinds of characters that are named
CHANGED = ("old_string", "new_string", "content", "new_source")  # what `FileChanges` shows


class Scope(StrEnum):
    NEVER = "no"
    ONCE = "yes"
    EDITS = "yes, and all edits"
    SESSION = "yes, in this session"
    PROJECT = "yes, in this project"


class Said(Bundle):
    scope: Scope
    words: str = ""  # with a no


def plain_changes(tool: str, input: dict[str, Any]) -> list[Text]:  # noqa: ARG001  # the input says it all
    """All that goes and all that comes, with what cannot be seen made visible."""
    gone, new = input.get("old_string", ""), input.get("new_string", input.get("content", input.get("new_source", "")))
    lines = [Text(f"- {line}", "removed") for line in lines_of(gone)]
    return lines + [Text(f"+ {line}", "added") for line in lines_of(new)]


ALL_EDITS = Choice(
    f"Yes, and make all edits in this session without asking (mode {Mode.ACCEPT_EDITS})", key="s-tab", does="all edits"
)
NO = Choice(
    "No, and tell the model what to do instead",
    words="No",
    hint="tell the model what to do instead, or Enter for a plain no",
)


def permission(about: dict[str, Any], *, now: Clock, changes: Changes = plain_changes, mode: str = "") -> Sheet[Said]:
    """`mode`: in which it is asked."""
    rules, tool = offer(about), clean(str(about["tool_name"]))
    covers, names = clean(rules.covers), clean(", ".join(rules.rules))
    listed = len(covers) > IN_A_CHOICE or len(names) > IN_A_CHOICE
    what = ("what is listed above", "the rules above") if listed else (covers, names)
    body = [*body_of(about, changes), Text(clean(reason(about)), "detail")]
    if listed:
        body += [Text(f"In this session: {covers}", "detail"), Text(f"Rules: {names}", "detail")]
    offered = [(Scope.ONCE, Choice("Yes"))]
    if mode == Mode.DEFAULT and about["tool_name"] in WRITERS:
        offered.append((Scope.EDITS, ALL_EDITS))
    if rules:
        offered += [
            (Scope.SESSION, Choice(f"Yes, and allow for this session: {what[0]}")),
            (Scope.PROJECT, Choice(f"Yes, and do not ask again in this project: {what[1]}")),
        ]
    offered.append((Scope.NEVER, NO))

    def meant(picked: Picked | None) -> Said:
        return Said(Scope.NEVER) if picked is None else Said(offered[picked.places[0]][0], picked.words)

    def page(width: int) -> list[Text]:
        return [*([Text(tool, "title")] if cell_len(tool) > width else []), *body]  # else the title has it

    choices, out = Choices([one for _, one in offered]), (("esc", "no"), STOPS)
    return Sheet(tool, Page(page), choices, meant, now=now, ways_out=out, grants=True)


async def granted(said: Said, about: dict[str, Any], granting: Granting, tell: Tell, warn: Tell) -> Approval:
    """What was said, done: rules and the mode count before the call goes on."""
    rules = offer(about).rules
    match said.scope:
        case Scope.NEVER:
            return refused(said.words)
        case Scope.ONCE:
            pass
        case Scope.EDITS:
            await granting.set_mode(Mode.ACCEPT_EDITS)
        case Scope.SESSION:
            await granting.add(rules)
        case Scope.PROJECT:
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
    main = [Text(clean(shown.removeprefix(f"{tool}: ")))] if told or not given else []
    changed = [drawable(line) for line in changes(tool, given)]
    unseen = unseen_in("".join([str(given.get(name, "")) for name in CHANGED])) if changed else []
    told |= set(CHANGED) if changed else set()
    rest = [field(name, value) for name, value in given.items() if name not in told]
    return [*main, *changed, *unseen, *rest]


def unseen_in(text: str) -> list[Text]:
    """A change is drawn as it will look. What it holds that cannot be seen is named."""
    found = sorted({show_invisible(one) for one in set(text) - {"\t", "\r"} if show_invisible(one) != one})
    names = ", ".join(found[:MOST_UNSEEN]) + (", …" if len(found) > MOST_UNSEEN else "")
    return [Text(f"It holds characters that cannot be seen: {names}", "warning")] if found else []


def field(name: str, value: object) -> Text:
    text = clean(show_invisible(value if isinstance(value, str) else msgspec.json.encode(value).decode()))
    between = "\n" if "\n" in text else " "
    return Text.assemble((f"{clean(show_invisible(name))}:", "detail"), between, text)


def drawable(line: Text) -> Text:
    """As it is, if it can be drawn as it is."""
    safe = clean(line.plain)
    return line if safe == line.plain else Text(safe, line.style)


def lines_of(text: object) -> list[str]:
    return clean(show_invisible(str(text))).split("\n") if text else []
