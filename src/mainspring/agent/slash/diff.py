"""`/diff`: what this session changed, by prompt. `mainspring diff` prints the same lines for a stored session.

/diff             all changes
/diff 1           those of the last prompt
/diff --stat      only the files, with added and removed lines
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.agent.change_lines import StyledLine, format_changes, format_diff, format_prompt_changes
from mainspring.agent.slash.lines import SlashCommandError, TextStyle, clean_line, print_line
from mainspring.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mainspring.agent.slash.lines import SlashContext
    from mainspring.checkpoints.entries import FileCheckpoint, PromptChanges

EVERY = 1_000_000
USAGE = "Usage: /diff [N] [--stat]"
NOTHING = "This session has not changed any files."


async def diff(talk: SlashContext, words: str) -> None:
    only_stat, number = False, ""
    for word in words.split():
        if word == "--stat":
            only_stat = True
        elif number or not word.isdecimal():
            raise SlashCommandError(f"Cannot read '{clean_line(word)}'. {USAGE}")
        else:
            number = word
    try:
        found = number_changes(await talk.session.changed_files(), await talk.session.checkpoints())
    except UsageError as error:
        raise SlashCommandError(f"Cannot show changes: {error}") from None
    if number:
        found = [one for one in found if one[0] == int(number)]
        if not found:
            raise SlashCommandError(f"No prompt '{number}' with a file checkpoint. 1 is the last one.")
    for line in format_session_changes(found, talk.config.cwd, only_stat=only_stat):
        print_line(talk, *line)


def number_changes(
    changes: Sequence[PromptChanges], prompts: Sequence[FileCheckpoint]
) -> list[tuple[int, PromptChanges]]:
    """Both the oldest first. 1 is the last prompt, as for `/rewind`. Without prompts that were rewound away."""
    listed = [one.prompt_id for one in prompts]
    numbers = {prompt_id: len(listed) - place for place, prompt_id in enumerate(listed)}
    return [(numbers[one.checkpoint.prompt_id], one) for one in changes if one.checkpoint.prompt_id in numbers]


def format_session_changes(
    found: Sequence[tuple[int, PromptChanges]], root: str, *, only_stat: bool = False
) -> Iterator[StyledLine]:
    """Prompts without changes are left out."""
    shown = [(number, one) for number, one in found if one.files]
    if not shown:
        yield StyledLine(NOTHING, TextStyle.DIM)
    for place, (number, one) in enumerate(shown):
        if place:
            yield StyledLine("")
        yield StyledLine(format_prompt_changes(one, number), TextStyle.CYAN)
        if only_stat:
            yield from format_changes([each.change for each in one.files], root, most=EVERY)
            continue
        for each in one.files:
            yield from format_diff(each, root)
