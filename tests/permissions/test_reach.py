"""Which hosts the rules let anybody reach: what lifts the wall around near ones, and the sandbox's proxy
(security N1, N2)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from web.test_target import READ, REFUSED

from mainspring.core.errors import MainspringError
from mainspring.permissions.decide import decide
from mainspring.permissions.hosts import names_host, proxy_gate
from mainspring.permissions.policy import Mode, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import parse_rules
from mainspring.processes.paths import resolve_path
from mainspring.sandbox.proxy import AllowedHost, Gate, SandboxProxy


def rules(*allow: str, deny: Sequence[str] = (), ask: Sequence[str] = ()) -> PermissionPolicy:
    return PermissionPolicy(parse_rules(allow=allow, deny=deny, ask=ask))


NAMING = [
    ("WebFetch(domain:localhost)", "localhost", True),
    ("WebFetch(domain:LocalHost.)", "localhost", True),
    ("WebFetch(domain:127.0.0.1)", "127.0.0.1", True),
    ("WebFetch(domain:db.corp)", "db.corp", True),
    ("WebFetch(domain:db.corp)", "x.db.corp", False),
    ("WebFetch(domain:corp)", "db.corp", False),
    ("WebFetch(domain:*.corp)", "db.corp", False),
    ("WebFetch(domain:db.*)", "db.corp", False),
    ("WebFetch(domain:*)", "localhost", False),
    ("WebFetch(domain:loc*)", "localhost", False),
    ("WebFetch", "localhost", False),
    ("WebFetch(*)", "localhost", False),
    ("WebFetch(domain:127.0.0.*)", "127.0.0.1", False),
    ("WebFetch(domain:[::1])", "[::1]", False),  # no domain: such a rule allows nothing
    ("WebSearch", "localhost", False),
    ("Bash(domain:localhost)", "localhost", False),
    ("Bash", "localhost", False),
]


@pytest.mark.parametrize(("rule", "host", "named"), NAMING)
def test_only_a_rule_that_names_the_host(rule: str, host: str, named: bool) -> None:
    assert names_host(rules(rule).rules, host) is named


def test_neither_deny_nor_ask_rules_name_it() -> None:
    policy = rules(deny=["WebFetch(domain:localhost)"], ask=["WebFetch(domain:localhost)"])
    assert not names_host(policy.rules, "localhost")


# --- the gate of the sandbox's proxy --------------------------------------------------------------------------------

WIDE = rules("WebFetch(domain:*.site.test)", "WebFetch(domain:near.test)", deny=["WebFetch(domain:bad.site.test)"])


def passed(gate: Gate, authority: str) -> AllowedHost | str:
    try:
        return gate(authority)
    except MainspringError as error:
        return str(error)


def test_the_gate_says_what_the_rules_say() -> None:
    gate = proxy_gate(lambda: WIDE, ["Extra.test", "*.more.test"])
    assert passed(gate, "a.site.test:443") == AllowedHost("a.site.test")
    assert passed(gate, "A.Site.Test.:8080") == AllowedHost("a.site.test")
    assert passed(gate, "near.test") == AllowedHost("near.test", local=True)
    assert passed(gate, "extra.test:443") == AllowedHost("extra.test", local=True)
    assert passed(gate, "x.more.test:443") == AllowedHost("x.more.test")
    assert "a deny rule" in str(passed(gate, "bad.site.test:443"))
    assert passed(gate, "site.test:443") == "'site.test' is not allowed: no rule covers the host 'site.test'"
    assert "read in more than one way" in str(passed(gate, "user@a.site.test:443:443"))


def test_what_would_be_asked_is_refused_and_no_mode_widens_it() -> None:
    policy = rules("WebFetch", ask=["WebFetch(domain:site.test)"])
    gate = proxy_gate(lambda: policy)
    assert "an ask rule" in str(passed(gate, "site.test"))
    assert passed(gate, "other.test") == AllowedHost("other.test")
    nothing = PermissionPolicy(mode=Mode.BYPASS)
    assert "is not allowed" in str(passed(proxy_gate(lambda: nothing), "site.test"))


def test_the_rules_are_those_of_that_moment() -> None:
    policy = rules()
    gate = proxy_gate(lambda: policy)
    assert isinstance(passed(gate, "site.test"), str)
    policy = rules("WebFetch(domain:site.test)")
    assert passed(gate, "site.test") == AllowedHost("site.test", local=True)


urls = st.sampled_from([url for url, _, _ in READ] + [url for url in REFUSED if url.startswith("https://")])
some_rules = st.lists(
    st.sampled_from(["WebFetch", "WebFetch(domain:site.test)", "WebFetch(domain:*.test)", "WebFetch(domain:*)"]),
    max_size=2,
)


@given(urls, some_rules, some_rules, some_rules)
def test_the_proxy_lets_through_what_webfetch_would(
    url: str, allow: list[str], deny: list[str], ask: list[str]
) -> None:
    policy = rules(*allow, deny=deny, ask=ask)
    authority = url.partition("://")[2].partition("/")[0].partition("?")[0].partition("#")[0]
    verdict = decide(PermissionRequest("WebFetch", {"url": f"https://{authority}/"}, "/"), policy, resolve_path)
    assert isinstance(passed(proxy_gate(lambda: policy), authority), AllowedHost) is (verdict.decision == "allow")


def test_through_the_proxy_itself() -> None:
    """A name that is allowed by a wildcard and leads near is refused; one that a rule names gets through."""

    async def ask(gate: Gate, authority: str) -> bytes:
        proxy, listening = SandboxProxy(gate), socket.create_server(("127.0.0.1", 0))
        await proxy.start(listening)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(f"CONNECT {authority} HTTP/1.1\r\n\r\n".encode())
        line = await reader.readline()
        rest = await reader.read(500) if b"403" in line else b""
        writer.close()
        await proxy.close()
        return line + rest

    async def main() -> list[bytes]:
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            wide, exact = rules("WebFetch"), rules("WebFetch(domain:localhost)", "WebFetch(domain:127.0.0.1)")
            return [
                await ask(proxy_gate(lambda: wide), f"localhost:{port}"),
                await ask(proxy_gate(lambda: wide), f"127.0.0.1:{port}"),
                await ask(proxy_gate(lambda: wide), f"0x7f.1:{port}"),
                await ask(proxy_gate(lambda: exact), f"127.0.0.1:{port}"),
                await ask(proxy_gate(lambda: exact), f"evil.test:{port}"),
            ]

    by_name, by_number, odd, named, other = asyncio.run(main())
    assert b"403" in by_name
    assert b"is not on the public internet" in by_name
    assert b"403" in by_number
    assert b"403" in odd
    assert named == b"HTTP/1.1 200 Connection established\r\n"
    assert b"no rule covers the host 'evil.test'" in other
