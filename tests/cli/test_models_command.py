"""`mainspring models`: what is known, what settings add, and what servers offer when they are asked."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from cli.stage import Serve
from mainspring.agent.options import StartError
from mainspring.cli.commands.models import parse_model_list, window_of
from mainspring.cli.subcommands import main
from mainspring.core.models import AS_OF, MODELS


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without settings, and an environment without keys and addresses."""
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENROUTER_API_KEY",
        "GEMINI_API_KEY",
        "OLLAMA_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *flags: str, **more: Any) -> tuple[int, str]:
    said = [word for name, value in more.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    code = main(["models", *flags, *said])
    return code, capsys.readouterr().out


def test_every_known_model_has_a_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["model", "window", "output", "input", "$", "cached", "$", "output", "$"]
    assert [line.split()[0] for line in lines[1 : len(MODELS) + 1]] == list(MODELS)
    assert lines[1].split() == ["claude-fable-5-1", "1,000,000", "128,000", "10.00", "0.25", "50.00"]
    assert f"as of {AS_OF}" in lines[-2]
    assert lines[-1] == "Run 'mainspring models --ask' to ask the servers which models they offer."


def test_prices_that_depend_on_the_prompt_are_shown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = next(line for line in run(capsys)[1].splitlines() if line.startswith("claude-haiku-5-5"))
    assert line.split("  ")[-1] == "0.50/2.50 above 100,000"


def test_settings_add_models_and_change_them(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    qwen = {"window": 40_000, "max_output": 8_000, "input_usd": 0.1, "output_usd": 0.125}
    own = {"models": {"qwen3": qwen, "claude-opus-5": {"window": 300_000}}}
    _, out = run(capsys, settings=json.dumps(own))
    added = next(line for line in out.splitlines() if line.startswith("qwen3"))
    changed = next(line for line in out.splitlines() if line.startswith("claude-opus-5 "))
    assert added.split() == ["qwen3", "40,000", "8,000", "0.10", "0.01", "0.125", "settings"]
    assert changed.split()[1:] == ["300,000", "128,000", "5.00", "0.50", "25.00", "settings"]


def test_as_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(capsys, "--json")[1])
    assert told["as_of"] == AS_OF
    assert "servers" not in told, "nobody was asked"
    by_name = {model["name"]: model for model in told["models"]}
    assert by_name["claude-sonnet-5-5"] == {
        "name": "claude-sonnet-5-5",
        "window": 1_000_000,
        "max_output": 128_000,
        "input_usd": 2.0,
        "cache_write_usd": 2.5,
        "cache_write_1h_usd": 4.0,
        "cache_read_usd": 0.1,
        "output_usd": 10.0,
        "above_tokens": None,
        "above": None,
        "source": "table",
    }
    assert by_name["claude-haiku-5-5"]["above_tokens"] == 100_000
    assert by_name["claude-haiku-5-5"]["above"]["output_usd"] == 2.5


def test_both_servers_are_asked(
    place: Path, serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve()  # it accepts both keys
    monkeypatch.setenv("ANTHROPIC_BASE_URL", stage.server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{stage.server.url}/v1/")
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    code, out = run(capsys, "--ask")
    url = f"{stage.server.url}/v1/models"
    offered = [f"  {name}" for name in MODELS]
    assert code == 0
    assert out.splitlines()[-len(offered) * 2 - 3 :] == [
        f"{url} (api.baseUrl) offers {len(MODELS)} models:",
        *offered,
        "",
        f"{url} (OPENAI_BASE_URL) offers {len(MODELS)} models:",
        *offered,
    ]
    assert "secret" not in out
    asked = {request.path: request.headers for request in stage.requests if "anthropic-version" in request.headers}
    assert asked["/v1/models"]["x-api-key"] == "secret"
    assert [request.headers.get("authorization") for request in stage.requests].count("Bearer other") == 1


def test_a_token_goes_where_tokens_go(
    place: Path, serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", stage.server.url)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    told = json.loads(run(capsys, "--ask", "--json")[1])
    assert [server["error"] for server in told["servers"]] == [None]
    assert [model["name"] for model in told["servers"][0]["models"]] == list(MODELS)
    assert stage.requests[0].headers["authorization"] == "Bearer token"
    assert "x-api-key" not in stage.requests[0].headers


def test_a_helper_is_asked_for_the_key(
    place: Path, serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, helper = serve(), place / "helper"
    helper.write_text("#!/bin/sh\necho sk-ant-api-brought\n")
    helper.chmod(0o700)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", stage.server.url)
    code, _ = run(capsys, settings=json.dumps({"apiKeyHelper": str(helper)}))
    assert (code, stage.requests) == (0, []), "nobody is asked without '--ask'"
    code, out = run(capsys, "--ask", settings=json.dumps({"apiKeyHelper": str(helper)}))
    (asked,) = stage.requests
    assert (code, asked.headers["x-api-key"]) == (0, "sk-ant-api-brought")
    assert "brought" not in out
    helper.write_text("#!/bin/sh\nexit 3\n")
    code, out = run(capsys, "--ask", settings=json.dumps({"apiKeyHelper": str(helper)}))
    assert (code, len(stage.requests)) == (1, 1)
    assert (
        out.splitlines()[-1] == f"{stage.server.url}/v1/models (api.baseUrl): "
        "'apiKeyHelper' ended with 3: run it in a terminal to find the problem"
    )


def test_what_settings_add_to_the_environment_counts(
    place: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = serve()
    home = place / "home"
    home.mkdir()
    env = {"OPENAI_BASE_URL": stage.server.url, "OPENAI_API_KEY": "sk-from-settings"}
    (home / "settings.json").write_text(json.dumps({"env": env}))
    code, out = run(capsys, "--ask")
    (asked,) = stage.requests
    assert (code, asked.headers["authorization"]) == (0, "Bearer sk-from-settings")
    assert f"{stage.server.url}/v1/models (OPENAI_BASE_URL) offers {len(MODELS)} models:" in out.splitlines()


def test_servers_of_named_models_are_asked_in_their_own_way(
    place: Path, serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = serve()
    monkeypatch.setenv("OLLAMA_BASE_URL", stage.server.url)
    monkeypatch.setenv("MINE", "sk-ant-api-mine")
    mine = {"base_url": stage.server.url, "protocol": "anthropic", "key_env": "MINE"}
    own = {"model": "ollama/qwen3", "models": {"mine/claude": mine}}
    told = json.loads(run(capsys, "--ask", "--json", settings=json.dumps(own))[1])
    named = [(server["named_by"], server["error"]) for server in told["servers"]]
    assert named == [("OLLAMA_BASE_URL", None), ("models.mine/claude.base_url", None)]
    keys = [request.headers.get("x-api-key") for request in stage.requests]
    assert sorted(map(str, keys)) == ["None", "sk-ant-api-mine"]
    assert [request.headers.get("authorization") for request in stage.requests] == [None, None]


def test_a_server_that_does_not_answer_has_a_line(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        code, out = run(capsys, "--ask")
    assert code == 1
    assert out.splitlines()[-1].startswith(f"{url}/v1/models (OPENAI_BASE_URL): no answer: ")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", "answered 401: a key is required, and none is set"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "answered 404: no list of models"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]", "cannot read its list of models"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnope", "cannot read its list of models"),
    ],
)
def test_answers_that_are_none(
    answer: bytes, said: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def once() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(65_536)
                client.sendall(answer)

        thread = threading.Thread(target=once)
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{listening.getsockname()[1]}")
        code, out = run(capsys, "--ask")
        thread.join()
    assert code == 1
    assert out.splitlines()[-1].endswith(f"(OPENAI_BASE_URL): {said}")


def test_an_address_that_is_none_is_told(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost")
    code, out = run(capsys, "--ask")
    assert code == 1
    assert "is not an address" in out.splitlines()[-1]


def test_no_server_at_all(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StartError, match="no server is configured: set ANTHROPIC_API_KEY"):
        run(capsys, "--ask")


def test_a_word_too_many(place: Path) -> None:
    with pytest.raises(StartError, match="'mainspring models': unknown argument 'all'"):
        main(["models", "all"])


def test_windows_in_the_fields_that_servers_have_for_them() -> None:
    entries: list[dict[str, Any]] = [
        {"context_length": 1},
        {"max_model_len": 2},
        {"max_input_tokens": 3},
        {"meta": {"n_ctx": 4}},
        {"meta": None},
    ]
    assert [window_of(entry) for entry in entries] == [1, 2, 3, 4, 0]


def test_names_of_models_cannot_move_the_cursor() -> None:
    assert parse_model_list({"data": [{"id": "evil\x1b[2Jname", "max_model_len": 7}]}) == (("evil[2Jname", 7),)
