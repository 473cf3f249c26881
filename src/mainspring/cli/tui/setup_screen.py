"""The start screen, for a start without a key, and `/login`: choose a provider, give its key, choose a model.

Each step is a dialog. A key is drawn as dots, goes to the check and to `Credentials`, and nowhere else: what is typed
or pasted here never reaches the input. Nothing is stored before the provider has answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace
from rich.text import Text

from mainspring.agent.clouds import PROJECTS, REGIONS
from mainspring.agent.endpoints import ANTHROPIC, BEDROCK, DEMO, DEMO_MODEL, VERTEX, read_environment_value
from mainspring.agent.options import StartError
from mainspring.cli import provider_setup
from mainspring.cli.provider_setup import (
    AZURE,
    BY_NAME,
    CLOUD_MODELS,
    EXTRAS,
    LOCAL,
    OPTIONS,
    CheckResult,
    Environment,
    LocalServer,
    ProviderChoice,
    ProviderState,
    StoredChoice,
    describe_models,
    title_of,
)
from mainspring.cli.tui.dialog import Dialog, PageDialog, make_picker, render_key_hints
from mainspring.cli.tui.layout import ScrollPage, clean_for_drawing, clip_text, sanitize_text
from mainspring.cli.tui.menu import MARK, TYPED, FreeTextChoice, Menu, MenuItem, MenuSelection, TextField
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.settings.load import home_folder

T = TypeVar("T")

TITLE = "Welcome to mainspring"
ABOUT = "To start, connect a model. You can change this at any time with /login."
PASTE = "You can also paste an API key right here: Anthropic, OpenAI, OpenRouter and Gemini keys are recognized."
OTHER, NETWORK = "other", "network"
DOT = "•"
MOST_DOTS = 40


class SetupStage(Protocol):
    """The screen that gives a dialog the keyboard."""

    def open(self, modal: Dialog[Any]) -> None: ...

    def close(self, modal: Dialog[Any]) -> None: ...

    def attended(self) -> float: ...


class SetupResult(Bundle):
    """`model`: for this session; empty: as the settings say. `words`: for the scrollback."""

    model: str
    words: str


class SecretEntry(FreeTextChoice):
    """A text field that shows dots. Several lines, such as those of a paste, become one."""

    def __init__(self) -> None:
        super().__init__()
        self._field = TextField()

    def press(self, key: str, text: str = "") -> MenuSelection | None:
        if key == "enter":
            return MenuSelection((), self._field.text.strip()) if not self._field.empty else None
        self._field.press(key, text.replace("\n", "").replace("\r", ""))
        return None

    def draw(self, width: int, height: int) -> list[Text]:
        dots = DOT * min(len(self._field.text), MOST_DOTS)
        return [clip_text(Text.assemble((MARK, "chosen"), dots, (" ", "reverse")), width)][:height]


class PasteAwareMenu(PageDialog[str | None]):
    """A menu that takes a pasted key, too: `pasted` is that."""

    pasted = ""

    def press(self, key: str, text: str = "") -> None:
        if key == "paste" and not self.over:
            self.pasted = "".join(sanitize_text(text).split())
            self.say(None)
        else:
            super().press(key, text)

    def miss(self, key: str, text: str) -> None:
        """Nothing that is typed here goes to the input: it may be a part of a key."""


class EntryPage(PageDialog[T]):
    """A page with a text field. Every typed or pasted key counts at once: it grants nothing, and an API key that is
    pasted a moment too early must not be lost."""

    def press(self, key: str, text: str = "") -> None:
        if key in TYPED and not self.over:
            self._in_word = False
            self._take(key, text)
        else:
            super().press(key, text)

    def miss(self, key: str, text: str) -> None:
        """As above."""


class BusyDialog(Dialog[None]):
    """Shown during a check. Escape ends the wait."""

    def __init__(self, words: str) -> None:
        super().__init__(None)
        self._words = words

    def press(self, key: str, text: str = "") -> None:  # noqa: ARG002  # as of a dialog
        if key in ("escape", "c-c"):
            self.close()

    def draw(self, width: int, height: int) -> list[Text]:
        lines = [Text("─" * width, "rule"), clip_text(Text(self._words, "title"), width)]
        return [*lines, render_key_hints((), (("esc", "cancel"),), width)][:height]


class SetupScreen:
    def __init__(self, stage: SetupStage, environment: Environment, *, title: str = TITLE) -> None:
        self._stage, self._environment, self._title = stage, dict(environment), title
        self._home = home_folder(environment) or ""
        self._trouble = ""  # of the last step, shown on the next page
        self._found: tuple[LocalServer, ...] = ()

    async def run(self) -> SetupResult | None:
        """None: the user left without a choice."""
        self._found = await self._busy("Looking for model servers on this machine…", self._local_servers()) or ()
        while True:
            picked, key = await self._ask_provider()
            if key:
                done = await self._with_pasted_key(key)
            elif picked is None:
                return None
            elif picked == DEMO:
                words = "This is the demo model: scripted and offline. Type /login to connect a real one."
                return SetupResult(DEMO_MODEL, words)
            else:
                done = await self._set_up(picked)
            if done is not None:
                return done

    # --- steps ------------------------------------------------------------------------------------------------------

    async def _local_servers(self) -> tuple[LocalServer, ...]:
        return await provider_setup.find_local_servers(self._environment)

    async def _ask_provider(self) -> tuple[str | None, str]:
        rows = [
            (f"{LOCAL}:{place}", describe_local_server(one), describe_models(one))
            for place, one in enumerate(self._found)
        ]
        rows += [(option.name, option.title, option.about) for option in OPTIONS if option.name != "gemini"]
        rows += [
            (OTHER, "Another server", "any address that speaks OpenAI's protocol, on this machine or elsewhere"),
            (DEMO, "Demo model", "scripted and offline: look around without a key"),
            (NETWORK, "Proxy or company certificate", "if you reach the internet through one"),
        ]
        names = [name for name, _, _ in rows]
        menu = Menu([MenuItem(clean_for_drawing(title), clean_for_drawing(about)) for _, title, about in rows])

        def meant(picked: MenuSelection | None) -> str | None:
            return None if picked is None else names[picked.places[0]]

        page = self._page(ABOUT, PASTE)
        asking = PasteAwareMenu(
            self._title, page, menu, meant, now=self._stage.attended, asks="Which model do you want to use?",
            ways_out=(("esc", "leave"),),
        )  # fmt: skip
        picked = await self._ask(asking)
        return picked, asking.pasted

    async def _with_pasted_key(self, key: str) -> SetupResult | None:
        provider = provider_setup.recognize_key(key)
        if not provider:
            self._trouble = "That key is not recognized. Choose its provider first, then paste it again."
            return None
        url = provider_setup.find_url(provider, self._environment)
        return await self._check_and_store(ProviderChoice(provider, url, key))

    async def _set_up(self, picked: str) -> SetupResult | None:
        kind, _, place = picked.partition(":")
        if kind == LOCAL:
            server = self._found[int(place)]
            choice = ProviderChoice(server.endpoint.name, server.endpoint.url)
            return await self._choose_model(choice, server.models)
        if picked == NETWORK:
            await self._set_network()
            return None
        if picked == OTHER:
            return await self._other_server()
        if picked in EXTRAS:
            return await self._cloud(picked)
        if picked == AZURE:
            return await self._azure()
        return await self._with_key(ProviderChoice(picked, provider_setup.find_url(picked, self._environment)))

    async def _with_key(self, choice: ProviderChoice) -> SetupResult | None:
        """Asks for the key until it is accepted, or the user goes back."""
        option = BY_NAME.get(choice.provider)
        while True:
            where = [f"Create one at {option.keys_at}."] if option is not None and option.keys_at else []
            kept = provider_setup.describe_key_store(self._home)
            asks = [*where, f"It is checked, and then stored in {kept}."]
            title = f"{title_of(choice.provider)}: paste your API key"
            key = await self._ask(self._entry(title, asks, SecretEntry()))
            if not key:
                return None
            if done := await self._check_and_store(replace(choice, key=key)):
                return done

    async def _check_and_store(self, choice: ProviderChoice) -> SetupResult | None:
        checked = await self._check(choice)
        if checked is None:
            return None
        if choice.provider in (ANTHROPIC, AZURE):  # Anthropic has a default; Azure lists models, not deployments
            return await self._store(choice)
        return await self._choose_model(choice, checked.models)

    async def _check(self, choice: ProviderChoice) -> CheckResult | None:
        """None: it failed, and the next page says why."""
        words = f"Checking {title_of(choice.provider) if choice.provider in BY_NAME else choice.url}…"
        checked = await self._busy(words, provider_setup.check_choice(choice, self._environment))
        if checked is None:
            return None
        self._trouble = checked.words
        return checked if checked.state is ProviderState.FINE else None

    async def _choose_model(self, choice: ProviderChoice, models: Sequence[str]) -> SetupResult | None:
        if not models:
            self._trouble = f"'{choice.url}' offers no models. Load one in the server first."
            return None
        model: str | None = models[0]
        if len(models) > 1:
            items = [MenuItem(clean_for_drawing(name)) for name in models]
            told = "The model for new sessions. /model switches at any time."
            model = await self._ask(make_picker("Model", told, items, models, now=self._stage.attended))
        return None if model is None else await self._store(replace(choice, model=model))

    async def _store(self, choice: ProviderChoice) -> SetupResult | None:
        try:
            stored: StoredChoice = await asyncio.to_thread(provider_setup.store_choice, choice, self._environment)
        except (StartError, UsageError, OSError) as error:
            self._trouble = f"Not stored: {error}."
            return None
        return SetupResult(choice.model, provider_setup.describe_stored(choice, stored))

    # --- providers with more than a key -----------------------------------------------------------------------------

    async def _azure(self) -> SetupResult | None:
        url = await self._ask_text(
            "Azure OpenAI: the address of your resource", "Such as https://NAME.openai.azure.com.", ""
        )
        if not url:
            return None
        name = await self._ask_text("Azure OpenAI: the name of your deployment", "As in the Azure portal.", "")
        if not name:
            return None
        return await self._with_key(ProviderChoice(AZURE, url.rstrip("/"), model=f"{AZURE}/{name}"))

    async def _other_server(self) -> SetupResult | None:
        """Asks for a key only if the server wants one."""
        url = await self._ask_text(
            "The address of the server", "Its OpenAI-compatible address, such as http://localhost:8000/v1.", ""
        )
        if not url:
            return None
        choice = ProviderChoice(LOCAL, url.rstrip("/"))
        words = f"Checking {clean_for_drawing(url)}…"
        checked = await self._busy(words, provider_setup.check_choice(choice, self._environment))
        if checked is None:
            return None
        if checked.state in (ProviderState.REFUSED, ProviderState.KEYLESS):
            self._trouble = ""
            return await self._with_key(choice)
        self._trouble = checked.words
        return await self._choose_model(choice, checked.models) if checked.state is ProviderState.FINE else None

    async def _cloud(self, provider: str) -> SetupResult | None:
        if missing := provider_setup.explain_missing_extra(provider):
            self._trouble = f"{missing}, and start again."
            return None
        title = title_of(provider)
        region = await self._ask_text(f"{title}: region", "Such as us-east-1.", self._first(REGIONS[provider]))
        if not region:
            return None
        project = ""
        if provider == VERTEX:
            project = await self._ask_text(f"{title}: project", "The id of your project.", self._first(PROJECTS)) or ""
            if not project:
                return None
        told = "The cloud's own name of the model" + (" or inference profile." if provider == BEDROCK else ".")
        model = await self._ask_text(f"{title}: model", told, CLOUD_MODELS[provider])
        if not model:
            return None
        choice = ProviderChoice(provider, model=f"{provider}/{model}", region=region, project=project)
        return await self._store(choice) if await self._check(choice) is not None else None

    async def _set_network(self) -> None:
        env = self._environment
        proxy = await self._ask_text(
            "Proxy", "Such as http://proxy.example:8080. Leave it empty for none.", env.get(provider_setup.PROXY, "")
        )
        if proxy is None:
            return
        certificate = await self._ask_text(
            "Company certificate",
            "A PEM file with your company's certificate authority. Leave it empty for none.",
            env.get(provider_setup.CERTIFICATE, ""),
        )
        if certificate is None:
            return
        self._trouble = await asyncio.to_thread(provider_setup.check_network, proxy, certificate)
        if not self._trouble:
            changed = await asyncio.to_thread(provider_setup.store_network, proxy, certificate, env)
            self._environment |= changed
            self._trouble = f"Stored in your settings: {', '.join(changed)}." if changed else ""

    def _first(self, names: Sequence[str]) -> str:
        return next((value for name in names if (value := read_environment_value(name, self._environment))), "")

    # --- dialogs ----------------------------------------------------------------------------------------------------

    def _page(self, *lines: str) -> ScrollPage:
        told = [Text(clean_for_drawing(self._trouble), "warning"), Text()] if self._trouble else []
        self._trouble = ""
        return ScrollPage.of(*told, *[Text(line, "note") for line in lines])

    def _entry(self, title: str, lines: Sequence[str], field: FreeTextChoice) -> PageDialog[str | None]:
        def meant(picked: MenuSelection | None) -> str | None:
            return None if picked is None else picked.words

        return EntryPage(
            clean_for_drawing(title), self._page(*lines), field, meant, now=self._stage.attended,
            ways_out=(("esc", "back"),),
        )  # fmt: skip

    async def _ask_text(self, title: str, told: str, given: str) -> str | None:
        """`given`: in the field already."""
        field = FreeTextChoice()
        if given:
            field.press("text", given)
        return await self._ask(self._entry(title, [told], field))

    async def _ask(self, asking: Dialog[T]) -> T:
        return await ask_on(self._stage, asking)

    async def _busy(self, words: str, work: Coroutine[object, object, T]) -> T | None:
        """None: the user did not wait."""
        task = asyncio.ensure_future(work)
        shown = BusyDialog(words)
        task.add_done_callback(lambda _: shown.close())
        await self._ask(shown)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task})
        return None


async def ask_on(stage: SetupStage, asking: Dialog[T]) -> T:
    stage.open(asking)
    try:
        return await asking.answer()
    finally:
        asking.close()
        stage.close(asking)


def describe_local_server(server: LocalServer) -> str:
    return f"{title_of(server.endpoint.name)} on this machine"
