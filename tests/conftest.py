"""Owns the fixtures of all test folders; must not start anything that a test does not use."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Protocol

import pytest

from kit.kafka.broker import KafkaBroker
from kit.machine.examples import load_profile

if TYPE_CHECKING:
    from collections.abc import Iterator


pytest_plugins = ["kit.machine.closing_line", "kit.machine.distribution"]
load_profile()


class TopicFactory(Protocol):
    """Creates a topic with a unique name; `config` with `_` for `.`."""

    def __call__(self, partitions: int = 1, *, prefix: str = "topic", **config: str) -> str: ...


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """One plaintext broker for the session."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def secure_kafka() -> Iterator[KafkaBroker]:
    """One broker with all listeners and ACLs for the session."""
    with KafkaBroker(secured=True) as broker:
        yield broker


@pytest.fixture
def topic(kafka: KafkaBroker) -> TopicFactory:
    """Create topics on `kafka`; their names have no underscore, because event IDs are split there."""

    def make(partitions: int = 1, *, prefix: str = "topic", **config: str) -> str:
        return kafka.create_topic(f"{prefix}-{os.getpid()}-{next(_numbers)}", partitions, **config)

    return make
