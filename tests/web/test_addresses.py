"""Which addresses are public: a table, and properties over all the others (security N1)."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.processes.addresses import LocalAddressError, check_addresses, is_metadata, is_public

PUBLIC = """
1.1.1.1 8.8.8.8 93.184.216.34 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 169.253.255.255 172.15.255.255
172.32.0.1 192.0.1.1 192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.1 223.255.255.255 9.255.255.255 11.0.0.0
2606:4700:4700::1111 2a00:1450:4001:81b::200e 2001:4860:4860::8888 2001:200:: 240e::1 ::ffff:8.8.8.8 ::ffff:808:808
64:ff9b::808:808 2002:808:808::1
"""
NOT_PUBLIC = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 169.254.169.254 169.254.0.1
172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.7 203.0.113.9 224.0.0.1
239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16
:: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0.0.0.0
::ffff:0:127.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a00:1 64:ff9b:1::808:808 2002:7f00:1:: 2002:a00:1::1 2002:c0a8:101::
2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:10::1 2001:20::1 2001:db8::1 3fff::1 100::1 fc00::1 fd00:ec2::254
fe80::1 fe80::1%1 fec0::1 ff02::1 5f00::1 4000::1 1000::1
"""
NO_ADDRESSES = ("", "x", "1.2.3", "0x7f000001", "2130706433", "1.2.3.4.5", "127.1", "010.0.0.1", "[::1]", "1.2.3.4 ")


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", [*NOT_PUBLIC.split(), *NO_ADDRESSES])
def test_not_public(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_what_hides_a_number_is_what_it_hides(number: ipaddress.IPv4Address) -> None:
    value = int(number)
    forms = [(0xFFFF << 32) | value, (0x64FF9B << 96) | value, (0x2002 << 112) | (value << 80) | 1]
    assert [is_public(str(ipaddress.IPv6Address(form))) for form in forms] == [is_public(str(number))] * 3


@given(st.ip_addresses())
def test_never_more_than_the_standard_library_calls_global(
    number: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    """Hypothesis draws from the special networks as often as from the others."""
    hidden = isinstance(number, ipaddress.IPv6Address) and (
        number.ipv4_mapped or number.sixtofour or number in ipaddress.IPv6Network("64:ff9b::/96")
    )
    if is_public(str(number)) and not hidden:
        assert number.is_global
        assert not number.is_multicast
        assert not number.is_reserved


@given(st.sampled_from(NOT_PUBLIC.split()), st.lists(st.sampled_from(PUBLIC.split())), st.integers(0, 9))
def test_one_that_is_not_public_refuses_them_all(wrong: str, others: list[str], place: int) -> None:
    addresses = [*others[:place], wrong, *others[place:]]
    with pytest.raises(LocalAddressError, match="is not on the public internet"):
        check_addresses("site.test", addresses)
    if not is_metadata(wrong):
        assert check_addresses("site.test", addresses, near=True) == list(dict.fromkeys(addresses))
    if others:
        assert check_addresses("site.test", others) == list(dict.fromkeys(others))


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "168.63.129.16", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254", "nonsense"]
)
def test_where_cloud_machines_keep_their_keys_no_rule_for_a_name_leads(address: str) -> None:
    with pytest.raises(LocalAddressError):
        check_addresses("site.test", ["10.0.0.1", address], near=True)
    assert check_addresses(address, [address], near=True) == [address]
    assert check_addresses("site.test", ["10.0.0.1", "fd00::1", "::1"], near=True) == ["10.0.0.1", "fd00::1", "::1"]


def test_the_message_has_a_way_out() -> None:
    with pytest.raises(LocalAddressError) as caught:
        check_addresses("db.corp", ["10.0.0.7"])
    said = (
        "'db.corp' leads to '10.0.0.7', which is not on the public internet: the rule 'WebFetch(domain:db.corp)' would"
    )
    assert str(caught.value) == f"{said} allow it"
    with pytest.raises(LocalAddressError, match=r"'127\.0\.0\.1' is not on the public internet: the rule 'WebFetch"):
        check_addresses("127.0.0.1", ["127.0.0.1"])
    with pytest.raises(LocalAddressError, match="no rule can name it"):
        check_addresses("[::1]", ["::1"])
    with pytest.raises(LocalAddressError, match=r"'site\.test' has no address"):
        check_addresses("site.test", [])
