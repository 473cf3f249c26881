"""Azure OpenAI: the version in the query, the key in its own header, the deployment in the path. The simulator checks
all three, and OpenAI's own client for Azure is the yardstick of what is sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli.stage import Stage, serving
from peers import PYTHON, is_made

from mainspring.agent.endpoints import endpoint_from_settings, ways_out
from mainspring.cli.commands.models import ask_model_servers, server_at
from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import Text, user
from mainspring.core.reasons import Trouble
from mainspring.providers.base import BlockFinished, Conversation, ToolSpec
from mainspring.providers.http.client import Transport
from mainspring.providers.http_provider import ApiKey
from mainspring.providers.openai.provider import OpenAI, OpenAIChat, OpenAIResponses, azure_base_url
from mainspring.settings.values import ModelEntry
from mainspring.simulator.replies import ReceivedRequest, Say
from mainspring.simulator.server import ModelServer

VERSION = "2025-04-01-preview"
REQUEST = Request("azure/my prod", 1_000, 1, "sdk", "", 0, overload_tries=1)
READ = ToolSpec("Read", "Reads.", {"type": "object", "properties": {"file_path": {"type": "string"}}})
GO = Conversation(History([user("go")]), tools=(READ,))
PATHS: dict[type[OpenAI], str] = {
    OpenAIChat: "/openai/deployments/my%20prod/chat/completions",
    OpenAIResponses: "/openai/responses",
}
both = pytest.mark.parametrize("kind", PATHS, ids=["chat", "responses"])


def provider(kind: type[OpenAI], url: str, transport: Transport, key: str = "key", version: str = VERSION) -> OpenAI:
    how: Any = {"base_url": url, "transport": transport, "prefix": "azure/", "api_version": version}
    return kind(ApiKey(key, "api-key"), **how)


def ask(kind: type[OpenAI], **how: str) -> tuple[list[Text], ModelServer]:
    server = ModelServer(choose=lambda _: Say.of("Hello."), api_key="key")

    async def main() -> list[Text]:
        async with server, Transport() as transport:
            found = [
                item.block
                async for batch in provider(kind, server.url, transport, **how).stream(REQUEST, GO)
                for item in batch
                if isinstance(item, BlockFinished)
            ]
        return [block for block in found if isinstance(block, Text)]

    return asyncio.run(main()), server


@both
def test_the_version_the_key_and_the_deployment_are_where_azure_wants_them(kind: type[OpenAI]) -> None:
    said, server = ask(kind)
    (request,) = server.requests
    assert (said, server.violations) == ([Text("Hello.")], [])
    assert (request.path, request.query) == (PATHS[kind], f"api-version={VERSION}")
    assert request.headers["api-key"] == "key"
    assert "authorization" not in request.headers
    assert request.body["model"] == "my prod"


@both
@pytest.mark.parametrize(
    ("how", "kind_of_trouble", "words"),
    [
        ({"key": "other"}, Trouble.AUTH, "401: Access denied due to invalid subscription key"),
        ({"version": "newest"}, Trouble.INVALID_REQUEST, "404: Resource not found"),
    ],
)
def test_what_azure_refuses(kind: type[OpenAI], how: dict[str, str], kind_of_trouble: Trouble, words: str) -> None:
    with pytest.raises(ProviderError) as caught:
        ask(kind, **how)
    assert caught.value.failure.kind is kind_of_trouble
    assert caught.value.failure.detail.startswith(words)


def test_the_address_may_have_a_path_already() -> None:
    assert azure_base_url("https://x.openai.azure.com/") == azure_base_url("https://x.openai.azure.com/openai/")
    assert azure_base_url("https://gateway.example/team/openai") == "https://gateway.example/team/openai"


def sent(request: ReceivedRequest) -> tuple[str, str, str | None, str | None]:
    return request.path, request.query, request.headers.get("api-key"), request.headers.get("authorization")


def test_openai_s_own_client_asks_in_the_same_way() -> None:
    """And the simulator answers it: what is checked there is what that client sends, and not our idea of it."""
    assert is_made(), "there is no '.venv-peers' with the pinned client: run 'make peers'"
    server = ModelServer(choose=lambda _: Say.of("Hello."), api_key="key", models=("gpt-5",))
    script = Path(__file__).with_name("official_azure.py")
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    entry = ModelEntry("azure/my prod", key_env="KEY", api_version=VERSION)

    async def main() -> list[Any]:
        async with server, Transport() as transport:
            command = [str(PYTHON), str(script), server.url, "key", VERSION, "my prod"]
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
            told, _ = await process.communicate()
            assert process.returncode == 0
            for kind in PATHS:
                async for _ in provider(kind, server.url, transport).stream(REQUEST, GO):
                    pass
            endpoint = endpoint_from_settings(
                ModelEntry(entry.name, base_url=server.url, key_env="KEY", api_version=VERSION)
            )
            (offer,) = await ask_model_servers([server_at(endpoint, {"KEY": "key"})])
            return [*json.loads(told), offer.models]

    assert asyncio.run(main()) == ["Hello.", "Hello.", ["gpt-5"], (("gpt-5", 0),)]
    assert server.violations == []
    theirs, ours = server.requests[:3], server.requests[3:]
    assert [sent(request) for request in ours] == [sent(request) for request in theirs]


# --- by settings ------------------------------------------------------------------------------------------------


def test_ways_out_name_the_deployment_and_the_version() -> None:
    entry = ModelEntry("azure/prod", base_url="https://x.example", key_env="AZURE_KEY", api_version=VERSION)
    assert ways_out(endpoint_from_settings(entry)).unknown == (
        "check the name of the deployment and 'models.azure/prod.base_url' in your settings, with 'api_version' beside "
        "it"
    )


def flags(stage: Stage, **more: str) -> tuple[str, ...]:
    entry = {"base_url": stage.server.url, "api_version": VERSION, "key_env": "MY_KEY", **more}
    return ("--model=azure/prod", f"--settings={json.dumps({'models': {'azure/prod': entry}})}")


@pytest.mark.parametrize(
    ("protocol", "path"),
    [("chat", "/openai/deployments/prod/chat/completions"), ("responses", "/openai/responses")],
)
def test_a_run_of_the_command(tmp_path: Path, protocol: str, path: str) -> None:
    with serving([Say.of("Hello.")], tmp_path / "work", api_key="key") as stage:
        done = stage.run("-p", "hi", *flags(stage, protocol=protocol), env={"MY_KEY": "key"})
        assert (done.stdout, done.returncode) == (b"Hello.\n", 0), done.stderr
        (request,) = stage.requests
        assert (request.path, request.query) == (path, f"api-version={VERSION}")
        refused = stage.run("-p", "hi", *flags(stage, protocol=protocol), env={"MY_KEY": "wrong"})
        assert b"Access denied" in refused.stdout + refused.stderr
        assert b"the key was refused: check MY_KEY" in refused.stdout + refused.stderr


def test_doctor_asks_it_and_does_not_look_for_deployments_among_its_models(tmp_path: Path) -> None:
    with serving([], tmp_path / "work", api_key="key") as stage:
        entry = {"base_url": stage.server.url, "api_version": VERSION, "key_env": "MY_KEY"}
        stage.home.mkdir()
        (stage.home / "settings.json").write_text(json.dumps({"model": "azure/prod", "models": {"azure/prod": entry}}))
        done = stage.run("doctor", "--online", env={"MY_KEY": "key"})
        told = " ".join(done.stdout.decode().split())  # it is wrapped for a terminal
        assert f"'{stage.server.url}' answers and accepts the key" in told
        assert "does not list" not in told
