"""Slash commands about the last answer and beside the task: `/copy`, `/btw` and `/review`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mainspring.agent.slash.lines import SlashCommandError, TextStyle, clean_line, print_line
from mainspring.core.errors import MainspringError
from mainspring.core.messages import Assistant
from mainspring.core.money import NANOS_PER_USD
from mainspring.secrets.redaction import redact
from mainspring.text import plural

if TYPE_CHECKING:
    from mainspring.agent.slash.lines import SlashContext

_FENCE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)


# --- /copy --------------------------------------------------------------------------------------------------------


async def copy(talk: SlashContext, words: str) -> None:
    """Without a screen, the text itself is the answer."""
    print_line(talk, find_copied_text(talk, words))


def find_copied_text(talk: SlashContext, number: str) -> str:
    """The last answer, or one of its code blocks. Raises `SlashCommandError`."""
    answer = find_last_answer(talk)
    if not answer:
        raise SlashCommandError("Nothing to copy yet.")
    if not number:
        return answer
    blocks = find_code_blocks(answer)
    if not number.isdecimal() or not 0 < int(number) <= len(blocks):
        there = f"It has {plural(len(blocks), 'code block')}" if blocks else "It has none"
        raise SlashCommandError(f"No code block '{clean_line(number)}' in the last answer. {there}.")
    return blocks[int(number) - 1]


def find_last_answer(talk: SlashContext) -> str:
    for message in talk.world.session.current_state.history.newest_first():
        if isinstance(message, Assistant) and message.text.strip():
            return message.text
    return ""


def find_code_blocks(text: str) -> list[str]:
    return [found["code"] for found in _FENCE.finditer(text)]


# --- /btw ---------------------------------------------------------------------------------------------------------


async def btw(talk: SlashContext, words: str) -> None:
    if not words:
        raise SlashCommandError("Usage: /btw QUESTION asks beside the task; nothing of it enters the conversation.")
    ledger = talk.world.session.shared.ledger
    before = ledger.account.spent
    try:
        answer = await talk.session.ask_beside(words)
    except MainspringError as error:
        raise SlashCommandError(f"No answer: {clean_line(str(error))}") from None
    print_line(talk, redact(answer))
    cost = (ledger.account.spent - before) / NANOS_PER_USD
    print_line(talk, f"(beside the conversation, ${cost:.4f})", TextStyle.DIM)


# --- /review ------------------------------------------------------------------------------------------------------

REVIEW = """\
Review {what}.

{how} Read the surrounding code where the diff alone does not show whether a change is right. Do not change any file.

Report what you found, the most important first. For each finding: the file and line, what is wrong, when it goes \
wrong (an input or a state), and how to fix it. Look for wrong results, lost errors, races, security holes, broken \
callers, missing tests and unclear names, in this order. Say nothing about style that a formatter decides, and do not \
praise. If you find nothing, say what you have checked.{more}"""
BRANCH = (
    "Find the branch that this one started from (the default branch of the remote, else main or master), and read the "
    "diff since their merge base with git, with the uncommitted changes and new files."
)
TARGET = (
    "It may be a commit, a range, a branch, a pull request (read it with 'gh', if that is installed) or a path. Read "
    "its diff with git; for a path without changes, read the files."
)


async def review(_talk: SlashContext, words: str) -> str:
    """Returns a prompt, as a skill does: it costs a turn."""
    target, _, more = words.partition(" ")
    if not target:
        return REVIEW.format(what="the changes of this branch", how=BRANCH, more="")
    return REVIEW.format(what=f"'{target}'", how=TARGET, more=f"\n\n{more.strip()}" if more.strip() else "")
