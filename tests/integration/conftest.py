"""The fixtures of the resend tests with a real broker and socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.network.listener import Listener
from kit.story.resending import Resend

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A receiver's port that records every datagram."""
    with Listener() as listening:
        yield listening


@pytest.fixture
def resend(kafka: KafkaBroker, listener: Listener, tmp_path: Path) -> Resend:
    """`gapless resend` from `kafka` to `listener`."""
    settings = {"bootstrapServers": kafka.bootstrap, "targetIP": "127.0.0.1", "targetPort": listener.port}
    return Resend(tmp_path, settings)
