"""What the answer to "may this be done?" comes to: rules for this session, rules that are kept, words for the model.

How they are asked is not here: line by line (`cli/asking.py`), or with a menu (`cli/tui/permission.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainspring.core.value import Bundle
from mainspring.text import strip_control_characters
from mainspring.tools.base import Approval

if TYPE_CHECKING:
    from mainspring.agent.permission_updates import PermissionUpdates

Tell = Callable[[str], None]

READ = 0.4  # seconds that a question must have stood there: more than between two keys of somebody who types
DECLINED = "The user declined this call and stopped the run. Wait for what they say next."

# What `SettingsWriter` says of each rule ends with the first; the second says it once, with the way out for whoever
# sits here.
NOT_TRUSTED = "this folder is not trusted"
UNTRUSTED = (
    "This folder is not trusted: what was kept holds in this session, and in later ones only when you have trusted the "
    "folder, with '/trust' here or with 'mainspring trust'."
)


class RuleOffer(Bundle):
    """Rules that can be allowed with a yes, and what they cover, in words. Both are texts from outside."""

    rules: tuple[str, ...]
    covers: str

    def __bool__(self) -> bool:
        return bool(self.rules)


def get_rule_offer(about: dict[str, Any]) -> RuleOffer:
    offered: list[dict[str, str]] = about["suggestions"]
    return RuleOffer(tuple([one["rule"] for one in offered]), "; ".join([one["covers"] for one in offered]))


def get_approval_reason(about: dict[str, Any]) -> str:
    """Why it is asked, and for whom."""
    agent = about.get("agent_description") or about.get("agent_type")
    whose = f"for the agent '{agent}'; " if agent else ""
    return f"({whose}{about['decision_reason']})"


def deny_approval(words: str = "") -> Approval:
    """With words the model goes on and hears them; without, the run ends (settled 36)."""
    if words:
        return Approval("deny", message=f"The user said no: {words}")
    return Approval("deny", message=DECLINED, interrupt=True)


class ApprovalScopes:
    """What a person grants, in the session that is spoken to."""

    def __init__(self, permissions: Callable[[], PermissionUpdates]) -> None:
        self._permissions = permissions

    @property
    def mode(self) -> str:
        return self._permissions().mode

    async def set_mode(self, mode: str) -> None:
        """For the rest of this session, or until somebody chooses another."""
        await self._permissions().set_mode(mode)

    async def add(self, rules: tuple[str, ...]) -> None:
        """For the rest of this session."""
        await self._permissions().add_rules(rules)

    async def keep(self, rules: tuple[str, ...], tell: Tell, warn: Tell) -> None:
        """In the local settings: in this project they hold from now on, if it is trusted."""
        kept = await self._permissions().keep_rules(rules)
        for file in kept.files:
            tell(f"(kept in '{strip_control_characters(file)}')")
        for words in dict.fromkeys([UNTRUSTED if one.endswith(NOT_TRUSTED) else one for one in kept.words]):
            warn(strip_control_characters(words))
