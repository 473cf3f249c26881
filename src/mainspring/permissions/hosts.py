"""The host of an address, and domain rules, label by label (security N2).

If two parsers could disagree about the host, there is no answer but refusal: so the forms that are read here are few.

Which hosts the rules let anybody reach (security N2): the same for WebFetch and for the sandbox's proxy.

WebFetch's calls are decided by `permissions.decide`, like all calls; so is every host that a command in the sandbox
asks for, as if it were a page to be fetched. Nobody can be asked in the middle of a connection: there, what is not
allowed is refused. That a host may be near takes an allow rule that names it, letter by letter (security N1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from mainspring.core.errors import UsageError
from mainspring.permissions.decide import decide
from mainspring.permissions.policy import Mode, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import PermissionRules, RuleSource, glob_matches, parse_rules
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
_HIDDEN = re.compile(r"%(?:2f|3a|3f|23|40|5c|00|0a|0d|09)", re.IGNORECASE)  # who decodes first sees another host
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z", re.ASCII)
_RULE_LABEL = re.compile(r"[a-z0-9_*](?:[a-z0-9_*-]{0,61}[a-z0-9_*])?\Z", re.ASCII)
_DOTTED = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})\Z", re.ASCII)
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z", re.ASCII)


class AddressError(UsageError):
    """An address whose host is not beyond doubt."""


def host_of(address: str) -> str:
    """In lower case, without user, port and trailing dot."""
    if len(address) > LONGEST:
        raise AddressError(f"the address has {len(address):,} characters; {LONGEST:,} is the most")
    if not address.isascii() or any(character < "!" or character == "\x7f" for character in address):
        raise AddressError("the address holds characters that programs read differently: write the host in ASCII")
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
    """The labels of `domain:...`. Raises for what cannot be a domain."""
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


NEAR_ENDS = (".localhost", ".local", ".internal", ".home.arpa", ".lan")  # of names that nobody can register


def names_host(rules: PermissionRules, host: str) -> bool:
    """Whether an allow rule names this host itself: no wildcard, and not all of WebFetch."""
    return any(
        rule.tool == "WebFetch" and rule.specifier is not None and _is_exactly(rule.specifier, host)
        for rule in rules.allow
    )


def is_visibly_near(host: str) -> bool:
    """Whether whoever reads this host sees that it is on this machine or near it."""
    bare = host.strip("[]")
    if ":" in bare or bare.replace(".", "").isdigit():
        return not is_public(bare)
    return "." not in bare or bare.endswith(NEAR_ENDS)


def _is_exactly(specifier: str, host: str) -> bool:
    kind, _, domain = specifier.partition(":")
    try:
        return kind == "domain" and ".".join(domain_pattern(domain)) == host  # a host holds no '*'
    except AddressError:
        return False


def proxy_gate(policy: Callable[[], PermissionPolicy], domains: Iterable[str] = ()) -> Gate:
    """For the sandbox's proxy: WebFetch's rules as they are at that moment, and the domains of the user's settings.

    The mode does not count: a mode in which everything runs is no reason to let everything out.
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
