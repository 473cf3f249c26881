"""Replay the core step by step: the event, the state changes, the effect and the updates of each step, and whether the
file agrees.

Keeps one short JSON record per step: step n is at index n - 1, however long the session is. The first part shortens
values of the core (events, effects, fields of the state) for people.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from mainspring.core.effects import ANSWERS, CallModel, Effect
from mainspring.core.errors import UsageError
from mainspring.core.events import Event, Replied, Submitted
from mainspring.core.history import History
from mainspring.core.messages import Assistant, Origin, ToolCall, ToolResult, User
from mainspring.core.models import Model, same_model
from mainspring.core.money import NANOS_PER_USD
from mainspring.core.state import Checkpoint, State, Step
from mainspring.core.updates import Appended, Tombstone, Update
from mainspring.secrets.redaction import redact
from mainspring.sessions.paths import Place, agent_file, id_of
from mainspring.sessions.records import WithdrawnRecord
from mainspring.text import plural, strip_control_characters
from mainspring.viewer.journal_walk import Told, WalkedCheckpoint, WalkedEvent, WalkedMessage, WalkedNote
from mainspring.viewer.spans import may_hold_secret
from mainspring.viewer.trace import JournalTail, Taking, ids_beside

SHORT = 200  # characters of a value
PIECE = 60  # characters of a text within a value
DEEP = 3  # levels shown of a nested value
WIDE = 5  # items shown of a list

NOT_TOLD = frozenset({"history", "now", "waiting_for"})  # shown elsewhere: its length, the event's stamp, the effect
MONEY = frozenset({"cost", "funds", "reserve", "agents"})  # fields in nano-dollars


def list_state_changes(before: State, after: State) -> list[tuple[str, str, str]]:
    """The changed fields, nested ones by dotted name."""
    found: list[tuple[str, str, str]] = []
    old_length, new_length = len(before.history), len(after.history)
    if old_length != new_length:
        found.append(("history", plural(old_length, "message"), plural(new_length, "message")))
    for name in STATE_FIELDS:
        old, new = getattr(before, name), getattr(after, name)
        if old is not new and old != new:
            found += list_inner_changes(name, old, new)
    return found


STATE_FIELDS = tuple([field.name for field in fields(State) if field.name not in NOT_TOLD])
WHOLE = (Model, Assistant)  # compared as a whole


def list_inner_changes(name: str, old: object, new: object) -> list[tuple[str, str, str]]:
    if not isinstance(old, Struct) or type(old) is not type(new) or isinstance(old, WHOLE):
        part = name.rpartition(".")[2]
        return [(name, shorten_top_value(old, part), shorten_top_value(new, part))]
    found: list[tuple[str, str, str]] = []
    for part in old.__struct_fields__:
        one, other = getattr(old, part), getattr(new, part)
        if one != other:
            found += list_inner_changes(f"{name}.{part}", one, other)
    return found


def shorten_top_value(value: object, name: str = "") -> str:
    text = shorten_value(value, 0, name)
    if may_hold_secret(text):
        text = redact(text)
    text = text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
    return text if text.isprintable() else strip_control_characters(text)


def shorten_value(value: object, depth: int, name: str = "") -> str:
    for kind, words in WORDS:
        if isinstance(value, kind):
            return words(value, depth, name)
    return str(value)


def shorten_text(value: str, _depth: int, _name: str) -> str:
    line = " ".join(value[: 2 * PIECE].split())
    return line if len(line) <= PIECE else f"{line[: PIECE - 1]}…"


def shorten_number(value: int, _depth: int, name: str) -> str:
    return f"${value / NANOS_PER_USD:.4f}" if name in MONEY else f"{value:,}"


def shorten_list(value: tuple[object, ...] | list[object], depth: int, _name: str) -> str:
    items = [shorten_value(item, depth + 1) for item in value[:WIDE]] if depth < DEEP else []
    more = f" … {len(value):,} in total" if len(value) > len(items) else ""
    return f"[{', '.join(items)}{more}]"


def shorten_dict(value: dict[str, object], depth: int, _name: str) -> str:
    items = [f"{name}: {shorten_value(value[name], depth + 1)}" for name in list(value)[:WIDE]] if depth < DEEP else []
    return "{" + ", ".join(items) + (" …" if len(items) < len(value) else "") + "}"


def shorten_message_value(value: User | ToolResult | Assistant, depth: int, _name: str) -> str:
    text = shorten_text(value.text, depth, "")
    calls = [call.name for call in value.calls] if isinstance(value, Assistant) else []
    made = " ".join([f'"{text}"'] * bool(text) + calls)
    return f"{type(value).__name__} {made}"


def shorten_call(value: ToolCall, depth: int, _name: str) -> str:
    return f"{value.name} {shorten_dict(value.input, depth, '')}"


def shorten_struct(value: Struct, depth: int, _name: str) -> str:
    """The fields that differ from their defaults."""
    kind = type(value)
    if depth >= DEEP:
        return kind.__name__
    parts = [
        f"{name}={shorten_value(given, depth + 1, name)}"
        for name, usual in usual_values(kind)
        if (given := getattr(value, name)) != usual
    ]
    return " ".join(parts) if depth == 0 else f"{kind.__name__}({' '.join(parts)})"


_usual: dict[type[Struct], list[tuple[str, object]]] = {}


def usual_values(kind: type[Struct]) -> list[tuple[str, object]]:
    if kind not in _usual:
        _usual[kind] = [(field.name, field.default) for field in fields(kind) if field.name != "stamp"]
    return _usual[kind]


Say = Callable[[Any, int, str], str]

# The first match is used.
WORDS: tuple[tuple[type | tuple[type, ...], Say], ...] = (
    (str, shorten_text),
    (bool, lambda value, _depth, _name: "yes" if value else "no"),
    (int, shorten_number),
    (type(None), lambda _value, _depth, _name: "none"),
    ((tuple, list), cast("Say", shorten_list)),
    (dict, cast("Say", shorten_dict)),
    (Model, lambda value, _depth, _name: cast("Model", value).name),
    ((User, ToolResult, Assistant), shorten_message_value),
    (ToolCall, shorten_call),
    (History, lambda value, _depth, _name: plural(len(value), "message")),
    (Struct, shorten_struct),
)


SAME, FITS, DIFFERS, OPEN, UNKNOWN = "same", "fits", "differs", "open", "unknown"
OF_THE_CORE = frozenset({Origin.RECOVERY, Origin.HOOK, Origin.BUDGET, Origin.ADVICE, Origin.INTERRUPTION})


class ReplayStep(Struct, omit_defaults=True):
    """One step. `mark` says whether the file agrees with the effect and the updates (docs/decisions/0024)."""

    n: int
    at: int
    event: str
    about: str = ""
    changed: list[tuple[str, str, str]] = []
    effect: str = ""
    wants: str = ""
    updates: list[tuple[str, str]] = []
    mark: str = OPEN
    why: str = ""
    turn: int = 0
    run: int = 0


class PendingStep(Struct):
    """A step that later lines may still confirm, until the next event."""

    shown: ReplayStep
    effect: Effect
    awaited: set[str]  # ids of messages and replies that the file should contain, if the same core wrote it
    state: State


class StepReplay:
    def __init__(self, file: Place, *, aside: bool = False) -> None:
        self._lines = JournalTail(file, aside=aside)
        self._steps: list[bytes] = []
        self._pending: PendingStep | None = None
        self._run = 0

    @property
    def notes(self) -> list[str]:
        """What could not be read."""
        return self._lines.notes

    @property
    def epoch(self) -> int:
        return self._lines.epoch

    def look(self) -> None:
        """Reads new lines. Raises OSError."""
        self._lines.look(self._take, self._anew)

    def _anew(self) -> Taking:
        self._steps, self._pending, self._run = [], None, 0
        return self._take

    def __len__(self) -> int:
        return len(self._steps) + (self._pending is not None)

    def steps(self, first: int, most: int) -> list[msgspec.Raw]:
        """At most `most` steps; `first` counts from 1."""
        found = self._steps[max(0, first - 1) : max(0, first - 1) + most]
        if self._pending is not None and len(found) < most and first <= len(self):
            found.append(encode(self._pending.shown))
        return [msgspec.Raw(step) for step in found]

    # --- lines ---

    def _take(self, _offset: int, told: Told) -> None:
        pending = self._pending
        match told:
            case WalkedEvent():
                self._settle(told.event)
                self._step(told)
            case WalkedMessage() if pending is not None:
                self._heard(pending, told.message)
            case WalkedNote(record=WithdrawnRecord() as record) if pending is not None:
                if record.reply_id not in pending.awaited:
                    note_difference(pending, f"the file withdraws reply '{record.reply_id}', the replay keeps it")
                self._confirm(pending, record.reply_id)
            case WalkedCheckpoint(resumed="") if pending is not None:
                if (saved := told.decode()) is not None:
                    compare_checkpoint(pending, saved)
            case _:
                pass

    def _heard(self, pending: PendingStep, message: User | ToolResult) -> None:
        by_core = message.origin in OF_THE_CORE if isinstance(message, User) else message.synthetic
        if message.id in pending.awaited:
            self._confirm(pending, message.id)
        elif by_core and isinstance(message, User):
            note_difference(pending, f"the file adds a message of kind '{message.origin}', the replay does not")

    def _confirm(self, pending: PendingStep, name: str) -> None:
        if name in pending.awaited:
            pending.awaited.discard(name)
            if pending.shown.mark == OPEN:
                pending.shown.mark = SAME

    def _settle(self, event: Event) -> None:
        """The next event has arrived: no more lines about the step before it follow."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        if pending.awaited:
            note_difference(pending, "the replay shows something that the file does not contain")
        if not isinstance(event, (Submitted, *ANSWERS[type(pending.effect)])):
            note_difference(pending, f"'{type(event).__name__}' followed, which does not answer the effect")
        elif isinstance(event, Replied) and isinstance(pending.effect, CallModel):
            asked = pending.effect.request.model
            if event.reply.model and not same_model(event.reply.model, asked):
                note_difference(pending, f"'{event.reply.model}' answered")
        if pending.shown.mark == OPEN:
            pending.shown.mark = FITS
        self._steps.append(encode(pending.shown))

    def _step(self, happened: WalkedEvent) -> None:
        event, step = happened.event, happened.step
        self._run += isinstance(event, Submitted)
        shown = ReplayStep(
            happened.n, event.stamp.at, type(event).__name__, about=shorten_top_value(event), run=self._run
        )
        if step is None or happened.before is None:
            shown.mark, shown.why = UNKNOWN, "cannot replay this event"
            self._steps.append(encode(shown))
            return
        shown.turn = step.state.turn
        shown.changed = list_state_changes(happened.before, step.state)
        shown.effect, shown.wants = type(step.effect).__name__, shorten_top_value(step.effect)
        shown.updates = [(type(update).__name__, shorten_top_value(update)) for update in step.updates]
        self._pending = PendingStep(shown, step.effect, awaited_calls(step), step.state)


def awaited_calls(step: Step) -> set[str]:
    return {name for update in step.updates for name in [told_by(update)] if name}


def told_by(update: Update) -> str:
    """The id that the file uses for what an update shows."""
    match update:
        case Appended():
            return update.message.id
        case Tombstone():
            return update.id
        case _:
            return ""


def note_difference(pending: PendingStep, why: str) -> None:
    pending.shown.mark, pending.shown.why = DIFFERS, strip_control_characters(why)


# Fields compared with a checkpoint: all but the history, which it does not contain, and the edits, whose summaries are
# elsewhere in the file.
COMPARED = tuple([field.name for field in fields(State) if field.name not in ("history", "edits")])


def compare_checkpoint(pending: PendingStep, saved: Checkpoint) -> None:
    """A checkpoint has the whole state, including the effect."""
    if saved.state.now != pending.state.now:
        return  # of another step
    other = [name for name in COMPARED if getattr(saved.state, name) != getattr(pending.state, name)]
    if other:
        note_difference(pending, f"the checkpoint has a different '{other[0]}'")
    elif pending.shown.mark != DIFFERS:
        pending.shown.mark = SAME


encode = msgspec.json.Encoder().encode


# --- a whole session ------------------------------------------------------------------------------------------


class ReplayedDecision(Struct, omit_defaults=True):
    """A decision that is not the recorded one, or cannot be made again."""

    n: int  # of the step
    run: int
    turn: int  # in its run
    event: str
    effect: str
    mark: str
    why: str
    agent: str = ""  # the subagent; empty: the session itself


class ReplayReport(Struct):
    """Whether today's core decides as the session did."""

    id: str
    file: str
    steps: int
    marks: dict[str, int]  # how many steps have each mark
    differences: list[ReplayedDecision]
    agents: list[str]  # subagents that were replayed, too
    notes: list[str]  # what could not be read

    @property
    def same(self) -> bool:
        return not self.differences


def replay_session(file: Place) -> ReplayReport:
    """Replays a session and its subagents. Raises OSError if the file cannot be read, UsageError if it has no event."""
    report = ReplayReport(id_of(file), str(file), 0, {}, [], [], [])
    replay_file(file, "", report)
    if not report.steps:
        raise UsageError(
            f"'{file}' has no decisions to replay: it is a new fork, another program wrote it, or it is damaged"
        )
    for agent in ids_beside(str(file)):
        report.agents.append(agent)
        replay_file(agent_file(file, agent), agent, report)
    return report


def replay_file(file: Place, agent: str, report: ReplayReport) -> None:
    replay = StepReplay(file, aside=bool(agent))
    replay.look()
    report.notes += [f"{agent}: {note}" if agent else note for note in replay.notes]
    for raw in replay.steps(1, len(replay)):
        step = msgspec.json.decode(raw, type=ReplayStep)
        report.steps += 1
        report.marks[step.mark] = report.marks.get(step.mark, 0) + 1
        if step.mark in (DIFFERS, UNKNOWN):
            report.differences.append(
                ReplayedDecision(step.n, step.run, step.turn, step.event, step.effect, step.mark, step.why, agent)
            )
