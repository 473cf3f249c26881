"""`mainspring rewind SESSION`: restore the files and the conversation of a session that no process has open.

Without `--files` and `--conversation` it does both. The conversation continues in a fork; the session itself stays as
it is. Files that the user changed since are kept unless `--include` names them.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from mainspring.agent.change_lines import describe_point, format_rewind
from mainspring.agent.options import StartError
from mainspring.agent.resume import new_place
from mainspring.agent.slash.lines import SlashCommandError, TextStyle
from mainspring.agent.slash.rewind import (
    NO_CHECKPOINT,
    find_rewind_point,
    format_rewind_points,
    has_files,
    number_prompts,
)
from mainspring.agent.stored_rewind import RewindableSession, explain_no_checkpoints
from mainspring.checkpoints.entries import RewindReport
from mainspring.cli.commands.trace import find_traced_session
from mainspring.cli.output import NoWrap, TerminalOutput, wants_colour
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import UsageError
from mainspring.sessions.journal import SessionInUse

if TYPE_CHECKING:
    from mainspring.checkpoints.entries import FileCheckpoint

SHORT_ID = 8


def rewind(args: Namespace) -> int:
    """Exit code 1 if some files could not be restored, or if nothing could be done."""
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109  # pathlib takes 8 ms to load
    file = find_traced_session(args.session_name, place)
    with RewindableSession(file, args.session, os.environ) as stored:
        points = stored.points()
        if not points:
            raise StartError(f"nothing to rewind: session '{stored.id}' has no prompts")
        if args.list:
            return print_points(points, as_json=args.json)
        point = find_point(points, args.to, stored)
        report = asyncio.run(rewind_stored(stored, point, args))
    if args.json:
        print(msgspec.json.encode(msgspec.to_builtins(report)).decode())
    else:
        print_report(report, stored.cwd, files=not args.conversation)
    return 1 if report.failed else 0


def find_point(points: list[FileCheckpoint], name: str | None, stored: RewindableSession) -> FileCheckpoint:
    try:
        return find_rewind_point(points, name or "1")
    except SlashCommandError:
        how = f"'mainspring rewind {stored.id[:SHORT_ID]} --list' lists them; 1 is the last one"
        raise StartError(f"'--to {name}': session '{stored.id}' has no such prompt. {how}") from None


async def rewind_stored(stored: RewindableSession, point: FileCheckpoint, args: Namespace) -> RewindReport:
    """The files first: if they cannot be rewound, there is no fork either."""
    conversation, files = not args.files and point.cause == "prompt", not args.conversation and has_files(point)
    if args.conversation and not conversation:
        raise StartError(f"'{point.id}' is a rewind: only files go back to before it")
    if args.files and not files:
        raise StartError(explain_no_checkpoints(stored.id))
    report = RewindReport(point, dry_run=args.dry_run, session_before=stored.id, session_after=stored.id)
    try:
        before = stored.find_prompt(point) if conversation else None
        if files:
            report = await stored.rewind_files(point, dry_run=args.dry_run, include=read_included(args, stored))
        if before is None:
            return report
        after = report.session_after if args.dry_run else fork_conversation(stored, point, before.last)
    except SessionInUse as error:
        raise StartError(f"{error}: type /rewind there, or exit it first") from None
    except UsageError as error:
        raise StartError(str(error)) from None
    except OSError as error:
        raise StartError(f"cannot write the fork: {error.strerror or error}") from None
    return replace(report, conversation=True, prompt=before.text, session_after=after)


def read_included(args: Namespace, stored: RewindableSession) -> list[str]:
    """Relative to the current directory, as the shell completes them; else to that of the session."""
    found: list[str] = []
    for name in args.include:
        here = os.path.abspath(name)  # noqa: PTH100
        found += [here, os.path.normpath(os.path.join(stored.cwd, name))]  # noqa: PTH118
    return list(dict.fromkeys(found))


def fork_conversation(stored: RewindableSession, point: FileCheckpoint, last: str) -> str:
    """The id of the new session; empty: nothing is before the prompt."""
    if not last:
        return ""
    from mainspring.viewer.forks import fork_session_at

    forked = fork_session_at(stored.file, last)
    stored.take_over(forked.file, point.prompt_id)
    return forked.id


# --- output ---------------------------------------------------------------------------------------------------


def print_points(points: list[FileCheckpoint], *, as_json: bool) -> int:
    named = number_prompts(points)
    output = make_output()
    if as_json:
        rows: list[dict[str, Any]] = [{"to": name, **msgspec.to_builtins(point)} for name, point in named]
        print(msgspec.json.encode(rows).decode())
        return 0
    for row in format_rewind_points(named):
        output.line(row)
    return 0


def print_report(report: RewindReport, root: str, *, files: bool) -> None:
    output = make_output()
    would = "Would rewind" if report.dry_run else "Rewound"
    output.line(f"{would} session {report.session_before} to before: {describe_point(report.to)}", TextStyle.BOLD)
    if files and has_files(report.to):
        for line in format_rewind(report, root):
            output.line(*line)
        if report.undo and report.files:
            short = report.session_before[:SHORT_ID]
            output.line(f"Undo it: mainspring rewind {short} --to {report.undo}", TextStyle.DIM)
    elif files:
        output.line(NO_CHECKPOINT, TextStyle.YELLOW)
    if not report.conversation:
        return
    if report.dry_run:
        output.line("The conversation would continue in a fork.")
    elif report.session_after:
        output.line(f"Continue the conversation: mainspring --resume {report.session_after[:SHORT_ID]}")
    else:
        output.line("It was the first prompt: start a new conversation with 'mainspring'.")


def make_output() -> TerminalOutput:
    return TerminalOutput(colour=wants_colour(), wrap=NoWrap())
