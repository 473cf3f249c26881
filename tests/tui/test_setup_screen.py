"""The start screen: a first start without a key, and `/login`. On a real terminal, and step by step without one."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from cli.stage import Serve, Stage

from mainspring.cli.tui.dialog import Dialog
from mainspring.cli.tui.setup_screen import SetupResult, SetupScreen
from mainspring.simulator.replies import Say
from mainspring.simulator.server import ModelServer
from tui.person import DOWN, ENTER, ESCAPE, PASTE, PASTED, Person, SitAt

KEY = "sk-ant-api03-first-start-aaaabbbbccccdddd"
ROUND = 60  # seconds: what a first start may take


def without_key(stage: Stage, **more: str) -> dict[str, str]:
    """A fresh home, and nothing in the environment that names a server or a key."""
    home = stage.folder.parent / "person"
    home.mkdir(exist_ok=True)
    nothing = {name: "" for name in os.environ if name.endswith("_API_KEY")}
    return {**nothing, "HOME": str(home), "MAINSPRING_HOME": "", "ANTHROPIC_BASE_URL": "", **more}


def enter_until(person: Person, words: str) -> None:
    """An Enter right after a word is ignored, since it may belong to that word."""
    person.press_until(ENTER, lambda: words in person.text)


def choose(person: Person, words: str) -> None:
    """Moves to a choice, and takes it."""
    person.see(words)
    for _ in range(20):
        if any(line.startswith("❯") and words in line for line in person.screen):
            break
        before = marked(person)
        person.type(DOWN)
        while marked(person) in ([], before):
            person.read(1)
    person.answer(ENTER, words)


def marked(person: Person) -> list[str]:
    return [line for line in person.screen if line.startswith("❯")]


def test_from_nothing_to_an_answer_of_a_local_server(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hello from this machine."), Say.of("And again."))
    began = time.monotonic()
    given = without_key(stage, OLLAMA_BASE_URL=stage.server.url)
    person = sit_at(stage, **given)
    person.see("Welcome to mainspring", "❯ 1. Ollama on this machine", "9. Demo model")
    enter_until(person, "type to filter")
    person.type("gpt-5-mini")
    person.until(lambda: [line for line in person.screen if "ollama/" in line] == ["❯ ollama/gpt-5-mini"])
    enter_until(person, "Ollama is set up. Model: ollama/gpt-5-mini.")
    person.say("hello")
    person.see("● Hello from this machine.")
    assert time.monotonic() - began < ROUND
    ours = Path(given["HOME"], ".mainspring")
    assert json.loads((ours / "settings.json").read_text()) == {"model": "ollama/gpt-5-mini"}
    assert not (ours / "credentials.json").exists()
    person.type("\x04")
    assert person.end() == 0
    again = sit_at(stage, **given)  # the next start just works
    again.say("hello")
    again.see("● And again.")
    assert "Welcome to mainspring" not in again.text


@pytest.mark.long
def test_leaving_the_start_screen_leaves_nothing(serve: Serve, sit_at: SitAt) -> None:
    stage = serve()
    given = without_key(stage)
    person = sit_at(stage, **given)
    person.answer(ESCAPE, "Which model do you want to use?")
    person.see("No model is set up. Run 'mainspring' again when you have a key.")
    assert person.end() == 0
    assert person.is_as_before()
    assert not Path(given["HOME"], ".mainspring/settings.json").exists()


@pytest.mark.long
def test_the_demo_model_needs_nothing_and_a_login_ends_it(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("I am real."))
    given = without_key(stage, OLLAMA_BASE_URL=stage.server.url)
    person = sit_at(stage, **given)
    choose(person, "Demo model")
    person.say("what is here?")
    person.see("I am the demo model", 'You wrote: "what is here?"', "2 turns ·")
    person.say("/login")
    person.see("Connect a model")
    enter_until(person, "type to filter")
    enter_until(person, "This conversation now uses ollama/")
    person.say("and you?")
    person.see("● I am real.")
    stage.until(lambda: len(stage.requests) >= 1)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def processes_with(words: bytes, *, but: int) -> list[str]:
    """The processes whose command line or environment has these words."""
    found: list[str] = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == but:
            continue
        for name in ("cmdline", "environ"):
            try:
                if words in (place / name).read_bytes():
                    found.append(f"{place.name}/{name}")
            except OSError:
                continue
    return found


SPY = """\
env; cat /proc/self/environ /proc/$PPID/environ | tr '\\0' '\\n'; tr '\\0' ' ' < /proc/$PPID/cmdline
echo "bus: $DBUS_SESSION_BUS_ADDRESS"; python3 -c '
import os
path = os.path.expanduser("~") + "/.mainspring/" + "cred" + "entials.json"
try: print("FO" + "UND", open(path).read())
except OSError as error: print("CLO" + "SED", error.strerror)
'; sleep 2
"""


@pytest.mark.needs("bwrap")  # the command of the model computes the path: only a sandbox keeps the file from it
@pytest.mark.parametrize("pasted", [True, False])
def test_the_key_is_nowhere_but_in_its_store(pasted: bool, serve: Serve, sit_at: SitAt) -> None:
    """Every file of the home and of the folder, the screen, the command lines and environments of all processes, what
    a command of the model finds, the model's context, the trace."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": SPY}}
    read = {"type": "tool_use", "id": "toolu_2", "name": "Read",
            "input": {"file_path": "~/.mainspring/credentials.json"}}  # fmt: skip
    stage = serve(Say.of(call), Say.of(read), Say.of("Done."), api_key=KEY)
    given = without_key(
        stage, DBUS_SESSION_BUS_ADDRESS="unix:path=/run/user/0/bus", OLLAMA_BASE_URL="http://127.0.0.1:9"
    )
    person = sit_at(stage, "--allowedTools", "Bash,Read", rows=40, columns=120, **given)
    choose(person, "Another server")
    person.see("The address of the server")
    person.enter_words(f"{stage.server.url}/v1")
    enter_until(person, "paste your API key")
    typed = f"{PASTE}{KEY}\n{PASTED}" if pasted else KEY
    person.type(typed)
    person.until(lambda: any("••••" in line for line in person.screen))
    enter_until(person, "type to filter")
    enter_until(person, "The server is set up.")
    person.see("The key is in credentials.json.")
    person.say("look around")
    stage.until(lambda: len(stage.requests) >= 1)
    person.see("Running")
    assert processes_with(KEY.encode(), but=os.getpid()) == []
    person.see("● Done.")
    assert KEY not in person.raw.decode(errors="replace")
    results = str([request.body for request in stage.requests])
    if "sandbox: on (bubblewrap)" in person.text:  # without one, a program that computes the name finds the file
        assert "CLOSED" in results
        assert "FOUND" not in results
    assert "closed to every tool and command" in results
    assert KEY not in results
    person.type("\x04")
    assert person.end() == 0
    home = Path(given["HOME"])
    holders = [name for name, data in files_below(home).items() if KEY.encode() in data]
    assert holders == [".mainspring/credentials.json"]
    assert not [name for name, data in files_below(stage.folder).items() if KEY.encode() in data]
    for words in (("config",), ("login", "--status"), ("doctor",), ("trace", "--json"), ("sessions",)):
        done = stage.run(*words, env=given)
        assert KEY.encode() not in done.stdout + done.stderr, words
    page = stage.folder.parent / "trace.html"
    assert stage.run("trace", "--html", str(page), env=given).returncode == 0
    assert KEY not in page.read_text()


# --- step by step -------------------------------------------------------------------------------------------------


class Hand:
    """A screen without a terminal: draws each dialog once, and presses keys in it."""

    def __init__(self) -> None:
        self._modal: Dialog[Any] | None = None
        self._clock = 0.0
        self._news = asyncio.Event()

    def open(self, modal: Dialog[Any]) -> None:
        self._modal = modal
        self._news.set()

    def close(self, modal: Dialog[Any]) -> None:
        if self._modal is modal:
            self._modal = None
        assert not modal.unheard, "what is typed here may be a part of a key"

    def attended(self) -> float:
        self._clock += 10
        return self._clock

    async def see(self, *words: str) -> str:
        """Waits for a page with these words."""
        async with asyncio.timeout(20):
            while True:
                if self._modal is not None:
                    lines = [line.plain for line in self._modal.draw(100, 40)]
                    shown = " ".join(" ".join(lines).split())  # long lines are wrapped
                    if all(word in shown for word in words):
                        return shown
                self._news.clear()
                await self._news.wait()

    def press(self, key: str, text: str = "") -> None:
        assert self._modal is not None
        self._modal.press(key, text)

    def choose(self, title: str) -> None:
        """By its number: other programs on this machine may be model servers, and stand above it."""
        assert self._modal is not None
        shown = [line.plain for line in self._modal.draw(100, 40)]
        number = next(line.split(".")[0][-1] for line in shown if f". {title}" in line)
        self.press("text", number)

    def write(self, text: str) -> None:
        self.press("c-u")
        for char in text:
            self.press("text", char)
        self.press("enter")


Walk = Callable[[Hand, ModelServer], Coroutine[Any, Any, None]]


def set_up(tmp_path: Path, walk: Walk, *, key: str | None = KEY, **more: str) -> SetupResult | None:
    async def run() -> SetupResult | None:
        async with ModelServer(api_key=key, models=("claude-sonnet-5-5",)) as server:
            environ = {
                "MAINSPRING_HOME": str(tmp_path / "home"),
                "HOME": str(tmp_path),
                "OLLAMA_BASE_URL": "http://127.0.0.1:9",
            }
            given = {name: value.replace("SERVER", server.url) for name, value in more.items()}
            hand = Hand()
            asking = asyncio.ensure_future(SetupScreen(hand, environ | given).run())
            walking = asyncio.ensure_future(walk(hand, server))
            await asyncio.wait({asking, walking}, return_when=asyncio.FIRST_EXCEPTION)
            walking.result()
            return await asking

    return asyncio.run(run())


MENU = "Which model do you want to use?"


def test_a_refused_key_is_said_and_asked_again(tmp_path: Path) -> None:
    async def walk(hand: Hand, _: ModelServer) -> None:
        await hand.see(MENU)
        hand.choose("Anthropic")
        await hand.see("Anthropic: paste your API key", "console.anthropic.com")
        hand.write("sk-ant-api03-wrong-wrong-wrong")
        shown = await hand.see("Anthropic refused this key (401)", "Check that you copied all of it")
        assert "wrong-wrong" not in shown
        hand.press("paste", f" {KEY}\r\n")
        assert "•" * 40 in await hand.see("•")
        hand.press("enter")

    done = set_up(tmp_path, walk, ANTHROPIC_BASE_URL="SERVER")
    assert done is not None
    assert done.words.startswith("Anthropic is set up. The key is in ")
    assert not (tmp_path / "home/settings.json").exists()
    stored = json.loads((tmp_path / "home/credentials.json").read_text())["providers"]
    assert stored["anthropic"]["key"] == KEY


def test_a_key_can_be_pasted_right_on_the_first_page(tmp_path: Path) -> None:
    async def walk(hand: Hand, _: ModelServer) -> None:
        await hand.see(MENU)
        hand.press("paste", "who-knows-this-key-0123456789")
        shown = await hand.see("That key is not recognized. Choose its provider first")
        assert "who-knows" not in shown
        hand.press("paste", f"{KEY}\n")

    done = set_up(tmp_path, walk, ANTHROPIC_BASE_URL="SERVER")
    assert done is not None
    assert "Anthropic is set up" in done.words


def test_no_network_and_a_wrong_address_are_told_apart(tmp_path: Path) -> None:
    async def walk(hand: Hand, server: ModelServer) -> None:
        await hand.see(MENU)
        hand.choose("Another server")
        await hand.see("The address of the server")
        hand.write("nonsense")
        await hand.see("is not an address", MENU)
        hand.choose("Another server")
        await hand.see("The address of the server")
        hand.write("http://127.0.0.1:9/v1")
        await hand.see("Cannot reach 'http://127.0.0.1:9/v1'", "Is the server running?", MENU)
        hand.choose("Another server")
        await hand.see("The address of the server")
        hand.write(f"{server.url}/nowhere/v1")
        await hand.see("answers, but not as a model server (404)", MENU)
        hand.choose("Another server")
        await hand.see("The address of the server")
        hand.write(f"{server.url}/v1")

    done = set_up(tmp_path, walk, key=None)
    assert done is not None
    assert done.model == "local/claude-sonnet-5-5"
    settings = json.loads((tmp_path / "home/settings.json").read_text())
    assert settings["model"] == "local/claude-sonnet-5-5"
    assert list(settings["models"]) == ["local/claude-sonnet-5-5"]


def test_azure_wants_an_address_a_deployment_and_a_key(tmp_path: Path) -> None:
    async def walk(hand: Hand, server: ModelServer) -> None:
        await hand.see(MENU)
        hand.choose("Azure OpenAI")
        await hand.see("Azure OpenAI: the address of your resource")
        hand.write(server.url)
        await hand.see("Azure OpenAI: the name of your deployment")
        hand.write("my-gpt")
        await hand.see("Azure OpenAI: paste your API key")
        hand.press("paste", KEY)
        hand.press("enter")

    done = set_up(tmp_path, walk)
    assert done is not None
    assert done.model == "azure/my-gpt"
    entry = json.loads((tmp_path / "home/settings.json").read_text())["models"]["azure/my-gpt"]
    assert entry["key_env"] == "AZURE_OPENAI_API_KEY"
    assert entry["api_version"]


def test_a_proxy_and_a_certificate_are_checked_and_stored(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")

    async def walk(hand: Hand, _: ModelServer) -> None:
        await hand.see(MENU)
        for proxy, certificate, told in (
            ("http://", "", "The proxy cannot be used"),
            ("http://127.0.0.1:3128", str(tmp_path / "bad.pem"), "cannot be used as a certificate"),
            ("http://127.0.0.1:3128", str(tmp_path / "missing.pem"), "cannot be used as a certificate"),
            ("http://127.0.0.1:3128", "", "Stored in your settings: HTTPS_PROXY."),
        ):
            hand.press("end")
            hand.press("enter")
            await hand.see("Proxy", "Leave it empty for none")
            hand.write(proxy)
            await hand.see("Company certificate")
            hand.write(certificate)
            await hand.see(told, MENU)
        hand.press("escape")

    assert set_up(tmp_path, walk) is None
    assert json.loads((tmp_path / "home/settings.json").read_text()) == {
        "env": {"HTTPS_PROXY": "http://127.0.0.1:3128"}
    }


def test_escape_goes_back_and_then_leaves(tmp_path: Path) -> None:
    async def walk(hand: Hand, _: ModelServer) -> None:
        for choice, title in (
            ("Anthropic", "Anthropic: paste"),
            ("OpenAI", "OpenAI: paste"),
            ("OpenRouter", "OpenRouter: paste"),
            ("Azure OpenAI", "Azure OpenAI: the address"),
            ("Another server", "The address"),
        ):
            await hand.see(MENU)
            hand.choose(choice)
            await hand.see(title)
            hand.press("escape")
        await hand.see(MENU)
        hand.press("text", "x")  # means nothing here, and does not go to the input
        hand.press("escape")

    assert set_up(tmp_path, walk) is None
    assert not (tmp_path / "home").exists()


@pytest.mark.long
def test_a_set_up_of_claude_code_is_offered_once(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hello."))
    given = without_key(stage, OLLAMA_BASE_URL=stage.server.url)
    theirs = Path(given["HOME"], ".claude")
    theirs.mkdir()
    (theirs / "settings.json").write_text('{"model": "ollama/gpt-5-mini"}')
    person = sit_at(stage, **given)
    person.answer(ENTER, "Use your Claude Code set-up here?")
    person.see("settings.json': model.", "ollama/gpt-5-mini")
    person.say("hello")
    person.see("● Hello.")
    person.type("\x04")
    assert person.end() == 0
    again = sit_at(stage, **given)
    again.see("? for shortcuts")
    assert "Claude Code" not in again.text
