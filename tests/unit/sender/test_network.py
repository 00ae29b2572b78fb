"""The behaviour of look-ups in this machine's network."""

from __future__ import annotations

import socket

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_sender.base.network import MAX_PAYLOAD_SIZE, nic_named, payload_size_for, resolve_target


def test_an_interface_is_known_with_its_mtu() -> None:
    nic = nic_named("lo")
    assert (nic.name, nic.mtu) == ("lo", 65536)
    assert nic.number == socket.if_nametoindex("lo")


@pytest.mark.parametrize("name", ["nowhere0", "", "../lo", "l" * 40, "a\0b"])
def test_an_unknown_interface_is_refused_with_the_names_of_the_others(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"does not exist .*lo"):
        nic_named(name)


@pytest.mark.parametrize(
    ("host", "family", "text", "header_bytes"),
    [
        ("127.0.0.1", socket.AF_INET, "127.0.0.1:1234", 28),
        ("::1", socket.AF_INET6, "[::1]:1234", 48),
        ("[::1]", socket.AF_INET6, "[::1]:1234", 48),
        ("255.255.255.255", socket.AF_INET, "255.255.255.255:1234", 28),
    ],
)
def test_an_address_is_taken_as_it_is(host: str, family: int, text: str, header_bytes: int) -> None:
    target = resolve_target(host, 1234)
    assert (target.family, str(target), target.header_bytes, target.is_multicast) == (family, text, header_bytes, False)


def test_an_ipv4_address_in_the_form_of_ipv6_is_ipv4() -> None:
    assert resolve_target("::ffff:127.0.0.1", 1234) == resolve_target("127.0.0.1", 1234)


def test_a_name_is_resolved_in_the_family_of_the_source_address() -> None:
    assert resolve_target("localhost", 1, source_address="127.0.0.1").address[0] == "127.0.0.1"


def test_a_source_address_of_another_family_is_said_to_be_the_reason() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be resolved to an IPv6 address, like ::1,"):
        resolve_target("127.0.0.1", 1, source_address="::1")


@pytest.mark.parametrize("host", ["224.0.0.251", "239.1.2.3", "ff02::1"])
def test_a_multicast_address_is_known_as_one(host: str) -> None:
    assert resolve_target(host, 1).is_multicast


def test_a_link_local_address_gets_the_zone_of_the_interface() -> None:
    assert resolve_target("fe80::1", 1, nic=nic_named("lo")).address[3:] == (nic_named("lo").number,)
    assert resolve_target("fe80::1%lo", 1).address[3:] == (nic_named("lo").number,)
    assert resolve_target("2001:db8::1", 1, nic=nic_named("lo")).address[3:] == (0,)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 300, "300.1.1.1"])
def test_a_host_that_cannot_be_resolved_is_named(host: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve_target(host, 1)
    assert "cannot be resolved" in str(caught.value)
    assert "correct targetIP" in str(caught.value)


@pytest.mark.parametrize(
    ("mtu", "header_bytes", "size"),
    [(1500, 28, 1472), (1500, 48, 1452), (9000, 28, 8972), (65536, 28, MAX_PAYLOAD_SIZE), (528, 28, 500)],
)
def test_the_payload_fills_the_mtu(mtu: int, header_bytes: int, size: int) -> None:
    assert payload_size_for(mtu, header_bytes, where="eth0") == size


def test_an_mtu_that_is_too_small_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="MTU 527 of eth0 leaves 499 bytes"):
        payload_size_for(527, 28, where="eth0")
