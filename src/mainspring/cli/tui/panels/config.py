"""`/config`: the settings in force with their sources; change one, and choose whose file it goes to."""

from __future__ import annotations

import asyncio

from mainspring.agent.config import settings_of
from mainspring.agent.permissions import BYPASS
from mainspring.agent.slash.lines import clean_line
from mainspring.cli.commands.config_values import check_rules, show_value
from mainspring.cli.tui.menu import MenuItem
from mainspring.cli.tui.panel import Panel, PanelAction, PanelRow, PanelTab
from mainspring.cli.tui.panels import PanelContext
from mainspring.cli.tui.panels.scopes import RELOAD, choose_scope, get_settings_writer, print_changes, report_changes
from mainspring.core.errors import MainspringError
from mainspring.settings import claude_code_keys
from mainspring.settings.edit import ValueChange
from mainspring.settings.keys import BY_NAME, KEYS, MergeRule, SettingKey
from mainspring.settings.single_value import (
    SettingName,
    explain_refused_source,
    find_setting,
    parse_value,
    read_single_value,
    words_of,
)
from mainspring.settings.values import EffectiveSetting, Settings, SettingsSource

SOURCES = (SettingsSource.USER, SettingsSource.PROJECT, SettingsSource.LOCAL)
# Described here; the others as in the table of Claude Code's keys.
ABOUT = {
    "api.baseUrl": "address of the model server",
    "api.keyLifetimeSeconds": "how long a key of apiKeyHelper is used",
    "api.maxCostUsd": "a session ends before it costs more dollars",
    "api.maxRetries": "retries of a failed request",
    "api.retry": "unattended: wait up to six hours for a busy server",
    "limits.maxTurns": "model replies of one run",
    "limits.maxTokens": "tokens of a session",
    "limits.maxOutputTokens": "tokens of one reply",
    "models": "windows, prices and servers of your own models",
    "mcpServers": "MCP servers for you, in every folder: see /mcp",
    "webSearch.command": "a command that searches the web",
    "statusLine": "a command that prints the status line",
    "maxThinkingTokens": "thinking budget of models with one",
    "features.siblings": "cascade: a failed command cancels those after it",
    "features.toolUseSummaries": "describe each batch of tool calls in one line",
    "features.serverClearing": "Anthropic's API clears old tool results",
}
PANELS_OF = {"permissions.": "/permissions", "hooks": "/hooks", "mcpServers": "/mcp"}  # that change these better


async def open_panel(context: PanelContext) -> str | None:
    panel = ConfigPanel(context)
    await panel.panel.run()
    print_changes(context, panel.panel)
    return RELOAD if panel.changed else None


class ConfigPanel:
    def __init__(self, context: PanelContext) -> None:
        self._talk = context.talk
        self._writer = get_settings_writer(context)
        self._settings = context.talk.config.settings
        self.changed: set[str] = set()
        tab = PanelTab(
            self._rows,
            "",
            (
                PanelAction("enter", "change", self._change, self._is_changeable),
                PanelAction("space", "next value", self._toggle, lambda row: bool(self._words(row))),
                PanelAction("u", "unset", self._unset, self._is_changeable),
            ),
            self._about,
            lambda: "Changes take effect when you close this panel." if self.changed else "",
        )
        self.panel = Panel("Settings", [tab], context.screen)

    # --- rows -------------------------------------------------------------------------------------------------------

    def _rows(self) -> list[PanelRow]:
        """Settings that have a value first; last those that another panel changes."""
        shown = [(key, self._effective(key)) for key in KEYS if may_be_changed(key)]
        shown.sort(key=lambda one: (bool(panel_for(one[0].name)), not one[1]))
        return [PanelRow(key.name, self._label(key), format_values(values), describe(key)) for key, values in shown]

    @property
    def _model(self) -> str:
        config = self._talk.config
        return (config.policy.current.model or config.loop.model).name

    def _label(self, key: SettingKey) -> str:
        return f"{key.name} *" if key.name in self.changed else key.name

    def _effective(self, key: SettingKey) -> list[EffectiveSetting]:
        return [one for one in self._settings.effective if f"{one.name}.".startswith(f"{key.name}.")]

    def _words(self, row: PanelRow) -> tuple[str, ...]:
        """Without the mode that approves everything: only a file makes it the default."""
        words = words_of(BY_NAME[row.id]) if row.id in BY_NAME else ()
        return tuple([word for word in words if word != BYPASS])

    def _is_changeable(self, row: PanelRow) -> bool:
        return row.id in BY_NAME and BY_NAME[row.id].merge is not MergeRule.BY_NAME and not panel_for(row.id)

    def _about(self, row: PanelRow) -> list[str]:
        key = BY_NAME[row.id]
        lines = [describe(key) or key.name]
        lines += [f"{clean_line(one.shown)}  ({one.origin.source}: {one.origin.place})" for one in self._effective(key)]
        if key.name == "webSearch.command" and (why := self._talk.config.explain_missing_search(self._model)):
            lines.append(f"Without it, WebSearch is not offered: {why}.")
        if words := self._words(row):
            lines.append(f"Values: {', '.join(words)}")
        if better := panel_for(row.id):
            lines.append(f"Change it with {better}.")
        elif key.merge is MergeRule.BY_NAME:
            lines.append(f"Change an entry with 'mainspring config set {key.name}.NAME VALUE'.")
        if row.id in self.changed:
            lines.append("* changed: takes effect when you close this panel")
        return lines

    # --- changes ----------------------------------------------------------------------------------------------------

    async def _toggle(self, row: PanelRow) -> None:
        """The next of few values, in the file that sets it now, or the user's."""
        key, words = BY_NAME[row.id], self._words(row)
        values = self._effective(key)
        now = values[0].shown if values else ""
        word = words[(words.index(now) + 1) % len(words)] if now in words else words[0]
        source = values[0].origin.source if values else SettingsSource.USER
        if source not in SOURCES:
            self.panel.warn(f"'{row.id}' is set by the {source}, which wins over your files.")
            return
        await self._write(key, source, parse_value(SettingName(key), word))

    async def _change(self, row: PanelRow) -> None:
        key, words = BY_NAME[row.id], self._words(row)
        source = await self._choose_source(key, f"Change {row.id} in which settings?")
        if source is None:
            return
        before = await asyncio.to_thread(read_single_value, self._writer.places, source, SettingName(key))
        if words:
            picked = await self.panel.choose(f"{row.id} ({source} settings)", [MenuItem(word) for word in words])
            if picked is not None:
                await self._write(key, source, parse_value(SettingName(key), words[picked]))
            return
        is_list = key.merge is MergeRule.ADD
        text = await self.panel.enter(
            row.id,
            text=show_value(before.value) if before is not None else "",
            hint='JSON, such as ["one", "two"]' if is_list else describe(key),
            check=lambda said: explain_mistake(SettingName(key), said),
        )
        if text is not None:
            await self._write(key, source, parse_value(SettingName(key), text))

    async def _unset(self, row: PanelRow) -> None:
        setting = find_setting(row.id)
        places = self._writer.places
        found = [source for source in SOURCES if read_single_value(places, source, setting) is not None]
        if not found:
            self.panel.remark(f"'{row.id}' is not set in your files.")
            return
        without = [source for source in SOURCES if source not in found]
        source = await choose_scope(self.panel, f"Remove {row.id} from which settings?", without=without)
        if source is None or not await self.panel.confirm(
            f"Remove {row.id} from the {source} settings?", "Yes, remove it"
        ):
            return
        await self._write(setting.key, source, None, unset=True)

    async def _choose_source(self, key: SettingKey, question: str) -> SettingsSource | None:
        without = [source for source in SOURCES if explain_refused_source(key, source)]
        return await choose_scope(self.panel, question, without=without)

    async def _write(self, key: SettingKey, source: SettingsSource, value: object, *, unset: bool = False) -> None:
        if value in key.users_own and not await self.panel.confirm(
            f"{key.name} {show_value(value)} gives up protection. Set it?", "Yes, set it"
        ):
            return
        change = ValueChange(SettingName(key).keys, value, unset)
        report = await asyncio.to_thread(self._writer.write, source, change)
        said = "Removed" if unset else "Set"
        to = "" if unset else f" to {clean_line(show_value(value))}"
        report_changes(self.panel, f"{said} {key.name}{to} in the {source} settings.", report)
        if report.files:
            self.changed.add(key.name)
            self._settings = await asyncio.to_thread(self._load)

    def _load(self) -> Settings:
        config = self._talk.config
        try:
            return settings_of(config.options, config.cwd, config.environment, shows_refused=True)
        except MainspringError:
            return self._settings


def may_be_changed(key: SettingKey) -> bool:
    return any(not explain_refused_source(key, source) for source in SOURCES)


def panel_for(name: str) -> str:
    return next((panel for start, panel in PANELS_OF.items() if name.startswith(start) and name not in FEW), "")


FEW = ("permissions.defaultMode", "permissions.denyInsteadOfPrompting")  # not lists of rules: changed here


def describe(key: SettingKey) -> str:
    known = claude_code_keys.BY_NAME.get(key.name)
    return ABOUT.get(key.name) or (known.note if known is not None else "")


def format_values(values: list[EffectiveSetting]) -> str:
    if not values:
        return "default"
    if len(values) == 1:
        return f"{clean_line(values[0].shown)} ({values[0].origin.source})"
    return f"{len(values)} entries"


def explain_mistake(setting: SettingName, text: str) -> str:
    try:
        check_rules(setting, parse_value(setting, text))
    except MainspringError as error:
        return str(error)
    return ""
