"""What leaves a text, what stays in it, and that no text makes it slow (security K3)."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiers import examples

from mainspring.secrets import held
from mainspring.secrets.redaction import LONGEST_LINE, REDACTED, ROWS, RedactedStream, redact

# Keys in their usual shapes. None was ever one.
SHAPES = {
    "Anthropic": "sk-ant-api03-abcdefghijklmnop1234",
    "OpenAI": "sk-proj-abcdefghijklmnop1234",
    "GitHub": "ghp_abcdefghijklmnopqrst",
    "GitHub, of an app": "gho_abcdefghijklmnopqrst1",
    "GitHub, fine-grained": "github_pat_11ABCDEFG0abcdefghijkl",
    "GitLab": "glpat-abcdefghij_klmnop",
    "Slack": "xoxb-123456789012-abc",
    "Slack, of an app": "xapp-1-A0123-456-abc",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "Google": "AIzaSyA-abcdefghijklmnopqrstuvwxyz01234",
    "Hugging Face": "hf_abcdefghijklmnopqrstuv",
    "npm": "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "signed": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig",
    "PEM": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    "OpenSSH": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----",
    "PGP": "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOY\n-----END PGP PRIVATE KEY BLOCK-----",
}


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("around", ["{}", "key {}!", "({})", "a={} b", "'{}'", '{{"x": "{}"}}', "-{}\n", "_{}:"])
def test_what_has_the_shape_of_a_key_leaves(secret: str, around: str) -> None:
    assert redact(around.format(secret)) == around.format(REDACTED)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE", "[redacted]"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [redacted]"),
        ("{'authorization': 'Bearer abcdef123456'}", "{'authorization': 'Bearer [redacted]'}"),
        ("Proxy-Authorization: Basic dTpw", "Proxy-Authorization: Basic [redacted]"),
        ("x-api-key: abc", "x-api-key: [redacted]"),
        ('{"api_key": "abcdefgh"}', '{"api_key": "[redacted]"}'),
        (r"{\"api_key\": \"abcdefgh\"}", r"{\"api_key\": \"[redacted]\"}"),
        ("DB_PASSWORD=hunter22", "DB_PASSWORD=[redacted]"),
        ("--auth-token=hunter22 --port=1", "--auth-token=[redacted] --port=1"),
        ("AWS_SECRET_ACCESS_KEY=abcdefgh", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ('aws_secret_access_key = "ab/cd+ef gh"', 'aws_secret_access_key = "[redacted]"'),
        ("password='my secret pass word'", "password='[redacted]'"),
        ('password="it\'s a secret"', 'password="[redacted]"'),
        (r'password="a\"bcdefgh"', 'password="[redacted]"'),
        ('password="my secret, cut off', 'password="[redacted]'),
        ("https://user:pa55@host/x", "https://user:[redacted]@host/x"),
        ("https://user:pa@55@host/x", "https://user:[redacted]@host/x"),
        ("redis://:pa55@host", "redis://:[redacted]@host"),
        ("-ihttps://user:pa55@host", "-ihttps://user:[redacted]@host"),
        ("https://0123456789abcdef0123@host/x", "https://[redacted]@host/x"),
    ],
)
def test_what_is_said_to_be_a_secret_leaves_and_the_rest_can_be_read(text: str, clean: str) -> None:
    assert redact(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "sk-short is fine",
        "a risk-averse-and-long-winded-word",
        "token: short",
        "nothing to hide: tokens used 1234567",
        "max_tokens=1000000",
        "basic understanding, bearer authentication",
        "ssh://git@github.com/x, https://host:443/a@b, mail me@example.com",
        "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_every_row_has_a_text_that_needs_it() -> None:
    """A row that never matches anything in here is untested."""
    texts = [*SHAPES.values(), "bearer abcdef123456", "authorization: basic abcd", "x-api-key: a", "secret=abcdef"]
    texts.append("http://u:p@h")

    for row in ROWS:
        flags = re.IGNORECASE if row.ignore_case else re.NOFLAG
        hits = [text for text in texts if re.search(row.pattern, text, flags)]
        assert hits, row.pattern
        assert all(any(word in text.lower() for word in row.words) for text in hits), row.pattern


# --- known values ---------------------------------------------------------------------------------------


def test_known_values_go_the_longest_first() -> None:
    held.hold_secrets("correct horse", "horse-", "zzzzzz", "azzzzzzb", "a")
    assert redact("correct horse battery") == "[redacted] battery"
    assert redact("azzzzzzb zzzzzz a") == "[redacted] [redacted] a"  # the last is too short to be a secret


def test_a_known_value_is_found_as_json_and_as_addresses_write_it() -> None:
    held.hold_secrets('pass"word é')
    for spelled in ('pass"word é', 'pass\\"word é', "pass%22word%20%C3%A9"):
        assert redact(f"<{spelled}>") == "<[redacted]>"


def test_the_password_of_a_proxy_is_known_in_all_its_forms() -> None:
    held.hold_proxies({"HTTPS_PROXY": "http://me:p%40ssword@proxy:80", "no_proxy": "x@y", "PATH": "/bin"})
    for form in ("p%40ssword", "p@ssword", "bWU6cEBzc3dvcmQ="):
        assert redact(f"<{form}>") == "<[redacted]>"


@given(st.text(max_size=200), st.lists(st.text(min_size=6, max_size=20), max_size=3))
def test_no_known_value_survives(text: str, secrets: list[str]) -> None:
    held._held = held.HeldSecrets()
    secrets = [secret for secret in secrets if secret not in REDACTED]
    held.hold_secrets(*secrets)
    clean = redact("".join([secret + text for secret in secrets]))
    assert not any(secret in clean.replace(REDACTED, "\0") for secret in secrets)


@given(st.text(alphabet="abstoken-_=:'\"/@. \nsk", max_size=80))
def test_twice_is_as_good_as_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)


def test_covering_keeps_every_offset_and_only_known_values() -> None:
    held.hold_secrets("my-own-key")
    data = b'{"a":"my-own-key","b":"sk-ant-api03-abcdefghijklmnop1234"}\n'
    assert held.mask_secrets(data) == data.replace(b"my-own-key", b"*" * 10)
    assert len(held.mask_secrets("é my-own-key".encode())) == len("é my-own-key".encode())


# --- no text makes it slow --------------------------------------------------------------------------------

# What the patterns begin with, end with or repeat. Many of these made a pattern quadratic that was written
# without care: at this size that takes minutes, and the time limit of the test ends it.
PIECES = (
    *(
        "token",
        "a.",
        "-eyJ",
        "eyJaaaaaaaaaa.",
        "://",
        "http://a:",
        "bearer ",
        "token=",
        "token='",
        'token="',
        "secret-",
    ),
    *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "sk-", 'password\\"', "a:b@", "://a:a@", "authorization: basic "),
    *("x-api-key", "\\", " ", "\t", "AKIA", "://aaaaa"),
)


@pytest.mark.parametrize("first", range(len(PIECES)))
def test_hostile_texts_take_no_longer_than_others(first: int) -> None:
    for unit in (PIECES[first], PIECES[first] + PIECES[first - 1], PIECES[first] + PIECES[first - 5]):
        redact(unit * (100_000 // len(unit)))


# --- in pieces ------------------------------------------------------------------------------------------

KNOWN = "kq0-the-key-that-we-hold"
LINES = ["plain", "x" * 30, *SHAPES.values(), KNOWN, f"a {KNOWN} b", "password: hunter22", "http://u:pa55@h/", ""]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.data())
def test_cut_anywhere_a_stream_says_what_the_whole_text_would(lines: list[str], data: st.DataObject) -> None:
    held._held = held.HeldSecrets()
    held.hold_secrets(KNOWN)
    text = "\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    stream, said = RedactedStream(), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        said += stream.feed(text[start:end])
    assert said + stream.finish() == redact(text)


@example(0, 302, SHAPES["PEM"])  # its end was here when it was cut, and what followed was lost
@settings(max_examples=examples(40))
@given(st.integers(0, 40_000), st.integers(200, 30_000), st.sampled_from([*SHAPES.values(), KNOWN]))
def test_a_line_without_end_is_cut_beside_its_secrets(before: int, size: int, secret: str) -> None:
    held._held = held.HeldSecrets()
    held.hold_secrets(KNOWN)
    text = "." * (LONGEST_LINE - 20_000 + before) + f" {secret} " + "." * LONGEST_LINE
    stream, said = RedactedStream(), ""
    for at in range(0, len(text), size):
        said += stream.feed(text[at : at + size])
        assert stream._size <= LONGEST_LINE + size
    assert said + stream.finish() == redact(text)


@pytest.mark.parametrize("size", [1_000, 7, 200_000])
def test_a_private_key_of_any_length_is_not_let_through(size: int) -> None:
    begin, end = "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----"
    text = f"before\n{begin}" + "MIIEvQIBADANBg\n" * 10_000 + f"{end}\nafter\n"
    stream, said = RedactedStream(), ""
    for at in range(0, len(text), size):
        said += stream.feed(text[at : at + size])
        assert stream._size <= LONGEST_LINE + size
    assert said + stream.finish() == "before\n[redacted]\nafter\n"
