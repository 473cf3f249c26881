"""`mainspring login` and `logout`, line by line and in scripts: what is checked, stored, printed and refused."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import Any

import pytest
from tui.person import Person

from cli.stage import Done, Serve, Stage
from cli.terminal import CTRL_D, SitAt, Terminal, sit_at
from mainspring.simulator.replies import Say

__all__ = ["sit_at"]  # a fixture

KEY = "sk-ant-api03-login-aaaabbbbccccdddd"


def keyed(stage: Stage, *words: str, key: str = KEY) -> Done:
    return stage.run("login", *words, "--key-stdin", input=f"{key}\n".encode())


def stored(stage: Stage) -> dict[str, Any]:
    file = stage.home / "credentials.json"
    found: dict[str, Any] = json.loads(file.read_text())["providers"] if file.exists() else {}
    return found


def test_a_script_stores_a_key_and_the_next_run_uses_it(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), api_key=KEY)
    done = keyed(stage, "anthropic")
    assert (done.returncode, done.stdout, done.stderr) == (
        0, b"Anthropic is set up. The key is in credentials.json.\n", b""
    )  # fmt: skip
    assert stage.run("-p", "hello").stdout == b"Hi.\n"
    assert stage.requests[-1].headers["x-api-key"] == KEY
    assert stage.run("login", "--status").stdout == b"anthropic   credentials.json\n"
    assert b"API key for Anthropic: credentials.json" in stage.run("config").stdout
    other = {"ANTHROPIC_API_KEY": "sk-ant-api03-environment-0000"}
    assert stage.run("login", "--status", env=other).stdout == b"anthropic   ANTHROPIC_API_KEY\n"
    done = stage.run("logout", env=other)
    assert done.stdout.decode().splitlines() == [
        "Removed the key for Anthropic from credentials.json.",
        "Anthropic still has a key in ANTHROPIC_API_KEY, which only your shell can unset.",
    ]
    assert stored(stage) == {}
    assert stage.run("logout").stdout == b"No key is stored.\n"
    assert stage.run("logout", "openai").stdout == b"No key is stored for 'openai'.\n"
    assert stage.run("login", "--status").stdout == b"No keys. Run 'mainspring login' to store one.\n"


@pytest.mark.parametrize(
    ("words", "key", "told"),
    [
        (("anthropic",), "sk-ant-api03-wrong-wrong", "Anthropic refused this key (401)"),
        (("anthropic",), "two words", "what standard input has is not a valid key"),
        (("anthropic", "--url", "http://127.0.0.1:9"), KEY, "Cannot reach 'http://127.0.0.1:9'"),
        (("local", "--url", "SERVER/nowhere"), KEY, "answers, but not as a model server (404)"),
        (("anthropi",), KEY, "there is no provider 'anthropi'. Did you mean 'anthropic'?"),
        (("openrouter", "--url", "SERVER"), KEY, "'openrouter' has one address"),
        (("azure",), KEY, "address of the server is missing: give it with '--url URL'"),
        (("ollama", "--model", "no-such-model", "--url", "SERVER"), KEY, "wants a key (401), and none was given"),
    ],
)
def test_nothing_is_stored_unless_it_works(words: tuple[str, ...], key: str, told: str, serve: Serve) -> None:
    stage = serve(api_key=KEY)
    done = keyed(stage, *[word.replace("SERVER", stage.server.url) for word in words], key=key)
    assert done.returncode == 1
    assert told in done.stderr.decode()
    assert key.encode() not in done.stdout + done.stderr
    assert stored(stage) == {}
    assert not (stage.home / "settings.json").exists()


def test_a_server_of_ones_own_with_a_key_and_a_model(serve: Serve) -> None:
    stage = serve(Say.of("Hi."), api_key=KEY)
    done = keyed(stage, "local", "--url", f"{stage.server.url}/v1", "--model", "gpt-5")
    assert done.stdout == b"The server is set up. Model: local/gpt-5. The key is in credentials.json.\n"
    assert stage.run("-p", "hello", env={"ANTHROPIC_BASE_URL": ""}).stdout == b"Hi.\n"
    assert stage.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    settings = json.loads((stage.home / "settings.json").read_text())
    assert settings == {"models": {"local/gpt-5": {"base_url": f"{stage.server.url}/v1"}}, "model": "local/gpt-5"}


def test_a_stored_key_does_not_follow_an_address(serve: Serve) -> None:
    """It is for the address that it was stored for (security T2)."""
    stage = serve(Say.of("Hi."))
    assert keyed(stage, "anthropic").returncode == 0
    done = stage.run("-p", "hello", env={"ANTHROPIC_BASE_URL": f"{stage.server.url}/other/.."})
    assert done.returncode == 1
    assert all("x-api-key" not in request.headers for request in stage.requests[1:])


def test_without_a_key_the_error_names_the_login(serve: Serve) -> None:
    stage = serve()
    for words in (("-p", "hello"), ("hello world",)):
        done = stage.run(*words, env={"ANTHROPIC_BASE_URL": ""})
        assert done.returncode == 1
        assert b"no API key found. Run 'mainspring login' to store one" in done.stderr
        assert b"docs/" not in done.stderr
    done = stage.run("login", env={"ANTHROPIC_BASE_URL": ""})
    assert b"asks for the key in a terminal; in a script, name the provider and use '--key-stdin'" in done.stderr


def test_in_a_terminal_the_key_is_asked_for_without_an_echo(serve: Serve) -> None:
    stage = serve(api_key=KEY)
    with closing(Person(stage, "login", "anthropic")) as person:
        person.see("Create a key at console.anthropic.com.", "API key for Anthropic (not shown):")
        person.type(f"{KEY}\r")
        person.see("Anthropic is set up.")
        assert person.end() == 0
        assert KEY.encode() not in person.raw
    assert stored(stage)["anthropic"]["key"] == KEY


def without_key(stage: Stage, **more: str) -> dict[str, str]:
    """A fresh home, and nothing in the environment that names a server or a key."""
    home = stage.folder.parent / "person"
    home.mkdir(exist_ok=True)
    nothing = {name: "" for name in os.environ if name.endswith("_API_KEY")}
    return {**nothing, "HOME": str(home), "MAINSPRING_HOME": "", "ANTHROPIC_BASE_URL": "", **more}


def take(terminal: Terminal, label: str, question: str = "Provider (1-") -> None:
    """By its number: other programs on this machine may be model servers, and stand above it."""
    shown = terminal.see(question)
    number = next(line.strip().partition(".")[0] for line in shown.splitlines() if f". {label}" in line)
    terminal.type(f"{number}\r")


def test_a_plain_start_without_a_key_offers_the_choices_of_the_start_screen(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hello from this machine."))
    terminal = sit_at(stage, **without_key(stage, OLLAMA_BASE_URL=stage.server.url))
    shown = terminal.see("Provider (1-")
    for label in (
        "Ollama on this machine", "Anthropic: ", "OpenAI: ", "OpenRouter: ", "Azure OpenAI: ", "Amazon Bedrock: ",
        "Google Vertex AI: ", "Another server", "Demo model", "Proxy or company certificate",
    ):  # fmt: skip
        assert any(label in line and line.strip()[0].isdecimal() for line in shown.splitlines()), label
    assert "no key needed" in shown
    terminal.type("99\r")
    terminal.see("Type a number from 1 to")
    terminal.type("1\r")
    take(terminal, "ollama/gpt-5-mini", "Model for new sessions (1-")
    terminal.see("Ollama is set up. Model: ollama/gpt-5-mini.")
    terminal.say("hello")
    terminal.see("Hello from this machine.")
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0


def test_a_plain_start_asks_again_until_a_choice_works(serve: Serve, sit_at: SitAt) -> None:
    stage = serve(Say.of("Hi."), api_key=KEY)
    given = without_key(stage, ANTHROPIC_BASE_URL="", OLLAMA_BASE_URL="http://127.0.0.1:9")
    terminal = sit_at(stage, **given)
    take(terminal, "Another server")
    terminal.see("Address of the server: ")
    terminal.type("http://127.0.0.1:9/v1\r")
    terminal.see("Not set up: nothing was stored. Cannot reach 'http://127.0.0.1:9/v1'")
    take(terminal, "Proxy or company certificate")
    terminal.see("Proxy, such as")
    terminal.type("\r")
    terminal.see("PEM file")
    terminal.type("/no/such/file.pem\r")
    terminal.see("Not set up: '/no/such/file.pem' cannot be used as a certificate")
    take(terminal, "Another server")
    terminal.see("Address of the server: ")
    terminal.type(f"{stage.server.url}/v1\r")
    terminal.see("(not shown): ")
    terminal.type("sk-wrong-wrong-wrong-wrong\r")
    terminal.see("refused this key (401)")
    take(terminal, "Another server")
    terminal.see("Address of the server: ")
    terminal.type(f"{stage.server.url}/v1\r")
    terminal.see("(not shown): ")
    terminal.type(f"{KEY}\r")
    take(terminal, "local/gpt-5-mini", "Model for new sessions (1-")
    terminal.see("The server is set up. Model: local/gpt-5-mini.")
    terminal.say("hello")
    terminal.see("Hi.")
    assert KEY not in terminal.shown
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert terminal.is_as_before()


def test_a_plain_start_can_be_left_and_has_the_demo_model(serve: Serve, sit_at: SitAt) -> None:
    stage = serve()
    given = without_key(stage, OLLAMA_BASE_URL="http://127.0.0.1:9")
    terminal = sit_at(stage, **given)
    terminal.see("Provider (1-")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert "No model is set up. Run 'mainspring' again when you have a key." in terminal.shown
    terminal = sit_at(stage, **given)
    take(terminal, "Demo model")
    terminal.see("scripted and offline. 'mainspring login' connects a real one.")
    terminal.see("demo/tour")
    terminal.see("> ")
    terminal.type(CTRL_D)
    assert terminal.end() == 0
    assert not list(stage.folder.parent.glob("person/.mainspring/settings.json"))
