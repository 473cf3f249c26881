"""What a driving program changes in a session: mode, rules, folders (stream-json 4 and 5.1).

Rules and folders that it names hold for the session, whatever destination it gives: we write no settings for others
(decision 14).
"""

from __future__ import annotations

import os
from typing import Any

from msgspec.structs import replace

from mainspring.assembly.options import MODES, OTHER_NAMES
from mainspring.assembly.rights import BYPASS
from mainspring.core.errors import UsageError
from mainspring.driven.incoming import listed, table
from mainspring.engine.session import Session
from mainspring.tools.base import Place
from mainspring.tools.gate import Gate


class Changes:
    def __init__(self, gate: Gate, place: Place, *, may_bypass: bool) -> None:
        self.session: Session | None = None  # made after this
        self._gate, self._place, self.may_bypass = gate, place, may_bypass

    @property
    def _session(self) -> Session:
        assert self.session is not None
        return self.session

    async def mode(self, mode: object) -> str:
        """Raises `UsageError` for one that is not to be had."""
        named = OTHER_NAMES.get(("--permission-mode", str(mode)), str(mode))
        if named not in MODES:
            raise UsageError(f"Invalid permission mode '{mode}': there are {', '.join(MODES)}")
        if named == BYPASS and not self.may_bypass:
            raise UsageError(
                f"Cannot set permission mode to {BYPASS} because the session was not launched with "
                "--dangerously-skip-permissions"
            )
        policy = self._session.shared.policy
        if policy.mode != named:
            await self._session.change(replace(policy, mode=named))
        return named

    async def make(self, updates: object) -> None:
        """Those that make sense; one that does not gives no right to anybody."""
        for update in map(table, listed(updates)):
            match update.get("type"):
                case "addRules" | "replaceRules" | "removeRules" as kind:
                    await self._rules(kind, update)
                case "setMode":
                    try:
                        await self.mode(update.get("mode"))
                    except UsageError:
                        continue
                case "addDirectories":
                    self._folders(added=folders_in(update))
                case "removeDirectories":
                    self._folders(removed=folders_in(update))
                case _:
                    continue

    async def _rules(self, kind: str, update: dict[str, Any]) -> None:
        behavior = update.get("behavior")
        if behavior not in ("allow", "deny", "ask"):
            return
        named = tuple([f"{behavior} {rule}" for one in listed(update.get("rules")) if (rule := written(table(one)))])
        policy = self._session.shared.policy
        kept = policy.rules
        if kind == "removeRules":
            kept, named = tuple([rule for rule in kept if rule not in named]), ()
        elif kind == "replaceRules":
            kept = tuple([rule for rule in kept if not rule.startswith(f"{behavior} ")])
        rules = tuple(dict.fromkeys([*kept, *named]))
        if rules != policy.rules:
            await self._session.change(replace(policy, rules=rules))

    def _folders(self, *, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> None:
        real = [os.path.realpath(os.path.join(self._place.root, one)) for one in added]  # noqa: PTH118
        gone = {os.path.realpath(os.path.join(self._place.root, one)) for one in removed}  # noqa: PTH118
        self.set_folders(tuple([one for one in dict.fromkeys([*self._place.folders, *real]) if one not in gone]))

    def set_folders(self, folders: tuple[str, ...]) -> None:
        self._place.folders = folders
        self._gate.set_folders((self._place.root, *folders))


def written(rule: dict[str, Any]) -> str:
    """As text; empty if it is none."""
    tool, content = rule.get("toolName"), rule.get("ruleContent")
    if not isinstance(tool, str) or not tool:
        return ""
    return f"{tool}({content})" if isinstance(content, str) and content else tool


def folders_in(update: dict[str, Any]) -> tuple[str, ...]:
    return tuple([one for one in listed(update.get("directories")) if isinstance(one, str) and one])
