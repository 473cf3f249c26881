"""Layer 4: replaces the conversation except its end by one message: a summary, the user's prompts, the files last read.

The call contains the conversation itself, so that its cached part is read and not paid for again; only if that would
not fit, `cut_to_budget` cuts the conversation first.

`cut_to_budget` reduces any conversation to a budget, for the model that summarizes it. First results lose their middle,
then their content, oldest first; then whole turns leave; then user messages are truncated. None of this changes the
conversation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from mainspring.context.groups import GroupKind, TurnGroup, TurnGroups, select_user_quotes, words_in
from mainspring.context.layers import LayerLimits, without_media
from mainspring.context.tokens import SideCall, message_bytes, text_bytes
from mainspring.core.messages import Message, Origin, Text, ToolResult, User
from mainspring.core.moves import SUMMARY_OUTPUT
from mainspring.core.value import Bundle
from mainspring.processes.output import both_ends

SHORT = 2_000  # characters of a result that has lost its middle
GONE = "[left out]"
LEAST = 200  # characters that remain of any user message


def cut_to_budget(groups: Sequence[TurnGroup], budget: int) -> tuple[Message, ...]:
    rows = [[without_media(message) for message in group.messages] for group in groups]
    size = sum(map(message_bytes, [message for row in rows for message in row]))
    for most in (SHORT, 0):
        for row in rows:
            if size <= budget:
                return tuple([message for each in rows for message in each])
            size -= shorten_results(row, most)
    turns = [at for at, group in enumerate(groups) if group.kind is GroupKind.TURN]
    for at in turns:
        if size > budget:
            size -= sum(map(message_bytes, rows[at]))
            rows[at] = []
    left = [message for row in rows for message in row]
    return tuple(left if size <= budget else [shorten_message(message, budget // len(left)) for message in left])


def shorten_results(row: list[Message], most: int) -> int:
    """Bytes freed."""
    freed = 0
    for at, message in enumerate(row):
        if isinstance(message, ToolResult) and len(message.text) > most + len(GONE):
            text = both_ends(message.text, most) if most else GONE
            row[at] = replace(message, content=(Text(text),))
            freed += message_bytes(message) - message_bytes(row[at])
    return freed


def shorten_message(message: Message, most: int) -> Message:
    """A quarter of the bytes as characters: no character takes more than four."""
    most = max(LEAST, most // 4)
    if not isinstance(message, User) or len(message.text) <= most:
        return message
    return replace(message, content=(Text(both_ends(message.text, most)),))


SECTIONS = ("Task", "Decisions", "Files", "Open items", "Last action")
MAX_OUTPUT = SUMMARY_OUTPUT
MOST = 4 * MAX_OUTPUT  # characters

INSTRUCTIONS = """\
The conversation has become too long and will be cut here. Write down what is needed to go on without it. Do not call
tools; answer with text only, in exactly these sections:

## Task
What the user wants, in full, with every constraint they gave.
## Decisions
Decisions and their reasons; attempts that did not work.
## Files
Every file that matters: its path, its state, what was found in it or changed. Names, numbers and values word for word.
## Open items
Work that is still to be done, in order; errors that are not solved.
## Last action
The action under way just now, and the next step.

The user's own messages are kept beside your summary: do not repeat them."""

PREFACE = "[The conversation up to here was compacted. What follows is all that is left of it.]\n\n"
FILE = "[A file as it is now: '{path}']\n{text}"
NOT_SAID = "(nothing was written down)"

Files = Callable[[], Iterable[tuple[str, str]]]  # path and text of files that were read, newest first


class SummarySpan(Bundle):
    """What a compaction removes from the view: the groups before this position."""

    groups: list[TurnGroup]
    rest: list[TurnGroup]


def find_summary_span(scene: TurnGroups, limits: LayerLimits, *, asked: bool = False) -> SummarySpan | None:
    """What can be summarized before the protected end. If there is nothing, make the end as short as possible; and if
    the user asked for it, protect none. None: there is nothing in view but perhaps a summary."""
    for at in (scene.tail(limits.tail), len(scene.groups) if asked else scene.tail(0)):
        groups = scene.groups[:at]
        if any(group.kind in SAID or (group.kind is not GroupKind.SUMMARY and not asked) for group in groups):
            return SummarySpan(groups, scene.groups[at:])
    return None


SAID = frozenset({GroupKind.PROMPT, GroupKind.TURN})  # from the user or the model; we added the rest ourselves


def make_summary_call(scene: TurnGroups, instructions: str, budget: int | None, marks: tuple[str, ...]) -> SideCall:
    """`budget`: bytes that the conversation may take; None if it fits as it is."""
    steered = f"{INSTRUCTIONS}\n\nAlso follow this:\n{instructions}" if instructions.strip() else INSTRUCTIONS
    asked = User((Text(steered),), Origin.ATTACHMENT, id="summary-request")
    told = tuple(scene.messages()) if budget is None else cut_to_budget(scene.groups, budget)
    return SideCall((*told, asked), SUMMARY_OUTPUT, marks=marks)


def arrange_sections(text: str) -> str:
    """Always the same five. Keeps what a model wrote elsewhere, above them."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.strip().splitlines():
        heading = line.lstrip("#* ").rstrip(":* ").strip()
        if line.startswith(("#", "**")) and heading in SECTIONS:
            name = heading
        else:
            found.setdefault(name, []).append(line)
    body = {heading: "\n".join(lines).strip() for heading, lines in found.items()}
    parts = [f"## {heading}\n{body.get(heading) or NOT_SAID}" for heading in SECTIONS]
    return "\n".join([body[""], *parts] if body.get("") else parts)


def build_summary_message(
    text: str, groups: Iterable[TurnGroup], files: Files | None, limits: LayerLimits
) -> tuple[Text, ...]:
    """The content of the message that replaces these groups."""
    words = select_user_quotes(words_in(groups), limits.words)
    return (Text(PREFACE + arrange_sections(text)), *words, *attach_recent_files(files, limits.files))


def attach_recent_files(files: Files | None, budget: int) -> tuple[Text, ...]:
    """Skips a file that does not fit, because the model can read it again; the next may fit."""
    parts: list[Text] = []
    for path, text in files() if files is not None else ():
        if len(parts) == MOST_FILES:
            break
        size = text_bytes(text)
        if size <= min(budget, LARGEST_FILE):
            budget -= size
            parts.append(Text(FILE.format(path=path, text=text)))
    return tuple(parts)


MOST_FILES = 5  # as in Claude Code
LARGEST_FILE = 20_000  # bytes
