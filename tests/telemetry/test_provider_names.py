"""`gen_ai.provider.name`: the word of the conventions for each service."""

from __future__ import annotations

import pytest

from mainspring.agent.open_session import cloud_of
from mainspring.telemetry.spans import guess_provider


@pytest.mark.parametrize(
    ("model", "cloud", "name"),
    [
        ("claude-haiku-4-5", "", "anthropic"),
        ("bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0", "", "aws.bedrock"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "", "aws.bedrock"),
        ("vertex/claude-haiku-4-5@20251001", "", "gcp.vertex_ai"),
        ("claude-haiku-4-5", "bedrock", "aws.bedrock"),
        ("claude-haiku-4-5", "vertex", "gcp.vertex_ai"),
        ("openai/gpt-5", "bedrock", "openai"),
        ("gpt-5", "vertex", "openai"),
        ("gemini/gemini-3-pro", "", "gcp.gemini"),
        ("ollama/qwen3", "", "ollama"),
        ("house-1", "", "unknown"),
    ],
)
def test_the_name_of_a_service(model: str, cloud: str, name: str) -> None:
    assert guess_provider(model, cloud) == name


@pytest.mark.parametrize(
    ("environment", "cloud"),
    [
        ({}, ""),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, "bedrock"),
        ({"CLAUDE_CODE_USE_VERTEX": "true"}, "vertex"),
        ({"CLAUDE_CODE_USE_VERTEX": "0"}, ""),
    ],
)
def test_the_cloud_of_plain_names(environment: dict[str, str], cloud: str) -> None:
    assert cloud_of(environment) == cloud
