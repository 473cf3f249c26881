"""`mainspring diff [SESSION]`: what a session changed, by prompt.

At a terminal the unified diff is coloured, in a pipe it is plain. It has what shell commands, hooks and subagents
changed, too, and not what the user changed between two runs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from mainspring.agent.options import StartError
from mainspring.agent.resume import new_place
from mainspring.agent.slash.diff import format_session_changes, number_changes
from mainspring.agent.stored_rewind import RewindableSession, explain_no_checkpoints
from mainspring.cli.commands.trace import find_traced_session
from mainspring.cli.output import NoWrap, TerminalOutput, wants_colour
from mainspring.cli.subcommands import Namespace

if TYPE_CHECKING:
    from mainspring.checkpoints.entries import PromptChanges


def diff(args: Namespace) -> int:
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109  # pathlib takes 8 ms to load
    file = find_traced_session(args.session_name or "", place)
    with RewindableSession(file, args.session, os.environ) as stored:
        if not stored.has_checkpoints:
            raise StartError(explain_no_checkpoints(stored.id))
        found, root = number_changes(stored.changes(), stored.history.prompts()), stored.cwd
    if args.json:
        for number, one in found:
            print(encode_changes(number, one))
        return 0
    output = TerminalOutput(colour=wants_colour(), wrap=NoWrap())
    for line in format_session_changes(found, root, only_stat=args.stat):
        output.line(*line)
    return 0


def encode_changes(number: int, one: PromptChanges) -> str:
    """One line of JSON for each prompt."""
    point = one.checkpoint
    files = [{**msgspec.to_builtins(each.change), "diff": each.text} for each in one.files]
    return msgspec.json.encode(
        {"prompt": number, "id": point.prompt_id, "text": point.text, "at": point.at, "files": files}
    ).decode()
