"""The checks of a chosen provider, and the words for each way in which one fails."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from cli.stage import Serve
from cli.terminal import Terminal, without_notes
from mainspring.cli.provider_setup import (
    CheckResult,
    ProviderChoice,
    ProviderState,
    check_choice,
    find_local_servers,
    recognize_key,
    sort_models,
)
from mainspring.simulator.replies import Say
from mainspring.simulator.server import ModelServer

BEDROCK = ProviderChoice("bedrock", model="bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", region="us-east-1")
VERTEX = ProviderChoice("vertex", model="vertex/claude-sonnet-4-5@20250929", region="us-east5", project="mine")


def check(choice: ProviderChoice, **environment: str) -> CheckResult:
    return asyncio.run(check_choice(choice, {"HOME": "/nowhere", **environment}))


def test_a_cloud_is_asked_for_a_few_tokens(serve: Serve) -> None:
    stage = serve(Say.of("Hi."))
    key = {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-key-0000000000"}
    found = check(BEDROCK, ANTHROPIC_BEDROCK_BASE_URL=stage.server.url, **key)
    assert found == CheckResult(ProviderState.FINE, models=(BEDROCK.model,))
    assert len(stage.requests) == 1
    away = check(BEDROCK, ANTHROPIC_BEDROCK_BASE_URL="http://127.0.0.1:9", **key)
    assert away.state is ProviderState.UNREACHED
    assert "refused" in away.words


def test_missing_credentials_of_a_cloud_name_its_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the machine that runs this test are none of the session's: it has another home, and no variables."""
    (tmp_path / ".aws").mkdir()
    for name in ("config", "credentials"):
        (tmp_path / ".aws" / name).write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    old = tmp_path / "old"
    old.write_text("AWSAccessKeyId=a\nAWSSecretKey=b\n")
    boto = tmp_path / "boto"
    boto.write_text("[Credentials]\naws_access_key_id = a\naws_secret_access_key = b\n")
    for name in ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": tmp_path, "AWS_CREDENTIAL_FILE": old, "BOTO_CONFIG": boto}.items():
        monkeypatch.setenv(name, str(value))
    found = check(BEDROCK, AWS_EC2_METADATA_DISABLED="true")
    assert found.state is ProviderState.REFUSED
    assert found.words.endswith("To sign in: aws sso login.")
    found = check(VERTEX, GOOGLE_APPLICATION_CREDENTIALS="/nowhere/key.json")
    assert found.state is ProviderState.REFUSED
    assert found.words.endswith("To sign in: gcloud auth application-default login.")
    nowhere = check(ProviderChoice("bedrock", model=BEDROCK.model))
    assert (nowhere.state, "needs a region" in nowhere.words) == (ProviderState.WRONG, True)


@pytest.mark.parametrize(
    ("key", "provider"),
    [("sk-ant-api03-x", "anthropic"), ("sk-proj-x", "openai"), (" sk-or-v1-x", "openrouter"), ("AIzaSyX", "gemini"),
     ("sk-other", ""), ("", "")],
)  # fmt: skip
def test_a_pasted_key_tells_its_provider(key: str, provider: str) -> None:
    assert recognize_key(key) == provider


def test_models_with_a_known_price_come_first() -> None:
    assert sort_models(["zeta", "gpt-5-mini", "alpha", "gpt-5"]) == ["gpt-5", "gpt-5-mini", "zeta", "alpha"]


def test_a_server_that_is_no_model_server_is_not_listed() -> None:
    async def find() -> list[str]:
        async with ModelServer(models=()) as empty, ModelServer(models=("qwen3",)) as server:
            found = [*await find_local_servers({"OLLAMA_BASE_URL": empty.url})]
            found += await find_local_servers({"OLLAMA_BASE_URL": server.url})
            return [model for one in found for model in one.models if one.endpoint.name == "ollama"]

    assert asyncio.run(find()) == ["ollama/qwen3"]


def test_login_and_logout_in_a_conversation_without_a_screen(serve: Serve) -> None:
    stage = serve()
    without_notes(stage)
    assert stage.run("login", "anthropic", "--key-stdin", input=b"sk-ant-api03-conversation-0000").returncode == 0
    with closing(Terminal(stage)) as terminal:
        terminal.say("/login")
        terminal.see("anthropic   credentials.json")
        terminal.see("To store a key, run 'mainspring login'.")
        terminal.say("/logout")
        terminal.see("Removed the key for Anthropic from credentials.json.")
        terminal.see("This session keeps its key until it ends.")
        terminal.say("/logout")
        terminal.see("No key is stored.")
