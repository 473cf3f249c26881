"""`mainspring export SESSION`: a session as Markdown, HTML or JSON, with secrets removed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mainspring.agent.config import settings_of
from mainspring.agent.options import StartError
from mainspring.agent.resume import new_place
from mainspring.agent.slash.sharing import write_new
from mainspring.cli.commands.trace import find_traced_session
from mainspring.cli.subcommands import Namespace
from mainspring.secrets.held import hold_key
from mainspring.secrets.redaction import secrets_in
from mainspring.sessions.export import FORMATS, ExportHeading, read_export_sections
from mainspring.sessions.listing import SessionEntry, describe_session
from mainspring.sessions.paths import id_of, size_of
from mainspring.text import plural, shorten_folder


def export(args: Namespace) -> int:
    ways = [name for name in FORMATS if getattr(args, name)]
    if len(ways) > 1:
        raise StartError(f"'--{ways[0]}' and '--{ways[1]}' cannot be combined: choose one")
    ending = (args.output or "").rpartition(".")[2].lower()
    way = ways[0] if ways else ending if ending in FORMATS else "md"
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109  # pathlib takes 8 ms to load
    file = find_traced_session(args.session_name, place)
    hold_known_secrets(args)
    try:
        sections = read_export_sections(Path(file))
    except OSError as error:
        raise StartError(f"cannot read '{file}': {error.strerror}") from None
    prompts = len([one for one in sections if one.kind == "prompt"])
    if not sections:
        raise StartError(f"'{file}' contains no session")
    text = FORMATS[way](make_heading(file), sections)
    if not args.output:
        sys.stdout.write(text)
        return 0
    try:
        write_new(args.output, text)
    except FileExistsError:
        raise StartError(f"'{args.output}' already exists: choose another name") from None
    except OSError as error:
        raise StartError(f"cannot write '{args.output}': {error.strerror}") from None
    print(f"Exported {plural(prompts, 'prompt')} and the replies to '{args.output}'.")
    return 0


def hold_known_secrets(args: Namespace) -> None:
    """Keys of the environment and of settings are removed by their value, whatever they look like."""
    settings = settings_of(args.session, os.getcwd(), os.environ, shows_refused=True)  # noqa: PTH109
    for named in (os.environ, dict(settings.written)):
        for secret in secrets_in(named):
            hold_key(secret)


def make_heading(file: str) -> ExportHeading:
    entry = describe_session(SessionEntry(id_of(file), Path(file), 0, size_of(file)))
    title, folder = (entry.title, entry.cwd) if entry is not None else ("", "")
    home = os.path.expanduser("~")  # noqa: PTH111
    day = time.strftime("%Y-%m-%d %H:%M")
    return ExportHeading(title or id_of(file), id_of(file), shorten_folder(folder, home), "", day)
