"""Panels: lists with actions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.output import DummyOutput
from rich.text import Text

from mainspring.agent.permission_updates import READ
from mainspring.cli.tui.dialog import BURST
from mainspring.cli.tui.editor import Editor
from mainspring.cli.tui.menu import MenuItem
from mainspring.cli.tui.panel import NO_ROW, Panel, PanelAction, PanelRow, PanelTab
from mainspring.cli.tui.screen import Screen
from mainspring.core.errors import UsageError
from tui.hands import Clock, Key, few, fits, keys, marked, plain, press, words


class Held:
    """A screen that holds the panel; its clock stands still."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.open_panels: list[Panel] = []
        self.changed = asyncio.Event()

    def open(self, modal: Panel) -> None:
        self.open_panels.append(modal)
        self.changed.set()

    def close(self, modal: Panel) -> None:
        self.open_panels.remove(modal)
        self.changed.set()

    def redraw(self) -> None:
        self.changed.set()

    async def until(self, seen: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not seen():
                self.changed.clear()
                await self.changed.wait()

    def attended(self) -> float:
        return self.clock.now


class Fruit:
    """Two lists, and everything that an action can do."""

    def __init__(self) -> None:
        self.names = ["apple", "banana", "cherry"]
        self.screen = Held()
        self.gate = asyncio.Event()
        tabs = [
            PanelTab(
                lambda: [PanelRow(name, name, f"a {name}") for name in self.names],
                "Fruit",
                (
                    PanelAction("enter", "rename", self.rename),
                    PanelAction("a", "add", self.add, needs_row=False),
                    PanelAction("d", "remove", self.remove),
                    PanelAction("g", "grant", self.grant, grants=True),
                    PanelAction("f", "fail", self.fail),
                    PanelAction("b", "break", self.break_down),
                    PanelAction("w", "wait", self.wait),
                    PanelAction("o", "open", self.open),
                ),
                lambda row: [f"About {row.label}.", "More about it."],
                lambda: "Fruit that you have.",
            ),
            PanelTab(lambda: (), "Nuts", empty="No nuts."),
        ]
        self.panel = Panel("Kitchen", tabs, self.screen)

    async def rename(self, row: PanelRow) -> None:
        new = await self.panel.enter("Name", text=row.label, check=lambda text: "" if text else "A name is needed.")
        if new is not None:
            self.names[self.names.index(row.id)] = new
            self.panel.tell(f"Renamed to {new}.")

    async def add(self, row: PanelRow) -> None:
        assert row is NO_ROW or row.id in self.names
        picked = await self.panel.choose("Which one?", [MenuItem("fig"), MenuItem("grape")], ["Both are ripe."])
        if picked is not None:
            self.names.append(("fig", "grape")[picked])

    async def remove(self, row: PanelRow) -> None:
        if await self.panel.confirm(f"Remove {row.label}?", "Yes, remove it"):
            self.names.remove(row.id)
            self.panel.tell(f"Removed {row.label}.")

    async def grant(self, row: PanelRow) -> None:
        self.panel.tell(f"Granted {row.label}.")

    async def fail(self, _: PanelRow) -> None:
        raise UsageError("the knife is\x1b[2J blunt")

    async def break_down(self, _: PanelRow) -> None:
        raise ZeroDivisionError

    async def wait(self, _: PanelRow) -> None:
        await self.gate.wait()
        self.panel.tell("Done.")

    async def open(self, row: PanelRow) -> None:
        self.panel.show(row.label, [PanelTab(lambda: [PanelRow("core", "core"), PanelRow("peel", "peel")])])

    def lines(self, width: int = 60, height: int = 24) -> list[str]:
        drawn = self.panel.draw(width, height)
        fits(drawn, width, height)
        return [line.rstrip() for line in plain(drawn) if line.strip()]

    async def press(self, *pressed: str) -> list[str]:
        """Each key after a moment in which the panel can be seen and the loop runs."""
        for key in pressed:
            self.lines()
            self.screen.clock.now += 1
            press(self.panel, key)
            self.screen.clock.now += 1
            self.panel.settle()
            for _ in range(5):
                await asyncio.sleep(0)
        return self.lines()


Play = Callable[[Fruit], Coroutine[None, None, None]]


def play(scene: Play) -> Fruit:
    """Runs the scene on an open panel, then closes it."""

    async def run() -> Fruit:
        fruit = Fruit()
        opened = asyncio.ensure_future(fruit.panel.run())
        await asyncio.sleep(0)
        try:
            await scene(fruit)
        finally:
            fruit.panel.close()
            await opened
        assert not fruit.screen.open_panels
        return fruit

    return asyncio.run(run())


def test_it_shows_its_lists_the_marked_row_and_the_keys() -> None:
    async def scene(fruit: Fruit) -> None:
        assert fruit.lines()[1:] == [
            "Kitchen    Fruit    Nuts",
            "Fruit that you have.",
            "❯ apple   a apple",
            "  banana  a banana",
            "  cherry  a cherry",
            "  About apple.",
            "  More about it.",
            "enter rename · a add · d remove · g grant · f fail · b break",
            "w wait · o open · ←→ next list · / to filter · esc close",
        ]
        lines = await fruit.press("right")
        assert lines[1:] == ["Kitchen    Fruit    Nuts", "No nuts.", "←→ next list · esc close"]
        lines = await fruit.press("right", "down")
        assert "❯ banana  a banana" in lines
        lines = await fruit.press("tab", "s-tab")
        assert "❯ banana  a banana" in lines, "each list remembers its row"

    play(scene)


def test_an_action_asks_for_text_and_refuses_what_is_wrong() -> None:
    async def scene(fruit: Fruit) -> None:
        lines = await fruit.press("down", "enter", "c-u", "enter")
        assert lines[-2:] == ["A name is needed.", "enter confirm · esc cancel"]
        lines = await fruit.press("kiwi", "enter")
        assert "❯ kiwi    a kiwi" in lines
        assert "Renamed to kiwi." in lines
        await fruit.press("enter", "x", "escape")
        assert fruit.names == ["apple", "kiwi", "cherry"]

    assert play(scene).panel.done == ["Renamed to kiwi."]


def test_an_action_offers_choices() -> None:
    async def scene(fruit: Fruit) -> None:
        lines = await fruit.press("a")
        assert lines[2:6] == ["Which one?", "Both are ripe.", "❯ 1. fig", "  2. grape"]
        await fruit.press("2")
        await fruit.press("a", "escape")
        assert fruit.names == ["apple", "banana", "cherry", "grape"]

    play(scene)


def test_a_held_enter_removes_nothing() -> None:
    async def scene(fruit: Fruit) -> None:
        await fruit.press("d", "enter", "enter", "escape")
        assert len(fruit.names) == 3
        lines = await fruit.press("d", "down", "enter")
        assert fruit.names == ["banana", "cherry"]
        assert "❯ banana  a banana" in lines, "the next one is marked"

    play(scene)


def test_the_last_row_is_removed_and_one_is_added_to_the_empty_list() -> None:
    async def scene(fruit: Fruit) -> None:
        for _ in range(3):
            await fruit.press("d", "2")
        assert "Nothing here." in fruit.lines()
        assert fruit.lines()[-1] == "a add · ←→ next list · esc close", "keys that need a row are not offered"
        await fruit.press("d", "a", "enter")
        assert fruit.names == ["fig"]

    play(scene)


def test_the_filter_takes_letters_that_are_actions_elsewhere() -> None:
    async def scene(fruit: Fruit) -> None:
        lines = await fruit.press("/", "d", "backspace", "banan", "enter")
        assert lines[3:5] == ["Filter: banan", "❯ banana  a banana"]
        await fruit.press("d", "2")
        assert fruit.names == ["apple", "cherry"]
        assert "no matches" in fruit.lines()
        lines = await fruit.press("escape")
        assert "❯ apple   a apple" in lines
        assert not fruit.panel.over

    play(scene)


def test_a_page_on_top_filters_as_the_user_types_and_escape_goes_back() -> None:
    async def scene(fruit: Fruit) -> None:
        lines = await fruit.press("down", "o", "pee")
        assert lines[1:] == ["banana", "Filter: pee", "❯ peel", "type to filter · esc clear the filter"]
        lines = await fruit.press("escape", "escape")
        assert "❯ banana  a banana" in lines
        await fruit.press("escape")
        assert fruit.panel.over

    play(scene)


def test_an_error_is_shown_and_the_panel_stays() -> None:
    async def scene(fruit: Fruit) -> None:
        assert "the knife is[2J blunt" in await fruit.press("f")
        assert not fruit.panel.over
        assert "the knife is[2J blunt" not in await fruit.press("right")

    play(scene)


def test_a_mistake_of_ours_closes_the_panel_and_is_raised() -> None:
    async def scene(fruit: Fruit) -> None:
        await fruit.press("b")
        assert fruit.panel.over

    with pytest.raises(ZeroDivisionError):
        play(scene)


def test_a_long_action_keeps_the_panel_alive_and_can_be_stopped() -> None:
    async def scene(fruit: Fruit) -> None:
        lines = await fruit.press("w", "down", "d")
        assert lines[-1] == "working… · esc cancel"
        assert "❯ banana  a banana" in lines
        assert "Cancelled." in await fruit.press("escape")
        await fruit.press("w")
        fruit.gate.set()
        assert "Done." in await fruit.press("down")

    assert play(scene).panel.done == ["Done."]


def test_escape_right_behind_the_key_of_an_action_leaves_the_panel_usable() -> None:
    """Both keys in one read: the action is cancelled before its first step."""

    async def scene(fruit: Fruit) -> None:
        fruit.lines()
        fruit.screen.clock.now += 1
        press(fruit.panel, "enter", "escape")
        await fruit.screen.until(lambda: not fruit.panel.is_busy)
        assert "Cancelled." in plain(fruit.panel.draw(80, 24))
        press(fruit.panel, "escape")
        assert fruit.panel.over

    play(scene)


@pytest.mark.parametrize("key", ["w", "a", "enter"])
def test_ctrl_c_closes_it_whatever_is_going_on(key: str) -> None:
    async def scene(fruit: Fruit) -> None:
        await fruit.press(key, "c-c")
        assert fruit.panel.over

    assert play(scene).panel.said is None


def test_letters_do_not_count_too_early_or_as_part_of_a_word() -> None:
    async def scene(fruit: Fruit) -> None:
        press(fruit.panel, "g")  # not yet drawn
        fruit.lines()
        fruit.screen.clock.now += READ / 2
        press(fruit.panel, "g")  # just drawn
        fruit.screen.clock.now += 1
        press(fruit.panel, "g")
        fruit.screen.clock.now += BURST / 2
        fruit.panel.settle()
        press(fruit.panel, "o")  # of the word 'go'
        fruit.screen.clock.now += 1
        fruit.panel.settle()
        await asyncio.sleep(0)
        assert not fruit.panel.done
        await fruit.press("g")
        assert fruit.panel.done == ["Granted apple."]

    play(scene)


@pytest.mark.parametrize(("width", "height"), [(120, 35), (80, 23), (40, 11), (40, 6), (20, 3), (10, 1)])
def test_it_fits_everywhere(width: int, height: int) -> None:
    async def scene(fruit: Fruit) -> None:
        fruit.names += [f"fruit number {number}" for number in range(40)]
        fruit.panel.refresh()
        fruit.panel.warn("What went wrong, in many words. " * 20)
        lines = fruit.panel.draw(width, height)
        fits(lines, width, height)
        assert marked(lines) == (1 if height > 1 else 0)
        assert "esc" in lines[-1].plain or height < 3
        first = len(lines)
        await fruit.press("right")
        assert len(fruit.panel.draw(width, height)) <= max(first, height), "no jump"

    play(scene)


def test_one_screen_shows_everything_that_is_needed_in_a_small_terminal() -> None:
    async def scene(fruit: Fruit) -> None:
        assert fruit.lines(40, 11) == [
            "─" * 40,
            "Kitchen    Fruit    Nuts",
            "Fruit that you have.",
            "❯ apple   a apple",
            "  banana  a banana",
            "  cherry  a cherry",
            "  About apple.",
            "  More about it.",
            "enter rename · a add · d remove",
            "g grant · f fail · b break · esc close",
        ]

    play(scene)


@few
@given(
    st.lists(st.tuples(keys, st.integers(10, 120), st.integers(1, 40)), max_size=40),
    st.lists(words, max_size=6),
)
def test_no_key_fails_at_any_size(pressed: list[tuple[Key, int, int]], names: list[str]) -> None:
    async def scene(fruit: Fruit) -> None:
        fruit.names += names
        fruit.panel.refresh()
        for key, width, height in pressed:
            lines = fruit.panel.draw(width, height)
            fits(lines, width, height)
            fruit.screen.clock.now += 1
            if key[1] not in ("b", "f"):
                fruit.panel.press(*key)
            fruit.screen.clock.now += 1
            fruit.panel.settle()
            await asyncio.sleep(0)

    play(scene)


# --- on the screen --------------------------------------------------------------------------------------------------


class KeyedScreen:
    """A screen without a terminal: after some keys it is drawn until something is to be seen."""

    def __init__(self, pipe: PipeInput) -> None:
        self.editor = Editor(DummyCompleter(), InMemoryHistory(), str)
        self.screen = Screen(self.editor, KeyBindings(), list, input=pipe, output=DummyOutput())
        self._pipe, self._drawn = pipe, asyncio.Event()
        self.screen.app.after_render += lambda _: self._drawn.set()

    async def type(self, keys: str, seen: Callable[[], bool]) -> None:
        self._pipe.send_text(keys)
        async with asyncio.timeout(30):
            while not seen():
                self._drawn.clear()
                await self._drawn.wait()


def test_a_question_may_interrupt_a_panel_which_then_goes_on() -> None:
    async def scene() -> None:
        with create_pipe_input() as pipe:
            keyed = KeyedScreen(pipe)
            app = asyncio.ensure_future(keyed.screen.app.run_async())
            names = ["apple", "banana"]
            panel = Panel("Fruit", [PanelTab(lambda: [PanelRow(name, name) for name in names])], keyed.screen)
            opened = asyncio.ensure_future(panel.run())
            await keyed.type("ban", lambda: "Filter: ban " in plain(panel.draw(40, 10)))
            question = FruitQuestion()
            keyed.screen.open(question)
            await keyed.type("pie", lambda: question.typed == "pie")
            keyed.screen.close(question)
            await keyed.type("ana", lambda: "Filter: banana " in plain(panel.draw(40, 10)))
            await keyed.type("\x03", lambda: panel.over)
            assert await opened is None
            await keyed.type("x", lambda: keyed.editor.buffer.text == "x")
            keyed.screen.app.exit()
            await app

    asyncio.run(scene())


class FruitQuestion:
    unheard = ""

    def __init__(self) -> None:
        self.typed = ""

    def press(self, key: str, text: str = "") -> None:
        self.typed += text

    def settle(self) -> None:
        pass

    def draw(self, width: int, height: int) -> list[Text]:
        return [Text("Which fruit?")]
