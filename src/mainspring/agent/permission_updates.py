"""What a host changes in a session: mode, rules, directories (stream-json 4 and 5.1).

All of it holds for the session at once. What has the user's, the project's or the local settings as its destination is
written there, too (decision 14); what cannot be written, or will not count, is told and holds for the session only.
An answer to a question never takes a deny rule out of a file, and never makes `bypassPermissions` a default: whoever
wants that opens the file.

What the answer to "may this be done?" comes to: rules for this session, rules that are kept, words for the model.

How they are asked is not here: line by line (`cli/plain_input.py`), or with a menu (`cli/tui/permission_dialog.py`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from mainspring.agent.config import asked_by
from mainspring.agent.options import MODES, OTHER_MODES, log_warning
from mainspring.agent.permissions import AUTO, BYPASS, expand_home
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.engine.session import EngineSession
from mainspring.permissions.checker import PermissionChecker
from mainspring.settings.persist import PersistReport, SettingsWriter
from mainspring.settings.values import SettingsSource
from mainspring.text import as_list, as_object, strip_control_characters
from mainspring.tools.base import Approval, Workspace

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.permissions.rules import Behavior
    from mainspring.settings.edit import Change


DESTINATIONS = {
    "userSettings": SettingsSource.USER,
    "projectSettings": SettingsSource.PROJECT,
    "localSettings": SettingsSource.LOCAL,
}  # any other, as `session`: memory alone
BEHAVIORS = ("allow", "deny", "ask")
DENY_STAYS = "no answer takes a deny rule out of a file; open the file, if you want that"


class PermissionUpdates:
    def __init__(  # noqa: PLR0913  # keywords, most of them
        self,
        session: EngineSession,
        gate: PermissionChecker,
        place: Workspace,
        *,
        may_bypass: bool,
        auto_disabled: str = "",
        keeper: SettingsWriter | None = None,
        tell: Callable[[str], object] = log_warning,
    ) -> None:
        """Without a keeper nothing outlasts the session. `tell` is for what the person should know."""
        self._session, self._gate, self._place, self._may_bypass = session, gate, place, may_bypass
        self._auto_disabled, self._keeper, self._tell = auto_disabled, keeper, tell

    @property
    def mode(self) -> str:
        return self._session.shared.policy.mode

    async def add_rules(self, rules: tuple[str, ...], behavior: Behavior = "allow") -> None:
        """For the rest of this session."""
        policy = self._session.shared.policy
        added = tuple([f"{behavior} {rule}" for rule in rules])
        await self._session.change(replace(policy, rules=(*policy.rules, *added)))

    async def keep_rules(self, rules: tuple[str, ...], source: SettingsSource = SettingsSource.LOCAL) -> PersistReport:
        """For later sessions, in a settings file. Raises `UsageError` where nothing can be kept."""
        from mainspring.settings.edit import ListChange

        if self._keeper is None:
            raise UsageError("nothing of this session outlasts it")
        return await asyncio.to_thread(self._keeper.keep, source, ListChange("allow", rules))

    async def set_mode(self, mode: object) -> str:
        """Raises `UsageError` for one that is not to be had."""
        named = mode_named(mode)
        if named not in MODES:
            raise UsageError(f"Invalid permission mode '{mode}': there are {', '.join(MODES)}")
        if named == BYPASS and not self._may_bypass:
            raise UsageError(
                f"Cannot set permission mode to {BYPASS} because the session was not launched with "
                "--dangerously-skip-permissions"  # in the words that clients know
            )
        if named == AUTO and self._auto_disabled:
            raise UsageError(f"Cannot set permission mode to {AUTO}: it is switched off by '{self._auto_disabled}'")
        policy = self._session.shared.policy
        if policy.mode != named:
            await self._session.change(replace(policy, mode=named))
        return named

    async def apply(self, updates: object) -> None:
        """Those that make sense; one that does not gives no right to anybody."""
        for update in map(as_object, as_list(updates)):
            if await self._made(update):
                await self._keep(update)

    async def _made(self, update: dict[str, Any]) -> bool:
        """For this session. Whether it made sense."""
        match update.get("type"):
            case "addRules" | "replaceRules" | "removeRules" as kind:
                return await self._rules(kind, update)
            case "setMode":
                try:
                    await self.set_mode(update.get("mode"))
                except UsageError:
                    return False
            case "addDirectories":
                self._folders(added=folders_in(update))
            case "removeDirectories":
                self._folders(removed=folders_in(update))
            case _:
                return False
        return True

    async def _rules(self, kind: str, update: dict[str, Any]) -> bool:
        behavior = update.get("behavior")
        if behavior not in BEHAVIORS:
            return False
        named = tuple([f"{behavior} {rule}" for rule in rules_in(update)])
        policy = self._session.shared.policy
        kept = policy.rules
        if kind == "removeRules":
            kept, named = tuple([rule for rule in kept if rule not in named]), ()
        elif kind == "replaceRules":
            kept = tuple([rule for rule in kept if not rule.startswith(f"{behavior} ")])
        rules = tuple(dict.fromkeys([*kept, *named]))
        if rules != policy.rules:
            await self._session.change(replace(policy, rules=rules))
        return True

    async def _keep(self, update: dict[str, Any]) -> None:
        """For later sessions, too."""
        source = DESTINATIONS.get(str(update.get("destination")))
        if source is None or self._keeper is None:
            return
        try:
            change = update_to_change(update, source, self._place)
        except UsageError as error:
            self._tell(f"not kept in the {source} settings: {error}")
            return
        kept = await asyncio.to_thread(self._keeper.keep, source, change)  # the disk, and maybe a lock
        for words in kept.words:
            self._tell(words)
        if kept.files and update.get("type") in ("replaceRules", "removeRules"):
            deny = update.get("behavior") == "deny"
            self._tell(DENY_STAYS if deny else "rules that were read when this session began hold until it ends")

    def _folders(self, *, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> None:
        new, gone = resolve_folders(added, self._place), resolve_folders(removed, self._place)
        self.set_folders(tuple([one for one in dict.fromkeys([*self._place.folders, *new]) if one not in gone]))

    def set_folders(self, folders: tuple[str, ...]) -> None:
        self._place.folders = folders
        self._gate.set_folders((self._place.root, *folders))


def permission_updates(
    config: ResolvedConfig, place: Workspace, session: EngineSession, *, may_bypass: bool
) -> PermissionUpdates:
    options = config.options
    keeper = SettingsWriter(config.cwd, config.environment, asked_by(options))
    return PermissionUpdates(
        session,
        config.gate,
        place,
        may_bypass=may_bypass,
        auto_disabled=config.settings.permissions.auto_disabled,
        keeper=keeper,
        tell=options.tell,
    )


# --- in a file --------------------------------------------------------------------------------------


def update_to_change(update: dict[str, Any], source: SettingsSource, place: Workspace) -> Change:
    """What an update comes to in a settings file. Raises `UsageError` for what an answer does not change there."""
    from mainspring.settings.edit import ListChange, ModeChange

    match update.get("type"):
        case "setMode":
            mode = mode_named(update.get("mode"))
            if mode == BYPASS:
                raise UsageError(f"no answer makes '{BYPASS}' a default; write it into the file, if you want that")
            return ModeChange(mode)
        case "addDirectories":
            named = folders_in(update)  # a project's may be relative, and mean the same on another machine
            return ListChange(
                "additionalDirectories", resolve_folders(named, place) if source is SettingsSource.USER else named
            )
        case "removeDirectories":
            named = folders_in(update)
            return ListChange("additionalDirectories", removed=(*named, *resolve_folders(named, place)))
        case kind:
            return lasting_rules(str(kind), cast("Behavior", update["behavior"]), rules_in(update))


def lasting_rules(kind: str, behavior: Behavior, rules: tuple[str, ...]) -> Change:
    """One that nobody can read would be complained of at every start, and may stand for one that takes rights away:
    then none of them is written."""
    from mainspring.permissions.rules import RuleError, parse_rule
    from mainspring.settings.edit import ListChange

    if behavior == "deny" and kind == "removeRules":
        raise UsageError(DENY_STAYS)
    if kind == "removeRules":
        return ListChange(behavior, removed=rules)
    for rule in rules:
        try:
            parse_rule(rule, behavior)
        except RuleError as error:
            raise UsageError(str(error)) from None
    return ListChange(behavior, rules, alone=kind == "replaceRules" and behavior != "deny")


# --- what an update says ----------------------------------------------------------------------------


def mode_named(said: object) -> str:
    return OTHER_MODES.get(str(said), str(said))


def rules_in(update: dict[str, Any]) -> tuple[str, ...]:
    return tuple([rule for one in as_list(update.get("rules")) if (rule := format_rule(as_object(one)))])


def resolve_folders(folders: tuple[str, ...], place: Workspace) -> tuple[str, ...]:
    found = [os.path.join(place.root, expand_home(one, place.home)) for one in folders]  # noqa: PTH118
    return tuple([os.path.realpath(path) for path in found])


def format_rule(rule: dict[str, Any]) -> str:
    """As text; empty if it is none."""
    tool, content = rule.get("toolName"), rule.get("ruleContent")
    if not isinstance(tool, str) or not tool:
        return ""
    return f"{tool}({content})" if isinstance(content, str) and content else tool


def folders_in(update: dict[str, Any]) -> tuple[str, ...]:
    return tuple([one for one in as_list(update.get("directories")) if isinstance(one, str) and one])


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
