"""Which hosts the rules let anybody reach (security N2): the same for WebFetch and for the sandbox's proxy.

WebFetch's calls are decided by `permissions.decide`, like all calls; so is every host that a command in the sandbox
asks for, as if it were a page to be fetched. Nobody can be asked in the middle of a connection: there, what is not
allowed is refused. That a host may be near takes an allow rule that names it, letter by letter (security N1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from mainspring.permissions.decide import decide
from mainspring.permissions.hosts import AddressError, domain_pattern, host_of
from mainspring.permissions.policy import Mode, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import PermissionRules, RuleSource, parse_rules
from mainspring.processes.addresses import is_public
from mainspring.processes.paths import resolve_path
from mainspring.sandbox.proxy import AllowedHost, Gate, HostRefusedError

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
