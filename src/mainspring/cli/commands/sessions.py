"""`mainspring sessions` and `mainspring context`.

- `mainspring sessions` lists the sessions of this folder, `sessions show ID` prints one as text, and `sessions delete`
  and `sessions purge` delete them.
- `mainspring context [ID]` shows what fills a session's context window, what it costs, and what each layer removed.
  `context/report.py` computes the figures; this module loads the session and prints them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import msgspec

from mainspring.agent.config import settings_of
from mainspring.agent.context import is_trusted_folder
from mainspring.agent.find_session import NO_HOME, list_session_folders, list_sessions_of, locate_session
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.resume import SessionLocation, new_place
from mainspring.agent.session_rows import format_session_rows
from mainspring.cli.commands.trace import find_traced_session
from mainspring.cli.output import is_terminal
from mainspring.cli.subcommands import Namespace
from mainspring.context.attachments import describe_workspace as place_in
from mainspring.context.memory import MemoryFiles, MemoryLocations
from mainspring.context.output_styles import DEFAULT, SORT, OutputStyles
from mainspring.context.prompt import PromptStyle, insert_nonce, system_prompt
from mainspring.context.report import (
    ContextReport,
    FixedBytes,
    LargeItem,
    LayerTotals,
    ReportEvent,
    ReportShare,
    build_context_report,
)
from mainspring.core.config import Config
from mainspring.core.effects import Compact
from mainspring.core.errors import UsageError
from mainspring.core.history import History
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.state import State
from mainspring.core.value import as_json
from mainspring.messages_api import Unreadable
from mainspring.secrets.redaction import redact
from mainspring.sessions.decoder import LoadedSession, MissingReferenceError, TranscriptDecoder
from mainspring.sessions.line_format import CheckpointExtras
from mainspring.sessions.line_parser import JournalLine, event_of
from mainspring.sessions.listing import MOST_LISTED, SessionEntry, describe_session, render_session
from mainspring.sessions.paths import id_of, size_of
from mainspring.sessions.reader import JournalReader
from mainspring.sessions.replay import JournalReplay, UnusableReplayError
from mainspring.sessions.resume import load_session
from mainspring.sessions.retention import delete_stored_session, find_old_sessions
from mainspring.sessions.subagents import agent_lines
from mainspring.text import plural, strip_control_characters, truncate
from mainspring.tools.builtin import FOR_PEOPLE
from mainspring.tools.catalog import SPECS

PRICES = "cached: price per request when read from the cache; fresh: when sent uncached"


def context(args: Namespace) -> int:
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109  # pathlib takes 8 ms to load
    loaded = load_session_file(Path(find_traced_session(args.session_name or "", place)))
    made = compute_context_report(loaded, place, args.session)
    lines = report_to_json(made, loaded) if args.json else format_report(made, loaded)
    for line in lines:
        print(line)
    return 0


def lines_of(session_id: str) -> Iterator[str]:
    """For `/context` in a conversation. Raises `StartError` before its first prompt."""
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109  # pathlib takes 8 ms to load
    loaded = load_session_file(Path(locate_session(session_id, place)))
    return format_report(compute_context_report(loaded, place, SessionOptions()), loaded)


def compute_context_report(loaded: LoadedSession, place: SessionLocation, options: SessionOptions) -> ContextReport:
    config = loaded.config or Config()
    return build_context_report(loaded.state, told_by(loaded), config, fixed_in(place, options, config.nonce))


# --- loading ----------------------------------------------------------------------------------------------


def load_session_file(file: Path) -> LoadedSession:
    try:
        return load_session(file)
    except OSError as error:
        raise StartError(f"cannot read '{file}': {error.strerror}") from None
    except UsageError as error:
        raise StartError(str(error)) from None


def told_by(loaded: LoadedSession) -> list[ReportEvent]:
    """All events. Only a replay knows which compaction an event belongs to; a damaged file cannot be replayed."""
    with JournalReader(loaded.file) as reader:
        replay = RecordingReplay(reader, TranscriptDecoder(reader.payload), loaded.config)
        replay.begin(State(History()), CheckpointExtras())
        try:
            replay.run(0)
        except (UnusableReplayError, MissingReferenceError):
            return list(bare_events(reader))
        return replay.told


class RecordingReplay(JournalReplay):
    """A replay that records the events and the compaction that each one answers."""

    def __init__(self, reader: JournalReader, book: TranscriptDecoder, config: Config | None) -> None:
        super().__init__(reader, book, config)
        self.told: list[ReportEvent] = []

    def _event(self, line: JournalLine) -> None:
        asked = self.state.waiting_for
        super()._event(line)
        self.told.append(ReportEvent(event_of(line), asked.how if isinstance(asked, Compact) else None))


def bare_events(reader: JournalReader) -> Iterator[ReportEvent]:
    for _, line in reader.lines():
        if line.event:
            try:
                yield ReportEvent(event_of(line))
            except Unreadable:
                continue


def fixed_in(place: SessionLocation, options: SessionOptions, nonce: str) -> FixedBytes:
    """The prefix of a session started here now. The journal does not store the one that this session sent."""
    tools = [name for name in SPECS if name not in FOR_PEOPLE]
    described = sum([len(name) + len(SPECS[name][0]) + len(as_json(SPECS[name][1])) for name in tools])
    git = os.path.exists(f"{place.cwd}/.git")  # noqa: PTH110  # pathlib takes 8 ms to load
    blocks = system_prompt(tools, place_in(place.cwd, git=git), attended=False, style=style_in(place, options))
    return FixedBytes(sum(map(len, insert_nonce(blocks, nonce))), described)


def style_in(place: SessionLocation, options: SessionOptions) -> PromptStyle | None:
    """The output style of the settings; None: the default one, also if the configured style does not exist."""
    try:
        wanted = settings_of(options, place.cwd, os.environ).output_style
        if not wanted or wanted == DEFAULT:
            return None
        where = MemoryLocations(
            place.cwd,
            os.path.expanduser("~"),  # noqa: PTH111
            place.home,
            trusted=is_trusted_folder(place.home, place.cwd),
        )
        style = OutputStyles(MemoryFiles(where).places(SORT)).find(wanted)
    except (StartError, UsageError):
        return None
    return PromptStyle(style.name, style.text, style.keeps_coding)


# --- for people -------------------------------------------------------------------------------------------


def format_report(made: ContextReport, loaded: LoadedSession) -> Iterator[str]:
    yield from format_report_head(made, loaded)
    yield ""
    yield f"{'':<28}{'blocks':>7}{'tokens':>10}{'share':>8}{'cached':>11}{'fresh':>11}"
    for part in made.parts:
        yield format_share(part, made.tokens)
    yield (
        f"{'total':<35}{made.tokens:>10,}{'':>8}{format_report_dollars(made.cached):>11}"
        f"{format_report_dollars(made.fresh):>11}"
    )
    yield PRICES
    if made.largest:
        yield "\nLargest blocks:"
        yield f"{'turn':>6}{'tokens':>9}  what"
        yield from map(format_large_item, made.largest)
    yield from taken_out(made.removed)


def format_report_head(made: ContextReport, loaded: LoadedSession) -> Iterator[str]:
    yield f"Session {loaded.session_id}, {strip_control_characters(made.model)}"
    how = "counted by the API" if made.counted else "estimated"
    yield f"{made.tokens:,} of {made.window:,} tokens ({made.tokens / made.window:.1%}): {how}"
    if made.compact_at is None:
        yield "automatic compaction is off"
    else:
        yield f"compacted at {made.compact_at:,}: {format_tokens_away(made.compact_at - made.tokens)}"
    yield f"blocked at {made.blocked_at:,}: {format_tokens_away(made.blocked_at - made.tokens)}"


def format_tokens_away(tokens: int) -> str:
    return f"{tokens:,} tokens away" if tokens > 0 else f"reached, {-tokens:,} tokens over"


def format_share(part: ReportShare, whole: int) -> str:
    figures = f"{part.blocks:>7,}{part.tokens:>10,}{part.tokens / max(1, whole):>8.1%}"
    return (
        f"{sanitize_line(part.part)[:28]:<28}{figures}{format_report_dollars(part.cached):>11}"
        f"{format_report_dollars(part.fresh):>11}"
    )


def format_large_item(block: LargeItem) -> str:
    turn = f"{block.turn:,}" if block.turn else "-"
    tool = f" ({block.tool})" if block.tool and block.tool not in block.part else ""
    about = f": {block.about}" if block.about else ""
    return f"{turn:>6}{block.tokens:>9,}  {sanitize_line(block.part + tool + about)}"[:80]


def taken_out(removed: tuple[LayerTotals, ...]) -> Iterator[str]:
    if not removed:
        yield "\nNo layer has removed anything yet."
        return
    yield "\nRemoved during the session:"
    yield f"{'layer':<16}{'times':>7}{'failed':>9}{'tokens':>12}{'cost':>14}"
    for one in removed:
        paid = format_report_dollars(one.cost) if one.cost else "-"
        yield f"{sanitize_line(one.layer)[:16]:<16}{one.times:>7,}{one.failed:>9,}{one.freed:>12,}{paid:>14}"


def sanitize_line(text: str) -> str:
    """On one line, redacted and without control characters."""
    return " ".join(strip_control_characters(redact(text)).split())


def format_report_dollars(nanos: int) -> str:
    return f"${nanos / NANOS_PER_USD:.5f}"


# --- for programs -----------------------------------------------------------------------------------------


def report_to_json(made: ContextReport, loaded: LoadedSession) -> Iterator[str]:
    """One object. Prices and costs are in nano-dollars: integers add up exactly."""
    parts = [{**msgspec.to_builtins(part), "share": part.tokens / max(1, made.tokens)} for part in made.parts]
    largest = [{**msgspec.to_builtins(block), "about": sanitize_line(block.about)} for block in made.largest]
    figures = {
        **msgspec.to_builtins(made),
        "session_id": loaded.session_id,
        "cached": made.cached,
        "fresh": made.fresh,
        "to_compaction": made.compact_at - made.tokens if made.compact_at is not None else None,
        "to_block": made.blocked_at - made.tokens,
        "parts": parts,
        "largest": largest,
    }
    yield msgspec.json.encode(figures).decode()


MOST_TITLE = 60  # characters
HOW_TO_RESUME = "Resume one: mainspring --resume ID. Print one: mainspring sessions show ID"


def sessions(args: Namespace) -> int:
    place = new_place(os.environ, os.getcwd(), ())  # noqa: PTH109
    if place.home is None:
        raise StartError(NO_HOME)
    match args.action:
        case "delete":
            return delete_sessions(
                list(dict.fromkeys([locate_session(one, place) for one in args.session_names])), args
            )
        case "purge":
            return purge_sessions(place.home, args)
        case "show" if not os.path.isdir(args.session_name):  # noqa: PTH112
            return print_session(find_traced_session(args.session_name, place))
        case _:
            return print_session_table(args.session_name if args.action else place.cwd, place)


def print_session(file: str) -> int:
    for line in chain(render_session(file), agent_lines(file)):
        print(line)
    return 0


def print_session_table(folder: str, place: SessionLocation) -> int:
    entries, folders = list_sessions_of(folder, place), list_session_folders(folder, place)
    if not entries:
        print("no sessions in " + " or ".join([f"'{one}'" for one in folders]))
        return 0
    for row in format_session_rows(entries):
        print(row)
    if len(entries) == MOST_LISTED:
        print(f"(newest {MOST_LISTED} only; older ones are in '{folders[0]}')")
    for other in folders[1:]:
        ids = [entry.session_id[:8] for entry in entries if os.fspath(entry.file).startswith(f"{other}/")]
        if ids:
            print(f"In '{other}': {', '.join(ids)}")
    if is_terminal():  # a program that reads the list gets sessions only
        print(HOW_TO_RESUME)
    return 0


# --- deleting -------------------------------------------------------------------------------------------------


def purge_sessions(home: str, args: Namespace) -> int:
    files = find_old_sessions(home, before=time.time() - args.older_than)
    if not files:
        print(f"no sessions in '{home}' are that old")
        return 0
    if args.dry_run:
        for file in files:
            print(f"Would delete {describe_stored_session(file)}")
        return 0
    return delete_sessions(files, args)


def delete_sessions(files: list[str], args: Namespace) -> int:
    """Exit code 1 if one of them could not be deleted."""
    if not args.yes and sys.stdin.isatty() and is_terminal() and not confirm_deletion(files):
        print("Nothing was deleted.")
        return 1
    failed = False
    for file in files:
        about = describe_stored_session(file)
        try:
            delete_stored_session(file)
        except BlockingIOError:
            failed = True
            print(f"Not deleted: {about} is in use", file=sys.stderr)
        except OSError as error:
            failed = True
            print(f"Not deleted: {about}: {error.strerror}", file=sys.stderr)
        else:
            print(f"Deleted {about}")
    return 1 if failed else 0


def confirm_deletion(files: list[str]) -> bool:
    for file in files[:MOST_LISTED]:
        print(describe_stored_session(file))
    if len(files) > MOST_LISTED:
        print(f"and {len(files) - MOST_LISTED} more")
    print(f"Delete {plural(len(files), 'session')}? This cannot be undone. [y/N] ", end="", flush=True)
    try:
        said = input()
    except EOFError:
        return False
    return said.strip().lower() in ("y", "yes")


def describe_stored_session(file: str) -> str:
    """Its id, its title and its file."""
    entry = describe_session(SessionEntry(id_of(file), Path(file), 0, size_of(file)))
    title = sanitize_line(entry.title) if entry is not None else ""
    return " ".join(["session", id_of(file), *([f'"{truncate(title, MOST_TITLE)}"'] if title else []), f"('{file}')"])
