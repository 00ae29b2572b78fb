"""Link tests across networks of their own: ``unshare -rn python probing_scenarios.py NAME`` prints JSON.

The sender is in this process's network, `far` is in a second one, and where a router is wanted it is in a third. Must
not touch the machine's network: it begins by looking that only loopback is there.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

GAPLESS = Path(sys.executable).parent / "gapless"
STRANGER = r"""
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(b"\x06\0\1\0\1\0\rtransfer_0_42", ("10.9.0.2", 24117))
    time.sleep(0.01)
"""
CATCHER = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.9.0.2", 24117))
print(flush=True)
print(s.recvfrom(2000)[1][0])
"""
KEEPERS: list[subprocess.Popen[bytes]] = []
SLOW = ("--rates=100,200", "--duration=0.5", "--pause=0")


def sh(commands: str, *, inside: int | None = None) -> None:
    """Run commands, separated by semicolons, in this network or in that of a process."""
    for command in commands.split(";"):
        subprocess.run([*entering(inside), *command.split()], check=True)


def entering(inside: int | None) -> list[str]:
    return [] if inside is None else ["nsenter", f"--net=/proc/{inside}/ns/net"]


def network() -> int:
    """A process that keeps a new network alive; it ends when this one does, which closes its input."""
    keeper = subprocess.Popen(
        ["unshare", "-n", "sh", "-c", "echo ready; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert keeper.stdout is not None
    keeper.stdout.readline()
    KEEPERS.append(keeper)
    return keeper.pid


def possible(command: str) -> bool:
    """Whether the kernel takes `command`; nothing of it stays."""
    return subprocess.run(["unshare", "-n", "sh", "-c", command], capture_output=True, check=False).returncode == 0


def wired() -> int:
    """This network and another one, with a cable between `near` and `far`."""
    other = network()
    sh(f"ip link set lo up;ip link add near type veth peer name far;ip link set far netns {other}")
    sh("ip link set near up;ip addr add 10.9.0.1/24 dev near;ip -6 addr add fe80::1/64 dev near nodad")
    sh(
        "ip link set lo up;ip link set far up;ip addr add 10.9.0.2/24 dev far;ip -6 addr add fe80::2/64 dev far nodad",
        inside=other,
    )
    return other


def measured(
    other: int, receive: tuple[str, ...], test: tuple[str, ...], *, stopped: bool = False, runs: int = 1
) -> dict[str, Any]:
    """Run ``gapless link test`` here and ``gapless link receive`` there."""
    receiver = subprocess.Popen(
        [*entering(other), GAPLESS, "link", "receive", f"--runs={runs}", "--wait=60", *receive],
        stdout=subprocess.PIPE,
        text=True,
    )
    stream: IO[str] | None = receiver.stdout
    assert stream is not None
    listening = json.loads(stream.readline())
    if stopped:
        receiver.send_signal(signal.SIGSTOP)
    sent = []
    for _ in range(runs):
        sender = subprocess.Popen([GAPLESS, "link", "test", *test], stdout=subprocess.PIPE, text=True)
        assert sender.stdout is not None
        for line in sender.stdout:
            sent.append(json.loads(line))
            if stopped and sent[-1]["event"] == "step":
                receiver.send_signal(signal.SIGCONT)
        assert sender.wait() == 0
    said = [json.loads(line) for line in stream]
    assert receiver.wait() == 0
    return {
        "listening": listening,
        "sent": [line["sent"] for line in sent if line["event"] == "step"],
        "reached": [line["bitsPerSecond"] for line in sent if line["event"] == "step"],
        "runs": [line for line in said if line["event"] == "run"],
        "end": said[-1],
    }


def unicast() -> dict[str, Any]:
    return measured(wired(), (), ("--target=10.9.0.2", "--dscp=EF", "--ttl=9", *SLOW))


def unicast_ipv6_with_a_zone() -> dict[str, Any]:
    return measured(wired(), ("--address=::",), ("--target=fe80::2%near", "--dscp=18", "--ttl=9", *SLOW))


def subnet_broadcast() -> dict[str, Any]:
    return measured(wired(), (), ("--target=10.9.0.255", "--dscp=8", *SLOW))


def limited_broadcast() -> dict[str, Any]:
    return measured(wired(), ("--nic=far",), ("--target=255.255.255.255", "--nic=near", "--dscp=LE", *SLOW))


def multicast() -> dict[str, Any]:
    return measured(
        wired(),
        ("--address=239.1.2.3", "--nic=far"),
        ("--target=239.1.2.3", "--nic=near", "--dscp=10", "--ttl=4", *SLOW),
    )


def multicast_by_source_address() -> dict[str, Any]:
    return measured(
        wired(), ("--address=239.1.2.3", "--nic=far"), ("--target=239.1.2.3", "--source-address=10.9.0.1", *SLOW)
    )


def multicast_ipv6() -> dict[str, Any]:
    return measured(wired(), ("--address=ff02::1234%far",), ("--target=ff02::1234%near", "--dscp=10", "--ttl=4", *SLOW))


def vlan() -> dict[str, Any]:
    if not possible("ip link add a0 type veth peer name b0 && ip link add link a0 name a0.5 type vlan id 5"):
        return {"skip": "this kernel has no VLAN interfaces (module 8021q)"}
    other = wired()
    sh("ip link add link near name near.5 type vlan id 5;ip link set near.5 up;ip addr add 10.5.0.1/24 dev near.5")
    sh(
        "ip link add link far name far.5 type vlan id 5;ip link set far.5 up;ip addr add 10.5.0.2/24 dev far.5",
        inside=other,
    )
    return measured(other, ("--nic=far.5",), ("--target=10.5.0.2", "--nic=near.5", "--payload-size=0", *SLOW))


def routed(*queue: str) -> int:
    """Here, a router whose way on has a `queue`, and the far network behind it."""
    router, other = network(), network()
    sh(f"ip link set lo up;ip link add near type veth peer name inward;ip link set inward netns {router}")
    sh(f"ip link add onward type veth peer name far;ip link set far netns {other}", inside=router)
    sh("ip link set near up;ip addr add 10.9.0.1/24 dev near;ip route add 10.8.0.0/24 via 10.9.0.3")
    sh("ip link set inward up;ip addr add 10.9.0.3/24 dev inward;ip link set onward up", inside=router)
    sh("ip addr add 10.8.0.3/24 dev onward;sysctl -qw net.ipv4.ip_forward=1", inside=router)
    sh("ip link set far up;ip addr add 10.8.0.2/24 dev far;ip route add 10.9.0.0/24 via 10.8.0.3", inside=other)
    subprocess.run([*entering(router), "tc", "qdisc", "add", "dev", "onward", "root", *queue], check=True)
    return other


def slow_line() -> dict[str, Any]:
    """A line of 5 Mbit/s behind a router, as a diode is: the sender notices nothing."""
    other = routed("tbf", "rate", "5mbit", "burst", "64kb", "limit", "256kb")
    rates = ("--rates=1Mbit,2Mbit,20Mbit,40Mbit", "--duration=2", "--pause=1", "--yes")
    return measured(other, (), ("--target=10.8.0.2", *rates))


def bad_line() -> dict[str, Any]:
    """A line that loses, doubles and reorders."""
    if not possible("ip link set lo up && tc qdisc add dev lo root netem loss 1%"):
        return {"skip": "this kernel has no netem (module sch_netem); the same goes through the kit's lossy link"}
    other = routed("netem", "delay", "5ms", "loss", "5%", "duplicate", "5%", "reorder", "5%")
    return measured(other, (), ("--target=10.8.0.2", "--rates=1000", "--duration=3"))


def receiver_that_sleeps() -> dict[str, Any]:
    """The receiving program stands still while more arrives than its socket holds."""
    much = ("--rates=8000,8001", "--duration=2", "--pause=2", "--yes")
    return measured(wired(), (), ("--target=10.9.0.2", *much), stopped=True)


def two_runs_among_strangers() -> dict[str, Any]:
    other = wired()
    stranger = subprocess.Popen([sys.executable, "-c", STRANGER])
    try:
        return measured(other, (), ("--target=10.9.0.2", *SLOW), runs=2)
    finally:
        stranger.kill()
        stranger.wait()


def source_address() -> dict[str, Any]:
    """What the far end sees of a resend's own link when the source address is chosen."""
    other = wired()
    sh("ip addr add 10.9.0.9/24 dev near")
    catcher = subprocess.Popen([*entering(other), sys.executable, "-c", CATCHER], stdout=subprocess.PIPE, text=True)
    assert catcher.stdout is not None
    catcher.stdout.readline()
    options = ("--target=10.9.0.2", "--source-address=10.9.0.9", "--rates=20", "--duration=0.5")
    subprocess.run([GAPLESS, "link", "test", *options], stdout=subprocess.DEVNULL, check=True)
    return {"source": catcher.stdout.read().strip()}


def main() -> None:
    """Run the scenario, and end everything it has started."""
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        sys.exit("this is no private network")
    began = time.monotonic()
    try:
        print(json.dumps({**globals()[sys.argv[1]](), "seconds": time.monotonic() - began}), flush=True)
    finally:
        for keeper in KEEPERS:
            keeper.kill()
            keeper.wait()


if __name__ == "__main__":
    main()
