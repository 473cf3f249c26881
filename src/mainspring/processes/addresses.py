"""Which addresses may be reached (security N1): one decision for WebFetch and for the sandbox's proxy.

The caller resolves a name once, and connects only to an address that this allows. The tables are those of the
registries (IANA, special-purpose addresses), and not `ipaddress.is_global`, which differs between versions of Python.
Of IPv6 only allocated ranges are public. An IPv6 form that embeds an IPv4 address counts as that address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from mainspring.core.errors import MainspringError

_NOT_PUBLIC_4 = (
    *("0.0.0.0/8", "127.0.0.0/8"),  # this machine; Linux treats 0.0.0.0 as itself
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"),  # private, and the carriers' own
    "169.254.0.0/16",  # link-local, with the metadata of cloud machines
    "168.63.129.16/32",  # Azure's metadata, in a public range
    *("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15"),  # protocols, 6to4 relays, benchmarks
    *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),  # for documentation
    *("224.0.0.0/4", "240.0.0.0/4"),  # multicast; reserved, with the broadcast
)
_GIVEN_OUT_6 = "2000::/3"
_NOT_PUBLIC_6 = (
    "2001::/23",  # protocols, Teredo among them
    *("2001:db8::/32", "3fff::/20"),  # for documentation
)
# IPv6 networks that embed an IPv4 address: the network, and the number of bits after it.
_HIDING = (
    ("::ffff:0:0/96", 0),  # mapped
    ("64:ff9b::/96", 0),  # NAT64: hosts without IPv4 reach all IPv4 hosts this way
    ("2002::/16", 80),  # 6to4
)


class LocalAddressError(MainspringError):
    """A host that must not be reached. The message says why, and what would allow it."""


def check_addresses(host: str, addresses: Iterable[str], *, near: bool = False) -> list[str]:
    """The addresses of the host, if all may be connected to. `near`: a rule names this host, so it may be anywhere,
    except on cloud metadata addresses: for these a rule must name the address itself.

    One address that is not public refuses them all: a name with both kinds is a mistake of its owner, or an attack.
    """
    found = list(dict.fromkeys(addresses))
    bare = host.strip("[]")
    wrong = next((one for one in found if not (one == bare or not is_metadata(one) if near else is_public(one))), None)
    if wrong is not None:
        named = wrong if near else host
        rule = "no rule can name it" if ":" in named else f"the rule 'WebFetch(domain:{named})' would allow it"
        leads = "" if wrong == bare else f" leads to '{wrong}', which"
        raise LocalAddressError(f"'{host}'{leads} is not on the public internet: {rule}")
    if not found:
        raise LocalAddressError(f"'{host}' has no address")
    return found


def is_metadata(address: str) -> bool:
    """Or any other link-local address."""
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return True
    if isinstance(number, ipaddress.IPv6Address):
        hidden = next((bits for network, bits in _NETWORKS_HIDING if number in network), None)
        if hidden is None:
            return number.is_link_local or number in _METADATA_6
        number = ipaddress.IPv4Address((int(number) >> hidden) & 0xFFFF_FFFF)
    return any(number in network for network in _METADATA_4)


def is_public(address: str) -> bool:
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(number, ipaddress.IPv4Address):
        return not any(number in network for network in _NETWORKS_4)
    for network, bits in _NETWORKS_HIDING:
        if number in network:
            return is_public(str(ipaddress.IPv4Address((int(number) >> bits) & 0xFFFF_FFFF)))
    return number in _NETWORK_6 and not any(number in network for network in _NETWORKS_6)


_METADATA_4 = (ipaddress.IPv4Network("169.254.0.0/16"), ipaddress.IPv4Network("168.63.129.16/32"))
_METADATA_6 = ipaddress.IPv6Network("fd00:ec2::/32")
_NETWORKS_4 = tuple([ipaddress.IPv4Network(network) for network in _NOT_PUBLIC_4])
_NETWORK_6 = ipaddress.IPv6Network(_GIVEN_OUT_6)
_NETWORKS_6 = tuple([ipaddress.IPv6Network(network) for network in _NOT_PUBLIC_6])
_NETWORKS_HIDING = tuple([(ipaddress.IPv6Network(network), bits) for network, bits in _HIDING])
