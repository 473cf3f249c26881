"""Layer 3: replaces spans of old turns by summaries that a small model wrote beforehand (D-17 to D-19, settled 25).

`prepare` writes one, in the background while tools run; `drain` uses the staged ones. With nothing staged the layer
does nothing. It runs before the summary of everything, which is then often unnecessary.
"""

from __future__ import annotations

from collections.abc import Callable

from mainspring.context.groups import GroupKind, TurnGroup, TurnGroups, select_user_quotes, words_in
from mainspring.context.layers import LayerGoal, LayerLimits, count_behind_front, fold_from_front, select_older_groups
from mainspring.context.tokens import Ask, SideCall, SideCallReply, message_bytes, wrong_with
from mainspring.core.messages import Assistant, Origin, Text, ToolCall, User
from mainspring.core.value import as_json
from mainspring.core.view import Edit, Fold
from mainspring.processes.output import both_ends

MAX_OUTPUT = 1_500  # tokens
MOST = 4 * MAX_OUTPUT  # characters
MAX_FAILURES = 3  # in a row; then no more are tried: as for the summary itself (D-30)
SUM_UP_AGAIN = 16_000  # bytes of earlier summaries above which they are summarized again
LINE = 600  # characters of each text, call or result in the small model's prompt
INSTRUCTIONS = """\
Below is a part of a coding session. Write down what is needed to go on with it: what was looked for and found,
what was changed and where, what failed and why, what was decided. Names, paths, numbers and values word for word.
At most 300 words, no introduction.

"""
PREFACE = "[Some turns of this conversation were summarized]\n"


class CollapseLayer:
    """The staged collapses, and the layer that drains them."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._staged: list[Fold] = []
        self._looked = -1  # the number of cuts at the last check,
        self._checked = 0  # the number of folds checked,
        self._reach = 0  # which end before this group
        self._new_id = new_id
        self._failures = 0
        self._writing = False

    def staged(self, scene: TurnGroups) -> list[Fold]:
        """The folds whose span is still in view and would still make it smaller. Forgets the others."""
        if self._looked != scene.cuts:
            self._looked, self._checked, self._reach = scene.cuts, 0, 0
        if self._checked < len(self._staged):
            good = [fold for fold in self._staged[self._checked :] if freed_by(fold, scene) > 0]
            spans = [span for fold in good if (span := scene.span(fold.first, fold.last))]
            self._reach = max([self._reach, *[end for _, end in spans]])
            self._staged[self._checked :] = good
            self._checked = len(self._staged)
        return self._staged

    def __call__(self, scene: TurnGroups, aim: LayerGoal) -> tuple[Edit, ...]:
        """One at a time, and no more than needed (D-18); all of them when the rent for old turns is due."""
        if not aim.limits.collapse or not (aim.excess or aim.old_rent):
            return ()
        chosen: list[Fold] = []
        left = aim.excess
        for fold in self.staged(scene):
            if aim.old_rent or left > 0:
                chosen.append(fold)
                left -= freed_by(fold, scene)
        return (fold_from_front(scene, chosen, aim.limits.words),) if chosen else ()

    def drain(self, scene: TurnGroups, limits: LayerLimits) -> tuple[Edit, ...]:
        """The first staged fold, on demand."""
        staged = self.staged(scene)
        return (fold_from_front(scene, staged[:1], limits.words),) if staged else ()

    def reach(self, scene: TurnGroups) -> int:
        """Groups before this one are covered by staged folds."""
        self.staged(scene)
        return self._reach

    async def prepare(
        self, scene: TurnGroups, limits: LayerLimits, ask: Ask, is_due: Callable[[int], bool]
    ) -> SideCallReply | None:
        """Stage one more fold, if there are enough old turns, and one of their size is due. The reply has the cost;
        None: no call was made."""
        if self._writing or self._failures >= MAX_FAILURES or not limits.collapse:
            return None
        groups = self._next_span(scene, limits)
        if not groups or not is_due(sum([group.size for group in groups])):
            return None
        self._writing = True
        try:
            answer = await ask(SideCall((User((Text(INSTRUCTIONS + render_groups(groups)),)),), MAX_OUTPUT, small=True))
        finally:
            self._writing = False
        if wrong_with(answer, MOST):
            self._failures += 1
            return answer
        self._failures = 0
        content = (Text(PREFACE + answer.text.strip()), *select_user_quotes(words_in(groups), limits.words))
        summary = User(content, Origin.SUMMARY, id=self._new_id())
        self._staged.append(Fold(groups[0].first, groups[-1].last, summary))
        return answer

    def _next_span(self, scene: TurnGroups, limits: LayerLimits) -> list[TurnGroup]:
        """Consecutive old turns after those that are already summarized; none if they are too few.

        The first span includes the first prompt, whose text it carries: a summary that begins at the front lets the
        session forget the messages it replaces.
        """
        if limits.clear and count_behind_front(scene) < limits.stage:
            return []  # the usual case, known without checking the groups
        waiting = set(map(id, scene.old if limits.clear else ()))
        chosen: list[TurnGroup] = []
        size = 0
        reach = self.reach(scene)
        front = scene.groups[: scene.head()] if not reach else []
        for group in (*front, *select_older_groups(scene, limits.recent_turns, reach)):
            if group.kind is GroupKind.SUMMARY and not chosen and group.size < SUM_UP_AGAIN:
                continue  # it is included as it is
            if any(id(item) in waiting for item in group.items):
                break
            chosen.append(group)
            size += group.size
            if size >= limits.stage:
                return chosen
        return []


def freed_by(fold: Fold, scene: TurnGroups) -> int:
    span = scene.span(fold.first, fold.last)
    if span is None:
        return 0
    start, end = span
    return sum([group.size for group in scene.groups[start:end]]) - message_bytes(fold.summary)


def render_groups(groups: list[TurnGroup]) -> str:
    lines: list[str] = []
    for group in groups:
        for message in group.messages:
            if isinstance(message, Assistant):
                lines += [line for block in message.blocks if (line := line_of(block))]
            else:
                who = "User" if isinstance(message, User) else "Result"
                lines.append(
                    f"{who}: {message.text if group.kind is GroupKind.SUMMARY else cut_for_summary(message.text)}"
                )
    return "\n".join(lines)


def line_of(block: object) -> str:
    match block:
        case Text():
            return f"Assistant: {cut_for_summary(block.text)}" if block.text.strip() else ""
        case ToolCall():
            return f"Call: {block.name} {cut_for_summary(as_json(block.input).decode())}"
        case _:
            return ""


def cut_for_summary(text: str) -> str:
    return text if len(text) <= LINE else both_ends(text, LINE)
