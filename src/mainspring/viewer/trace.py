"""A session and its subagents as one trace: read incrementally from the disk, with totals."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from mainspring.core.money import NANOS_PER_USD, Usage
from mainspring.sessions.paths import Place, agent_file, id_of, size_of
from mainspring.sessions.reader import LONGEST_LINE, MOST_WARNINGS, JournalReader
from mainspring.sessions.subagents import meta_file
from mainspring.viewer.file_marks import FileMarks
from mainspring.viewer.journal_walk import JournalWalk, MessagesForgottenError, Told
from mainspring.viewer.spans import WORDS, Span, SpanKind, SpanOutcome, TraceTotals, make_label
from mainspring.viewer.tracer import Tracer

BEGIN, END = "agent-", ".jsonl"
AGENT_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")  # becomes part of a file name
TORN = "the last line is incomplete: it is being written, or was cut off"
LOST = "cannot replay from here on"
NOTEBOOK_WIDTH = 110  # columns: what fits into a cell
TAIL = 1 << 16  # bytes read at once to find the last complete line


Taking = Callable[[int, Told], None]  # of what a line says, with its offset


class TracedSubagentMeta(Struct):
    """The metadata file of a subagent (stream-json 14.4)."""

    agentType: str = ""  # noqa: N815  # as it is written
    description: str = ""
    toolUseId: str = ""  # noqa: N815


class TracedSubagent(Struct, omit_defaults=True):
    place: int
    id: str
    kind: str = ""
    task: str = ""
    call: str = ""  # id of the call that started it,
    parent: str = ""  # and the key of its span


class TraceHead(Struct):
    """What a page loads first: everything but the spans."""

    id: str
    epoch: int  # if it changes, everything read before is void
    rev: int
    begin: int
    end: int
    under_way: bool
    totals: TraceTotals
    agents: list[TracedSubagent]
    notes: list[str]
    spans: int


class JournalTail:
    """A file that may grow: each `look` reads the complete lines added since the last one."""

    def __init__(self, file: Place, *, aside: bool = False) -> None:
        self.file = Path(file)
        self.epoch = 0  # how often it was read from the beginning
        self.notes: list[str] = []
        self.walk: JournalWalk | None = None
        self._aside = aside
        self._forget = True
        self._at = 0  # offset after the last line read
        self._inode: int = 0

    def look(self, take: Taking, anew: Callable[[], Taking]) -> None:
        """Calls `anew` before it reads from the beginning, the first time or again: what this returns takes the lines
        from then on. Raises OSError."""
        with JournalReader(self.file) as reader:
            try:
                self._look(reader, take, anew)
            except MessagesForgottenError:
                self.walk, self._forget = None, False
                self._look(reader, take, anew)

    def _look(self, reader: JournalReader, take: Taking, anew: Callable[[], Taking]) -> None:
        inode = os.fstat(reader.fd).st_ino
        if self.walk is None or self._at > reader.size or inode != self._inode:  # or the file was replaced
            self.walk = JournalWalk(reader, aside=self._aside, forget=self._forget)
            self._at, self._inode = 0, inode
            self.epoch, self.notes = self.epoch + 1, []
            take = anew()
        walk = self.walk
        walk.reader = reader
        end = find_last_line_end(reader, self._at)
        for offset, line in reader.lines(self._at, end):
            for told in walk.take(offset, line):
                take(offset, told)
        self._at = end
        self._note(reader, walk)

    def _note(self, reader: JournalReader, walk: JournalWalk) -> None:
        kept = [note for note in self.notes if not note.startswith((TORN, LOST))]
        kept += reader.warnings
        kept += [TORN] if self._at < reader.size else []
        kept += [f"{LOST}: {walk.lost}"] if walk.lost else []
        self.notes = [make_label(note, WORDS) for note in kept[-MOST_WARNINGS:]]


def find_last_line_end(reader: JournalReader, start: int) -> int:
    """The end of the last complete line. A line over the length limit is skipped even if it is incomplete."""
    end = reader.size
    while end > start:
        begin = max(start, end - TAIL)
        found = os.pread(reader.fd, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return reader.size if reader.size - start > LONGEST_LINE else start


@contextmanager
def pause_collector() -> Generator[None]:
    """A long session makes half a million objects that all stay and refer to nothing but texts: searching them for
    cycles again and again would take a fifth of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class TracedFile:
    """A file and its spans."""

    def __init__(self, file: Place, place: int) -> None:
        self.lines = JournalTail(file, aside=place > 0)
        self.tracer = Tracer(place)
        self._place = place
        self._rev = 0

    def look(self, rev: int) -> None:
        self._rev = self.tracer.sheet.rev = rev
        self.lines.look(self.tracer.take, self._anew)

    def _anew(self) -> Taking:
        self.tracer = Tracer(self._place)
        self.tracer.sheet.rev = self._rev
        return self.tracer.take


class Trace:
    """Not thread-safe: callers with several threads need a lock."""

    def __init__(self, file: Place) -> None:
        self.file = os.fspath(file)
        self.rev = 0
        self.files = [TracedFile(file, 0)]
        self.agents: list[TracedSubagent] = []
        self._marks = FileMarks(file)

    def look(self) -> None:
        """Reads new lines. Raises OSError if the session file cannot be read."""
        with pause_collector():
            self._look()

    def _look(self) -> None:
        self.rev += 1
        self.files[0].look(self.rev)
        self._find_agents()
        for traced in self.files[1:]:
            with suppress(OSError):  # not written yet, or removed
                traced.look(self.rev)
        self._name_agents()
        self._marks.look(self._root.sheet)

    @property
    def spans(self) -> Iterator[Span]:
        for traced in self.files:
            yield from traced.tracer.sheet.spans

    def span(self, key: str) -> tuple[TracedFile, Span, tuple[int, ...]] | None:
        place, _, number = key.partition(".")
        with suppress(ValueError, IndexError):
            if place.isdecimal() and number.isdecimal():
                traced = self.files[int(place)]
                sheet = traced.tracer.sheet
                return traced, sheet.spans[int(number)], sheet.places.get(key, ())
        return None

    # --- in notebooks ---

    def __repr__(self) -> str:
        return f"Trace({self.file!r})"

    def __rich_repr__(self) -> Iterator[object]:
        """For rich: the totals, of what was read so far."""
        totals = self.head().totals
        yield id_of(self.file)
        yield "runs", totals.runs
        yield "turns", totals.turns
        yield "errors", totals.errors, 0
        yield "seconds", round(totals.wall / 1_000, 3)
        yield "cost_usd", round(totals.price / NANOS_PER_USD, 6)

    def _repr_html_(self) -> str:
        """For notebooks: the time axis as text. Reads new lines first."""
        from mainspring.text import render_html_block
        from mainspring.viewer.text_view import render_axis

        self.look()
        return render_html_block("\n".join(render_axis(self, NOTEBOOK_WIDTH)))

    # --- subagents ---

    def _find_agents(self) -> None:
        known = {agent.id for agent in self.agents}
        told = [span.name for span in self._root.sheet.spans if span.kind is SpanKind.AGENT]
        for name in dict.fromkeys([*told, *ids_beside(self.file)]):
            if name not in known and AGENT_ID.fullmatch(name) and size_of(agent_file(self.file, name)):
                file, place = agent_file(self.file, name), len(self.files)
                meta = meta_of(file)
                self.agents.append(
                    TracedSubagent(
                        place, name, make_label(meta.agentType), make_label(meta.description), meta.toolUseId
                    )
                )
                self.files.append(TracedFile(file, place))

    def _name_agents(self) -> None:
        """The journal records when a subagent started and ended; its metadata file has its type and task."""
        calls, by_id = self._root.calls.by_id, {agent.id: agent for agent in self.agents}
        for agent in self.agents:
            sender = calls.get(agent.call)
            agent.parent = sender.key if sender is not None else ""
        for span in self._root.sheet.spans:
            if (
                span.kind is SpanKind.AGENT
                and (found := by_id.get(span.name)) is not None
                and span.parent != found.parent
            ):
                span.label = f"{found.kind or 'agent'}: {found.task or found.id}"
                span.parent = found.parent
                self._root.sheet.changed(span)

    @property
    def _root(self) -> Tracer:
        return self.files[0].tracer

    # --- totals ---

    def head(self) -> TraceHead:
        spans = list(self.spans)
        begin = min((span.begin for span in spans), default=0)
        notes = [f"{traced.lines.file.name}: {note}" for traced in self.files for note in traced.lines.notes]
        return TraceHead(
            id=id_of(self.file),
            epoch=self.files[0].lines.epoch,
            rev=self.rev,
            begin=begin,
            end=max((traced.tracer.sheet.last for traced in self.files), default=begin),
            under_way=self._root.run is not None and self._root.run.how is SpanOutcome.OPEN,
            totals=compute_totals(self._root),
            agents=self.agents,
            notes=notes[:MOST_WARNINGS],
            spans=len(spans),
        )


def compute_totals(tracer: Tracer) -> TraceTotals:
    """The totals of the session itself; the price includes its subagents, since its events report it."""
    spans = tracer.sheet.spans
    models = {span.key: span for span in spans if span.kind is SpanKind.MODEL}
    asked: dict[str, int] = {}
    for span in spans:
        if span.kind is SpanKind.QUESTION:
            asked[span.parent] = asked.get(span.parent, 0) + span.length
    tools = [span for span in spans if span.kind is SpanKind.TOOL and span.how is not SpanOutcome.NEVER_RAN]
    breaks = [span.price or 0 for span in spans if span.kind is SpanKind.PREFIX]
    return TraceTotals(
        wall=sum_of(spans, SpanKind.RUN),
        model=sum(span.length for span in models.values()) - sum_of(spans, SpanKind.RETRY),
        tools=sum(span.length - asked.get(span.key, 0) for span in tools),
        overlap=sum(overlap(span, models.get(span.parent)) for span in tools if span.early),
        person=sum_of(spans, SpanKind.QUESTION),
        retry=sum_of(spans, SpanKind.RETRY),
        usage=sum((span.usage for span in spans if span.usage is not None), Usage()),
        price=price_of(spans),
        unpriced=sum(span.price is None and span.usage is not None for span in models.values()),
        agents=sum(span.price or 0 for span in spans if span.kind is SpanKind.AGENT),
        runs=sum(span.kind is SpanKind.RUN for span in spans),
        turns=len({(span.run, span.turn) for span in models.values()}),
        calls=len(tools),
        errors=sum(
            span.how in (SpanOutcome.ERROR, SpanOutcome.DENIED) for span in spans if span.kind is not SpanKind.RUN
        ),
        breaks=len(breaks),
        break_price=sum(breaks),
    )


PRICED = frozenset({SpanKind.MODEL, SpanKind.COMPACTION, SpanKind.CONTEXT, SpanKind.AGENT})


def price_of(spans: list[Span]) -> int:
    """The core's own figure for each run; where the replay failed, the sum of the known prices."""
    known = {span.run: span.price for span in spans if span.kind is SpanKind.RUN and span.price is not None}
    others = [span.price or 0 for span in spans if span.kind in PRICED and span.run not in known]
    return sum(known.values()) + sum(others)


def sum_of(spans: list[Span], kind: SpanKind) -> int:
    return sum(span.length for span in spans if span.kind is kind)


def overlap(span: Span, other: Span | None) -> int:
    if other is None or span.end is None or other.end is None:
        return 0
    return max(0, min(span.end, other.end) - max(span.begin, other.begin))


def ids_beside(file: str) -> list[str]:
    folder = os.path.dirname(agent_file(file, ""))  # noqa: PTH120  # places are strings there
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
    return sorted([name[len(BEGIN) : -len(END)] for name in names if name.startswith(BEGIN) and name.endswith(END)])


def meta_of(file: str) -> TracedSubagentMeta:
    try:
        return msgspec.json.decode(Path(meta_file(file)).read_bytes(), type=TracedSubagentMeta)
    except (OSError, msgspec.MsgspecError):
        return TracedSubagentMeta()
