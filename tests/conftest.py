"""The fixtures of all test folders; must not start anything that a test does not use."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import pytest

from kit.machine.examples import load_profile

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker
    from kit.kafka.shared_broker import SharedBroker


pytest_plugins = ["kit.kafka.shared_broker", "kit.machine.closing_line", "kit.machine.distribution"]
load_profile()


class TopicFactory(Protocol):
    """Creates a topic with a unique name; `config` with `_` for `.`."""

    def __call__(self, partitions: int = 1, *, prefix: str = "topic", **config: str) -> str: ...


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka(shared_broker: Callable[[str], SharedBroker]) -> KafkaBroker:
    """The broker that all tests of the run share; it has all listeners and ACLs."""
    return shared_broker("source")


@pytest.fixture(scope="session")
def secure_kafka(kafka: KafkaBroker) -> KafkaBroker:
    """The same broker, for tests of its other listeners and ACLs."""
    return kafka


@pytest.fixture
def topic(kafka: KafkaBroker) -> TopicFactory:
    """Create topics on `kafka`; their names have no underscore, because event IDs are split there."""

    def make(partitions: int = 1, *, prefix: str = "topic", **config: str) -> str:
        return kafka.create_topic(f"{prefix}-{os.getpid()}-{next(_numbers)}", partitions, **config)

    return make
