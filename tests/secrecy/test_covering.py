"""What is read back later: known values as stars, in pieces too; inputs of tools; the last words of a crash
(security K3)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.secrets import held

SECRET = "abab-secret-ababx"


@given(st.lists(st.sampled_from([b"abab", b"ab", b"-secret-", b"x", SECRET.encode(), b"\n"]), max_size=20), st.data())
def test_in_pieces_it_is_what_the_whole_would_be(parts: list[bytes], data: st.DataObject) -> None:
    held._held = held.HeldSecrets()
    held.hold_secrets(SECRET, "ababab")
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    covering, said = held.SecretMask(), b""
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        said += covering.feed(whole[start:end])
    said += covering.finish()
    assert len(said) == len(whole)
    assert SECRET.encode() not in said
    if b"ababab" not in whole:  # where secrets overlap, the pieces may fall differently
        assert said == held.mask_secrets(whole)


def test_nothing_waits_unless_it_may_be_a_secret() -> None:
    held.hold_secrets(SECRET)
    covering = held.SecretMask()
    assert covering.feed(b"ready> ") == b"ready> "
    assert covering.feed(b"x abab-sec") == b"x "
    assert covering.feed(b"ond") == b"abab-second"
    assert covering.finish() == b""


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"command": f"curl -H 'x-api-key: {SECRET}' host"}, True),
        ({"url": f"https://host/?k={SECRET}"}, True),
        ({"edits": [{"old": "a"}, {"new": ["b", SECRET]}]}, True),
        ({SECRET: 1}, True),
        ({"command": "echo $ANTHROPIC_API_KEY", "timeout": 3, "x": None, "y": True}, False),
        ({"command": SECRET[:-1]}, False),
        ({}, False),
    ],
)
def test_a_known_key_is_found_wherever_it_stands_in_an_input(value: dict[str, Any], found: bool) -> None:
    assert held.is_in(value) is False
    held.hold_secrets(SECRET)
    assert held.is_in(value) is found


def test_an_input_may_be_nested_deeper_than_python_can_follow() -> None:
    held.hold_secrets(SECRET)
    value: object = SECRET
    for _ in range(100_000):
        value = [value]
    assert held.is_in(value)


def test_a_crash_tells_its_way_and_no_key() -> None:
    code = (
        "import sys; from mainspring.secrets import redaction as crash, held; held.hold_secrets('abab-secret-ababx'); "
        "sys.excepthook = crash.print_crash; raise ValueError('it was abab-secret-ababx, and password=hunter22')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("ValueError: it was [redacted], and password=[redacted]\n")


def test_a_word_in_the_place_of_a_key_is_no_secret() -> None:
    """Else every such word in a session's file would become stars."""
    held._held = held.HeldSecrets()
    held.hold_key("ollama")
    held.hold_key("content")
    assert held.mask_secrets(b"ollama content") == b"ollama content"
    held.hold_key("a-real-key")
    assert held.mask_secrets(b"a-real-key") == b"*" * 10
