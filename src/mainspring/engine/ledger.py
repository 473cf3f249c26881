"""The ledger: one for a whole tree of agents. The arithmetic is the core's; this only remembers."""

from __future__ import annotations

from mainspring.core.money import Account, Lineage, funds, reserve, settle


class Ledger:
    """An agent's account, with its parents' behind it. All spending of the tree goes through one of these."""

    def __init__(self, limit: int | None = None, parent: Ledger | None = None, *, spent: int = 0) -> None:
        self.account = Account(limit, spent)  # what a resumed session spent before counts against its limit
        self.parent = parent

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

    def settle(self, reserved: int, spent: int) -> None:
        self._book(settle(self._lineage(), reserved, spent))

    def _lineage(self) -> Lineage:
        above = self.parent._lineage() if self.parent is not None else ()  # noqa: SLF001  # our own kind
        return (self.account, *above)

    def _book(self, lineage: Lineage) -> None:
        self.account = lineage[0]
        if self.parent is not None:
            self.parent._book(lineage[1:])  # noqa: SLF001  # our own kind
