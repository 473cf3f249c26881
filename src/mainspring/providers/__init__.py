"""Model providers: one package per wire protocol."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.providers.anthropic.errors import message_to_events as message_to_events
    from mainspring.providers.anthropic.errors import odd_event as odd_event
    from mainspring.providers.anthropic.errors import read_refusal as read_refusal
    from mainspring.providers.anthropic.provider import HOME as HOME
    from mainspring.providers.anthropic.provider import VERSION as VERSION
    from mainspring.providers.anthropic.provider import WAYS_OUT as WAYS_OUT
    from mainspring.providers.anthropic.provider import Anthropic as Anthropic
    from mainspring.providers.anthropic.provider import ServerSideClearing as ServerSideClearing
    from mainspring.providers.anthropic.stream import AnthropicStreamReader as AnthropicStreamReader
    from mainspring.providers.clouds.aws import AwsCredentialChain as AwsCredentialChain
    from mainspring.providers.clouds.aws import is_botocore_installed as is_botocore_installed
    from mainspring.providers.clouds.bedrock import BedrockAnthropic as BedrockAnthropic
    from mainspring.providers.clouds.vertex import GoogleCredentialChain as GoogleCredentialChain
    from mainspring.providers.clouds.vertex import VertexAnthropic as VertexAnthropic
    from mainspring.providers.clouds.vertex import is_google_auth_installed as is_google_auth_installed
    from mainspring.providers.demo import DemoModel as DemoModel
    from mainspring.providers.http.client import PER_IDLE as PER_IDLE
    from mainspring.providers.http.client import Transport as Transport
    from mainspring.providers.http.client import deadlines_for as deadlines_for
    from mainspring.providers.http.proxy import split_url as split_url
    from mainspring.providers.http.sse import SseParser as SseParser
    from mainspring.providers.http_provider import ApiKey as ApiKey
    from mainspring.providers.openai.errors import complaint_in as complaint_in
    from mainspring.providers.openai.errors import failure_of as failure_of
    from mainspring.providers.openai.errors import read_complaint as read_complaint
    from mainspring.providers.openai.provider import OpenAIChat as OpenAIChat
    from mainspring.providers.openai.provider import OpenAIResponses as OpenAIResponses
    from mainspring.providers.retry import PATIENCE as PATIENCE
    from mainspring.providers.retry import RetryProfile as RetryProfile
    from mainspring.providers.router import ProviderRouter as ProviderRouter
    from mainspring.providers.text_tool_calls import repair_json as repair_json

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "Anthropic": "anthropic.provider",
    "AnthropicStreamReader": "anthropic.stream",
    "ApiKey": "http_provider",
    "AwsCredentialChain": "clouds.aws",
    "BedrockAnthropic": "clouds.bedrock",
    "DemoModel": "demo",
    "GoogleCredentialChain": "clouds.vertex",
    "HOME": "anthropic.provider",
    "OpenAIChat": "openai.provider",
    "OpenAIResponses": "openai.provider",
    "PATIENCE": "retry",
    "PER_IDLE": "http.client",
    "ProviderRouter": "router",
    "RetryProfile": "retry",
    "ServerSideClearing": "anthropic.provider",
    "SseParser": "http.sse",
    "Transport": "http.client",
    "VERSION": "anthropic.provider",
    "VertexAnthropic": "clouds.vertex",
    "WAYS_OUT": "anthropic.provider",
    "complaint_in": "openai.errors",
    "deadlines_for": "http.client",
    "failure_of": "openai.errors",
    "is_botocore_installed": "clouds.aws",
    "is_google_auth_installed": "clouds.vertex",
    "message_to_events": "anthropic.errors",
    "odd_event": "anthropic.errors",
    "read_complaint": "openai.errors",
    "read_refusal": "anthropic.errors",
    "repair_json": "text_tool_calls",
    "split_url": "http.proxy",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
