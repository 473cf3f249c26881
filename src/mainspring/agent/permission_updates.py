"""Permission changes during a session: mode, rules and directories (stream-json 4 and 5.1), and approvals.

Changes apply to the session at once. With the user, project or local settings as their destination they are also
written there (decision 14); a change that cannot be written, or will not count, is reported and applies to the session
only. No answer removes a deny rule from a file or makes `bypassPermissions` a default: for that, edit the file.

`ApprovalScopes` applies a person's approval: rules for this session, and rules that are saved. The dialogs are in
`cli/plain_input.py` (line by line) and `cli/tui/permission_dialog.py` (menu).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from mainspring import settings
from mainspring.agent.config import asked_by
from mainspring.agent.options import MODES, OTHER_MODES, log_warning
from mainspring.agent.permissions import AUTO, BYPASS, BYPASS_SETTING, expand_home
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
    from mainspring.permissions.rules import Behavior, PermissionRule
    from mainspring.settings.edit import Change


DESTINATIONS = {
    "userSettings": SettingsSource.USER,
    "projectSettings": SettingsSource.PROJECT,
    "localSettings": SettingsSource.LOCAL,
}  # any other, such as `session`: not saved
STARTING = "commands that start with "  # of the rules that `permissions/suggest.py` offers
BEHAVIORS = ("allow", "deny", "ask")
BYPASS_FLAG = "--dangerously-skip-permissions"  # clients of the pipe know the text with this flag
DENY_STAYS = "an answer cannot remove a deny rule from a file: edit the file to remove it"


class PermissionUpdates:
    def __init__(  # noqa: PLR0913  # keywords, most of them
        self,
        session: EngineSession,
        gate: PermissionChecker,
        place: Workspace,
        *,
        may_bypass: bool,
        bypass_option: str = BYPASS_FLAG,
        bypass_disabled: str = "",
        auto_disabled: str = "",
        keeper: SettingsWriter | None = None,
        saved: dict[str, SettingsSource] | None = None,
        tell: Callable[[str], object] = log_warning,
    ) -> None:
        """Without a keeper nothing is saved. `saved` gets the rules that were, such as `allow Bash(ls)`, with the
        settings they are in. `tell` shows warnings to the user."""
        self.saved: dict[str, SettingsSource] = {} if saved is None else saved
        self._session, self._gate, self._place, self._may_bypass = session, gate, place, may_bypass
        self._bypass_option, self._keeper, self._tell = bypass_option, keeper, tell
        self._disabled = {BYPASS: bypass_disabled, AUTO: auto_disabled}

    @property
    def mode(self) -> str:
        return self._session.shared.policy.mode

    async def add_rules(self, rules: tuple[str, ...], behavior: Behavior = "allow") -> None:
        """For the rest of this session."""
        policy = self._session.shared.policy
        added = tuple([f"{behavior} {rule}" for rule in rules])
        await self._session.change(replace(policy, rules=(*policy.rules, *added)))

    async def drop_rules(self, rules: tuple[str, ...], behavior: Behavior = "allow") -> None:
        """Those that were added to this session, and only these."""
        policy = self._session.shared.policy
        dropped = {f"{behavior} {rule}" for rule in rules}
        await self._session.change(replace(policy, rules=tuple([rule for rule in policy.rules if rule not in dropped])))

    def list_rules(self, behavior: Behavior) -> list[PermissionRule]:
        """The rules in force. One that was saved in this session has the settings it is in as its source."""
        from mainspring.permissions.rules import RuleSource

        rules: tuple[PermissionRule, ...] = getattr(self._gate.policy(self._session.shared.policy).rules, behavior)
        loaded = {rule.text for rule in rules if rule.source is not RuleSource.SESSION}
        found: list[PermissionRule] = []
        for rule in rules:
            saved = self.saved.get(f"{behavior} {rule.text}")
            if rule.source is not RuleSource.SESSION:
                found.append(rule)
            elif rule.text not in loaded:  # else it was saved, and loaded since
                found.append(replace(rule, source=RuleSource(saved)) if saved is not None else rule)
        return found

    async def remove_rule(self, rule: PermissionRule, behavior: Behavior) -> PersistReport:
        """Removes an allow or ask rule from its file and from this session. Raises `UsageError` for any other."""
        from mainspring.permissions.rules import RuleSource

        if behavior == "deny":
            raise UsageError(DENY_STAYS)
        kept = PersistReport()
        if rule.source is not RuleSource.SESSION:
            source = next((one for one in DESTINATIONS.values() if one == str(rule.source)), None)
            if source is None or self._keeper is None:
                raise UsageError(f"'{rule.text}' cannot be removed here: it is set by the {rule.source}")
            kept = await asyncio.to_thread(
                self._keeper.write, source, settings.ListChange(behavior, removed=(rule.text,))
            )
            self._gate.forget_rule(behavior, rule.text, str(source))
        saved = self.saved.get(f"{behavior} {rule.text}")
        if saved is None or str(saved) == str(rule.source):  # else another file has it now
            self.saved.pop(f"{behavior} {rule.text}", None)
            await self.drop_rules((rule.text,), behavior)
        return kept

    async def keep_rules(
        self, rules: tuple[str, ...], source: SettingsSource = SettingsSource.LOCAL, behavior: Behavior = "allow"
    ) -> PersistReport:
        """For later sessions, in a settings file. Raises `UsageError` if nothing can be saved."""
        if self._keeper is None:
            raise UsageError("rules cannot be saved in this session")
        kept = await asyncio.to_thread(self._keeper.keep, source, settings.ListChange(behavior, rules))
        if kept.files:
            self.saved |= {f"{behavior} {rule}": source for rule in rules}
        return kept

    async def set_mode(self, mode: object) -> str:
        """Raises `UsageError` for a mode that is not available."""
        named = mode_named(mode)
        if named not in MODES:
            raise UsageError(f"Invalid permission mode '{mode}': use one of {', '.join(MODES)}")
        if disabled := self._disabled.get(named):
            raise UsageError(f"Cannot set permission mode to {named}: it is disabled by '{disabled}'")
        if named == BYPASS and not self._may_bypass:
            raise UsageError(
                f"Cannot set permission mode to {BYPASS} because the session was not launched with "
                f"{self._bypass_option}"
            )
        policy = self._session.shared.policy
        if policy.mode != named:
            await self._session.change(replace(policy, mode=named))
        return named

    async def apply(self, updates: object) -> None:
        """Applies the valid updates and ignores the others."""
        for update in map(as_object, as_list(updates)):
            if await self._made(update):
                await self._keep(update)

    async def _made(self, update: dict[str, Any]) -> bool:
        """Applies it to this session. Returns whether it was valid."""
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
        """Saves it for later sessions, if its destination is a settings file."""
        source = DESTINATIONS.get(str(update.get("destination")))
        if source is None or self._keeper is None:
            return
        try:
            change = update_to_change(update, source, self._place)
        except UsageError as error:
            self._tell(f"not saved in the {source} settings: {error}")
            return
        kept = await asyncio.to_thread(self._keeper.keep, source, change)  # the disk, and maybe a lock
        for words in kept.words:
            self._tell(words)
        if kept.files and update.get("type") in ("addRules", "replaceRules"):
            self.saved |= {f"{update.get('behavior')} {rule}": source for rule in rules_in(update)}
        if kept.files and update.get("type") in ("replaceRules", "removeRules"):
            deny = update.get("behavior") == "deny"
            self._tell(DENY_STAYS if deny else "rules loaded when this session began stay in force until it ends")

    def _folders(self, *, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()) -> None:
        new, gone = resolve_folders(added, self._place), resolve_folders(removed, self._place)
        self.set_folders(tuple([one for one in dict.fromkeys([*self._place.folders, *new]) if one not in gone]))

    def set_folders(self, folders: tuple[str, ...]) -> None:
        self._place.folders = folders
        self._gate.set_folders((self._place.root, *folders))


def permission_updates(
    config: ResolvedConfig,
    place: Workspace,
    session: EngineSession,
    *,
    may_bypass: bool,
    saved: dict[str, SettingsSource],
) -> PermissionUpdates:
    options = config.options
    keeper = SettingsWriter(config.cwd, config.environment, asked_by(options))
    spelled = options.spell("permission_mode", BYPASS)
    return PermissionUpdates(
        session,
        config.gate,
        place,
        may_bypass=may_bypass,
        bypass_option=BYPASS_FLAG if spelled.startswith("--") else spelled,
        bypass_disabled=BYPASS_SETTING if config.settings.permissions.bypass_disabled else "",
        auto_disabled=config.settings.permissions.auto_disabled,
        keeper=keeper,
        saved=saved,
        tell=options.tell,
    )


# --- in a file --------------------------------------------------------------------------------------


def update_to_change(update: dict[str, Any], source: SettingsSource, place: Workspace) -> Change:
    """The change of the settings file. Raises `UsageError` for changes that an answer may not make there."""
    match update.get("type"):
        case "setMode":
            mode = mode_named(update.get("mode"))
            if mode == BYPASS:
                raise UsageError(f"an answer cannot make '{BYPASS}' the default: edit the file to do that")
            return settings.ModeChange(mode)
        case "addDirectories":
            named = folders_in(update)  # a project's may stay relative, so that they work on another machine
            return settings.ListChange(
                "additionalDirectories", resolve_folders(named, place) if source is SettingsSource.USER else named
            )
        case "removeDirectories":
            named = folders_in(update)
            return settings.ListChange("additionalDirectories", removed=(*named, *resolve_folders(named, place)))
        case kind:
            return lasting_rules(str(kind), cast("Behavior", update["behavior"]), rules_in(update))


def lasting_rules(kind: str, behavior: Behavior, rules: tuple[str, ...]) -> Change:
    """If one rule does not parse, none is written: it would cause a warning at every start, and may be meant to
    restrict."""
    from mainspring.permissions.rules import RuleError, parse_rule

    if behavior == "deny" and kind == "removeRules":
        raise UsageError(DENY_STAYS)
    if kind == "removeRules":
        return settings.ListChange(behavior, removed=rules)
    for rule in rules:
        try:
            parse_rule(rule, behavior)
        except RuleError as error:
            raise UsageError(str(error)) from None
    return settings.ListChange(behavior, rules, alone=kind == "replaceRules" and behavior != "deny")


# --- the fields of an update ------------------------------------------------------------------------


def mode_named(said: object) -> str:
    return OTHER_MODES.get(str(said), str(said))


def rules_in(update: dict[str, Any]) -> tuple[str, ...]:
    return tuple([rule for one in as_list(update.get("rules")) if (rule := format_rule(as_object(one)))])


def resolve_folders(folders: tuple[str, ...], place: Workspace) -> tuple[str, ...]:
    found = [os.path.join(place.root, expand_home(one, place.home)) for one in folders]  # noqa: PTH118
    return tuple([os.path.realpath(path) for path in found])


def format_rule(rule: dict[str, Any]) -> str:
    """The rule as text; empty if it is not valid."""
    tool, content = rule.get("toolName"), rule.get("ruleContent")
    if not isinstance(tool, str) or not tool:
        return ""
    return f"{tool}({content})" if isinstance(content, str) and content else tool


def folders_in(update: dict[str, Any]) -> tuple[str, ...]:
    return tuple([one for one in as_list(update.get("directories")) if isinstance(one, str) and one])


Tell = Callable[[str], None]

READ = 0.4  # seconds before a dialog takes keys: longer than between two keys of a user who is typing
DECLINED = "The user declined this call and stopped the run. Wait for what they say next."

# The messages of `SettingsWriter` end with the first text; the second replaces all of them, and tells the user what to
# do.
NOT_TRUSTED = "this folder is not trusted"
UNTRUSTED = (
    "This directory is not trusted. The saved rules apply to this session; to use them in later sessions, trust the "
    "directory with '/trust' or 'mainspring trust'."
)


class RuleOffer(Bundle):
    """Rules that an approval can add, and a description of what they cover. Both are untrusted text."""

    rules: tuple[str, ...]
    covers: str

    def __bool__(self) -> bool:
        return bool(self.rules)


def get_rule_offer(about: dict[str, Any]) -> RuleOffer:
    return make_rule_offer(about["suggestions"])


def get_wider_rule_offer(about: dict[str, Any]) -> RuleOffer:
    """Rules that cover similar calls, too."""
    return make_rule_offer(about.get("wider_suggestions", []))


def make_rule_offer(offered: list[dict[str, str]]) -> RuleOffer:
    covered = [one["covers"] for one in offered]
    starts = [words.removeprefix(STARTING) for words in covered if words.startswith(STARTING)]
    others = [words for words in covered if not words.startswith(STARTING)]
    together = [STARTING + join_words(starts, "or")] if starts else []
    return RuleOffer(tuple([one["rule"] for one in offered]), join_words([*together, *others], "and"))


def join_words(words: list[str], last: str) -> str:
    return f" {last} ".join([part for part in (", ".join(words[:-1]), *words[-1:]) if part])


def get_special_reason(about: dict[str, Any]) -> list[str]:
    """For which subagent the user is asked, and why, unless the reason is that no rule covers the call."""
    agent = about.get("agent_description") or about.get("agent_type")
    reason = "" if about.get("is_default_reason") else str(about["decision_reason"])
    return [
        *([f"For the subagent '{agent}'"] if agent else []),
        *([f"Asked because {reason}"] if reason else []),
    ]


def deny_approval(words: str = "") -> Approval:
    """With words, the model reads them and continues; without, the run ends (settled 36)."""
    if words:
        return Approval("deny", message=f"The user said no: {words}")
    return Approval("deny", message=DECLINED, interrupt=True)


class ApprovalScopes:
    """Applies what the user grants, in the current session."""

    def __init__(self, permissions: Callable[[], PermissionUpdates]) -> None:
        self._permissions = permissions

    @property
    def mode(self) -> str:
        return self._permissions().mode

    async def set_mode(self, mode: str) -> None:
        """For the rest of this session, or until the user chooses another."""
        await self._permissions().set_mode(mode)

    async def add(self, rules: tuple[str, ...]) -> None:
        """For the rest of this session."""
        await self._permissions().add_rules(rules)

    async def keep(self, rules: tuple[str, ...], tell: Tell, warn: Tell) -> None:
        """Saves them in the local settings: they apply to this project from now on, if it is trusted."""
        kept = await self._permissions().keep_rules(rules)
        for file in kept.files:
            tell(f"(saved in '{strip_control_characters(file)}')")
        for words in dict.fromkeys([UNTRUSTED if one.endswith(NOT_TRUSTED) else one for one in kept.words]):
            warn(strip_control_characters(words))
