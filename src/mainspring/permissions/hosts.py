"""The host of an address, and domain rules, label by label (security N2).

If two parsers could disagree about the host, there is no answer but refusal: so the forms that are read here are few.
"""

from __future__ import annotations

import re

from mainspring.core.errors import UsageError

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
    from mainspring.permissions.rules import glob_matches

    return all(glob_matches(label.split("*"), name) for label, name in zip(labels, names, strict=True))
