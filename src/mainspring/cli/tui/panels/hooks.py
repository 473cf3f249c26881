"""`/hooks`: the hooks by event, with matcher and source; edit their file, and switch all of them on or off."""

from __future__ import annotations

import asyncio
import os

from mainspring.agent.slash.lines import clean_line
from mainspring.agent.slash.settings import explain_hook, hooks_held_back, switched_off
from mainspring.cli.tui.panel import Panel, PanelAction, PanelRow, PanelTab
from mainspring.cli.tui.panels import PanelContext
from mainspring.cli.tui.panels.scopes import RELOAD, edit_file, get_settings_writer, print_changes, report_changes
from mainspring.settings.edit import ValueChange
from mainspring.settings.single_value import find_setting, read_single_value
from mainspring.settings.values import HookSetting, SettingsSource

KEY = "disableAllHooks"


async def open_panel(context: PanelContext) -> str | None:
    panel = HooksPanel(context)
    await panel.panel.run()
    print_changes(context, panel.panel)
    return RELOAD if panel.changed else None


class HooksPanel:
    def __init__(self, context: PanelContext) -> None:
        self._context = context
        self._settings = context.talk.config.settings
        self._writer = get_settings_writer(context)
        self._hooks = {str(at): hook for at, hook in enumerate(sorted(self._settings.hooks, key=lambda one: one.event))}
        self._is_off = self._read_switch()
        self.changed = False
        tab = PanelTab(
            self._rows,
            "",
            (
                PanelAction("enter", "edit the file", self._edit, self._has_file),
                PanelAction("space", "all on/off", self._switch, needs_row=False),
            ),
            self._about,
            self._note,
            'No hooks. Add them under "hooks" in your settings.',
        )
        self.panel = Panel("Hooks", [tab], context.screen)

    def _read_switch(self) -> bool:
        found = read_single_value(self._writer.places, SettingsSource.USER, find_setting(KEY))
        return found is not None and found.value is True

    def _rows(self) -> list[PanelRow]:
        rows: list[PanelRow] = []
        for place, hook in self._hooks.items():
            at = f"{hook.event}({hook.matcher})" if hook.matcher else hook.event
            why = explain_hook(hook).removeprefix("; ")
            rows.append(
                PanelRow(place, clean_line(at), f"{'! ' if why else ''}{describe_hook(hook)}", hook.origin.place)
            )
        return rows

    def _about(self, row: PanelRow) -> list[str]:
        hook = self._hooks[row.id]
        lines = [describe_hook(hook), f"{hook.origin.source}: {clean_line(hook.origin.place)}"]
        why = explain_hook(hook).removeprefix("; ")
        return [*lines, why] if why else lines

    def _note(self) -> str:
        held = hooks_held_back(self._settings)
        if self.changed:
            off = [f"All hooks are {'off' if self._is_off else 'on'} from when you close this panel."]
        else:
            off = switched_off(self._settings)
        return " ".join([*held, *off])

    def _has_file(self, row: PanelRow) -> bool:
        hook = self._hooks.get(row.id)
        return hook is not None and os.path.isfile(hook.origin.place) and hook.origin.source != "administrator"  # noqa: PTH113

    async def _edit(self, row: PanelRow) -> None:
        path = self._hooks[row.id].origin.place
        await edit_file(self._context, path)
        self.changed = True
        self.panel.tell(f"'{path}' is read again when you close this panel.")

    async def _switch(self, _: PanelRow) -> None:
        """In the user's settings: a project cannot switch hooks off, which may be what restricts it."""
        if self._is_off:
            change = ValueChange((KEY,), unset=True)
        else:
            if not await self.panel.confirm(
                "Switch all hooks and the status line off?", "Yes, switch them off", ["Hooks may guard calls."]
            ):
                return
            change = ValueChange((KEY,), value=True)
        report = await asyncio.to_thread(self._writer.write, SettingsSource.USER, change)
        self._is_off, self.changed = not self._is_off, True
        report_changes(self.panel, f"All hooks are {'off' if self._is_off else 'on'} (user settings).", report)


def describe_hook(hook: HookSetting) -> str:
    what = next((str(hook.command[name]) for name in ("command", "prompt", "url") if name in hook.command), "")
    return clean_line(what)
