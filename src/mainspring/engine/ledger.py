"""The ledger: one for a whole tree of agents. The arithmetic is the core's; this only remembers."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from mainspring.core.money import Account, Lineage, funds, reserve, settle


class Ledger:
    """An agent's account, with its parents' behind it. All spending of the tree goes through one of these."""

    def __init__(self, limit: int | None = None, parent: Ledger | None = None, *, spent: int = 0) -> None:
        self.account = Account(limit, spent)  # what a resumed session spent before counts against its limit
        self.parent = parent
        self._counted: dict[str, int] = {}  # by session: what of its spending is in `account`
        self._current = "", 0  # the session that draws on this, and what was spent when it began
        self._waiting: list[asyncio.Future[None]] = []  # at the top of the tree: for something to be given back,
        self._claimed: Ledger | None = None  # and who prepares a call with what is left

    def begin_session(self, session_id: str, spent: int, *, source: str = "", limit: int | None = None) -> None:
        """From here on, `session_id` draws on this ledger: a limit is for all sessions of a process. `spent` is what
        its file tells; what of it is not in here yet is added. A fork has the spending of its `source` in its file."""
        self._end_session()
        known = max(self._counted.get(session_id, 0), self._counted.get(source, 0))
        self.account = replace(self.account, limit=limit, spent=self.account.spent + max(0, spent - known))
        self._counted[session_id] = max(self._counted.get(session_id, 0), spent)
        self._current = session_id, self.account.spent

    def _end_session(self) -> None:
        session_id, began = self._current
        if session_id:
            self._counted[session_id] += self.account.spent - began

    def child(self, limit: int | None = None) -> Ledger:
        return Ledger(limit, self)

    @property
    def funds(self) -> int | None:
        return funds(self._lineage())

    def reserve(self, amount: int) -> bool:
        """Set `amount` aside here and in all parents. False: somebody in the line cannot afford it."""
        booked = reserve(self._lineage(), amount)
        if booked is not None:
            self._book(booked)
        return booked is not None

    async def share(self) -> int | None:
        """What is left for a call that is about to be prepared; nobody else is told so until it is reserved, or not
        wanted. Where others hold more than what is left, theirs end first: what they do not use is given back, and no
        call is given up that could have been paid for."""
        top = self._top
        while (left := self.funds) is not None:
            held = top.account.reserved
            if (not held or left >= held) and top._claimed in (None, self):  # noqa: SLF001  # our own kind
                top._claimed = self  # noqa: SLF001
                break
            await self._change()
        return left

    async def reserve_in_turn(self, amount: int) -> bool:
        """Like `reserve`, but where another call of the tree holds what is missing, its end is waited for. All of them
        come to one, and none waits while it holds something itself."""
        try:
            while not self.reserve(amount):
                if not self._top.account.reserved:
                    return False
                await self._change()
            return True
        finally:
            self.unclaim()

    def unclaim(self) -> None:
        top = self._top
        if top._claimed is self:  # noqa: SLF001
            top._claimed = None  # noqa: SLF001
            top._wake()  # noqa: SLF001

    async def _change(self) -> None:
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._top._waiting.append(change)  # noqa: SLF001  # our own kind
        await change

    def settle(self, reserved: int, spent: int) -> None:
        self._book(settle(self._lineage(), reserved, spent))
        self._top._wake()  # noqa: SLF001  # our own kind

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    @property
    def _top(self) -> Ledger:
        return self if self.parent is None else self.parent._top  # noqa: SLF001  # our own kind

    def _lineage(self) -> Lineage:
        above = self.parent._lineage() if self.parent is not None else ()  # noqa: SLF001  # our own kind
        return (self.account, *above)

    def _book(self, lineage: Lineage) -> None:
        self.account = lineage[0]
        if self.parent is not None:
            self.parent._book(lineage[1:])  # noqa: SLF001  # our own kind
