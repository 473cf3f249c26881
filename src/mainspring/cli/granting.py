"""What the answer to "may this be done?" comes to: rules for this session, rules that are kept, words for the model.

How they are asked is not here: line by line (`asking.py`), or with a menu (`repl/permission.py`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from mainspring.assembly.harmless import harmless
from mainspring.core.value import Bundle
from mainspring.engine.session import Session
from mainspring.settings.keeping import Keeper
from mainspring.settings.load import Asked
from mainspring.settings.values import Source
from mainspring.tools.approval import Approval

Tell = Callable[[str], None]

READ = 0.4  # seconds that a question must have stood there: more than between two keys of somebody who types
DECLINED = "The user declined this call and stopped the run. Wait for what they say next."

# What `Keeper` says of each rule ends with the first; the second says it once, with the way out for whoever sits here.
NOT_TRUSTED = "this folder is not trusted"
UNTRUSTED = (
    "This folder is not trusted: what was kept holds in this session, and in later ones only when you have trusted the "
    "folder, with '/trust' here or with 'mainspring trust'."
)


class Offer(Bundle):
    """Rules that can be allowed with a yes, and what they cover, in words. Both are texts from outside."""

    rules: tuple[str, ...]
    covers: str

    def __bool__(self) -> bool:
        return bool(self.rules)


def offer(about: dict[str, Any]) -> Offer:
    offered: list[dict[str, str]] = about["suggestions"]
    return Offer(tuple([one["rule"] for one in offered]), "; ".join([one["covers"] for one in offered]))


def reason(about: dict[str, Any]) -> str:
    """Why it is asked, and for whom."""
    agent = about.get("agent_description") or about.get("agent_type")
    whose = f"for the agent '{agent}'; " if agent else ""
    return f"({whose}{about['decision_reason']})"


def refused(words: str = "") -> Approval:
    """With words the model goes on and hears them; without, the run ends (settled 36)."""
    if words:
        return Approval("deny", message=f"The user said no: {words}")
    return Approval("deny", message=DECLINED, interrupt=True)


class Granting:
    """The session is told of rules that somebody adds; it is made after this."""

    def __init__(self, asked: Asked = Asked()) -> None:  # noqa: B008  # a frozen value
        """`asked`: what the command line says about settings."""
        self._keeper = Keeper(os.getcwd(), os.environ, asked)  # noqa: PTH109  # pathlib takes 8 ms to load
        self.session: Session | None = None

    @property
    def mode(self) -> str:
        assert self.session is not None  # it asks
        return self.session.shared.policy.mode

    async def set_mode(self, mode: str) -> None:
        """For the rest of this session, or until somebody chooses another."""
        assert self.session is not None
        await self.session.change(replace(self.session.shared.policy, mode=mode))

    async def add(self, rules: tuple[str, ...]) -> None:
        """For the rest of this session."""
        assert self.session is not None  # it asks
        policy = self.session.shared.policy
        added = tuple([f"allow {rule}" for rule in rules])
        await self.session.change(replace(policy, rules=(*policy.rules, *added)))

    async def keep(self, rules: tuple[str, ...], tell: Tell, warn: Tell) -> None:
        """In the local settings: in this project they hold from now on, if it is trusted."""
        from mainspring.settings.writing import Listed

        kept = await asyncio.to_thread(self._keeper.keep, Source.LOCAL, Listed("allow", rules))
        for file in kept.files:
            tell(f"(kept in '{harmless(file)}')")
        for words in dict.fromkeys([UNTRUSTED if one.endswith(NOT_TRUSTED) else one for one in kept.words]):
            warn(harmless(words))
