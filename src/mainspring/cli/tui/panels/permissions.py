"""`/permissions`: the rules in force by list, with their sources, and the calls that were denied."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, cast

from mainspring import agent
from mainspring.agent.slash.lines import clean_line
from mainspring.agent.slash.settings import describe_rule_source
from mainspring.cli.tui.menu import MenuItem
from mainspring.cli.tui.panel import NO_ROW, Panel, PanelAction, PanelRow, PanelTab
from mainspring.cli.tui.panels import PanelContext
from mainspring.cli.tui.panels.scopes import print_changes
from mainspring.permissions.rules import RuleError, RuleSource, parse_rule
from mainspring.settings.values import SettingsSource
from mainspring.text import truncate

if TYPE_CHECKING:
    from mainspring.agent.denied_calls import DeniedCall, Reach
    from mainspring.agent.permission_updates import PermissionUpdates
    from mainspring.permissions.rules import Behavior, PermissionRule
    from mainspring.settings.persist import PersistReport

BEHAVIORS: tuple[tuple[Behavior, str], ...] = (
    ("allow", "These calls run without asking."),
    ("ask", "These calls always ask, whatever else allows them."),
    ("deny", "These calls never run. Edit the file to remove a rule."),
)
FILES = {RuleSource(str(one)): one for one in (SettingsSource.USER, SettingsSource.PROJECT, SettingsSource.LOCAL)}
PLACES: tuple[tuple[str, str, SettingsSource | None], ...] = (
    ("This session", "until you exit", None),
    ("Local", "for you, in this folder", SettingsSource.LOCAL),
    ("Project", "for everyone in this project", SettingsSource.PROJECT),
    ("User", "for you, in every folder", SettingsSource.USER),
)
HINT = "such as Bash(npm test), Read(~/notes/**) or mcp__server"


async def open_panel(context: PanelContext) -> str | None:
    panel = PermissionsPanel(context)
    await panel.panel.run()
    print_changes(context, panel.panel)
    return None


class PermissionsPanel:
    def __init__(self, context: PanelContext) -> None:
        self._talk = context.talk
        self._rules: dict[str, tuple[Behavior, PermissionRule]] = {}
        self._denied: dict[str, DeniedCall] = {}
        tabs = [self._rules_tab(behavior, words) for behavior, words in BEHAVIORS]
        tabs += [
            PanelTab(
                self._denied_rows,
                "Denied calls",
                (
                    PanelAction("o", "allow once", lambda row: self._allow(row, "once"), grants=True),
                    PanelAction("s", "for this session", lambda row: self._allow(row, "session"), grants=True),
                    PanelAction("p", "for this project", lambda row: self._allow(row, "project"), grants=True),
                ),
                self._about_denied,
                lambda: "Calls of this session that were denied, newest first.",
                "No call was denied in this session.",
            ),
            PanelTab(
                self._folder_rows,
                "Directories",
                (
                    PanelAction("a", "add", self._add_folder, needs_row=False),
                    PanelAction("d", "remove", self._remove_folder, lambda row: row.id != self._talk.config.cwd),
                ),
                note=lambda: "Tools work in these directories. Files elsewhere need approval.",
            ),
        ]
        self.panel = Panel("Permissions", tabs, context.screen)

    @property
    def _updates(self) -> PermissionUpdates:
        return self._talk.session.permissions

    # --- rules ------------------------------------------------------------------------------------------------------

    def _rules_tab(self, behavior: Behavior, words: str) -> PanelTab:
        remove = PanelAction("d", "remove", self._remove_rule, self._is_ours)
        move = PanelAction("m", "move", self._move_rule, self._is_ours)

        async def add(_: PanelRow) -> None:
            await self._add_rule(behavior)

        actions = (PanelAction("a", "add", add, needs_row=False), *((remove, move) if behavior != "deny" else ()))
        return PanelTab(
            lambda: self._rule_rows(behavior), behavior.capitalize(), actions, self._about_rule,
            lambda: f"{words} Mode: {self._updates.mode}.", f"No {behavior} rules.",
        )  # fmt: skip

    def _rule_rows(self, behavior: Behavior) -> list[PanelRow]:
        rows: list[PanelRow] = []
        for rule in self._updates.list_rules(behavior):
            name = f"{behavior} {rule.source} {rule.text}"
            self._rules[name] = behavior, rule
            rows.append(PanelRow(name, rule.text, describe_rule_source(rule)))
        return rows

    def _is_ours(self, row: PanelRow) -> bool:
        return row.id in self._rules and self._rules[row.id][1].source in (*FILES, RuleSource.SESSION)

    def _about_rule(self, row: PanelRow) -> list[str]:
        rule = self._rules[row.id][1]
        if rule.source is RuleSource.SESSION:
            return ["Allowed until you exit." if row.id.startswith("allow") else "In force until you exit."]
        if rule.source in FILES:
            return [f"In the {rule.source} settings{'' if self._is_trusted else ' (this folder is not trusted)'}."]
        return [f"Set by: {describe_rule_source(rule)}. It cannot be changed here."]

    @property
    def _is_trusted(self) -> bool:
        return self._talk.world.around.memory.where.trusted

    async def _add_rule(self, behavior: Behavior) -> None:
        def check(text: str) -> str:
            try:
                parse_rule(text.strip(), behavior)
            except RuleError as error:
                return str(error)
            return ""

        rule = await self.panel.enter(f"{behavior.capitalize()} rule", hint=HINT, check=check)
        if rule is None:
            return
        await self._put(behavior, rule.strip(), await self._choose_place(f"Where is {rule.strip()} kept?"))

    async def _choose_place(self, question: str) -> int | None:
        return await self.panel.choose(question, [MenuItem(name, about) for name, about, _ in PLACES])

    async def _put(self, behavior: Behavior, rule: str, place: int | None) -> bool:
        if place is None:
            return False
        name, _, source = PLACES[place]
        await self._updates.add_rules((rule,), behavior)
        if source is not None:
            report = await self._updates.keep_rules((rule,), source, behavior)
            self._warn_of(report)
            if not report.files and report.words:
                return False
        if all(one.text != rule for one in self._updates.list_rules(behavior)):
            self.panel.warn("It does not count: only the administrator's allow rules do.")
            return False
        where = "this session" if source is None else f"the {name.lower()} settings"
        self.panel.tell(f"Added {behavior} {rule} to {where}.")
        return True

    def _warn_of(self, report: PersistReport) -> None:
        if report.words:
            self.panel.warn(". ".join(report.words))

    async def _remove_rule(self, row: PanelRow) -> None:
        behavior, rule = self._rules[row.id]
        where = describe_rule_source(rule)
        if await self.panel.confirm(f"Remove {behavior} {rule.text} ({where})?", "Yes, remove it"):
            self._warn_of(await self._updates.remove_rule(rule, behavior))
            self.panel.tell(f"Removed {behavior} {rule.text} ({where}).")

    async def _move_rule(self, row: PanelRow) -> None:
        behavior, rule = self._rules[row.id]
        place = await self._choose_place(f"Move {rule.text} from {describe_rule_source(rule)} to:")
        if place is None or PLACES[place][2] is FILES.get(rule.source):
            return
        if await self._put(behavior, rule.text, place):
            self._warn_of(await self._updates.remove_rule(rule, behavior))

    # --- denied calls -----------------------------------------------------------------------------------------------

    def _denied_rows(self) -> list[PanelRow]:
        calls = self._talk.session.denied_calls.newest_first
        self._denied = {one.call.id: one for one in calls}
        return [PanelRow(one.call.id, one.call.name, describe_call(one.call.input)) for one in calls]

    def _about_denied(self, row: PanelRow) -> list[str]:
        denied = self._denied[row.id]
        return [truncate(f"{denied.call.name}: {describe_call(denied.call.input)}", 500), truncate(denied.reason, 500)]

    async def _allow(self, row: PanelRow, reach: Reach) -> None:
        denied = self._denied[row.id]
        self._warn_of(await self._talk.session.denied_calls.allow(denied, reach))
        how = {"once": "once", "session": "for this session", "project": "for this project"}[reach]
        shown = truncate(f"{denied.call.name} {describe_call(denied.call.input)}", 80)
        self.panel.tell(f"Allowed {how}: {shown}. Ask for it again.")

    # --- directories ------------------------------------------------------------------------------------------------

    def _folder_rows(self) -> list[PanelRow]:
        place = self._talk.world.kit.place
        return [
            PanelRow(folder, clean_line(folder), "working directory" if folder == place.root else "added")
            for folder in (place.root, *place.folders)
        ]

    async def _add_folder(self, row: PanelRow) -> None:
        assert row is NO_ROW or row.id
        place = self._talk.world.kit.place
        named = await self.panel.enter("Directory", hint="a path, such as ../other or ~/notes")
        if named is None or not named.strip():
            return
        folder = await asyncio.to_thread(agent.resolve_folder, named.strip(), place.root, place.home)
        if not await asyncio.to_thread(os.path.isdir, folder):
            self.panel.warn(f"'{named}' is not a directory (looked for '{folder}').")
        elif folder in (place.root, *place.folders):
            self.panel.warn(f"Tools can already work in '{folder}'.")
        else:
            self._talk.session.add_directory(folder)
            self.panel.tell(f"Tools can now work in '{folder}', until you exit.")

    async def _remove_folder(self, row: PanelRow) -> None:
        if await self.panel.confirm(f"Remove '{row.id}' from the directories?", "Yes, remove it"):
            self._talk.session.remove_directory(row.id)
            self.panel.tell(f"Removed the directory '{row.id}' for this session.")


def describe_call(given: Any) -> str:
    """The value that says most about a call: its first text."""
    values = cast("dict[str, object]", given).values() if isinstance(given, dict) else ()
    return clean_line(next((value for value in values if isinstance(value, str) and value), ""))
