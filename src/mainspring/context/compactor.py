"""The compactor of one session: follows its state, runs the layers before each request, and compacts on demand.

The core decides when to compact; the layers decide what leaves, and in which order. This class holds what they share:
the groups, the meter, the rent, the staged collapses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from mainspring.context import layers, summary
from mainspring.context.attachments import PreparedContext, Summary
from mainspring.context.collapse import CollapseLayer
from mainspring.context.groups import GroupKind, TurnGroups, choose_cache_marks
from mainspring.context.layers import (
    CacheCost,
    ClearLayer,
    Layer,
    LayerGoal,
    LayerLimits,
    ResultBudgetLayer,
    limits_for_window,
    snip_turns,
    strip_media,
)
from mainspring.context.tokens import Ask, SideCallReply, TokenMeter, TokenScale, message_bytes, total_bytes, wrong_with
from mainspring.core.config import Config, RunSource
from mainspring.core.context_cost import CompactionChoice, choose_compaction, expected_turns
from mainspring.core.effects import Compact, CompactionKind
from mainspring.core.errors import ProviderError
from mainspring.core.events import Shrunk
from mainspring.core.messages import Message, Origin, User
from mainspring.core.models import Model
from mainspring.core.money import CACHE_LIFETIME, Price
from mainspring.core.reasons import Trouble
from mainspring.core.state import State
from mainspring.core.view import Drop, Edit, Fold, Replace
from mainspring.processes.output import SpillFolder
from mainspring.secrets.held import mask_secrets

# When something must go, free a quarter of the room: freeing only what is missing would break the prefix every turn.
FREED = (3, 4)
STAGE_FROM = (1, 2)  # of the threshold: from here on collapses are prepared, whatever they cost
ASKED_TAIL = 8_000  # bytes that stay verbatim when the user asked for a compaction
ASKED_ABOUT = (6, 10)  # of the threshold: the input of a summary, if the whole would not fit


class Compactor:
    def __init__(  # noqa: PLR0913  # keywords, all of them
        self,
        config: Config,
        *,
        new_id: Callable[[], str],
        ask: Ask | None = None,  # None: nothing is ever summarized
        small: Price = Price(),  # noqa: B008  # a frozen value; of the model that writes collapses
        folder: str = "",  # for results that are no longer shown; empty: they are not stored
        fixed: int = 0,  # bytes of system text and tools, until the API has counted
        limits: LayerLimits | None = None,
        files: summary.Files | None = None,
        steering: Callable[[], str] = str,  # a section of the memory file, for the model that summarizes (D-36)
    ) -> None:
        self._config = config
        self._new_id = new_id
        self._ask, self._small = ask, small
        self._limits = limits or LayerLimits()
        self._files = files
        self._steering = steering
        self._meter = TokenMeter(fixed, floor=not self._limits.elsewhere)
        self._scene = TurnGroups(self._meter, self._limits.keep, self._limits.keep_size)
        self._rent = CacheCost()
        self._model = ""  # of the last request
        self._broken = ""  # the message after which the next request differs from the last, if known
        self._collapses = CollapseLayer(new_id)
        shelf = SpillFolder(folder, mask_secrets)
        self._budget: Layer = ResultBudgetLayer(shelf)  # 0
        self._layers: tuple[tuple[str, Layer], ...] = (
            ("snip", snip_turns),  # 1
            ("microcompact", ClearLayer(shelf)),  # 2
            ("collapse", self._collapses),  # 3
        )

    # --- before a request ---

    async def shrink(self, state: State, queued: tuple[User, ...]) -> PreparedContext:
        scene, model = self._scene, state.model
        scene.keep_size = limits_for_window(self._limits, model.window).keep_size
        scene.see(state)
        cuts = _Cuts()
        waiting = self._scale(model).high(total_bytes(queued))
        if self._config.source != RunSource.COMPACT:  # it must see what it is to summarize
            self._run("tool_results", self._budget, self._aim(model, waiting), cuts)
            scene.settle()
            self._later_layers(model, waiting, cuts, state.now.at)
        scene.settle()
        staged = len(self._collapses.staged(scene)) if self._limits.collapse else 0
        tokens = self._meter.count(model.name) + waiting
        return PreparedContext(tokens, tuple(cuts.edits), (), tuple(cuts.shrunk), staged, scene.media)

    def _later_layers(self, model: Model, waiting: int, cuts: _Cuts, now: int) -> None:
        """Layers 1 to 3 break the prefix, so they act together or not at all."""
        scene, price, scale = self._scene, model.price.at(self._meter.count(model.name)), self._scale(model)
        scene.age_stale_results(model.name, price)
        self._rent.pay(scene, price, scale)
        choice = choose_compaction(
            price,
            expected_turns(scene.turn),
            clear=self._rent.offer_clearing(scene, scale),  # also if a service clears: it is what stands in the way
            collapse=self._rent.offer_collapse(scene, scale),
            cold=self._is_cold(model, now),
        )
        due, turns_due = choice is not CompactionChoice.NOTHING, choice is CompactionChoice.COLLAPSE
        before, border = len(cuts.edits), scene.border
        for name, layer in self._layers:
            aim = self._aim(model, waiting, rent=due, turns=turns_due)
            if aim.excess or aim.rent:
                self._run(name, layer, aim, cuts)
        made = cuts.edits[before:]
        self._broken = border if made else ""
        if made:
            scene.recount()
            self._rent.results = 0
        if any(isinstance(edit, Drop | Fold) for edit in made):
            self._rent.turns = 0

    def _is_cold(self, model: Model, now: int) -> bool:
        """Whether the server has no part of the prompt in its cache: it must write all of it in any case. Servers may
        report other names for their models, so only our own count."""
        before, self._model = self._model, model.name
        replied = self._scene.replied_at
        return (bool(replied) and now - replied > CACHE_LIFETIME) or before not in ("", model.name)

    def _run(self, name: str, layer: Layer, aim: LayerGoal, cuts: _Cuts) -> None:
        made = layer(self._scene, aim)
        if made:
            before = self._meter.count(aim.model)
            self._scene.apply(made)
            cuts.edits += made
            cuts.shrunk.append(Shrunk(name, max(0, before - self._meter.count(aim.model))))

    def _aim(self, model: Model, waiting: int, *, rent: bool = False, turns: bool = False) -> LayerGoal:
        tokens = self._meter.count(model.name) + waiting
        limit = self._limit(model)
        over = tokens - limit * FREED[0] // FREED[1] if tokens >= limit else 0
        return LayerGoal(
            limits_for_window(self._limits, model.window),
            model=model.name,
            source=self._config.source,
            excess=self._scale(model).to_bytes(over),
            rent=rent,
            old_rent=turns,
            staged=self._collapses.reach(self._scene) if self._limits.collapse and (over or turns) else 0,
        )

    def _limit(self, model: Model) -> int:
        config = self._config
        return config.compact_at(model) if config.auto_compact else config.blocked_at(model)

    def _scale(self, model: Model) -> TokenScale:
        return self._meter.scale(model.name)

    # --- besides the requests ---

    def weigh(self, model: Model, messages: tuple[Message, ...]) -> int:
        """What these messages would add to the prompt, in tokens."""
        return self._scale(model).high(total_bytes(messages))

    def marks(self, state: State) -> tuple[str, ...]:
        """Ids of the messages that end a span worth caching, for the next request."""
        self._scene.see(state)
        return choose_cache_marks(self._scene, self._broken)

    async def stage(self, model: Model) -> SideCallReply | None:
        """Have one more collapse written, if it is time. Runs in the background, while tools run."""
        if self._ask is None:
            return None
        limits = limits_for_window(self._limits, model.window)
        return await self._collapses.prepare(self._scene, limits, self._ask, partial(self._is_summary_due, model))

    def _is_summary_due(self, model: Model, size: int) -> bool:
        """Whether a summary of a span of this size pays, or the prompt is on its way to the threshold: there it saves
        the summary of everything."""
        tokens, scale = self._meter.count(model.name), self._scale(model)
        price = model.price.at(tokens)
        if not price.cache_read or tokens * STAGE_FROM[1] >= self._limit(model) * STAGE_FROM[0]:
            return True
        offer = self._rent.offer_summary(size, scale, self._small.at(scale.high(size)))
        choice = choose_compaction(price, expected_turns(self._scene.turn), summarize=offer)
        return choice is CompactionChoice.SUMMARIZE

    # --- compaction ---

    async def summarize(self, state: State, effect: Compact, instructions: str = "") -> Summary:
        self._scene.see(state)
        limits = limits_for_window(self._limits, state.model.window)
        match effect.how:
            case CompactionKind.COLLAPSE:
                return self._made(state.model, self._collapses.drain(self._scene, limits), "nothing is staged")
            case CompactionKind.STRIP_MEDIA:
                edits = strip_media(self._scene, limits, self._new_id)
                return self._made(state.model, edits, "there is no media in view")
            case CompactionKind.TRIM:
                edits = layers.trim_view(self._scene, self._trimmed(state.model), limits, self._new_id)
                return self._made(state.model, edits, "there is nothing between the front and the last turn")
            case CompactionKind.SUMMARY:
                return await self._sum_up(state, effect, instructions)
            case _:
                assert_never(effect.how)

    async def _sum_up(self, state: State, effect: Compact, instructions: str) -> Summary:
        scene, limits = self._scene, limits_for_window(self._limits, state.model.window)
        if effect.asked is not None:  # the user wants room: only the end stays
            limits = replace(limits, tail=min(limits.tail, ASKED_TAIL))
        span = summary.find_summary_span(scene, limits, asked=effect.asked is not None)
        if self._ask is None or span is None:
            return Summary(failed="there is no model to write a summary" if span else nothing_to_sum_up(scene, effect))
        steered = "\n".join([text for text in (self._steering(), instructions) if text.strip()])
        asked = summary.make_summary_call(
            scene, steered, self._room_to_ask(state.model, effect.trouble), choose_cache_marks(scene)
        )
        try:
            answer = await self._ask(asked)
        except ProviderError as error:
            return Summary(failed=f"the summary failed: {error}")
        if wrong := wrong_with(answer, summary.MOST):
            return Summary(usage=answer.usage, cost=answer.cost, failed=wrong)
        told = summary.build_summary_message(answer.text, span.groups, self._files, limits)
        first = span.groups[0]
        is_fold = first.kind is GroupKind.SUMMARY
        begin = first.first if is_fold else state.history[state.history.begin].id
        fold = Fold(begin, span.groups[-1].last, User(told, Origin.SUMMARY, id=self._new_id(), at=state.now.at))
        removed = sum([group.size for group in span.groups])
        return self._reckoned(
            state.model, (fold,), removed, message_bytes(fold.summary), answer, asked=effect.asked is not None
        )

    def _room_to_ask(self, model: Model, trouble: Trouble) -> int | None:
        """Bytes that the summary call may take; None: the conversation fits as it is."""
        tokens = self._meter.count(model.name)
        if trouble is Trouble.NEAR_LIMIT and tokens + summary.MAX_OUTPUT + 1_000 <= model.window:
            return None
        most = min(tokens, self._limit(model)) * ASKED_ABOUT[0] // ASKED_ABOUT[1]
        return max(4_000, self._scale(model).to_bytes(most) - self._meter.fixed)

    def _trimmed(self, model: Model) -> int:
        """Bytes that a trim leaves: half of what fits, or half of the view, in case even less fits than we think."""
        half = self._scale(model).to_bytes(self._limit(model)) // 2
        return min(half, (self._meter.fixed + self._meter.size) // 2)

    def _made(self, model: Model, edits: tuple[Edit, ...], nothing: str) -> Summary:
        if not edits:
            return Summary(failed=nothing)
        removed = added = 0
        for edit in edits:
            gone, new = self._effect_of(edit)
            removed += gone
            added += new
        return self._reckoned(model, edits, removed, added)

    def _effect_of(self, edit: Edit) -> tuple[int, int]:
        """Bytes that an edit removes from the view, and adds to it."""
        match edit:
            case Fold():
                span = self._scene.span(edit.first, edit.last)
                groups = self._scene.groups[span[0] : span[1]] if span else []
                return sum([group.size for group in groups]), message_bytes(edit.summary)
            case Replace():
                return self._scene.effect_of(edit)
            case Drop():
                return 0, 0
            case _:
                assert_never(edit)

    def _reckoned(  # noqa: PLR0913  # what a summary came to
        self,
        model: Model,
        edits: tuple[Edit, ...],
        removed: int,
        added: int,
        answer: SideCallReply | None = None,
        *,
        asked: bool = False,
    ) -> Summary:
        scale, before = self._scale(model), self._meter.count(model.name)
        least = self._meter.least(model.name, self._meter.size - removed + added)
        after = max(least, before - scale.low(removed) + scale.high(added))
        answer = answer or SideCallReply("")
        if added >= removed and not asked:
            failed = f"the summary would replace {removed:,} bytes by {added:,}: no room is made"
            return Summary(before=before, after=before, usage=answer.usage, cost=answer.cost, failed=failed)
        return Summary(edits, before, after, answer.usage, answer.cost)


def nothing_to_sum_up(scene: TurnGroups, effect: Compact) -> str:
    if all(group.kind is GroupKind.NOTE for group in scene.groups):
        return "it is empty"
    return "there is nothing to compact" if effect.asked is None else "there is nothing new since the last summary"


class _Cuts:
    """What the layers have removed so far."""

    def __init__(self) -> None:
        self.edits: list[Edit] = []
        self.shrunk: list[Shrunk] = []
