"""Resends whose datagrams do not leave the machine, in networks of their own; prints JSON.

The broker is outside: a listener on its port in this network is handed to the test, which forwards connections. Must
not touch the machine's network: `Wire` begins by looking that only loopback is there.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from link_scenarios import NEIGHBOUR, Wire, sh, tell

from kit.story.resending import PROGRAM, ids_of

PERMANENT = f"{NEIGHBOUR} nud permanent"
FORGET = "ip neigh del 10.9.0.2 dev near"
SLOW = ("--eps=200",)


class Story:
    """One resend in a network of its own, and its repetition with the same checkpoint."""

    def __init__(self, handover: int, bootstrap: str, topic: str, folder: str) -> None:
        self.wire = Wire()
        host, port = bootstrap.rsplit(":", 1)
        listener = socket.create_server((host, int(port)))
        with socket.socket(fileno=handover) as channel:
            socket.send_fds(channel, [b"."], [listener.fileno()])
            channel.recv(1)
        self.folder = Path(folder)
        self.topic = topic
        self.common = [f"--bootstrapServers={bootstrap}", f"--topic={topic}", "--partition=0", "--offsetFrom=0"]
        self.frames: list[bytes] = []

    def start(self, *options: str, nic: str = "--nic=near") -> subprocess.Popen[str]:
        command = [str(PROGRAM), "resend", *self.common, "--targetIP=10.9.0.2", "--targetPort=5000", nic]
        if not any(option.startswith("--eps") for option in options):
            command.append("--unlimited")
        files = [f"--checkpoint={self.folder / 'checkpoint'}", f"--report={self.folder / 'report.json'}"]
        return subprocess.Popen(
            [*command, *files, "--progressInterval=0.2", *options], stderr=subprocess.PIPE, text=True
        )

    def await_events(self, process: subprocess.Popen[str]) -> None:
        """Wait until some events have left, so that what follows happens in the middle."""
        while len(self.ids()) < 30:
            assert process.poll() is None, process.communicate()
            with suppress(TimeoutError):
                self.frames.append(self.wire.next_frame())

    def ids(self) -> set[str]:
        """The events that have reached the far end."""
        return set(ids_of([frame[42:] for frame in self.frames]))

    def end(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Wait for the end of a run, and return its facts."""
        _, errors = process.communicate(timeout=150)
        self.frames += self.wire.frames()
        report = json.loads((self.folder / "report.json").read_text())
        lines = errors.splitlines()
        progress = [json.loads(line) for line in lines if '"progress"' in line]
        return {
            "exit_code": process.returncode,
            "last": lines[-1],
            "sent": report["ledger"]["sent"],
            "link": report["link"],
            "saved": self.saved(),
            "arrived": len(self.ids()),
            "progress": progress[-1] if progress else None,
        }

    def saved(self) -> int:
        """The events that the checkpoint records as sent."""
        file = self.folder / "checkpoint"
        return sum(map(int, re.findall(r'"sent": ?(\d+)', file.read_text()))) if file.exists() else 0


def ended(story: Story, process: subprocess.Popen[str], mend: str) -> None:
    """Print the facts of the run, and of the one after `mend` with the same checkpoint."""
    first = story.end(process)
    command = re.search(r"\((ip neigh [^)]+)\)", first["last"])
    if command is not None:
        sh(command[1].replace("HARDWARE-ADDRESS", "02:00:00:00:00:02"))
    if mend:
        sh(mend)
    tell(first=first, second=story.end(story.start()))


def absent(story: Story) -> None:
    sh(FORGET)
    ended(story, story.start(), "")


def failed(story: Story) -> None:
    """The entry is FAILED because the kernel has asked before."""
    sh(FORGET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.sendto(b"", ("10.9.0.2", 9))
        while b"FAILED" not in subprocess.run(["ip", "neigh", "show"], capture_output=True, check=True).stdout:
            story.wire.frames()
    ended(story, story.start("--parallelism=2"), "")


def wrong_address(story: Story) -> None:
    sh(f"{PERMANENT.replace('00:02', '77:77')}")
    ended(story, story.start(), "")


def neighbour_lost(story: Story) -> None:
    process = story.start(*SLOW)
    story.await_events(process)
    sh(FORGET)
    ended(story, process, "")


def carrier_lost(story: Story) -> None:
    process = story.start(*SLOW)
    story.await_events(process)
    sh("ip link set far down")
    ended(story, process, f"ip link set far up;{PERMANENT}")


def link_down(story: Story) -> None:
    process = story.start(*SLOW)
    story.await_events(process)
    sh("ip link set near down")
    ended(story, process, f"ip link set near up;{PERMANENT}")


def link_flaps(story: Story) -> None:
    """What was in the queue of the interface is sent again."""
    process = story.start(*SLOW)
    story.await_events(process)
    sh(f"ip link set near down;ip link set near up;{PERMANENT}")
    ended(story, process, "")


def route_removed(story: Story) -> None:
    process = story.start(*SLOW, nic="--nic=")
    story.await_events(process)
    sh("ip route del 10.9.0.0/24 dev near")
    ended(story, process, "ip route add 10.9.0.0/24 dev near")


def route_elsewhere(story: Story) -> None:
    sh("ip link add other type veth peer name another;ip link set other up;ip link set another up")
    sh("ip addr add 10.8.0.1/24 dev other")
    process = story.start(*SLOW, nic="--nic=")
    story.await_events(process)
    sh("ip route add 10.9.0.2/32 dev other")
    ended(story, process, "ip route del 10.9.0.2/32 dev other")


def route_removed_behind_a_nic(story: Story) -> None:
    """A socket that is bound to an interface needs no route to a neighbour."""
    process = story.start(*SLOW)
    story.await_events(process)
    sh("ip route del 10.9.0.0/24 dev near")
    ended(story, process, "ip route add 10.9.0.0/24 dev near")


def mtu_lowered(story: Story) -> None:
    process = story.start(*SLOW)
    story.await_events(process)
    sh("ip link set near mtu 600")
    ended(story, process, "ip link set near mtu 1500")


def dropped(story: Story) -> None:
    """The other end of the pair takes nothing that is longer than its MTU, and the interface counts a drop."""
    sh("ip link set far mtu 600")
    ended(story, story.start(), "")


def dropped_strictly(story: Story) -> None:
    sh("ip link set far mtu 600")
    ended(story, story.start("--strictLink=true"), "")


if __name__ == "__main__":
    name, handover, *others = sys.argv[1:]
    globals()[name](Story(int(handover), *others))
