"""The fixtures of the fault tests: topics with events of 2,000 bytes, and a resend from their cluster."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from kit.story.resending import Resend

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker
    from kit.kafka.cluster import KafkaCluster
    from kit.network.listener import Listener

EVENT_BYTES = 2000


class Filled(Protocol):
    """Creates a topic with `events` events of 2,000 bytes in each partition."""

    def __call__(self, events: int, partitions: int = 1, **config: str) -> str: ...


_numbers = itertools.count(1)


@pytest.fixture
def cluster(kafka: KafkaBroker) -> KafkaCluster:
    """The cluster that `filled` and `far` use; a file whose tests stop brokers has its own."""
    return kafka


@pytest.fixture
def filled(cluster: KafkaCluster) -> Filled:
    def make(events: int, partitions: int = 1, **config: str) -> str:
        name = cluster.create_topic(f"fault-{os.getpid()}-{next(_numbers)}", partitions, **config)
        for partition in range(partitions):
            cluster.produce(name, (body(offset) for offset in range(events)), partition=partition)
        return name

    return make


@pytest.fixture
def far(cluster: KafkaCluster, listener: Listener, tmp_path: Path) -> Resend:
    """`gapless resend` from `cluster` to `listener`, with a checkpoint."""
    settings = {"bootstrapServers": cluster.bootstrap, "targetIP": "127.0.0.1", "targetPort": listener.port}
    return Resend(tmp_path, settings | {"payloadSize": 8000, "checkpoint": tmp_path / "checkpoint"})


def body(offset: int) -> bytes:
    return b"%d " % offset + bytes(EVENT_BYTES)
