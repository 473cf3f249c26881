"""Whole runs on Bedrock and Vertex AI: signed requests, tools, prices, failures, and credentials that expire."""

from __future__ import annotations

import asyncio
import calendar
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clouds.servers import TokenServer, make_service_account
from clouds.test_signatures import sign_with_botocore
from mainspring import Agent, Answer, ModelError, UsageError, open_run
from mainspring.core.models import model_named
from mainspring.core.money import Usage, cost
from mainspring.core.reasons import Cause
from mainspring.providers.clouds.aws import AwsCredentials
from mainspring.secrets.held import list_secrets
from mainspring.simulator.clouds import encode_stream_message, frame_bedrock_event
from mainspring.simulator.connection import IncomingRequest, ServerConnection
from mainspring.simulator.replies import RawStream, Refuse, Reply, ReplyStamp, Say, stream_events
from mainspring.simulator.server import ModelServer

SONNET = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2, "b": 3}}
USAGE = Usage(input=1_000, output=100)
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
CLEARED = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUD_ML_REGION"),
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "ANTHROPIC_VERTEX_PROJECT_ID", "AWS_CREDENTIAL_EXPIRATION"),
)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without credentials, and no instance to ask for them."""
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "MAINSPRING_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_GCE_CHECK": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def token_server() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def google(home: Path, monkeypatch: pytest.MonkeyPatch, token_server: TokenServer) -> None:
    file = home / "account.json"
    file.write_text(json.dumps(make_service_account(token_server.url)))
    for name, value in {
        "CLOUD_ML_REGION": "us-east5",
        "ANTHROPIC_VERTEX_PROJECT_ID": "my-project",
        "GOOGLE_APPLICATION_CREDENTIALS": str(file),
    }.items():
        monkeypatch.setenv(name, value)


def run(
    monkeypatch: pytest.MonkeyPatch, model: str, *replies: Reply, **options: Any
) -> tuple[Answer[Any], ModelServer]:
    server = ModelServer(replies)

    async def main() -> Answer[Any]:
        async with server:
            monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.url)
            monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", f"{server.url}/v1")
            return await Agent(model=model or None, tools=[add], **options).run("What is 2 + 3?")

    return asyncio.run(main()), server


# --- Bedrock ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("aws")
def test_a_run_with_a_tool_on_bedrock(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, server = run(monkeypatch, f"bedrock/{SONNET}", Say.of(CALL, usage=USAGE), Say.of("It is 5.", usage=USAGE))
    assert (answer.text, server.violations) == ("It is 5.", [])
    first, second = server.requests
    assert first.path == "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream"
    assert first.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "SignedHeaders=content-type;host;x-amz-date, " in first.headers["authorization"]
    assert "x-api-key" not in first.headers
    assert second.body["messages"][-1]["content"][0]["content"] == [{"type": "text", "text": "5"}]


@pytest.mark.usefixtures("aws")
def test_a_model_on_a_cloud_costs_what_it_costs_at_anthropic(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, _ = run(monkeypatch, f"bedrock/{SONNET}", Say.of("5", usage=USAGE))
    assert answer.cost_usd == cost(USAGE, model_named("claude-sonnet-4-5").price) / 1e9


@pytest.mark.parametrize(
    "name",
    [
        f"bedrock/{SONNET}",
        "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock/global.anthropic.claude-sonnet-4-5",
        f"bedrock/arn:aws:bedrock:us-east-1:123456789012:inference-profile/{SONNET}",
        "vertex/claude-sonnet-4-5@20250929",
        "vertex/claude-sonnet-4-5@default",
    ],
)
def test_the_names_of_clouds_are_known_models(name: str) -> None:
    known = model_named("claude-sonnet-4-5")
    assert (model_named(name).price, model_named(name).window, model_named(name).name) == (
        known.price,
        known.window,
        name,
    )


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("region", "path"), [("us-west-2", "us.anthropic."), ("eu-west-1", "eu.anthropic."), ("sa-east-1", "anthropic.")]
)
def test_claude_code_s_variable_moves_plain_names(monkeypatch: pytest.MonkeyPatch, region: str, path: str) -> None:
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    monkeypatch.setenv("AWS_REGION", region)
    answer, server = run(monkeypatch, "sonnet", Say.of("5"))
    assert answer.text == "5"
    assert server.requests[0].path == f"/model/{path}claude-sonnet-5-5/invoke-with-response-stream"
    assert f"/{region}/bedrock/aws4_request" in server.requests[0].headers["authorization"]


@pytest.mark.usefixtures("aws")
def test_a_model_of_the_environment_is_sent_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    monkeypatch.setenv("ANTHROPIC_MODEL", SONNET)
    _, server = run(monkeypatch, "", Say.of("5"))
    assert server.requests[0].body["model"] == SONNET


def test_a_key_of_bedrock_is_sent_as_it_is_and_kept_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-0123456789abcdef")
    _, server = run(monkeypatch, f"bedrock/{SONNET}", Say.of("5"))
    assert server.requests[0].headers["authorization"] == "Bearer bedrock-api-key-0123456789abcdef"
    assert "bedrock-api-key-0123456789abcdef" in list_secrets()


def test_credentials_of_a_profile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "credentials").write_text(
        f"[work]\naws_access_key_id = AKIDWORK\naws_secret_access_key = {SECRET[::-1]}\naws_session_token = session-1\n"
    )
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_PROFILE", "work")
    _, server = run(monkeypatch, f"bedrock/{SONNET}", Say.of("5"))
    (request,) = server.requests
    assert "Credential=AKIDWORK/" in request.headers["authorization"]
    assert request.headers["x-amz-security-token"] == "session-1"
    assert {SECRET[::-1], "session-1"} <= set(list_secrets())


EXPIRED = Refuse(403, "", "The security token included in the request is expired", code="ExpiredTokenException")


def test_expired_credentials_are_refreshed_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is read again, as after 'aws sso login' in another terminal."""
    file = home / "credentials"

    def write(name: str) -> None:
        file.write_text(f"[default]\naws_access_key_id = {name}\naws_secret_access_key = {SECRET}\n")

    def choose(request: Any) -> Reply:
        if "Credential=AKIDOLD/" in request.headers["authorization"]:
            write("AKIDNEW")
            return EXPIRED
        return Say.of("5")

    write("AKIDOLD")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    server = ModelServer(choose=choose)

    async def main() -> Answer[str]:
        async with server:
            monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.url)
            return await Agent(model=f"bedrock/{SONNET}").run("hi")

    assert asyncio.run(main()).text == "5"
    assert ["AKIDNEW" in request.headers["authorization"] for request in server.requests] == [False, True]


def failure_of(monkeypatch: pytest.MonkeyPatch, model: str, *replies: Reply) -> tuple[str, Cause, ModelServer]:
    server = ModelServer(replies)

    async def main() -> ModelError:
        async with server:
            monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.url)
            monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", f"{server.url}/v1")
            with pytest.raises(ModelError) as caught:
                await Agent(model=model).run("hi")
            return caught.value

    error = asyncio.run(main())
    assert error.cause is not None
    return str(error), error.cause, server


@pytest.mark.usefixtures("aws")
def test_the_same_credentials_are_not_sent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    words, kind, server = failure_of(monkeypatch, f"bedrock/{SONNET}", EXPIRED)
    assert (kind, len(server.requests)) == (Cause.AUTH, 1)
    assert words == (
        "403: ExpiredTokenException: The security token included in the request is expired (the credentials were "
        "refused: get new ones, for example with 'aws sso login')"
    )


@pytest.mark.usefixtures("aws")
def test_throttling_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Refuse(429, "", "Too many requests, please wait.", headers={"retry-after-ms": "1"})
    answer, server = run(monkeypatch, f"bedrock/{SONNET}", slow, Say.of("5"))
    assert (answer.text, len(server.requests)) == ("5", 2)


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("refuse", "kind"),
    [
        (Refuse(400, "", "messages: bad"), Cause.INVALID_REQUEST),
        (Refuse(403, "", "You don't have access to the model with the specified model ID."), Cause.AUTH),
        (Refuse(404, "", "Could not resolve the foundation model"), Cause.INVALID_REQUEST),
    ],
)
def test_refusals_of_bedrock(monkeypatch: pytest.MonkeyPatch, refuse: Refuse, kind: Cause) -> None:
    words, found, server = failure_of(monkeypatch, f"bedrock/{SONNET}", refuse)
    assert (found, len(server.requests)) == (kind, 1)
    assert words.startswith(f"{refuse.status}: ")
    assert refuse.message in words


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    words, kind, server = failure_of(monkeypatch, f"bedrock/{SONNET}")
    assert (kind, server.requests) == (Cause.AUTH, [])
    assert words.startswith("no AWS credentials were found: run 'aws configure'")


def test_credentials_that_say_they_expired_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": "session-2",
        "AWS_CREDENTIAL_EXPIRATION": "2020-01-01T00:00:00Z",
    }.items():
        monkeypatch.setenv(name, value)
    words, kind, server = failure_of(monkeypatch, f"bedrock/{SONNET}")
    assert (kind, server.requests) == (Cause.AUTH, [])
    assert words.startswith("AWS credentials could not be loaded: ")


# --- Vertex AI ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("google")
def test_a_run_with_a_tool_on_vertex(monkeypatch: pytest.MonkeyPatch, token_server: TokenServer) -> None:
    model = "vertex/claude-sonnet-4-5@20250929"
    answer, server = run(monkeypatch, model, Say.of(CALL, usage=USAGE), Say.of("It is 5.", usage=USAGE))
    assert (answer.text, server.violations, answer.cost_usd) == ("It is 5.", [], 0.009)
    first, second = server.requests
    assert first.path == (
        "/v1/projects/my-project/locations/us-east5/publishers/anthropic/models/"
        "claude-sonnet-4-5@20250929:streamRawPredict"
    )
    assert [request.headers["authorization"] for request in (first, second)] == ["Bearer ya29.token-number-1"] * 2
    assert token_server.grants == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert "ya29.token-number-1" in list_secrets()


@pytest.mark.usefixtures("google")
def test_a_refused_token_is_replaced_once(monkeypatch: pytest.MonkeyPatch, token_server: TokenServer) -> None:
    refused = Refuse(401, "", "Request had invalid authentication credentials.")
    answer, server = run(monkeypatch, "vertex/claude-haiku-4-5", refused, Say.of("5"))
    assert answer.text == "5"
    assert [request.headers["authorization"][-1] for request in server.requests] == ["1", "2"]
    words, kind, server = failure_of(monkeypatch, "vertex/claude-haiku-4-5", refused, refused)
    assert (kind, len(server.requests), len(token_server.grants)) == (Cause.AUTH, 2, 4)
    assert "gcloud auth application-default login" in words


@pytest.mark.usefixtures("google")
def test_a_short_lived_token_is_replaced_before_it_expires(
    monkeypatch: pytest.MonkeyPatch, token_server: TokenServer
) -> None:
    token_server.seconds = 1  # less than google-auth's safety margin
    _, server = run(monkeypatch, "vertex/claude-haiku-4-5", Say.of(CALL), Say.of("5"))
    assert [request.headers["authorization"][-1] for request in server.requests] == ["1", "2"]


@pytest.mark.usefixtures("google")
def test_claude_code_s_variable_for_vertex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_USE_VERTEX", "1")
    _, server = run(monkeypatch, "haiku", Say.of("5"))
    assert server.requests[0].path.endswith("/models/claude-haiku-5-5:streamRawPredict")


@pytest.mark.usefixtures("google")
def test_an_exhausted_quota_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Refuse(429, "", "Quota exceeded", headers={"retry-after-ms": "1"})
    answer, server = run(monkeypatch, "vertex/claude-haiku-4-5", slow, Say.of("5"))
    assert (answer.text, len(server.requests)) == ("5", 2)


@pytest.mark.usefixtures("google")
def test_a_revoked_account_ends_the_run(monkeypatch: pytest.MonkeyPatch, token_server: TokenServer) -> None:
    token_server.refuses = True
    words, kind, server = failure_of(monkeypatch, "vertex/claude-haiku-4-5")
    assert (kind, server.requests) == (Cause.AUTH, [])
    assert "invalid_grant" in words


def test_without_google_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_ML_REGION", "global")
    monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "my-project")
    words, kind, server = failure_of(monkeypatch, "vertex/claude-haiku-4-5")
    assert (kind, server.requests) == (Cause.AUTH, [])
    assert words.startswith("no Google credentials were found")


# --- what is set, and by whom ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "given", "words"),
    [
        ("bedrock/x", {}, "'bedrock/x' needs a region: set AWS_REGION"),
        ("bedrock/x", {"AWS_REGION": "evil.example/#"}, "'evil.example/#' in AWS_REGION is not valid"),
        ("vertex/x", {}, "'vertex/x' needs a region: set CLOUD_ML_REGION"),
        ("vertex/x", {"CLOUD_ML_REGION": "global"}, "'vertex/x' needs a project: set ANTHROPIC_VERTEX_PROJECT_ID"),
    ],
)
def test_what_is_missing_is_named_at_the_start(
    monkeypatch: pytest.MonkeyPatch, model: str, given: dict[str, str], words: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        asyncio.run(Agent(model=model).run("hi"))
    assert str(caught.value).startswith(words)


@pytest.mark.usefixtures("aws")
def test_a_project_cannot_redirect_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a trusted one: its 'env' is for the commands of tools."""
    env = {
        "ANTHROPIC_BEDROCK_BASE_URL": "http://127.0.0.1:9",
        "CLAUDE_CODE_USE_BEDROCK": "0",
        "CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1",
        "AWS_REGION": "cn-north-1",
        "AWS_PROFILE": "attacker",
        "AWS_CONFIG_FILE": "/nowhere",
        "CLOUD_ML_REGION": "evil",
    }
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(json.dumps({"env": env}))
    answer, server = run(monkeypatch, f"bedrock/{SONNET}", Say.of("5"), setting_sources=["user", "project", "local"])
    assert answer.text == "5"
    assert "AKIDEXAMPLE/" in server.requests[0].headers["authorization"]
    assert "/us-east-1/bedrock/" in server.requests[0].headers["authorization"]


# --- the wire -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("aws")
def test_the_signature_on_the_wire_is_the_one_that_botocore_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the bytes that arrived: the path as it was sent, and the body in its pieces."""
    arrived: list[IncomingRequest] = []

    async def serve(connection: ServerConnection, incoming: IncomingRequest) -> None:
        arrived.append(incoming)
        connection.respond(400, {"content-type": "application/json"}, b'{"message": "no"}')

    async def main() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        server = await loop.create_server(lambda: ServerConnection(1, serve, lambda _: done.set()), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", f"http://127.0.0.1:{port}/gateway")
            with pytest.raises(ModelError, match="no"):
                await Agent(model=f"bedrock/{SONNET}", system="Be brief. " * 500).run("hi")
            await done.wait()

    asyncio.run(main())
    (incoming,) = arrived
    covered = {name: incoming.headers[name] for name in ("content-type", "host")}
    now = calendar.timegm(time.strptime(incoming.headers["x-amz-date"], "%Y%m%dT%H%M%SZ"))
    url = f"http://{incoming.headers['host']}{incoming.path}"
    keys = AwsCredentials("AKIDEXAMPLE", SECRET)
    expected = sign_with_botocore(url, covered, incoming.body, keys, "us-east-1", now)
    assert incoming.headers["authorization"] == expected["authorization"]


@pytest.mark.usefixtures("aws")
def test_throttling_in_mid_stream_begins_the_reply_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    stamp = ReplyStamp("x", "msg_1", lambda: "signed")
    begun = [frame_bedrock_event(event) for event in list(stream_events(Say.of("Hello."), stamp))[:3]]
    headers = {":message-type": "exception", ":exception-type": "throttlingException"}
    slow = encode_stream_message(headers, b'{"message":"Too many tokens, please wait."}')
    answer, server = run(monkeypatch, f"bedrock/{SONNET}", RawStream((*begun, slow)), Say.of("5"))
    assert (answer.text, len(server.requests)) == ("5", 2)


@pytest.mark.usefixtures("aws")
def test_a_damaged_stream_is_an_error_and_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    stamp = ReplyStamp("x", "msg_1", lambda: "signed")
    frames = [frame_bedrock_event(event) for event in stream_events(Say.of("Hello."), stamp)]
    damaged = (*frames[:-1], frames[-1][:-1] + bytes([frames[-1][-1] ^ 1]))
    answer, server = run(monkeypatch, f"bedrock/{SONNET}", RawStream(damaged), Say.of("5"))
    assert (answer.text, len(server.requests)) == ("5", 2)


@pytest.mark.usefixtures("aws")
def test_open_run_reaches_a_cloud_too(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ModelServer([Say.of("Hello.")])

    async def main() -> str:
        async with server:
            monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.url)
            async with open_run("hi", model=f"bedrock/{SONNET}") as updates:
                async for _ in updates:
                    pass
            return updates.result.text

    assert asyncio.run(main()) == "Hello."
