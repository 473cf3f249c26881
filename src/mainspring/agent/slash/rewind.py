"""`/rewind`: list the prompts, or go back to before one of them: files, conversation or both.

    /rewind                           list the prompts, and earlier rewinds, which can be undone
    /rewind 2 --files                 restore the files as they were before the second last prompt
    /rewind 2 --include notes.md      restore this file too, although the user changed it since

The terminal has a panel for this (`cli/tui/rewind_panel.py`), which answers with the same arguments.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.agent.change_lines import describe_point, describe_point_changes, format_rewind
from mainspring.agent.options import StartError
from mainspring.agent.prompt_list import list_prompts_in_file
from mainspring.agent.rewind import return_to_session
from mainspring.agent.session_rows import format_age
from mainspring.agent.slash.lines import SlashCommandError, TextStyle, clean_line, file_of, print_line
from mainspring.checkpoints.entries import FileCheckpoint, RewindReport
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.text import strip_control_characters, truncate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mainspring.agent.slash.lines import SlashContext

MOST_PROMPTS = 20
SHOWN = 400  # columns shown of a prompt that can be edited and sent again
NO_CHECKPOINT = "There is no file checkpoint for that prompt: the files stay as they are."
USAGE = "Usage: /rewind [N] [--files | --conversation] [--include PATH] [--dry-run]"


class RewindArguments(Bundle):
    to: str = ""  # a number, counted from the last prompt, or the id of a checkpoint; empty: list them
    conversation: bool = True
    files: bool = True
    include: tuple[str, ...] = ()
    dry_run: bool = False


async def rewind(talk: SlashContext, words: str) -> None:
    given = parse_rewind_arguments(words)
    points = await list_rewind_points(talk)
    if not points:
        raise SlashCommandError(explain_no_points(talk))
    if given.to:
        await perform_rewind(talk, find_rewind_point(points, given.to), given)
    else:
        print_points(talk, points)


def parse_rewind_arguments(words: str) -> RewindArguments:
    try:
        rest = shlex.split(words)
    except ValueError:
        raise SlashCommandError(f"Cannot read '{words}': a quote is not closed. {USAGE}") from None
    to, flags, include = "", set[str](), list[str]()
    while rest:
        word = rest.pop(0)
        if word == "--include" and rest:
            include.append(rest.pop(0))
        elif word in ("--files", "--conversation", "--dry-run"):
            flags.add(word)
        elif to or word.startswith("-"):
            raise SlashCommandError(f"Cannot read '{word}'. {USAGE}")
        else:
            to = word
    if {"--files", "--conversation"} <= flags:
        raise SlashCommandError("'--files' and '--conversation' exclude each other. Without both, both are restored.")
    return RewindArguments(
        to, "--files" not in flags, "--conversation" not in flags, tuple(include), "--dry-run" in flags
    )


# --- the points to go back to ---------------------------------------------------------------------------------


async def list_rewind_points(talk: SlashContext) -> list[FileCheckpoint]:
    """Prompts and earlier rewinds, the newest first. A prompt without a file checkpoint has its own id."""
    if not (file := file_of(talk)):
        return []
    prompts = await asyncio.to_thread(list_prompts_in_file, file)
    return join_points(await talk.session.rewind_points(), prompts)


def join_points(known: Iterable[FileCheckpoint], prompts: Iterable[FileCheckpoint]) -> list[FileCheckpoint]:
    """`known`: with file checkpoints. `prompts`: of the conversation."""
    covered = {one.prompt_id for one in known}
    return sorted([*known, *[one for one in prompts if one.id not in covered]], key=lambda one: -one.at)


async def preview_rewind(talk: SlashContext, point: FileCheckpoint) -> RewindReport:
    """What a rewind of everything would do. Raises `UsageError` or `StartError`."""
    report = RewindReport(point, dry_run=True)
    if has_files(point):
        report = await talk.session.rewind(name_of(point), conversation=False, files=True, dry_run=True)
    return replace(report, to=point, conversation=point.cause == "prompt" or point.id in talk.rewound)


def has_files(point: FileCheckpoint) -> bool:
    return point.id != point.prompt_id


def name_of(point: FileCheckpoint) -> str:
    """As `AgentSession.rewind` takes it."""
    return point.prompt_id or point.id


def explain_no_points(talk: SlashContext) -> str:
    journal = talk.opened.journal
    stored = journal is not None and journal.stored
    return "Nothing to rewind yet." if stored else "Cannot rewind: this session is not stored."


def number_prompts(points: Sequence[FileCheckpoint]) -> list[tuple[str, FileCheckpoint]]:
    """Each point with its name in lists: prompts have numbers, and 1 is the last one; rewinds have ids."""
    named: list[tuple[str, FileCheckpoint]] = []
    number = 0
    for point in points:
        number += point.cause == "prompt"
        named.append((str(number) if point.cause == "prompt" else point.id, point))
    return named


def find_rewind_point(points: Sequence[FileCheckpoint], name: str) -> FileCheckpoint:
    """By its number or its id. Raises `SlashCommandError`."""
    for known, point in number_prompts(points):
        if name in (known, point.id, point.prompt_id):
            return point
    raise SlashCommandError(f"No prompt '{clean_line(name)}'. Type /rewind to list them; 1 is the last one.")


def print_points(talk: SlashContext, points: Sequence[FileCheckpoint]) -> None:
    """The newest last, next to the input."""
    shown = number_prompts(points)[:MOST_PROMPTS]
    if len(points) > len(shown):
        print_line(talk, f"{len(points) - len(shown):,} earlier not shown", TextStyle.DIM)
    for row in format_rewind_points(shown):
        print_line(talk, row)
    print_line(
        talk,
        "Type /rewind N to go back to before that prompt: the conversation and the files. With --files or "
        "--conversation, only one of them.",
        TextStyle.DIM,
    )


def format_rewind_points(named: Sequence[tuple[str, FileCheckpoint]]) -> Iterator[str]:
    """The newest last."""
    now = time.time()
    for name, point in reversed(named):
        about = f"{format_age(now - point.at / 1_000)}, {describe_point_changes(point)}"
        yield f"{name:>4}  {describe_point(point)}  ({about})"


# --- going back -----------------------------------------------------------------------------------------------


async def perform_rewind(talk: SlashContext, point: FileCheckpoint, given: RewindArguments) -> None:
    root, found = talk.config.cwd, list[RewindReport]()
    include = [os.path.join(root, one) for one in given.include]  # noqa: PTH118  # pathlib takes 8 ms to load
    files, prompt = given.files and has_files(point), point.cause == "prompt"
    if given.files and not files and not given.conversation:
        raise SlashCommandError("Cannot rewind the files: there is no file checkpoint for that prompt.")

    async def change() -> None:
        done = await talk.session.rewind(
            name_of(point), conversation=given.conversation and prompt, files=files, dry_run=given.dry_run,
            include=include,
        )  # fmt: skip
        if given.conversation and not given.dry_run and point.id in talk.rewound:
            await return_to_session(talk.session, talk.rewound[point.id])
        found.append(done)

    try:
        await talk.change(change())
    except (StartError, UsageError) as error:
        raise SlashCommandError(f"Cannot rewind: {str(error).removeprefix('Cannot rewind: ')}") from None
    [report] = found
    if files:
        tell_of_files(talk, report)
    elif given.files:
        print_line(talk, NO_CHECKPOINT, TextStyle.DIM)
    if report.conversation:
        tell_of_conversation(talk, report)


def tell_of_files(talk: SlashContext, report: RewindReport) -> None:
    for line in format_rewind(report, talk.config.cwd):
        print_line(talk, *line)
    if report.undo and report.files:
        print_line(talk, f"To undo this, type /rewind {report.undo}.", TextStyle.DIM)


def tell_of_conversation(talk: SlashContext, report: RewindReport) -> None:
    if report.dry_run:
        print_line(talk, "Would rewind the conversation to before that prompt.")
        return
    if report.undo:
        talk.rewound[report.undo] = report.session_before
    talk.draft = strip_control_characters(report.prompt)
    print_line(
        talk,
        "Rewound the conversation to before that prompt. "
        f"Type /resume {report.session_before[:8]} to go back to the full conversation.",
        TextStyle.DIM,
    )
    print_line(talk, f"Your prompt was: {truncate(clean_line(report.prompt), SHOWN)}")
