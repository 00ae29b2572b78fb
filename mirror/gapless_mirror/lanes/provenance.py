"""The header with the clusters that a record was copied from, and which records must not be copied back. Pure.

The header's value is a comma-separated list of cluster IDs, the oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from gapless_mirror.lanes.unexpected import each

if TYPE_CHECKING:
    from confluent_kafka import Message

    from gapless_kafka.reading.headers import Header

HEADER = b"gapless-mirror"
Mode = Literal["auto", "always", "never"]
AUTO: Mode = "auto"
ALWAYS: Mode = "always"
NEVER: Mode = "never"


def chain_of(headers: Sequence[Header]) -> tuple[str, ...]:
    """Return the IDs of the clusters from which a record with these `headers` was copied; empty for none."""
    for name, value in reversed(headers):
        if name == HEADER:
            return tuple(part for part in (value or b"").decode("utf-8", "replace").split(",") if part)
    return ()


class Provenance:
    """How a mirror reads and writes the header of each record."""

    __slots__ = ("_adds", "_adds_to", "_mode", "_source", "_target")

    def __init__(
        self, mode: Mode, *, source_id: str, target_id: str, adds_to: Callable[[str], bool] = lambda _topic: False
    ) -> None:
        """Decide once for all records of a topic.

        Args:
            mode: `always` adds the header to each record. `never` ignores it. `auto` adds it to each record of the
                topics for which `adds_to` is true, and otherwise extends it if a record has one.
            source_id: the cluster ID of the source.
            target_id: the cluster ID of the target.
            adds_to: whether another mirror copies the copies of a source topic back.
        """
        self._source, self._target, self._mode, self._adds_to = source_id, target_id, mode, adds_to
        self._adds: dict[str, bool] = {}

    @property
    def _reads(self) -> bool:
        return self._mode != NEVER

    def adds(self, topic: str) -> bool:
        """Whether every record of a source topic gets the header; otherwise one without headers is not changed."""
        if self._mode != AUTO:
            return self._mode == ALWAYS
        if topic not in self._adds:
            self._adds[topic] = self._adds_to(topic)
        return self._adds[topic]

    @property
    def source_id(self) -> str:
        """The cluster ID of the source."""
        return self._source

    def is_returned(self, headers: Sequence[Header] | None) -> bool:
        """Whether a record was copied from the target, so that it must not be copied back."""
        return bool(headers) and self.has_returned(chain_of(headers or ()))

    def has_returned(self, chain: Sequence[str]) -> bool:
        """Whether a record that was copied from the clusters `chain` must not be copied back."""
        return self._reads and self._target in chain

    def without_returned(self, messages: list[Message]) -> list[Message]:
        """Return the records without those that were copied from the target. Raises ConversionError."""
        if not self._reads or not messages:
            return messages
        kind: Any = type(messages[0])
        headers = each(kind.headers, messages, messages)
        if not any(headers):
            return messages  # the usual case, without a Python loop over the records
        returned = each(self.is_returned, headers, messages)
        return [message for message, is_returned in zip(messages, returned, strict=True) if not is_returned]

    def extend(self, headers: Sequence[Header] | None, topic: str) -> Sequence[Header] | None:
        """Return the headers for the copy of a record of a source topic."""
        if not self._reads:
            return headers
        chain = chain_of(headers) if headers else ()
        if not chain and not self.adds(topic):
            return headers
        chain = (*(part for part in chain if part != self._source), self._source)
        own = [pair for pair in headers or () if pair[0] != HEADER]
        return [*own, (HEADER, ",".join(chain).encode())]


NO_PROVENANCE = Provenance(NEVER, source_id="", target_id="")
"""The header is neither read nor written."""
