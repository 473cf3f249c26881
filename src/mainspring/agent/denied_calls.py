"""The calls of a session that were denied, so that the user can allow one of them afterwards.

`allow` adds the rules that a question about the call would have offered. If no such rule would help, because a deny
rule or a hook decided, it raises an error with the reason.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from mainspring import permissions
from mainspring.core.errors import UsageError
from mainspring.core.messages import ToolCall
from mainspring.core.value import Bundle
from mainspring.settings.persist import PersistReport

if TYPE_CHECKING:
    from mainspring.agent.session import AgentSession

MOST = 20  # denied calls that are kept
Reach = Literal["once", "session", "project"]


class DeniedCall(Bundle):
    call: ToolCall
    reason: str  # in the result for the model


class DeniedCalls:
    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._denied: deque[DeniedCall] = deque(maxlen=MOST)
        self._once: list[tuple[ToolCall, tuple[str, ...]]] = []  # calls that may run once, and the rules for them
        self._work: set[asyncio.Task[None]] = set()

    @property
    def newest_first(self) -> list[DeniedCall]:
        return [*reversed(self._denied)]

    def add(self, call: ToolCall, reason: str) -> None:
        self._denied.append(DeniedCall(call, reason))

    def end_call(self, call: ToolCall) -> None:
        """It was not denied: if it was allowed once, that is over."""
        self._drop_once(lambda allowed: (allowed.name, allowed.input) == (call.name, call.input))

    def end_run(self) -> None:
        self._drop_once(lambda _: True)

    async def allow(self, denied: DeniedCall, reach: Reach) -> PersistReport:
        """Raises `UsageError` if no rule would allow it. `once`: until the call was made, or the next run is over."""
        session, call = self._session, denied.call
        gate, standing = session.config.gate, session.world.session.shared.policy
        asked = permissions.PermissionRequest(call.name, call.input, session.config.cwd)
        rules = tuple([one.rule for one in gate.suggestions(asked, standing)])
        if not rules:
            decided = await gate.verdict(asked, standing)
            if decided.decision == "allow":
                raise UsageError("this call is allowed already")
            raise UsageError(f"no rule can allow exactly this call: {decided.reason}")
        await session.permissions.add_rules(rules)
        if reach == "once":
            self._once.append((call, rules))
        self._denied.remove(denied)
        return await session.permissions.keep_rules(rules) if reach == "project" else PersistReport()

    def _drop_once(self, is_over: Callable[[ToolCall], bool]) -> None:
        over = [rules for call, rules in self._once if is_over(call)]
        self._once = [one for one in self._once if not is_over(one[0])]
        if over:
            dropped = tuple([rule for rules in over for rule in rules])
            task = asyncio.get_running_loop().create_task(self._session.permissions.drop_rules(dropped))
            self._work.add(task)
            task.add_done_callback(self._work.discard)
