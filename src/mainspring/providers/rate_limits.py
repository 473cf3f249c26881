"""The rate limits that a provider reports with each response, for people: `anthropic-ratelimit-*`, `x-ratelimit-*`."""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.core.value import Bundle

PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-")
PARTS = ("limit", "remaining", "reset")


class RateLimit(Bundle):
    """As the provider spells the figures; a part that it did not send is empty."""

    name: str  # requests, input tokens, unified 5h
    limit: str = ""
    remaining: str = ""
    reset: str = ""
    used: str = ""  # the share that is used, of limits without figures


def read_rate_limits(headers: Mapping[str, str]) -> tuple[RateLimit, ...]:
    """`headers`: in lower case. Anthropic writes the part last, OpenAI first."""
    found: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        rest = next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), "")
        words = rest.split("-")
        part = words[-1] if words[-1] in (*PARTS, "utilization") else words[0]
        if part not in (*PARTS, "utilization") or len(words) < 2:
            continue
        of = " ".join(words[:-1] if part == words[-1] else words[1:])
        found.setdefault(of, {})["used" if part == "utilization" else part] = value.strip()
    return tuple([RateLimit(name, **parts) for name, parts in found.items()])
