"""Addresses: the forms that are read, and that everything else is refused before anybody is asked anything
(security N2)."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.core.errors import UsageError
from mainspring.permissions.hosts import AddressError
from mainspring.web.fetch import parse_target, resolve_redirect

READ = [
    ("https://site.test", "site.test", "https://site.test/"),
    ("HTTPS://Site.TEST/A?b=C#d", "site.test", "https://site.test/A?b=C"),
    ("https://site.test./x", "site.test", "https://site.test/x"),
    ("https://site.test?x=1", "site.test", "https://site.test/?x=1"),
    ("https://site.test#x", "site.test", "https://site.test/"),
    ("https://site.test:443/", "site.test", "https://site.test/"),
    ("https://site.test:8443/", "site.test", "https://site.test:8443/"),
    ("http://site.test:80/", "site.test", "http://site.test/"),
    ("https://xn--bcher-kva.test/", "xn--bcher-kva.test", "https://xn--bcher-kva.test/"),
    ("https://93.184.216.34/", "93.184.216.34", "https://93.184.216.34/"),
    ("https://[2606:4700::1]/", "[2606:4700::1]", "https://[2606:4700::1]/"),
    ("https://[2606:4700::1]:8443/x", "[2606:4700::1]", "https://[2606:4700::1]:8443/x"),
    ('https://site.test/a"b<c>', "site.test", "https://site.test/a%22b%3Cc%3E"),
    ("https://site.test/@evil.test", "site.test", "https://site.test/@evil.test"),
    ("https://site.test/x?u=https://evil.test", "site.test", "https://site.test/x?u=https://evil.test"),
]

REFUSED = [
    # numbers that resolvers read differently: decimal, octal, hexadecimal, short, mixed, overflowing
    *("http://2130706433/", "http://017700000001/", "http://0x7f000001/", "http://127.1/", "http://127.0.1/"),
    *("http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://127.0.0.0x1/", "http://1.2.3.256/", "http://4294967297/"),
    *("http://0/", "http://00000000000/", "http://127.000.000.001/", "http://0x7F.1/", "http://1.1.1.1.1/", "http://0x/"),
    *("http://127.0.0.1../", "http://[::1/", "http://::1/", "http://[::1%25eth0]/", "http://[::1%eth0]/", "http://[]/"),
    *("http://[::ffff:127.0.0.1].test/", "http://[127.0.0.1]/", "http://[::1]x/", "http://[1:2:3]/", "http://[::g]/"),
    # users, and what looks like one
    *("https://user@site.test/", "https://user:pw@site.test/", "https://@site.test/", "https://site.test@evil.test/"),
    *("https://site.test%2f@evil.test/", "https://site.test%40evil.test/", "https://a@b@site.test/"),
    # dots and letters that are none
    *("https://site\u3002test/", "https://site\uff0etest/", "https://site\uff61test/", "https://s\u0456te.test/"),
    *("https://b\u00fccher.test/", "https://\u2460.test/", "http://\uff11\uff12\uff17.0.0.1/", "https://site.test\u2044x/"),
    *("https://site\u00ad.test/", "https://site\u200b.test/", "https://stra\u00dfe.test/", "https://site%2etest/"),
    # other schemes, other forms
    *("file:///etc/passwd", "ftp://site.test/", "gopher://site.test/", "data:text/plain,x", "javascript:x"),
    *("site.test", "//site.test/", "https:site.test", "https:/site.test", "https:///site.test", "https://", "", "https://?x"),
    *("https://#", "https:// site.test/"),
    *("https://site..test/", "https://.site.test/", "https://-site.test/", "https://site-.test/"),
    *("https://site.test:/", "https://site.test:0/", "https://site.test:65536/", "https://site.test:x/", "https://a:1:2/"),
    *("https://site.test\\@evil.test/", "https://evil.test\\.site.test/", "https://site.test/\\x", "\thttps://site.test/"),
    *("https://site.test\n.evil.test/", "https://site.test\r\nx: y/", "https://site.test\x00.evil.test/", "https://a;b/"),
    *("https://" + "a" * 64 + ".test/", "https://" + "a." * 127 + "test/", "https://site.test/" + "a" * 8_192),
]  # fmt: skip


@pytest.mark.parametrize(("url", "host", "canonical"), READ)
def test_read(url: str, host: str, canonical: str) -> None:
    target = parse_target(url)
    assert (target.host, target.url) == (host, canonical)
    assert parse_target(target.url) == target


@pytest.mark.parametrize("url", REFUSED)
def test_refused(url: str) -> None:
    with pytest.raises(UsageError):
        parse_target(url)


hosts = st.one_of(
    st.from_regex(r"[A-Za-z0-9.\-_]{1,20}", fullmatch=True),
    st.sampled_from(["site.test", "127.0.0.1", "0x7f.1", "[::1]", "[::ffff:7f00:1]", "2130706433", "localhost"]),
)
odd = st.text(alphabet="abc.:/?#@\\%[]0x1&;=\t\n \u3002\u00e9-_", max_size=12)


@given(st.sampled_from(["http://", "https://", "HTTPS://", "https:/", "//", "ftp://"]), odd, hosts, odd)
@example("https://", "", "site.test", "@evil.test")
@example("https://", "evil.test\\", "@site.test", "")
def test_another_parser_sees_the_same_host(scheme: str, before: str, host: str, after: str) -> None:
    """What we read at all, the standard library's parser reads the same way, and so does ours in its canonical form."""
    url = scheme + before + host + after
    try:
        target = parse_target(url)
    except UsageError:
        return
    for spelling in (url, target.url):
        other = urlsplit(spelling)
        assert (other.hostname or "").removesuffix(".") == target.host.strip("[]")
        assert other.username is None
    assert target.url.isascii()
    assert not set(target.url) & set(" \t\r\n\\#")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"https://site.test/{text}"):
        try:
            parse_target(url)
        except UsageError:
            continue


HERE = parse_target("https://site.test/a/b?c")
LEADS = [
    ("/x", "https://site.test/x"),
    ("x", "https://site.test/a/x"),
    ("?d", "https://site.test/a/b?d"),
    ("../../../x", "https://site.test/x"),
    ("https://SITE.test./x", "https://site.test/x"),
    ("http://site.test/x", "http://site.test/x"),
    ("//other.test/x", "https://other.test/x"),
    ("https://other.test", "https://other.test/"),
    ("/caf\u00c3\u00a9", "https://site.test/caf%C3%A9"),  # UTF-8 as headers are read
    ("/a b", "https://site.test/a%20b"),
]


@pytest.mark.parametrize(("location", "url"), LEADS)
def test_where_a_redirect_leads(location: str, url: str) -> None:
    assert resolve_redirect(HERE, location).url == url


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "javascript:x", "https://site.test@evil.test/", "\\\\evil.test/x", "/\\evil.test", "https://[::1",
     "http://0x7f.1/", "http://2130706433/", "https://\u00e4.test/", "https://site.test:99999/", "ftp://site.test/"],
)  # fmt: skip
def test_a_redirect_to_what_is_no_page(location: str) -> None:
    with pytest.raises(AddressError):
        resolve_redirect(HERE, location)


@given(st.text(alphabet="abc./:@\\?#%[]0x1 \t\u00e9", max_size=20))
def test_any_redirect_is_read_or_refused(location: str) -> None:
    try:
        target = resolve_redirect(HERE, location)
    except UsageError:
        return
    assert target == parse_target(target.url)
