"""The proof of what is called trouble, and in which order; what the kernel says is proven in real networks."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gapless_api.wire.preflight import PREFLIGHT_LINE
from gapless_sender.base.network import Nic
from gapless_sender.link.netlink import Neighbour, Route
from gapless_sender.link_test.preflight import Findings, check_link, first_problem

GOOD = Nic("eth1", 3, mtu=1500, is_up=True, resolves_neighbours=True)
WAY = Route("unicast", 3, None, "10.0.0.1")
PROGRAM = Path(sys.executable).parent / "gapless"


def findings(
    interface: Nic | None = GOOD,
    route: Route | None = WAY,
    neighbour: Neighbour | None = None,
    payload_size: int = 1400,
    message: str = "",
    *,
    required: bool = False,
    carrier: bool = True,
) -> Findings:
    return Findings(
        "eth1",
        "10.0.0.2",
        1234,
        payload_size,
        required,
        "10.0.0.2",
        interface,
        carrier,
        1472,
        route,
        neighbour,
        message,
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (findings(GOOD._replace(is_up=False), None, carrier=False), "eth1 is down; bring it up (ip link set eth1 up)"),
        (findings(carrier=False), "eth1 has no carrier"),
        (findings(payload_size=1473), "1473 bytes does not fit the MTU 1500 of eth1, which allows 1472"),
        (findings(message="The target cannot be resolved."), "cannot be resolved"),
        (findings(route=None), "no route to 10.0.0.2 through eth1"),
        (findings(route=replace(WAY, kind="unreachable")), "no route to 10.0.0.2 through eth1"),
        (findings(required=True), "entry of 10.0.0.2 on eth1 is missing, and no reply comes back through a diode"),
        (findings(neighbour=Neighbour("REACHABLE", "02:00:00:00:00:02"), required=True), "is REACHABLE, not permanent"),
        (findings(route=replace(WAY, gateway="10.0.0.9"), required=True), "entry of 10.0.0.9 on eth1 is missing"),
    ],
)
def test_the_first_trouble_is_said_in_one_sentence(found: Findings, words: str) -> None:
    message = first_problem(found)
    assert words in message
    assert message.endswith(".")
    assert message.count(". ") == 0


@pytest.mark.parametrize(
    "found",
    [
        findings(),
        findings(payload_size=1472),
        findings(neighbour=Neighbour("FAILED", None)),
        findings(neighbour=Neighbour("PERMANENT", "02:00:00:00:00:02"), required=True),
        findings(GOOD._replace(resolves_neighbours=False), required=True),
        findings(route=replace(WAY, kind="multicast"), required=True),
        findings(route=replace(WAY, kind="broadcast"), required=True),
        findings(route=replace(WAY, kind="local"), required=True),
    ],
)
def test_what_is_fit_has_no_trouble(found: Findings) -> None:
    assert first_problem(found) == ""


def test_loopback_is_fit_by_both_families() -> None:
    for target in ("127.0.0.1", "::1"):
        found = check_link("lo", target, 9, require_neighbour=True).as_line()
        assert found.message is None
        assert (found.exists, found.up, found.carrier, found.needs_neighbour) == (True, True, True, False)
        assert found.address == target
        assert found.largest_payload == 65459


@pytest.mark.parametrize("target", ["127.0.0.1", "no-such-host.invalid"])
def test_an_interface_that_does_not_exist_is_the_first_trouble(target: str) -> None:
    found = check_link("eth1x", target, 9)
    assert found.message.startswith("The network interface 'eth1x' does not exist on this machine; set nic to one of: ")
    assert not found.as_line().exists


@pytest.mark.parametrize(
    ("target", "source", "message"),
    [
        ("127.0.0.1", "here", "The source address 'here' is not an IP address; give one of this machine"),
        ("::1", "fe80::1%nowhere", "The network interface 'nowhere' does not exist on this machine"),
    ],
)
def test_a_source_address_that_is_none_is_named(target: str, source: str, message: str) -> None:
    assert check_link("", target, 9, source_address=source).message.startswith(message)


def test_the_command_prints_one_line_and_ends_with_0_or_5() -> None:
    def preflight(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [PROGRAM, "link", "preflight", "--port=9", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    good = preflight("--nic=lo", "--target=127.0.0.1")
    assert (good.returncode, good.stderr) == (0, "")
    assert PREFLIGHT_LINE.from_json(json.loads(good.stdout)).exists
    bad = preflight("--nic=no-such-nic", "--target=127.0.0.1")
    assert bad.returncode == 5
    assert json.loads(bad.stdout)["exists"] is False
    assert bad.stderr == f"gapless: {json.loads(bad.stdout)['message']}\n"
    unknown = preflight("--nic=lo", "--target=no-such-host.invalid")
    assert unknown.returncode == 5
    assert "cannot be resolved" in json.loads(unknown.stdout)["message"]
    assert preflight("--nic=lo").returncode == 2
