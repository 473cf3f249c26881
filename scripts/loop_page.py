"""Writes docs/loop.md, the page that explains the loop. Run it with `make docs`.

The page takes its facts from the code: tables from tables, numbers from constants and `Config`, and the picture from
running `step` in every small simulation below and recording what followed what. Only the text between is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from textwrap import fill
from typing import NamedTuple, assert_never, get_args

from msgspec.structs import replace

from mainspring.core.config import DEFAULT, Config, RunSource, StopHooks
from mainspring.core.effects import (
    ANSWERS,
    CallModel,
    Compact,
    Effect,
    Finish,
    PrepareContext,
    RunStopHooks,
    RunTools,
)
from mainspring.core.events import (
    Aborted,
    CallFailed,
    Compacted,
    ContextReady,
    Event,
    HooksDone,
    Replied,
    StopDecision,
    Submitted,
    ToolsDone,
)
from mainspring.core.history import History
from mainspring.core.ladder import LADDER, Rung, most_model_calls
from mainspring.core.messages import Assistant, Block, Defect, Stop, Text, Thinking, ToolCall, result, user
from mainspring.core.models import MODELS, Model
from mainspring.core.money import Usage
from mainspring.core.reasons import (
    GIVE_UP,
    SUBTYPES,
    AbortReason,
    Cause,
    Ending,
    Failure,
    Terminal,
    Transition,
    Trouble,
)
from mainspring.core.state import State
from mainspring.core.step import STRUCTURED_OUTPUT, step

PAGE = Path(__file__).resolve().parents[1] / "docs" / "loop.md"
CHECKLIST_TRANSITIONS = 7  # `Transition` lists the seven of the checklist first
WIDTH = 120
LONGEST_PLAY = 500  # steps; the longest simulation below takes thirty, so more means that it never ends


# --- simulations: each always answers the loop in the same way --------------------------------------------


class World(NamedTuple):
    model: Replied | CallFailed
    config: Config
    context: ContextReady = ContextReady(tokens=1_000)
    compaction: Compacted = Compacted(before=1_000, after=100)
    stopped: str | None = None  # by a hook, while the tools run
    verdict: StopDecision = StopDecision()  # of the stop hooks
    abort_at: type[Effect] | None = None
    abort_reason: AbortReason = AbortReason.HARD
    compact: str | None = None  # the run only compacts


MODEL = MODELS["claude-sonnet-4-5"]  # a window of 200K, an output cap of 64K
CALL = ToolCall("1", "Read", {"path": "a.py"})
OUTPUT_CALL = ToolCall("1", STRUCTURED_OUTPUT, {})
ANSWER = Text("Done.")


def replied(*blocks: Block, stop: Stop = Stop.END_TURN) -> Replied:
    return Replied(Assistant(blocks, stop=stop, usage=Usage(input=1_000, output=100)))


TALKS = replied(ANSWER)
WORKS = replied(ANSWER, CALL)
REPLIES: tuple[Replied, ...] = (
    TALKS,
    WORKS,
    replace(WORKS, funds=0),
    replied(OUTPUT_CALL),
    replied(),
    replied(Thinking("hm")),
    replied(replace(CALL, defect=Defect.MALFORMED)),
    replied(CALL, stop=Stop.REFUSAL),
    *[replied(ANSWER, stop=stop) for stop in Stop],
)
# Two kinds are never reported: NEAR_LIMIT is seen before a call, STREAM_CUT is any transient failure with a part kept.
FAILURES: tuple[CallFailed, ...] = tuple(
    CallFailed(Failure(kind, inside_call=inside), kept=None if kept is None else Assistant(kept, stop=Stop.UNFINISHED))
    for kind, kept, inside in product(GIVE_UP, (None, (ANSWER,), (CALL,)), (False, True))
)
BIG = 199_000
CONTEXTS: tuple[ContextReady, ...] = (
    ContextReady(tokens=1_000),
    ContextReady(tokens=BIG),
    ContextReady(tokens=BIG, staged=1, media=1),
    ContextReady(tokens=1_000, funds=0),
)
COMPACTIONS: tuple[Compacted, ...] = (
    Compacted(before=BIG, after=BIG // 10),
    Compacted(before=BIG, after=BIG - 1),
    Compacted(failed="no summary came"),
)
PLAIN = Config(model=MODEL, max_output=8_000, max_turns=6, end_after=5, advise_after=2)
CONFIGS: tuple[Config, ...] = (
    PLAIN,
    replace(PLAIN, max_turns=1),
    replace(PLAIN, fallbacks=(MODEL, MODEL)),
    replace(PLAIN, structured_output=True),
    replace(PLAIN, token_budget=10_000),
    replace(PLAIN, max_tokens=1),
    replace(PLAIN, auto_compact=False),
    replace(PLAIN, stop_hooks=StopHooks.CAPPED),
    replace(PLAIN, source=RunSource.COMPACT),
)
VERDICTS: tuple[StopDecision, ...] = (
    StopDecision(),
    StopDecision(blocks=("The tests fail.",)),
    StopDecision(prevent="Enough."),
)


def worlds() -> Iterator[World]:
    models: tuple[Replied | CallFailed, ...] = (*REPLIES, *FAILURES)
    for model, context, compaction in product(models, CONTEXTS, COMPACTIONS):
        yield World(model, PLAIN, context, compaction)
    for model, context, config in product(models, CONTEXTS[:2], CONFIGS):
        yield World(model, config, context)
    for model, config, verdict, stopped in product((TALKS, WORKS), CONFIGS, VERDICTS, (None, "Denied.")):
        yield World(model, config, verdict=verdict, stopped=stopped)
    for model, context, effect, reason in product((TALKS, WORKS), CONTEXTS[:2], MEANINGS, AbortReason):
        yield World(model, PLAIN, context, abort_at=effect, abort_reason=reason)
    for context, compaction in product(CONTEXTS, COMPACTIONS):
        yield World(TALKS, PLAIN, context, compaction, compact="Keep the numbers.")


def answer(world: World, effect: Effect | None) -> Event:
    if world.abort_at is type(effect) and Aborted in ANSWERS[type(effect)]:
        return Aborted(world.abort_reason)
    match effect:
        case None | Finish():
            return Submitted((user("Hello."),), compact=world.compact)
        case PrepareContext():
            return world.context
        case CallModel():
            return world.model
        case RunTools():
            return ToolsDone(tuple([result(call.id, "Fine.") for call in effect.calls]), world.stopped)
        case RunStopHooks():
            return HooksDone(world.verdict)
        case Compact():
            return world.compaction
        case _:
            assert_never(effect)


# --- simulate: what followed what --------------------------------------------------------------------------------


class Edge(NamedTuple):
    effect: str
    event: str
    next: str


class Seen(NamedTuple):
    worlds: int
    edges: set[Edge]
    endings: set[Ending]
    rounds: dict[Transition, set[Edge]]  # the steps that start it


def play_all() -> Seen:
    played = list(worlds())
    seen = Seen(len(played), set(), set(), {transition: set() for transition in Transition})
    for world in played:
        play(world, seen)
    return seen


def play(world: World, seen: Seen) -> None:
    """One run, and the first step of the run after it."""
    state = State(History())
    for _ in range(LONGEST_PLAY):
        over = isinstance(state.waiting_for, Finish)
        state = play_step(world, state, seen)
        if over:
            return
    raise RuntimeError(f"the run has not ended after {LONGEST_PLAY} steps of {world}")


def play_step(world: World, state: State, seen: Seen) -> State:
    event = answer(world, state.waiting_for)
    after, effect, _ = step(state, event, world.config)
    edge = Edge(name(type(state.waiting_for)), name(type(event)), name(type(effect)))
    seen.edges.add(edge)
    if isinstance(effect, Finish):
        seen.endings.add(Ending(effect.terminal, effect.cause))
    elif after.transition is not None and after.transition is not state.transition:
        seen.rounds[after.transition].add(edge)
    return after


# --- formatting ----------------------------------------------------------------------------------

NOTHING = "nothing yet"

MEANINGS: dict[type[Effect], str] = {
    PrepareContext: "Decide what the model will see, take the queued prompts from the inbox, and count the tokens.",
    CallModel: "Send the request and stream the reply.",
    RunTools: "Run the calls of the reply, or wait for running ones.",
    RunStopHooks: "Ask the user's hooks whether the run may end here.",
    Compact: "Make the view smaller, with the compaction that the effect names.",
    Finish: "Return the result to the caller. The session then waits for the next submission.",
}


def name(kind: type) -> str:
    return NOTHING if kind is type(None) else kind.__name__


def code(words: object) -> str:
    return f"`{words}`"


def listed(words: list[str]) -> str:
    return ", ".join(words)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def in_order(names: set[str]) -> list[str]:
    """Effects in the order of `ANSWERS`, which is the order of a turn."""
    return [name(kind) for kind in ANSWERS if name(kind) in names]


# --- the parts of the page -------------------------------------------------------------------------------------


def opening() -> str:
    return """# The loop

The loop is one pure function, `step(state, event, config)`. It takes an event and returns the one thing to do next; the
agent makes all its decisions there:

```python
from mainspring.core.config import DEFAULT
from mainspring.core.events import Submitted
from mainspring.core.history import History
from mainspring.core.messages import user
from mainspring.core.state import State
from mainspring.core.step import step

# a run begins
after = step(State(History()), Submitted((user("Hello!"),)), DEFAULT)
print(after.effect)  # PrepareContext(...)
```

`make docs` generates this page from the code, so it says what the code does. To change it, change the code or
`scripts/loop_page.py`."""


def picture(seen: Seen) -> str:
    order = [name(kind) for kind in ANSWERS]
    arrows: list[str] = []
    for source, target in product(order, order):
        labels = [name(kind) for kind in get_args(Event) if Edge(source, name(kind), target) in seen.edges]
        if labels:
            arrows.append(f"    {'[*]' if source == NOTHING else source} --> {target}: {listed(labels)}")
    body = "\n".join(arrows)
    return f"""## The picture

Each box is an *effect*: an action that the loop requests. Each arrow is an *event*, the answer to it, and points to the
next effect. An ordinary turn runs from `PrepareContext` over `CallModel` to `RunTools` and round again; when the model
makes no more calls, the run ends through `RunStopHooks`. Every other arrow is a recovery, a limit, an interruption or
the next run.

The arrows come from simulation: the script runs `step` in {amount(seen.worlds)} small simulations, each of which always
answers in the same way, and records what follows each pair of effect and event. The run ends in all of them.

```mermaid
stateDiagram-v2
{body}
```"""


def effects_and_answers(seen: Seen) -> str:
    meanings = table(("Effect", "Action"), [(code(name(k)), words) for k, words in MEANINGS.items()])
    rows: list[tuple[str, ...]] = []
    for effect, events in ANSWERS.items():
        for event in events:
            found = {edge.next for edge in seen.edges if edge[:2] == (name(effect), name(event))}
            waiting = NOTHING if effect is type(None) else code(name(effect))
            rows.append((waiting, code(name(event)), listed([code(target) for target in in_order(found)])))
    answers = table(("Effect", "Events that may answer it", "Effects that may follow"), rows)
    return f"""## Effects and their answers

One effect is outstanding at a time. The driver performs it and reports the outcome as an event; the driver itself
decides nothing.

{meanings}

`ANSWERS` lists the events that may answer each effect. Any other event is a bug in the driver and raises
`ProtocolError`. The last column comes from the simulations.

{answers}"""


def ladder_part() -> str:
    rows = [(code(trouble), rungs_of(LADDER[trouble]), gives_up_with(trouble)) for trouble in Trouble]
    shown = table(("Trouble", "Rungs, from the first", "When none is left"), rows)
    return f"""## The ladder

When something fails, the loop withholds the failure. It climbs the row of that trouble in `LADDER` from the left, and
shows the failure only when no rung is left. It skips a rung that cannot help, such as stripping media when there are
none.

The table gives for each rung the transition it starts and how often it may be used; in brackets, the model calls that
one use may lead to and how long a use counts. *Until progress* means until a turn with tools is done or the requested
token budget makes the model continue; then the rung is available again. A rung that counts *until progress or a
fallback* is also available again for the next model of the chain. Uses are counted separately for each trouble, but
there are never more fallbacks than models in the chain. `stream_retry` may be used `Config.max_retries` times, and
shares its count with `truncated_response_recovery` and with the attempts that failed before a reply began.

{shown}"""


def rungs_of(row: tuple[Rung, ...]) -> str:
    return "<br>".join(rung_words(rung) for rung in row) or "none"


def rung_words(rung: Rung) -> str:
    calls = "no calls" if rung.calls == 0 else "1 call" if rung.calls == 1 else f"{rung.calls} calls"
    return f"{code(rung.name)} x{rung.most(Config())} ({calls}, {rung.scope})"


def gives_up_with(trouble: Trouble) -> str:
    if trouble in GIVE_UP:
        ending = GIVE_UP[trouble]
        return f"{code(ending.terminal)} / {code(ending.cause)}"
    return "the loop calls the model anyway" if trouble is Trouble.NEAR_LIMIT else "whatever cut the stream"


def causes_part(seen: Seen) -> str:
    rows = [(code(cause), code(SUBTYPES[cause]), terminals_with(cause, seen)) for cause in Cause]
    shown = table(("Cause", "Subtype of the result", "Terminal reasons"), rows)
    terminals = listed([code(terminal) for terminal in Terminal])
    return f"""## How a run ends

A run ends with a *terminal reason* and a *cause*. There are exactly {len(Terminal)} terminal reasons: {terminals}.
The cause gives the details, and decides the subtype by which programs written for the Claude Agent SDK distinguish
results.

{shown}"""


def terminals_with(cause: Cause, seen: Seen) -> str:
    known = seen.endings | set(GIVE_UP.values())
    return listed([code(terminal) for terminal in Terminal if Ending(terminal, cause) in known])


# --- numbers -----------------------------------------------------------------------------------------------------


class Number(NamedTuple):
    module: str
    name: str
    meaning: str

    @property
    def value(self) -> object:
        value: object = getattr(import_module(f"mainspring.core.{self.module}"), self.name)
        return value


NUMBERS: tuple[Number, ...] = (
    Number("config", "OUTPUT_RESERVE", "tokens of the window reserved for the reply, at most"),
    Number("config", "AUTOCOMPACT_BUFFER_TOKENS", "tokens below the effective window at which it compacts"),
    Number("config", "MANUAL_COMPACT_BUFFER_TOKENS", "tokens below it at which a run without auto-compact ends"),
    Number("config", "LOW_OUTPUT_CAP", "an output cap above this is not raised after a cut reply"),
    Number("config", "ESCALATED_OUTPUT", "the cap it is raised to, if the model allows it"),
    Number("config", "MAX_FALLBACKS", "models in the chain to fall back to, at most"),
    Number("state", "MAX_FAILURES", "failed summaries in a row, after which no more are tried"),
    Number("state", "LEAST_FREED", "percent of the view that each compaction must free, or it has failed"),
    Number("state", "REFILL_STREAK", "compactions in quick succession after which the next one ends the run"),
    Number("state", "REFILL_TURNS", "turns within which a compaction counts as soon after the one before"),
    Number("limits", "COMPLETE_AT", "the part of a requested token budget that counts as all of it"),
    Number("limits", "DIMINISHING_AFTER", "continuations after which two with little output end the run"),
    Number("limits", "LITTLE_OUTPUT", "output tokens that count as little"),
    Number("money", "LEAST_OUTPUT", "output tokens that the funds must cover, or the call is not started,"),
    Number("moves", "LEAST_THINKING", "and those of a model that decides by itself how much to think"),
    Number("schedule", "MOST_AT_ONCE", "tools that run in parallel"),
)
SETTINGS: dict[str, str] = {
    "max_turns": "turns in a run",
    "max_stop_blocks": "objections of stop hooks in a run",
    "max_retries": "retries of a request, and of a reply that broke off (80 in unattended runs)",
    "overload_tries_before_fallback": "attempts at an overloaded model, if there is a fallback",
    "advise_after": "the same call with the same result, in a row, after which the model is advised",
    "end_after": "the same, after which the run ends",
}


def amount(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    match value:
        case int():
            return f"{value:,}"
        case (part, whole):
            return f"{part}/{whole}"
        case _:
            return code(value)


def numbers_part() -> str:
    thresholds: dict[str, Callable[[Model], int]] = {
        "output_cap": DEFAULT.output_cap,
        "effective_window": DEFAULT.effective_window,
        "compact_at": DEFAULT.compact_at,
        "blocked_at": DEFAULT.blocked_at,
    }
    computed = [(code(f"Config.{method}"), amount(compute(MODEL))) for method, compute in thresholds.items()]
    constants = [(code(n.name), amount(n.value), n.meaning) for n in NUMBERS]
    settings = [(code(f"Config.{field}"), amount(getattr(DEFAULT, field)), words) for field, words in SETTINGS.items()]
    return f"""## The numbers

A model with a window of {amount(MODEL.window)} tokens and an output cap of {amount(MODEL.max_output)}, such as
`{MODEL.name}`, gets these thresholds. The loop compacts the context at `compact_at`; if automatic compaction is off,
the run ends at `blocked_at` instead, while a manual compaction still fits.

{table(("Threshold", "Tokens"), computed)}

They follow from the constants below, which also include the limits that are not settings.

{table(("Constant", "Value", "What it is"), constants)}

These limits are settings; the values are the defaults.

{table(("Setting", "Default", "What it limits"), settings)}"""


def bound_part() -> str:
    default = Config()
    piece = most_model_calls(replace(default, max_turns=2)) - most_model_calls(replace(default, max_turns=1))
    rest = most_model_calls(replace(default, max_turns=1)) - piece
    once = rest - default.max_stop_blocks
    model = most_model_calls(replace(default, fallbacks=(MODEL,))) - most_model_calls(default)
    cases = [
        ("`Config()`", default),
        *[(code(f"Config(max_turns={turns})"), replace(default, max_turns=turns)) for turns in (1, 10, 100)],
        ("`Config(max_turns=10, token_budget=500_000)`", replace(default, max_turns=10, token_budget=500_000)),
    ]
    shown = table(("Configuration", "Model calls, at most"), [(n, amount(most_model_calls(c))) for n, c in cases])
    return f"""## The bound

Every run ends, so there is a maximum number of model calls, whatever the model, the tools and the hooks do.
`most_model_calls` computes it from the configuration and the ladder. Nearly all real runs stay far below it; tests
verify that the loop never exceeds it.

Each piece of progress (a turn, or a continuation of the token budget) may take one call, plus every use of every rung
that counts until progress, which makes {amount(piece)} calls. Added once are: every use of every rung that counts for
the run, except the fallbacks ({amount(once)} calls); {amount(model)} calls for each fallback model (`fallbacks`, none
by default): one, and every use of the rungs that a fallback makes available again; and one for each objection of a stop
hook (`max_stop_blocks`, {amount(default.max_stop_blocks)}). So with neither a
token budget nor fallbacks it is {amount(piece)} times `max_turns` plus {amount(rest)}.

{shown}"""


# --- transitions ---------------------------------------------------------------------------------------------------


def transitions_part(seen: Seen) -> str:
    head = ("Transition", "Comes from", "Next effect")
    rows = [(code(way), origin(way, seen), next_asked(way, seen)) for way in Transition]
    return f"""## Why it went round again

Each round but the first begins with a *transition*. It is in the state and in `RequestStarted`, so that tests, users
and traces can tell why the loop called the model again. These seven are those of the checklist:

{table(head, rows[:CHECKLIST_TRANSITIONS])}

And these are the other recoveries, each with its own limit:

{table(head, rows[CHECKLIST_TRANSITIONS:])}"""


def origin(way: Transition, seen: Seen) -> str:
    troubles = [trouble for trouble in Trouble if any(rung.name is way for rung in LADDER[trouble])]
    if troubles:
        return "the ladder: " + listed([code(trouble) for trouble in troubles])
    return listed([code(event) for event in sorted({edge.event for edge in seen.rounds[way]})])


def next_asked(way: Transition, seen: Seen) -> str:
    return listed([code(effect) for effect in in_order({edge.next for edge in seen.rounds[way]})])


# --- the page ------------------------------------------------------------------------------------------------------


def build() -> str:
    seen = play_all()
    parts = (
        opening(),
        picture(seen),
        effects_and_answers(seen),
        ladder_part(),
        causes_part(seen),
        numbers_part(),
        bound_part(),
        transitions_part(seen),
    )
    return "\n\n".join(wrapped(block) for part in parts for block in part.split("\n\n")) + "\n"


def wrapped(block: str) -> str:
    """Wrap a paragraph whose numbers and names were filled in; headings, tables and code stay as they are."""
    if block.startswith(("#", "|", "```")):
        return block
    return fill(block, WIDTH, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    PAGE.write_text(build(), encoding="utf-8")


if __name__ == "__main__":
    main()
