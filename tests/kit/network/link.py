"""A one-way link that drops, duplicates and reorders datagrams, as a process. Must not know their contents.

`python -m kit.network.link --target-port N --drop 0.03 --seed 7` prints its own port as one line of JSON.
"""

from __future__ import annotations

import argparse
import collections
import socket
import time
from dataclasses import asdict, dataclass
from typing import Any

from kit.machine.service import Control, Service
from kit.network.datagrams import DatagramBatch, buffered_and_dropped, open_receiver, send_one
from kit.network.loss import Chances, LossPlan

_BUFFER_BYTES = 64 << 20
_IDLE_RELEASE_SECONDS = 0.02


@dataclass(frozen=True)
class LinkStats:
    """Counts of datagrams so far."""

    received: int
    forwarded: int
    """Including the second copies of duplicated ones."""
    dropped: int
    duplicated: int
    reordered: int
    refused: int
    """Refused because no socket listened at the target."""
    overflowed: int
    """Dropped by the kernel because the link was too slow, so not reproducible by seed. A test should assert 0."""
    waiting_bytes: int
    held: int


class LossyLink(Service):
    """A one-way link to `target_port` on this machine, as a process of its own.

    Args:
        target_port: where datagrams go.
        drop: probability of dropping a datagram.
        duplicate: probability of sending it twice.
        reorder: probability of delaying it until 1 to 16 later ones have passed.
        burst: probability that a burst of losses begins with it.
        burst_length: datagrams lost in one burst.
        seed: the same seed and the same order of arrival drop the same datagrams.
        port: listening port; 0 lets the kernel choose one.
        address: loopback address of both ends, "127.0.0.1" or "::1".
    """

    def __init__(
        self,
        target_port: int,
        *,
        drop: float = 0.0,
        duplicate: float = 0.0,
        reorder: float = 0.0,
        burst: float = 0.0,
        burst_length: int = 50,
        seed: int = 0,
        port: int = 0,
        address: str = "127.0.0.1",
    ) -> None:
        self.chances = Chances(drop, duplicate, reorder, burst, burst_length)
        self.port = port
        arguments = {"target-port": target_port, "port": port, "address": address, "seed": seed}
        arguments |= {name.replace("_", "-"): value for name, value in asdict(self.chances).items()}
        super().__init__("kit.network.link", *(f"--{name}={value}" for name, value in arguments.items()))

    def _on_ready(self, first: dict[str, Any]) -> None:
        self.port = int(first["port"])

    def change(self, **chances: float) -> None:
        """Change probabilities from the next datagram on."""
        self.chances = self.chances.but(**chances)
        self.ask("change", **chances)

    def stats(self) -> LinkStats:
        """Return the counts so far."""
        return LinkStats(**self.ask("stats"))

    def wait_idle(self, *, quiet_seconds: float = 0.3, timeout_seconds: float = 120.0) -> LinkStats:
        """Wait until no datagram has arrived or been pending for `quiet_seconds`.

        Raises:
            TimeoutError: the link is still busy.
        """
        deadline = time.monotonic() + timeout_seconds
        last, since = self.stats(), time.monotonic()
        while time.monotonic() - since < quiet_seconds:
            time.sleep(0.05)
            now = self.stats()
            if now != last or now.waiting_bytes or now.held:
                last, since = now, time.monotonic()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the link was still busy after {timeout_seconds} s: {now}")
        return last


class _Relay:
    """The forwarding inside the link's process."""

    def __init__(self, receiver: socket.socket, sender: socket.socket, plan: LossPlan) -> None:
        self.receiver = receiver
        self._sender = sender
        self._plan = plan
        self._batch = DatagramBatch()
        self._held: collections.deque[tuple[int, bytes]] = collections.deque()
        self._counts = dict.fromkeys(("received", "forwarded", "dropped", "duplicated", "reordered", "refused"), 0)

    def turn(self) -> bool:
        """Forward one batch; return False if there was none."""
        lengths = self._batch.read(self.receiver)
        if not lengths:
            return False
        outgoing: list[int] = []
        counts = self._counts
        number = counts["received"]
        for index, fate in enumerate(self._plan.decide(len(lengths))):
            number += 1
            if fate == 0:
                outgoing.append(index)
            elif fate == 1:
                counts["dropped"] += 1
            elif fate == 2:
                outgoing += (index, index)
                counts["duplicated"] += 1
            else:
                counts["reordered"] += 1
                self._held.append((number + self._plan.hold(number), self._batch.datagram(index, lengths[index])))
            if self._held and self._held[0][0] <= number:
                self._send(outgoing, lengths)
                outgoing = []
                self._release(number)
        counts["received"] = number
        self._send(outgoing, lengths)
        return True

    def _send(self, outgoing: list[int], lengths: list[int]) -> None:
        self._counts["refused"] += self._batch.send(self._sender, outgoing, lengths)
        self._counts["forwarded"] += len(outgoing)

    def _release(self, number: int) -> None:
        while self._held and self._held[0][0] <= number:
            send_one(self._sender, self._held.popleft()[1])
            self._counts["forwarded"] += 1

    def release_all(self) -> None:
        """Send all delayed datagrams, because no later ones arrive that could pass them."""
        if self._held:
            self._release(max(due for due, _ in self._held))

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        if command.pop("command") == "change":
            self._plan.chances = self._plan.chances.but(**command)
            return {"changed": True}
        waiting, overflowed = buffered_and_dropped(self.receiver)
        return {**self._counts, "waiting_bytes": waiting, "overflowed": overflowed, "held": len(self._held)}


def main() -> None:
    """Relay until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m kit.network.link")
    parser.add_argument("--target-port", type=int, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--seed", type=int, default=0)
    for name in ("drop", "duplicate", "reorder", "burst"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    parser.add_argument("--burst-length", type=int, default=50)
    options = parser.parse_args()
    control = Control()
    receiver = open_receiver(options.address, options.port, buffer_bytes=_BUFFER_BYTES)
    sender = socket.socket(receiver.family, socket.SOCK_DGRAM)
    sender.connect((options.address, options.target_port))
    chances = Chances(options.drop, options.duplicate, options.reorder, options.burst, options.burst_length)
    relay = _Relay(receiver, sender, LossPlan(options.seed, chances))
    control.send(port=receiver.getsockname()[1])
    while not control.ended:
        control.serve(relay.answer)
        for _ in range(16):
            if not relay.turn():
                control.wait(receiver, _IDLE_RELEASE_SECONDS if relay._held else 1.0)
                if not relay.turn():
                    relay.release_all()
                break
    receiver.close()
    sender.close()


if __name__ == "__main__":
    main()
