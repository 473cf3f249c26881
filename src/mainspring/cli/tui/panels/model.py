"""`/model`: a short list with advice, the effort by arrow keys, and all models behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mainspring import agent, cli
from mainspring.agent.slash.lines import clean_line
from mainspring.agent.subagents import ModelRouter
from mainspring.cli.commands.models import format_dollars
from mainspring.cli.tui.dialog import format_window
from mainspring.cli.tui.menu import MenuItem
from mainspring.cli.tui.panel import Panel, PanelAction, PanelRow, PanelTab
from mainspring.cli.tui.panels import PanelContext
from mainspring.cli.tui.panels.scopes import get_settings_writer, print_changes, report_changes
from mainspring.core.config import Effort
from mainspring.core.errors import UsageError
from mainspring.core.models import AS_OF, Model, has_price, model_named, same_model
from mainspring.settings.edit import ValueChange
from mainspring.settings.values import SettingsSource

# The recommended models, and what each is good for.
ADVICE = {
    "claude-opus-5-5": "hard problems and long runs; costs twice as much as Sonnet",
    "claude-sonnet-5-5": "good at nearly everything; the default",
    "claude-haiku-5-5": "fast and cheap: small, clear tasks",
    "claude-fable-5-1": "the most capable, and the most expensive",
    "gpt-5.4": "OpenAI's most capable model",
    "gpt-5.4-mini": "fast and cheap: small, clear tasks",
}
MORE, OTHER = "more", "other"
EFFORTS = ("", *Effort)  # empty: the model's default
KEEP = (MenuItem("This session"), MenuItem("This session, and new ones", "as 'model' in your user settings"))


async def open_panel(context: PanelContext) -> str | None:
    panel = ModelPanel(context)
    await panel.panel.run()
    print_changes(context, panel.panel)
    return None


class ModelPanel:
    def __init__(self, context: PanelContext) -> None:
        self._context, self._session = context, context.talk.session
        self._settings = context.talk.config.settings
        self._known = {model.name: model for model in cli.known_models(self._settings)}
        now = self._session.model
        listed = (name for name in self._known if same_model(name, now.name))
        self._now = now.name if "/" in now.name else next(listed, now.name)  # another server may use a known name
        self._known.setdefault(self._now, now)
        self.panel = Panel("Model", [self._tab(self._short_rows)], context.screen, mark=self._now)

    def _tab(self, rows: Callable[[], Sequence[PanelRow]]) -> PanelTab:
        return PanelTab(
            rows,
            "",
            (
                PanelAction("enter", "choose", self._choose),
                PanelAction("left", "less effort", lambda _: self._set_effort(-1)),
                PanelAction("right", "more effort", lambda _: self._set_effort(1)),
            ),
            self._about,
            lambda: f"In use: {clean_line(self._session.model.name)}. Effort: {self._effort or 'default'}.",
        )

    @property
    def _effort(self) -> str:
        return self._session.effort or ""

    # --- rows -------------------------------------------------------------------------------------------------------

    def _short_rows(self) -> list[PanelRow]:
        here = self._session.config.model.provider
        mine = [entry.name for entry in self._settings.models]
        names = dict.fromkeys([self._now, *[name for name in (*ADVICE, *mine) if self._is_served(name, here)]])
        ordered = [*[name for name in ADVICE if name in names], *[name for name in names if name not in ADVICE]]
        return [
            *[
                PanelRow(name, self._label(name), ADVICE.get(name, describe_price(self._known[name])))
                for name in ordered
            ],
            PanelRow(MORE, "More models…", "all known models, with a filter"),
            PanelRow(OTHER, "Another name…", "a model that is not listed"),
        ]

    def _is_served(self, name: str, here: object) -> bool:
        """Whether the server of this session has it: another one needs a new session."""
        try:
            return ModelRouter(self._session.config).provider(name) is here
        except UsageError:
            return False

    def _all_rows(self) -> list[PanelRow]:
        return [PanelRow(name, self._label(name), describe_price(model)) for name, model in self._known.items()]

    def _label(self, name: str) -> str:
        return f"{name} (in use)" if name == self._now else name

    def _about(self, row: PanelRow) -> list[str]:
        model = self._known.get(row.id)
        if model is None:
            return []
        effort = f"Effort up to {model.most_effort}." if model.most_effort else "It has no effort levels."
        return [f"{describe_price(model)} per million tokens, as of {AS_OF}. {effort}"]

    # --- actions ----------------------------------------------------------------------------------------------------

    async def _choose(self, row: PanelRow) -> None:
        if row.id == MORE:
            self.panel.show("All models", [self._tab(self._all_rows)], mark=self._now)
            return
        name = row.id
        if name == OTHER:
            entered = await self.panel.enter("Model", hint="its name, as the server knows it", check=self._check_name)
            if entered is None:
                return
            name = entered.strip()
        picked = await self.panel.choose(f"Use {name} for:", KEEP)
        if picked is None:
            return
        model = await self._session.set_model(name)
        self.panel.tell(f"Switched to {model.name}.")
        if picked == 1:
            writer = get_settings_writer(self._context)
            change = ValueChange(("model",), name)
            report = await asyncio.to_thread(writer.write, SettingsSource.USER, change)
            report_changes(self.panel, f"New sessions begin with {name} (user settings).", report)
        self.panel.close()

    def _check_name(self, text: str) -> str:
        """A slip is refused, and so is an unknown name, with the way to add it."""
        name = text.strip()
        if not name:
            return "A name is needed."
        if slip := agent.slip_in_model(name, self._settings):
            return slip
        if model_named(name).price.estimated and all(entry.name != name for entry in self._settings.models):
            return (
                f"Unknown model '{name}'. To add it: mainspring config set models.{name} "
                '\'{"window": 200000, "input_usd": 1, "output_usd": 5}\''
            )
        return ""

    async def _set_effort(self, by: int) -> None:
        at = EFFORTS.index(self._effort) + by
        if 0 <= at < len(EFFORTS):
            given = self._session.set_effort(EFFORTS[at] or None)
            self.panel.remark(f"Effort: {given or 'default'}, from the next prompt.")


def describe_price(model: Model) -> str:
    if not has_price(model):
        return f"{format_window(model.window)} · {'price unknown' if model.price.estimated else 'free'}"
    price = model.price
    return f"{format_window(model.window)} · ${format_dollars(price.input)} in, ${format_dollars(price.output)} out"
