"""Owns the fixtures that every test folder shares; must not start anything that a test did not ask for."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Protocol

import pytest

from kit.kafka.broker import KafkaBroker
from kit.machine.examples import load_profile

if TYPE_CHECKING:
    from collections.abc import Iterator


load_profile()


class TopicFactory(Protocol):
    """Makes a topic with a name that no other test has; `config` with `_` for `.`."""

    def __call__(self, partitions: int = 1, *, prefix: str = "topic", **config: str) -> str: ...


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """One plaintext broker for the whole run."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def secure_kafka() -> Iterator[KafkaBroker]:
    """One broker with every listener and access control for the whole run."""
    with KafkaBroker(secured=True) as broker:
        yield broker


@pytest.fixture
def topic(kafka: KafkaBroker) -> TopicFactory:
    """Make topics on `kafka`; no underscore in the name, because ids are split there."""

    def make(partitions: int = 1, *, prefix: str = "topic", **config: str) -> str:
        return kafka.create_topic(f"{prefix}-{os.getpid()}-{next(_numbers)}", partitions, **config)

    return make
