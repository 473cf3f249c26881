"""Endpoints of Anthropic's models on Amazon Bedrock and Google Vertex AI: `bedrock/NAME` and `vertex/NAME`, or plain
names with Claude Code's variables CLAUDE_CODE_USE_BEDROCK and CLAUDE_CODE_USE_VERTEX.

The environment is that of the user and the user's settings: a project cannot set any of these variables for us
(security T2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring import providers
from mainspring.agent.endpoints import BEDROCK, VERTEX, Endpoint, is_on, read_environment_value
from mainspring.agent.model import TOOLLESS
from mainspring.agent.options import StartError
from mainspring.providers.base import Provider
from mainspring.providers.clouds import bedrock, vertex
from mainspring.providers.errors import UserRemedies
from mainspring.providers.http.client import Transport
from mainspring.providers.http_provider import ApiKey
from mainspring.providers.retry import RetryLimits
from mainspring.secrets.held import hold_secrets

SKIP_AUTH = {BEDROCK: "CLAUDE_CODE_SKIP_BEDROCK_AUTH", VERTEX: "CLAUDE_CODE_SKIP_VERTEX_AUTH"}  # a gateway has the key
ADDRESS = {BEDROCK: "ANTHROPIC_BEDROCK_BASE_URL", VERTEX: "ANTHROPIC_VERTEX_BASE_URL"}
API_KEY = "AWS_BEARER_TOKEN_BEDROCK"
GATEWAY_TOKEN = "ANTHROPIC_AUTH_TOKEN"
REGIONS = {BEDROCK: ("AWS_REGION", "AWS_DEFAULT_REGION"), VERTEX: ("CLOUD_ML_REGION",)}
PROJECTS = ("ANTHROPIC_VERTEX_PROJECT_ID", "GCLOUD_PROJECT", "GOOGLE_CLOUD_PROJECT")
SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", API_KEY)


def find_cloud_endpoint(cloud: str, model: str, environment: Mapping[str, str]) -> Endpoint:
    """Raises `StartError` without a region or project."""
    region = read_first(REGIONS[cloud], environment, model, "a region")
    project = read_first(PROJECTS, environment, model, "a project") if cloud == VERTEX else ""
    usual = bedrock.address_in(region) if cloud == BEDROCK else vertex.address_in(region)
    url = read_environment_value(ADDRESS[cloud], environment)
    key = API_KEY if cloud == BEDROCK else ""
    return Endpoint(cloud, url or usual, cloud, key, ADDRESS[cloud], moved=bool(url), region=region, project=project)


def read_first(names: tuple[str, ...], environment: Mapping[str, str], model: str, what: str) -> str:
    for name in names:
        if value := read_environment_value(name, environment):
            if not value.replace("-", "").replace(":", "").replace(".", "").replace("_", "").isalnum():
                raise StartError(f"'{value}' in {name} is not valid: '{model}' needs {what}")
            return value
    raise StartError(f"'{model}' needs {what}: set {names[0]}")


def make_cloud_provider(
    endpoint: Endpoint, environment: Mapping[str, str], transport: Transport, patience: RetryLimits
) -> Provider:
    """Raises `StartError` if the package for the credentials is missing."""
    hold_secrets(*[read_environment_value(name, environment) for name in SECRETS])
    how: Any = {
        "base_url": endpoint.url,
        "transport": transport,
        "patience": patience,
        "ways_out": cloud_remedies(endpoint),
    }
    if endpoint.protocol == BEDROCK:
        key = skipped_key(endpoint, environment) or find_bedrock_key(environment)
        if key is None and not providers.is_botocore_installed():
            raise StartError("Bedrock needs the package 'botocore': pip install 'mainspring[bedrock]'")
        chain = key or providers.AwsCredentialChain(environment)
        return providers.BedrockAnthropic(chain, region=endpoint.region, **how)
    key = skipped_key(endpoint, environment)
    if key is None and not providers.is_google_auth_installed():
        raise StartError("Vertex AI needs the package 'google-auth': pip install 'mainspring[vertex]'")
    key = key or providers.GoogleCredentialChain(environment).key
    return providers.VertexAnthropic(key, project=endpoint.project, region=endpoint.region, **how)


def skipped_key(endpoint: Endpoint, environment: Mapping[str, str]) -> ApiKey | None:
    """The key for a gateway that signs requests itself; None: requests need the cloud's credentials."""
    if not is_on(SKIP_AUTH[endpoint.protocol], environment):
        return None
    token = read_environment_value(GATEWAY_TOKEN, environment)
    hold_secrets(token)
    return ApiKey(token, "authorization")


def find_bedrock_key(environment: Mapping[str, str]) -> ApiKey | None:
    value = read_environment_value(API_KEY, environment)
    return ApiKey(value, "authorization") if value else None


def cloud_remedies(endpoint: Endpoint) -> UserRemedies:
    is_aws = endpoint.protocol == BEDROCK
    login = "'aws sso login'" if is_aws else "'gcloud auth application-default login'"
    form = "us.anthropic.claude-...-v1:0" if is_aws else "claude-...@20250929"
    region = REGIONS[endpoint.protocol][0]
    where = f"{region} and {endpoint.address}" if endpoint.moved else region
    return UserRemedies(
        toolless=TOOLLESS,
        refused=f"the credentials were refused: get new ones, for example with {login}",
        keyless="no credentials were sent",
        unknown=f"check {where}, and the model's name, which has a form such as '{form}' here",
        unreached=f"Check the connection, and {where}",
    )
