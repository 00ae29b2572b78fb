"""Owns the header that says through which clusters a record came, and which records a mirror must not copy back. Pure.

The header's value holds the ids of the clusters from which the record was copied, the first one first, joined by
commas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

HEADER = "gapless-mirror"
Mode = Literal["auto", "always", "never"]
AUTO: Mode = "auto"
ALWAYS: Mode = "always"
NEVER: Mode = "never"


def chain_of(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str, ...]:
    """The ids of the clusters from which a record with these `headers` was copied; empty for none."""
    for name, value in reversed(headers):
        if name == HEADER:
            return tuple(part for part in (value or b"").decode("utf-8", "replace").split(",") if part)
    return ()


class Provenance:
    """What a mirror does with the header of each record."""

    __slots__ = ("_adds", "_reads", "_source", "_target")

    def __init__(self, mode: Mode, *, source_id: str, target_id: str, goes_both_ways: bool = False) -> None:
        """Take the decision once for all records.

        Args:
            mode: `always` and `never` mean what they say; `auto` adds the header where a mirror goes the other way,
                and continues it where a record has one.
            source_id: Kafka's id of the source cluster.
            target_id: of the target cluster.
            goes_both_ways: whether a mirror copies from the target to the source.
        """
        self._source, self._target = source_id, target_id
        self._reads = mode != NEVER
        self._adds = mode == ALWAYS or (mode == AUTO and goes_both_ways)

    @property
    def adds(self) -> bool:
        """Whether every record gets the header; otherwise a record without headers stays as it is."""
        return self._adds

    def returns(self, headers: Sequence[tuple[str, bytes | None]] | None) -> bool:
        """Whether a record was copied from the target, so that it must not be copied back."""
        return self._reads and bool(headers) and self._target in chain_of(headers or ())

    def kept(self, messages: list[Message]) -> list[Message]:
        """The records without those that were copied from the target."""
        if not self._reads or not messages:
            return messages
        kind: Any = type(messages[0])
        if not any(map(kind.headers, messages)):
            return messages  # as most are, without a step of Python for each
        return [message for message in messages if not self.returns(message.headers())]

    def continued(
        self, headers: Sequence[tuple[str, bytes | None]] | None
    ) -> Sequence[tuple[str, bytes | None]] | None:
        """The headers that the copy of a record gets."""
        if not self._reads:
            return headers
        chain = chain_of(headers) if headers else ()
        if not chain and not self._adds:
            return headers
        chain = (*(part for part in chain if part != self._source), self._source)
        others = [pair for pair in headers or () if pair[0] != HEADER]
        return [*others, (HEADER, ",".join(chain).encode())]


NOT_LOOKED_AT = Provenance(NEVER, source_id="", target_id="")
"""The header is neither read nor written."""
