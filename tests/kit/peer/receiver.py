"""The process that stands in for the peer's receiver: UDP in, Kafka out. Must not know the product.

`python -m kit.peer.receiver --bootstrap HOST:PORT` prints its UDP port as one line of JSON and its counts at the end.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from kit.machine.service import Control, Service
from kit.network.datagrams import DatagramBatch, buffered_and_dropped, open_receiver
from kit.peer.opening import (
    CLEARTEXT,
    ENCRYPTED,
    KEY_EXCHANGE,
    STATUS,
    Opener,
    ReceiverCrashError,
    UnreadableEventError,
    base_type,
)
from kit.peer.reassembly import FragmentCache, Message, RefusedDatagramError, parse

if TYPE_CHECKING:
    import socket

_BUFFER_BYTES = 64 << 20
_TICK_SECONDS = 0.01
_LARGEST_PARTITION = 2**31 - 1


class Receiver(Service):
    """The peer's receiver on a loopback port, as a process of its own.

    Args:
        bootstrap: bootstrap servers of the downstream cluster. Topics and their partitions must exist.
        private_keys: glob of PEM PKCS#8 files for encrypted events.
        port: UDP port; 0 lets the kernel choose one (see the attribute `port`).
        address: listening address, "127.0.0.1" or "::1".
        batch_size: maximum events written per 10 ms; the peer's default is 32 (3,200 events/s), its maximum 512;
            0 writes as fast as Kafka accepts.
        key_delay_milliseconds: how long a new key takes to be installed; events encrypted with it are lost until then.
        topic_translations: topic in the event ID to topic in Kafka.
        internal_topic: gets status texts, errors and IDs that are not event IDs; None drops them.
        fragment_ttl_seconds: how long incomplete messages are kept, and the interval of the check.
        kafka: more options for the Kafka producer, such as those of TLS.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        private_keys: str | None = None,
        port: int = 0,
        address: str = "127.0.0.1",
        batch_size: int = 512,
        key_delay_milliseconds: float = 5.0,
        topic_translations: Mapping[str, str] | None = None,
        internal_topic: str | None = None,
        fragment_ttl_seconds: float = 30.0,
        maximum_decompress_size: int = 256 << 20,
        kafka: Mapping[str, Any] | None = None,
    ) -> None:
        self.port = port
        settings = {
            "bootstrap": bootstrap,
            "private_keys": private_keys,
            "port": port,
            "address": address,
            "batch_size": batch_size,
            "key_delay_milliseconds": key_delay_milliseconds,
            "topic_translations": dict(topic_translations or {}),
            "internal_topic": internal_topic,
            "fragment_ttl_seconds": fragment_ttl_seconds,
            "maximum_decompress_size": maximum_decompress_size,
            "kafka": dict(kafka or {}),
        }
        super().__init__("kit.peer.receiver", "--settings", json.dumps(settings))

    def _on_ready(self, first: dict[str, Any]) -> None:
        self.port = int(first["port"])

    def stats(self) -> dict[str, Any]:
        """Return the counts; see `_Intake.stats` for the names."""
        return self.ask("stats")

    def wait_idle(self, *, quiet_seconds: float = 0.3, timeout_seconds: float = 300.0) -> dict[str, Any]:
        """Wait until no datagram arrives and all events are in Kafka; incomplete messages are ignored.

        Raises:
            TimeoutError: the receiver is still busy.
        """
        deadline = time.monotonic() + timeout_seconds
        last, since = self.stats(), time.monotonic()
        while time.monotonic() - since < quiet_seconds:
            time.sleep(0.05)
            now = self.stats()
            if now["datagrams"] != last["datagrams"] or now["waiting_bytes"] or now["queued"]:
                since = time.monotonic()
            last = now
            if time.monotonic() > deadline:
                raise TimeoutError(f"the receiver was still busy after {timeout_seconds} s: {now}")
        return last


class _Outlet:
    """Writes to Kafka at the peer's pace: one batch per tick, with an unlimited queue in memory."""

    def __init__(self, bootstrap: str, batch_size: int, more_options: Mapping[str, Any]) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "reconnect.backoff.max.ms": 250,
                "acks": 1,
                "linger.ms": 5,
                "delivery.report.only.error": True,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1 << 20,
                "log_level": 2,
                **more_options,
            }
        )
        self._batch_size = batch_size
        self._waiting: collections.deque[tuple[tuple[str, int], dict[str, Any]]] = collections.deque()
        self._next_tick_seconds = 0.0
        self.written = 0
        self.lost = 0
        self.errors: collections.deque[str] = collections.deque(maxlen=100)

    def put(self, topic: str, partition: int, key: str, value: bytes) -> None:
        """Queue a record."""
        self._waiting.append(((topic, partition), {"key": key, "value": value}))

    def turn(self, now_seconds: float) -> float:
        """Write the batch of this tick and return the seconds until the next tick."""
        self._producer.poll(0)
        if now_seconds < self._next_tick_seconds:
            return self._next_tick_seconds - now_seconds
        # Like Go's ticker, it skips missed ticks.
        self._next_tick_seconds = max(self._next_tick_seconds + _TICK_SECONDS, now_seconds)
        allowed = min(self._batch_size or 10_000, len(self._waiting))
        by_partition: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for _ in range(allowed):
            topic_partition, record = self._waiting.popleft()
            by_partition.setdefault(topic_partition, []).append(record)
        for (topic, partition), records in by_partition.items():
            self._write(topic, partition, records)
        return _TICK_SECONDS if self._waiting or self.in_flight else 1.0

    def _write(self, topic: str, partition: int, records: list[dict[str, Any]]) -> None:
        # This client ignores a partition inside a record, so a batch is for one partition.
        accepted = self._producer.produce_batch(topic, records, partition=partition, on_delivery=self._on_delivery)
        self.written += accepted
        if accepted == len(records):
            return
        rejected = []
        for record in records:
            error = record.pop("_error", None)
            if error is None:
                continue
            if error.name() == "_QUEUE_FULL":
                rejected.append(((topic, partition), record))
            else:
                self._count_lost(f"{topic}[{partition}]: {error.str()}")
        self._waiting.extendleft(reversed(rejected))

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self.written -= 1
            self._count_lost(f"{message.topic()}[{message.partition()}]: {error.str()}")

    def _count_lost(self, text: str) -> None:
        self.lost += 1
        self.errors.append(text)

    @property
    def in_flight(self) -> int:
        """Records that Kafka has not acknowledged."""
        return len(self._producer)

    @property
    def queued(self) -> int:
        """Records that Kafka has not acknowledged, including those not sent yet."""
        return len(self._waiting) + self.in_flight

    def close(self) -> None:
        """Write the queued records, for at most ten seconds."""
        deadline = time.monotonic() + 10
        while self._waiting and time.monotonic() < deadline:
            time.sleep(max(0.0, min(_TICK_SECONDS, self.turn(time.monotonic()))))
        self._producer.flush(max(0.1, deadline - time.monotonic()))


class _Intake:
    """Reads datagrams and turns them into records, key exchanges and status texts."""

    def __init__(self, settings: Mapping[str, Any], receiver: socket.socket, outlet: _Outlet) -> None:
        self._receiver = receiver
        self._outlet = outlet
        self._batch = DatagramBatch()
        ttl_seconds = settings["fragment_ttl_seconds"]
        self._fragments = FragmentCache(time_to_live_seconds=ttl_seconds, sweep_interval_seconds=ttl_seconds)
        self._opener = Opener(
            settings["private_keys"],
            key_delay_seconds=settings["key_delay_milliseconds"] / 1000,
            max_decompressed_bytes=settings["maximum_decompress_size"],
        )
        self._translations: dict[str, str] = settings["topic_translations"]
        self._internal_topic: str | None = settings["internal_topic"]
        self._datagrams = self._events = 0
        self._refused: collections.Counter[str] = collections.Counter()
        self._unreadable: collections.Counter[str] = collections.Counter()
        self._statuses: collections.deque[str] = collections.deque(maxlen=100)
        self._status_count = self._not_events = 0

    def turn(self) -> bool:
        """Read one batch; return False if there was none.

        Raises:
            ReceiverCrashError: the peer's receiver would crash.
        """
        lengths = self._batch.read(self._receiver)
        now = time.monotonic()
        self._fragments.sweep(now)
        self._datagrams += len(lengths)
        for index, length in enumerate(lengths):
            try:
                packet = parse(self._batch.datagram(index, length))
            except RefusedDatagramError as refusal:
                self._refused[str(refusal)] += 1
                continue
            message = self._fragments.add(packet, now)
            if message is not None:
                self._handle(message, now)
        return bool(lengths)

    def _handle(self, message: Message, now: float) -> None:
        message_type = base_type(message.kind)
        try:
            if message_type in (CLEARTEXT, ENCRYPTED):
                event = self._opener.open(message, now)
                self._deliver(event.event_id, event.value)
            elif message_type == KEY_EXCHANGE:
                self._opener.exchange(message.body, now)
            elif message_type == STATUS:
                self._status_count += 1
                self._statuses.append(message.body.decode(errors="replace"))
                self._write_internal(str(uuid.uuid4()), message.body)
        except UnreadableEventError as error:
            self._unreadable[str(error)] += 1
            self._write_internal(message.event_id, str(error).encode())

    def _deliver(self, event_id: str, value: bytes) -> None:
        self._events += 1
        parts = event_id.split("_")
        if len(parts) != 3:
            self._not_events += 1
            self._write_internal(event_id, value)
            return
        topic = self._translations.get(parts[0], parts[0])
        try:
            partition = int(parts[1])
        except ValueError:
            partition = 0
        if not 0 <= partition <= _LARGEST_PARTITION:
            raise ReceiverCrashError(f"[FATAL] Partition out of int32 range: {partition}")
        self._outlet.put(topic, partition, event_id, value)

    def _write_internal(self, key: str, text: bytes) -> None:
        if self._internal_topic is not None:
            self._outlet.put(self._internal_topic, 0, key, text)

    def stats(self) -> dict[str, Any]:
        """Return all counts.

        `datagrams` read; `events` complete and readable; `written` to Kafka and not rejected; `lost_in_kafka` rejected
        (such as for a missing partition); `refused` datagrams by reason; `unreadable` events by reason; `incomplete`
        messages that lack fragments; `expired` incomplete messages dropped; `no_room` fragments dropped; `queued` for
        Kafka; `overflowed` datagrams lost because this process was too slow (a test should assert 0); `statuses` the
        last status texts of senders.
        """
        waiting, overflowed = buffered_and_dropped(self._receiver)
        return {
            "datagrams": self._datagrams,
            "events": self._events,
            "written": self._outlet.written,
            "lost_in_kafka": self._outlet.lost,
            "kafka_errors": list(self._outlet.errors),
            "refused": dict(self._refused),
            "unreadable": dict(self._unreadable),
            "not_events": self._not_events,
            "incomplete": len(self._fragments),
            "expired": self._fragments.expired,
            "no_room": self._fragments.no_room,
            "keys_installed": self._opener.keys_installed,
            "keys_ignored": self._opener.keys_ignored,
            "status_count": self._status_count,
            "statuses": list(self._statuses),
            "queued": self._outlet.queued,
            "waiting_bytes": waiting,
            "overflowed": overflowed,
        }


def _settings() -> dict[str, Any]:
    """Parse the command line: single options for people, `--settings` for `Receiver`."""
    parser = argparse.ArgumentParser(prog="python -m kit.peer.receiver")
    parser.add_argument("--settings", type=json.loads, default={}, help="all settings as one JSON object")
    parser.add_argument("--bootstrap")
    parser.add_argument("--private-keys")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--key-delay-milliseconds", type=float, default=5.0)
    parser.add_argument("--topic-translations", type=json.loads, default={})
    parser.add_argument("--internal-topic")
    parser.add_argument("--fragment-ttl-seconds", type=float, default=30.0)
    parser.add_argument("--maximum-decompress-size", type=int, default=256 << 20)
    parser.add_argument("--kafka", type=json.loads, default={}, help="producer options as a JSON object")
    options = vars(parser.parse_args())
    options |= options.pop("settings")
    if not options["bootstrap"]:
        parser.error("--bootstrap is required")
    return options


def main() -> None:
    """Receive until SIGTERM or SIGINT, or until an input that crashes the peer's receiver."""
    settings = _settings()
    control = Control()
    receiver = open_receiver(settings["address"], settings["port"], buffer_bytes=_BUFFER_BYTES)
    outlet = _Outlet(settings["bootstrap"], settings["batch_size"], settings["kafka"])
    intake = _Intake(settings, receiver, outlet)
    control.send(port=receiver.getsockname()[1])
    try:
        while not control.ended:
            control.serve(lambda _command: intake.stats())
            busy = intake.turn()
            pause = outlet.turn(time.monotonic())
            if not busy:
                control.wait(receiver, pause)
    except ReceiverCrashError as crash:
        print(crash, file=sys.stderr)
        outlet.close()
        sys.exit(1)
    outlet.close()
    receiver.close()


if __name__ == "__main__":
    main()
