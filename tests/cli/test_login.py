"""`mainspring login` and `logout`, line by line and in scripts: what is checked, stored, printed and refused."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from tui.person import Person

from cli.stage import Done, Serve, Stage
from mainspring.simulator.replies import Say

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
