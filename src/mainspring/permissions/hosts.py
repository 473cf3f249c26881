"""The host of an address, domain rules, label by label, and the hosts that rules allow (security N2).

If two parsers could disagree about the host, the address is refused: so only few forms are accepted.

The same rules apply to WebFetch and to the sandbox's proxy. `permissions.decide` decides WebFetch's calls, like all
calls, and every host that a command in the sandbox connects to, as if it were a page to fetch. A connection cannot
wait for a person: there, a host that is not allowed is refused. A local host needs an allow rule that names it, letter
by letter (security N1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from mainspring.core.errors import UsageError
from mainspring.permissions.decide import decide
from mainspring.permissions.policy import Mode, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import PermissionRule, PermissionRules, RuleSource, glob_matches, parse_rules
from mainspring.processes.addresses import is_public
from mainspring.processes.paths import resolve_path
from mainspring.sandbox.proxy import AllowedHost, Gate, HostRefusedError

LONGEST = 8_192  # characters of an address; beyond that servers refuse, too

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<authority>[^/?#\\\s]+)(?P<rest>[/?#][^\\\s]*)?\Z", re.ASCII | re.IGNORECASE
)
_AUTHORITY = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._~!$&'()*+,;=%:-]*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^@:\[\]]+)(?::(?P<port>[0-9]{1,5}))?\Z"
)
_HIDDEN = re.compile(r"%(?:2f|3a|3f|23|40|5c|00|0a|0d|09)", re.IGNORECASE)  # decoded first, it is another host
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z", re.ASCII)
_RULE_LABEL = re.compile(r"[a-z0-9_*](?:[a-z0-9_*-]{0,61}[a-z0-9_*])?\Z", re.ASCII)
_DOTTED = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})\Z", re.ASCII)
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z", re.ASCII)


class AddressError(UsageError):
    """An address whose host is ambiguous."""


def host_of(address: str) -> str:
    """In lower case, without user, port and trailing dot."""
    if len(address) > LONGEST:
        raise AddressError(f"the address has {len(address):,} characters; the limit is {LONGEST:,}")
    if not address.isascii() or any(character < "!" or character == "\x7f" for character in address):
        raise AddressError("the address contains characters that programs read differently: write the host in ASCII")
    found = _URL.match(address)
    if found is None:
        raise AddressError(f"'{address[:100]}' is no plain http or https address")
    authority = _AUTHORITY.match(found["authority"])
    if authority is None or int(authority["port"] or 0) > 65_535 or _HIDDEN.search(authority["user"] or ""):
        raise AddressError(f"the host of '{address[:100]}' can be read in more than one way")
    host = authority["host"].lower().removesuffix(".")
    if not host.startswith("["):
        _check(host, address)
    return host


def _check(host: str, address: str) -> None:
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.match(label) for label in labels):
        raise AddressError(f"the host of '{address[:100]}' can be read in more than one way")
    # With a number at its end it is an IPv4 address, and `127.1`, `0x7f000001` and `010.0.0.1` are read differently.
    if _NUMBER.match(labels[-1]) and (not _DOTTED.match(host) or any(int(label) > 255 for label in labels)):
        raise AddressError(f"the address in '{address[:100]}' can be read in more than one way")


def domain_pattern(text: str) -> tuple[str, ...]:
    """The labels of `domain:...`. Raises for an invalid domain."""
    labels = tuple(text.strip().lower().removesuffix(".").split("."))
    if text.strip() != "*" and not all(_RULE_LABEL.match(label) for label in labels):
        raise AddressError(f"'{text}' is no domain: write it as 'example.com' or '*.example.com'")
    return labels


def domain_matches(labels: tuple[str, ...], host: str) -> bool:
    """`*.example.com`: any subdomain; a `*` elsewhere: part of one label; `*` alone: every host."""
    if labels == ("*",):
        return True
    names = host.split(".")
    if labels[0] == "*":
        rest = labels[1:]
        return len(names) > len(rest) and _each(rest, names[len(names) - len(rest) :])
    return len(names) == len(labels) and _each(labels, names)


def _each(labels: tuple[str, ...], names: list[str]) -> bool:
    return all(glob_matches(label.split("*"), name) for label, name in zip(labels, names, strict=True))


NEAR_ENDS = (".localhost", ".local", ".internal", ".home.arpa", ".lan")  # of names that cannot be registered


def names_host(rules: PermissionRules, host: str) -> bool:
    """Whether an allow rule names this host itself: no wildcard, and not all of WebFetch."""
    return any(
        rule.tool == "WebFetch" and rule.specifier is not None and _is_exactly(rule.specifier, host)
        for rule in rules.allow
    )


def search_domain(rule: PermissionRule) -> tuple[str, ...] | None:
    """The domain of a rule for web searches or pages; None: it is about something else."""
    kind, _, domain = (rule.specifier or "").partition(":")
    if kind != "domain" or rule.tool not in ("WebSearch", "WebFetch"):
        return None
    try:
        return domain_pattern(domain)
    except AddressError:
        return None


def denied_search_domains(rules: PermissionRules) -> tuple[tuple[str, ...], ...]:
    """Domains whose pages are left out of search results: what `WebFetch` may not read, a search may not show."""
    return tuple([pattern for rule in rules.deny if (pattern := search_domain(rule)) is not None])


def is_visibly_near(host: str) -> bool:
    """Whether the host's name shows that it is on this machine or local."""
    bare = host.strip("[]")
    if ":" in bare or bare.replace(".", "").isdigit():
        return not is_public(bare)
    return "." not in bare or bare.endswith(NEAR_ENDS)


def _is_exactly(specifier: str, host: str) -> bool:
    kind, _, domain = specifier.partition(":")
    try:
        return kind == "domain" and ".".join(domain_pattern(domain)) == host  # a host has no '*'
    except AddressError:
        return False


def proxy_gate(policy: Callable[[], PermissionPolicy], domains: Iterable[str] = ()) -> Gate:
    """For the sandbox's proxy: WebFetch's current rules, and the domains of the user's settings.

    The mode does not count: a mode in which everything runs does not open the network.
    """
    more = parse_rules(allow=[f"WebFetch(domain:{domain})" for domain in domains], source=RuleSource.USER)

    def gate(authority: str) -> AllowedHost:
        now = policy()
        rules = now.rules.and_also(more)
        try:
            host = host_of(f"https://{authority}/")
        except AddressError as error:
            raise HostRefusedError(str(error)) from None
        asked = PermissionRequest("WebFetch", {"url": f"https://{authority}/"}, "/")
        verdict = decide(asked, replace(now, rules=rules, mode=Mode.DEFAULT), resolve_path)
        if verdict.decision != "allow":
            raise HostRefusedError(f"'{host}' is not allowed: {verdict.reason}")
        return AllowedHost(host, local=names_host(rules, host))

    return gate
