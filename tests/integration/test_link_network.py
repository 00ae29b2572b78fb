"""The proof of the link in real networks: broadcast, multicast, a small MTU, a NIC that goes down, full queues."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kit.network.private_networks import needs_private_networks, scenario

pytestmark = [pytest.mark.integration, needs_private_networks]
link = partial(scenario, Path(__file__).with_name("link_scenarios.py"), timeout_seconds=60)


@pytest.mark.parametrize(
    ("name", "hardware_address", "payload_size", "time_to_live"),
    [
        ("unicast", "020000000002", 1472, 64),
        ("unicast_through_nic", "020000000002", 1472, 64),
        ("subnet_broadcast", "ffffffffffff", 1472, 64),
        ("limited_broadcast", "ffffffffffff", 1472, 64),
        ("multicast", "01005e010203", 1472, 5),
        ("multicast_ipv6", "333300001234", 1452, 5),
    ],
)
def test_datagrams_reach_the_wire_for_every_kind_of_target(
    name: str, hardware_address: str, payload_size: int, time_to_live: int
) -> None:
    assert link(name) == {
        "payload_size": payload_size,
        "destinations": [hardware_address],
        "arrived": True,
        "time_to_live": [time_to_live],
    }


def test_the_zone_of_a_source_address_is_kept() -> None:
    told = link("source_with_zone")
    (message,) = told.pop("message")
    assert told == {"zone": ["fe80::1"], "number": ["fe80::1"], "nic": ["fe80::1"]}
    assert "The network interface 'nowhere' does not exist" in message


def test_a_target_without_a_route_is_a_matter_of_configuration() -> None:
    told = link("no_way")
    assert told["kind"] == "ConfigurationError"
    assert "no route to 192.0.2.7:5000" in told["message"]


def test_a_payload_larger_than_the_mtu_is_refused_with_the_right_size_unless_fragments_are_wanted() -> None:
    told = link("small_mtu")
    assert "1400 bytes does not fit the MTU 1280" in told["refusal"]
    assert "1252" in told["refusal"]
    assert told["unsent"] == 3
    assert told["fragments"] == 6
    assert told["stats"]["datagrams"] == 3


def test_an_interface_that_goes_down_and_comes_up_again_costs_time_and_no_datagram() -> None:
    told = link("down_and_up")
    assert told["frames"] == told["stats"]["datagrams"] == 5
    assert told["seconds"] >= 0.4
    assert told["stats"]["retries"] > 0


def test_an_interface_that_stays_down_is_named() -> None:
    told = link("stays_down")
    assert "the interface near is down" in told["message"]
    assert told["unsent"] == 5


def test_a_full_queue_is_waited_for_and_nothing_is_dropped() -> None:
    told = link("full_queue")
    assert told["frames"] == told["stats"]["datagrams"] == 500
    assert told["stats"]["retries"] > 0


def test_a_preflight_sees_every_trouble_that_a_network_can_have() -> None:
    expected: list[tuple[str | None, str | None, int | None, str | None]] = [
        ("unicast", "PERMANENT", 1500, None),
        ("unicast", "PERMANENT", 1500, None),
        ("unicast", None, 1500, "entry of 10.9.0.3 on near is missing"),
        ("unicast", "STALE", 1500, "entry of 10.9.0.3 on near is STALE, not permanent"),
        ("unicast", "STALE", 1500, None),
        ("unicast", "PERMANENT", 1500, None),
        ("unicast", None, 1500, "entry of fe80::3 on near is missing"),
        ("multicast", None, 1500, None),
        ("multicast", None, 1500, None),
        ("broadcast", None, 1500, None),
        ("unicast", "PERMANENT", 1280, "1400 bytes does not fit the MTU 1280 of near, which allows 1252"),
        ("unicast", "PERMANENT", 1280, "from 10.9.0.77 through near (Cannot assign requested address)"),
        (None, None, None, "There is no route to 192.0.2.7"),
        ("unicast", "PERMANENT", 1280, "near has no carrier"),
        (None, None, 1280, "near is down"),
    ]
    steps = link("preflights")["steps"]
    for (*facts, message), (*expected_facts, words) in zip(steps, expected, strict=True):
        assert facts == expected_facts
        assert (message is None) == (words is None), message
        assert words is None or words in message
