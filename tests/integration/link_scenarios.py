"""What happens to a link in a network of its own: ``unshare -rn python link_scenarios.py NAME`` prints JSON.

Must not touch the machine's network: every scenario begins by looking that only loopback is there.
"""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from gapless_api.base.errors import GaplessError
from gapless_sender.link.udp_link import UdpLink, UnsentError
from gapless_sender.link_test.preflight import check_link

ETHERTYPE_ALL = 3
NEIGHBOUR = "ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev near"


def sh(commands: str) -> None:
    for command in commands.split(";"):
        subprocess.run(command.split(), check=True)


class Wire:
    """A pair of interfaces, `near` and `far`, and everything that arrives at the far end."""

    def __init__(self) -> None:
        if [name for _, name in socket.if_nameindex()] != ["lo"]:
            sys.exit("this is no private network")
        sh(
            "ip link set lo up;ip link add near type veth peer name far;ip link set near up;ip link set far up;"
            f"ip addr add 10.9.0.1/24 dev near;{NEIGHBOUR};ip -6 addr add fe80::1/64 dev near nodad"
        )
        # A veth pair hands whole groups over; let it cut them like the hardware does.
        sh("ip link set near gso_max_segs 1")
        self.far = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_ALL))
        self.far.bind(("far", 0))
        self.far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        self.far.settimeout(0.3)

    def frames(self) -> list[bytes]:
        """The UDP frames that have arrived."""
        found = []
        try:
            while True:
                found.append(self.next_frame())
        except TimeoutError:
            return found

    def next_frame(self) -> bytes:
        """The next UDP frame. Raises TimeoutError when none comes."""
        while True:
            try:
                frame = self.far.recv(70_000)
            except TimeoutError:
                raise
            except OSError:  # said once when the far end goes down
                continue
            if (frame[12:14] == b"\x08\x00" and frame[23] == 17) or (frame[12:14] == b"\x86\xdd" and frame[20] == 17):
                return frame


def tell(**facts: Any) -> None:
    print(json.dumps(facts))


def sends_to(target: str, **keywords: Any) -> None:
    wire = Wire()
    datagrams = [b"%03d" % n + bytes(997) for n in range(20)] + [b"%03d" % n + bytes(300) for n in range(20)]
    with UdpLink.open(target, 5000, **keywords) as link:
        link.send(datagrams)
        frames = wire.frames()
        headers = 14 + link.header_bytes
        tell(
            payload_size=link.mtu_payload_size(),
            destinations=sorted({frame[:6].hex() for frame in frames}),
            arrived=sorted(frame[headers:].hex() for frame in frames) == sorted(d.hex() for d in datagrams),
            time_to_live=sorted({frame[22] if frame[12] == 8 else frame[21] for frame in frames}),
        )


def unicast() -> None:
    sends_to("10.9.0.2")


def unicast_through_nic() -> None:
    sends_to("10.9.0.2", nic="near")


def subnet_broadcast() -> None:
    sends_to("10.9.0.255")


def limited_broadcast() -> None:
    sends_to("255.255.255.255", nic="near")


def multicast() -> None:
    sends_to("239.1.2.3", nic="near", ttl=5)


def multicast_ipv6() -> None:
    sends_to("ff02::1234", nic="near", ttl=5)


def source_with_zone() -> None:
    """Without its zone the kernel does not know whose link-local address it is."""
    wire = Wire()
    sh("ip -6 neigh replace fe80::2 lladdr 02:00:00:00:00:02 dev near nud permanent")
    found = {}
    for name, keywords in {
        "zone": {"source_address": "fe80::1%near"},
        "number": {"source_address": f"fe80::1%{socket.if_nametoindex('near')}"},
        "nic": {"source_address": "fe80::1", "nic": "near"},
    }.items():
        with UdpLink.open("fe80::2%near", 5000, **keywords) as link:
            link.send([name.encode()])
        found[name] = [socket.inet_ntop(socket.AF_INET6, frame[22:38]) for frame in wire.frames()]
    try:
        UdpLink.open("fe80::2%near", 5000, source_address="fe80::1%nowhere").close()
    except GaplessError as error:
        found["message"] = [str(error)]
    tell(**found)


def no_way() -> None:
    Wire()
    try:
        UdpLink.open("192.0.2.7", 5000)
    except GaplessError as error:
        tell(kind=type(error).__name__, message=str(error))


def small_mtu() -> None:
    wire = Wire()
    sh("ip link set near mtu 1280")
    datagrams = [bytes(1400)] * 3
    with UdpLink.open("10.9.0.2", 5000) as link:
        try:
            link.send(datagrams)
        except UnsentError as error:
            refusal, unsent = str(error), len(error.unsent)
    with UdpLink.open("10.9.0.2", 5000, ip_fragments=True) as link:
        link.send(datagrams)
        tell(refusal=refusal, unsent=unsent, fragments=len(wire.frames()), stats=dataclasses.asdict(link.stats))


def down_and_up() -> None:
    wire = Wire()
    with UdpLink.open("10.9.0.2", 5000, nic="near") as link:
        sh("ip link set near down")
        threading.Timer(0.5, sh, [f"ip link set near up;{NEIGHBOUR}"]).start()
        began = time.monotonic()
        link.send([bytes(500)] * 5)
        seconds = time.monotonic() - began
        tell(seconds=seconds, frames=len(wire.frames()), stats=dataclasses.asdict(link.stats))


def stays_down() -> None:
    Wire()
    with UdpLink.open("10.9.0.2", 5000, nic="near") as link:
        link.deadline_seconds = 0.5
        sh("ip link set near down")
        try:
            link.send([bytes(500)] * 5)
        except UnsentError as error:
            tell(message=str(error), unsent=len(error.unsent))


def full_queue() -> None:
    wire = Wire()
    sh("tc qdisc replace dev near root tbf rate 8mbit burst 3kb limit 6kb")
    with UdpLink.open("10.9.0.2", 5000, gso=False) as link:
        link.send([bytes(500)] * 500)
        tell(frames=len(wire.frames()), stats=dataclasses.asdict(link.stats))


def preflights() -> None:
    """Look at the link again and again while the network changes; nothing may be sent by that."""

    def seen(nic: str, target: str, **keywords: Any) -> None:
        found = check_link(nic, target, 5000, **keywords).as_line()
        steps.append([found.route and found.route.type, found.neighbour, found.mtu, found.message])

    steps: list[list[Any]] = []
    Wire()
    seen("near", "10.9.0.2", require_neighbour=True)
    seen("", "10.9.0.2", payload_size=1472, require_neighbour=True)
    seen("near", "10.9.0.3", require_neighbour=True)
    sh("ip neigh replace 10.9.0.3 lladdr 02:00:00:00:00:03 dev near nud stale")
    seen("near", "10.9.0.3", require_neighbour=True)
    seen("near", "10.9.0.3")
    sh("ip -6 neigh replace fe80::2 lladdr 02:00:00:00:00:02 dev near nud permanent")
    seen("near", "fe80::2", require_neighbour=True)
    seen("near", "fe80::3", require_neighbour=True)
    seen("near", "ff02::1234", require_neighbour=True)
    seen("near", "239.1.2.3", require_neighbour=True)
    seen("near", "10.9.0.255", require_neighbour=True)
    sh("ip link set near mtu 1280")
    seen("near", "10.9.0.2", payload_size=1400)
    seen("near", "10.9.0.2", source_address="10.9.0.77")
    seen("", "192.0.2.7")
    sh("ip link set far down")
    seen("near", "10.9.0.2")
    sh("ip link set near down")
    seen("near", "10.9.0.2")
    tell(steps=steps)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
