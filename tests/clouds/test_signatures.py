"""Signatures of AWS requests, beside botocore's own."""

from __future__ import annotations

import calendar
import datetime as dt
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from mainspring.providers.clouds.aws import AwsCredentials, SigningScope, sign_request

printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
segments = st.text("abcXYZ019-._~%:@!$&'()*+,;=", min_size=1, max_size=20).filter(lambda text: set(text) != {"."})
paths = st.lists(segments, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
queries = st.lists(
    st.tuples(st.text("abcXYZ019-_", min_size=1, max_size=8), st.text("abcXYZ019-_%", max_size=8)), max_size=3
).map(lambda pairs: "&".join([f"{name}={value}" for name, value in pairs]))
header_names = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12).map(lambda name: f"x-{name}")
headers = st.dictionaries(header_names, st.text("abc XYZ019-,;/", max_size=20).map(str.strip), max_size=4)
hosts = st.sampled_from(["https://bedrock-runtime.us-east-1.amazonaws.com", "http://127.0.0.1:8800", "https://a.b:443"])
bodies = st.lists(st.binary(max_size=50), max_size=4)
moments = st.integers(calendar.timegm((2000, 1, 1, 0, 0, 0)), calendar.timegm((2090, 1, 1, 0, 0, 0)))


@contextmanager
def clock_of_botocore(now: int) -> Iterator[None]:
    """botocore reads the clock itself."""
    at = dt.datetime.fromtimestamp(now, dt.UTC).replace(tzinfo=None)
    with mock.patch.object(auth, "get_current_datetime", return_value=at):
        yield


def sign_with_botocore(
    url: str, given_headers: dict[str, str], body: bytes, credentials: AwsCredentials, region: str, now: int
) -> dict[str, str]:
    request: Any = AWSRequest("POST", url, headers=given_headers, data=body)
    keys = Credentials(credentials.access_key, credentials.secret_key, credentials.token or None)
    with clock_of_botocore(now):
        auth.SigV4Auth(keys, "bedrock", region).add_auth(request)
    wanted = ("x-amz-date", "x-amz-security-token", "authorization")
    return {name.lower(): value for name, value in request.headers.items() if name.lower() in wanted}


@given(hosts, paths, queries, headers, bodies, st.builds(AwsCredentials, printable, printable, printable | st.just("")),
       st.sampled_from(["us-east-1", "eu-central-1", "ap-northeast-1"]), moments)  # fmt: skip
def test_botocore_signs_alike(
    host: str,
    path: str,
    query: str,
    given_headers: dict[str, str],
    body: list[bytes],
    credentials: AwsCredentials,
    region: str,
    now: int,
) -> None:
    url = f"{host}{path}{f'?{query}' if query else ''}"
    ours = sign_request(url, given_headers, body, credentials, SigningScope(region), now)
    assert ours == sign_with_botocore(url, given_headers, b"".join(body), credentials, region, now)


def test_the_example_of_the_documentation() -> None:
    """`post-vanilla` of AWS's own test suite for signatures."""
    keys = AwsCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    now = calendar.timegm((2015, 8, 30, 12, 36, 0))
    url = "https://example.amazonaws.com/"
    ours = sign_request(url, {}, (), keys, SigningScope("us-east-1", "service"), now)
    assert ours["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
    )


@pytest.mark.parametrize("change", ["path", "body", "header", "time", "secret"])
def test_every_part_changes_the_signature(change: str) -> None:
    def sign(changed: str) -> str:
        keys = AwsCredentials("AKIDEXAMPLE", "secret" + changed * (change == "secret"))
        url = f"https://host/path{changed * (change == 'path')}"
        covered = {"content-type": f"application/json{changed * (change == 'header')}"}
        body = [b"body", changed.encode() * (change == "body")]
        now = time.time() + (60 if changed and change == "time" else 0)
        return sign_request(url, covered, body, keys, SigningScope("us-east-1"), now)["authorization"]

    assert sign("") != sign("x")


def test_credentials_do_not_show_themselves() -> None:
    assert "secret" not in repr(AwsCredentials("AKIDEXAMPLE", "secret", "secret-token"))
