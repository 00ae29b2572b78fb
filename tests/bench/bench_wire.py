"""The micro-benchmark of the wire format: CPU nanoseconds per event and per datagram; must not need Kafka.

Run it as ``.venv/bin/python tests/bench/bench_wire.py``. Datagrams go to a loopback socket that is never read, so the
figures include the sender's work and the kernel's path up to the full receive queue.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable

from gapless_sender.link.transmitter import Transmitter
from gapless_sender.link.udp_link import UdpLink
from gapless_sender.pace.pace_state import PaceState
from gapless_sender.pace.pacing import Pace
from gapless_sender.replay.input_filter import InputFilter
from gapless_sender.wire.compression import gzip_body
from gapless_sender.wire.encryption import SessionKey
from gapless_sender.wire.packets import EventPacketizer, PacketType

EVENTS = 48_000
BATCH = 16_000
PAYLOAD_SIZE = 1400
ROUNDS = 5


def measure(name: str, per: int, work: Callable[[], object]) -> None:
    """Print the fastest of `ROUNDS` rounds."""
    best = min(_cpu_seconds(work) for _ in range(ROUNDS))
    print(f"{name:58s} {best / per * 1e9:8.0f} ns")


def _cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def log_sizes(seed: int) -> list[int]:
    """Return sizes like those of real logs: log-normal, median 350 bytes, tail up to 16 KiB."""
    generator = random.Random(seed)
    return [min(max(int(generator.lognormvariate(5.857, 0.72)), 1), 16_384) for _ in range(EVENTS)]


def main() -> None:
    """Measure each step separately."""
    generator = random.Random(1)
    offsets = range(1_000_000, 1_000_000 + EVENTS)
    small = [generator.randbytes(200) for _ in range(EVENTS)]
    logs = [generator.randbytes(size) for size in log_sizes(2)]
    event = PacketType.CLEAR
    packetizer = EventPacketizer("transfer", 0, PAYLOAD_SIZE)
    key = SessionKey.generate()

    measure("packetise 200 B, one type, per event", EVENTS, lambda: packetizer.add_batch([], offsets, event, small))
    mixed = [int(event)] * EVENTS
    measure("packetise 200 B, a type each, per event", EVENTS, lambda: packetizer.add_batch([], offsets, mixed, small))
    measure("packetise log sizes, per event", EVENTS, lambda: packetizer.add_batch([], offsets, event, logs))
    measure("encrypt 200 B, per event", EVENTS, lambda: key.seal_batch(small))
    measure("encrypt log sizes, per event", EVENTS, lambda: key.seal_batch(logs))
    line = ("2026-11-20T10:00:00Z host app[17]: user %d logged in from 10.0.%d.7 " * 20)[:1300].encode()
    measure("gzip 1300 B of log lines, per event", 2000, lambda: [gzip_body(line) for _ in range(2000)])
    rules = InputFilter.parse(r"deny:password=\w+, deny:secret, allow:^x")
    text = [line[:200]] * EVENTS
    measure("filter 200 B of text by three rules, per event", EVENTS, lambda: rules.denied(text))
    measure("filter 200 B of noise by three rules, per event", EVENTS, lambda: rules.denied(small))

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        port = sink.getsockname()[1]
        for name, bodies in (("200 B", small), ("log sizes", logs)):
            out: list[bytes] = []
            packetizer.add_batch(out, offsets, event, bodies)
            batches = [out[first : first + BATCH] for first in range(0, len(out), BATCH)]
            with UdpLink.open("127.0.0.1", port) as link, UdpLink.open("127.0.0.1", port, order="strict") as strict:
                measure(f"arrange {name}, per datagram", len(out), lambda b=batches, k=link: [k.arrange(x) for x in b])
                measure(f"send {name}, per datagram", len(out), lambda b=batches, k=link: [k.send(x) for x in b])
                measure(
                    f"send {name} in strict order, per datagram",
                    len(out),
                    lambda b=batches, k=strict: [k.send(x) for x in b],
                )
                for kind, budget in (("own", None), ("shared", PaceState.shared())):
                    transmitter = Transmitter(link, Pace(1e9, 1e12, state=budget), 1, on_send=lambda: None)
                    measure(
                        f"send {name} with a pace ({kind} budget), per datagram",
                        len(out),
                        lambda b=batches, t=transmitter: [t.send(x, len(x)) for x in b],
                    )
            with UdpLink.open("127.0.0.1", port, gso=False) as plain:
                some = out[:BATCH]
                measure(f"send {name} without GSO, per datagram", len(some), lambda b=some, k=plain: k.send(b))


if __name__ == "__main__":
    main()
