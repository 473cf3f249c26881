"""One function that takes secrets out of a text: for logs, errors, traces, transcripts and crash reports (K3)."""

import re

REDACTED = "[redacted]"
SHORTEST_KNOWN = 6  # a shorter value would blot out ordinary words

# A variable or a field by whose name its value is a secret.
_NAMED = r"\b[A-Z0-9_]*(?:api_?key|token|secret|passw(?:or)?d)[A-Z0-9_]*['\"]?\s*[:=]\s*"

# What must stand before a secret is kept in a group, so that the reader still sees what was there.
PATTERNS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        r"()\bsk-[A-Za-z0-9_-]{16,}",  # Anthropic, OpenAI and those that copied the form
        r"()\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"()\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"()\bglpat-[A-Za-z0-9_-]{16,}",
        r"()\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"()\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"()\bAIza[A-Za-z0-9_-]{30,}",
        r"()\bhf_[A-Za-z0-9]{20,}",
        r"()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",  # a signed token
        r"()-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}",
        r"(?i)(\bx-api-key['\"]?\s*[:=]\s*['\"]?)[^\s'\",;]+",
        rf"(?i)({_NAMED}\")[^\"\n]{{6,}}(?=\")",
        rf"(?i)({_NAMED}')[^'\n]{{6,}}(?=')",
        rf"(?i)({_NAMED})[^\s'\",;]{{6,}}",
        r"(?i)(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)",  # the password of a URL
    )
)


def redact(text: str, known: tuple[str, ...] = ()) -> str:
    """Exact known values first, the longest first so that none survives inside another; then the patterns."""
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= SHORTEST_KNOWN:
            text = text.replace(secret, REDACTED)
    for pattern in PATTERNS:
        text = pattern.sub(rf"\g<1>{REDACTED}", text)
    return text
