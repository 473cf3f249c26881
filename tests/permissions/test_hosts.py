"""Hosts and domain rules (security N2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.permissions.hosts import LONGEST, AddressError, domain_matches, domain_pattern, host_of
from permissions.deciding import call

LABEL = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
HOST = st.lists(LABEL, min_size=2, max_size=4).map(".".join)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("http://example.com", "example.com"),
        ("HTTPS://Example.COM./x?y#z", "example.com"),
        ("http://user:pw@example.com:8080/", "example.com"),
        ("http://a.com@b.com/", "b.com"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://[::1]:80/", "[::1]"),
        ("http://localhost:8000", "localhost"),
        ("http://a_b.example.com/@c.com", "a_b.example.com"),
        ("http://example.com?x=http://b.com", "example.com"),
    ],
)
def test_the_host_of_an_address(address: str, host: str) -> None:
    assert host_of(address) == host


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.com",
        "ftp://example.com",
        "file:///etc/passwd",
        "http:///x",
        "http://",
        "//example.com",
        "http:/example.com",
        "http://a.com\\@b.com",
        "http://a.com\\.b.com",
        "http://a b.com",
        "http://a.com\t.b.com",
        "http://a.com\n",
        "http://exämple.com",
        "http://a%2ecom",
        "http://a..com",
        "http://.a.com",
        "http://-a.com",
        "http://a.com:99999",
        "http://a.com:8x",
        "http://a@b@c.com",
        "http://127.1",
        "http://0x7f.0.0.1",
        "http://017700000001",
        "http://2130706433",
        "http://256.0.0.1",
        "http://010.0.0.1",
        "http://[::1",
        "http://a。com",
        "http://a.com..",
        "javascript:x",
        "http://" + "a" * 64 + ".com",
        "http://a.com/" + "a" * LONGEST,
        "http://" + ".".join(["a" * 60] * 5),
    ],
)
def test_where_two_readers_could_disagree_it_is_refused(address: str) -> None:
    with pytest.raises(AddressError):
        host_of(address)
    assert call("WebFetch", {"url": address}, allow=["WebFetch"]).decision == "deny"
    assert call("WebFetch", {"url": address}, mode="bypassPermissions").decision == "deny"


@pytest.mark.parametrize(
    ("rule", "host", "wanted"),
    [
        ("example.com", "example.com", True),
        ("Example.COM.", "example.com", True),
        ("example.com", "www.example.com", False),
        ("example.com", "example.com.evil.com", False),
        ("example.com", "notexample.com", False),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "aexample.com", False),
        ("example.*", "example.org", True),
        ("example.*", "example.evil.com", False),
        ("a*.example.com", "abc.example.com", True),
        ("a*.example.com", "a.b.example.com", False),
        ("*", "anything.at.all", True),
    ],
)
def test_domains_match_label_by_label(rule: str, host: str, wanted: bool) -> None:
    assert domain_matches(domain_pattern(rule), host) is wanted
    url = {"url": f"https://{host}/x"}
    assert call("WebFetch", url, allow=[f"WebFetch(domain:{rule})"]).decision == ("allow" if wanted else "ask")
    assert call("WebFetch", url, allow=["WebFetch"], deny=[f"WebFetch(domain:{rule})"]).decision == (
        "deny" if wanted else "allow"
    )


@pytest.mark.parametrize("text", ["", "a b", "http://x", "a/b", "a..b", "ä.com", "*/"])
def test_what_is_no_domain_matches_nothing(text: str) -> None:
    with pytest.raises(AddressError):
        domain_pattern(text)
    assert call("WebFetch", {"url": "http://x.com"}, allow=[f"WebFetch(domain:{text})"]).decision == "ask"


def test_rules_for_other_tools_say_nothing_about_hosts() -> None:
    assert call("WebFetch", {"url": "http://x.com"}, allow=["Read", "Bash"], deny=["Edit"]).decision == "ask"


@given(HOST, HOST)
def test_a_rule_for_a_host_covers_that_host_only(host: str, other: str) -> None:
    rule = domain_pattern(host)
    assert domain_matches(rule, host)
    assert domain_matches(rule, other) == (host == other)
    assert host_of(f"http://x:y@{host.upper()}.:80/{other}?@{other}") == host
    assert domain_matches(domain_pattern(f"*.{host}"), f"{other}.{host}")
    assert not domain_matches(domain_pattern(f"*.{host}"), f"{other}{host}")


@given(st.text(max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    for address in (text, f"http://{text}", f"http://example.com{text}"):
        try:
            host = host_of(address)
        except AddressError:
            continue
        assert host in address.lower()
