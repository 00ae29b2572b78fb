"""The pipeline of a batch: filter, compress, encrypt, packetise, pace, send, checkpoint.

Must not know how events are selected or read, nor how many processes share the work. It works on batches of thousands
of events, because work per event is what a resend costs.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gapless_sender.replay.account import BatchResult, PartitionAccount, Recheck
from gapless_sender.source.plan import FILLED, FILTERED, OUTSIDE, Reason
from gapless_sender.source.range_cursor import Chunk, split_chunk
from gapless_sender.wire.compression import gzip_bodies
from gapless_sender.wire.packets import GZIP_FLAG, EventPacketizer, PacketError, PacketType

if TYPE_CHECKING:
    from gapless_sender.link.transmitter import BatchSize, Transmitter
    from gapless_sender.replay.input_filter import InputFilter
    from gapless_sender.source.requests import MappedPartition
    from gapless_sender.wire.encryption import SessionKey

MAX_BATCH_EXCEPTIONS = 50_000
"""Ranges that are not sent unchanged; they cost memory like events."""
DETECTOR_WINDOW_OFFSETS = 1_000
"""Offsets in a window of the receiving side's gap detector, by default."""
DISORDER_OFFSETS = 2 * DETECTOR_WINDOW_OFFSETS
"""How far datagrams may be reordered when a gap detector watches the receiving side.

The receiving side's gap detector keeps five windows of 1,000 offsets for each partition, in the order in which they
appeared. Two neighbouring spans of 2,000 offsets touch at most five windows, so none is evicted half received; with
16,000 it reported 120,000 events as missing of which 6,000 were.
"""
MAX_GATHERING_SECONDS = 0.4
"""A batch that Kafka fills slowly is sent after this time."""


class Keys(Protocol):
    """Provides the session key."""

    def current(self) -> SessionKey:
        """Return the key for the next batch; the receiver has it until `release`."""

    def release(self) -> None:
        """Note that the batch was sent."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How events are filtered, encoded and split into datagrams."""

    payload_size: int
    input_filter: InputFilter
    compress_above_bytes: int = 0
    """0 for never."""
    fill: frozenset[Reason] = frozenset()
    """Reasons for which an unavailable event is sent empty instead of being reported."""
    max_fragments: int = 4096
    keeps_order: bool = False
    disorder_offsets: int = DISORDER_OFFSETS
    """Datagrams of offsets that are this far apart keep their order, and copies follow at this distance."""
    encryption_overhead_bytes: int = 0
    """Added to each body; 0 without encryption."""


def offset_spans(offsets: Sequence[int], max_offsets: int, *, first_batch: bool = False) -> Iterator[tuple[int, int]]:
    """Cut ascending `offsets` into slices (start, end) that each span at most `max_offsets` offsets.

    In the `first_batch` the first slice ends with its detector window: a detector that was just started never counts
    windows older than the first it sees.
    """
    start = 0
    while start < len(offsets):
        limit = offsets[start] + max_offsets
        if first_batch and start == 0:
            limit = min(limit, (offsets[0] // DETECTOR_WINDOW_OFFSETS + 1) * DETECTOR_WINDOW_OFFSETS)
        end = bisect_left(offsets, limit, start)
        yield start, end
        start = end


class PartitionReplay:
    """Sends the chunks of one partition over the link and accounts for them."""

    def __init__(  # noqa: PLR0913 -- the parts of the pipeline
        self,
        partition: MappedPartition,
        account: PartitionAccount | Recheck,
        options: ReplayOptions,
        transmitter: Transmitter,
        *,
        keys: Keys | None,
        on_batch: Callable[[BatchResult], None],
    ) -> None:
        """`on_batch` is called after each batch was sent, to save its result."""
        self._account = account
        self._options = options
        self._transmitter = transmitter
        self._keys = keys
        self._on_batch = on_batch
        self._packetizer = EventPacketizer(partition.topic, partition.partition, options.payload_size)
        self._size = transmitter.batch_size
        # A shorter body always fits, whatever its offset's digits; only longer ones are checked one by one.
        self._always_fits = self._packetizer.largest_body(options.max_fragments) - options.encryption_overhead_bytes
        self._offsets: list[int] = []
        self._values: list[bytes] = []
        self._result = BatchResult(account.cursor)
        self._bytes = 0
        self._is_first_batch = True
        self._gathering_since = 0.0

    def batch_size(self) -> BatchSize:
        """Return the size limit of the current batch; it is fixed once per batch, because the pace may change."""
        return self._size

    def run(self, chunks: Iterable[Chunk]) -> None:
        """Send all of `chunks`. Raises the errors of reading, the link and the checkpoint."""
        # Sizes are unknown before reading, so chunks are split into what a batch may hold.
        for part in (part for chunk in chunks for part in split_chunk(chunk, self.batch_size)):
            if not self._offsets:
                self._gathering_since = time.monotonic()
            self._add(part)
            full = len(self._offsets) >= self._size.events or self._bytes >= self._size.bytes
            full |= self._result.range_count >= MAX_BATCH_EXCEPTIONS
            if full or time.monotonic() - self._gathering_since > MAX_GATHERING_SECONDS:
                self._flush()
        self._flush()

    def _add(self, chunk: Chunk) -> None:
        result = self._result
        for first, last in chunk.outside:
            result.add(OUTSIDE, first, last)
        filled: list[int] = []
        for first, last, outcome in chunk.absent:
            result.add(outcome, first, last)
            if outcome == FILLED:
                filled.extend(range(first, last + 1))
        self._values += chunk.values
        self._bytes += sum(map(len, chunk.values))
        self._offsets += chunk.offsets
        result.cursor = chunk.upto
        result.sent += len(chunk.offsets)
        if chunk.from_archive:
            result.from_archive += len(chunk.offsets)
        if filled:
            self._insert_empty(filled)

    def _insert_empty(self, offsets: list[int]) -> None:
        """Insert empty events for `offsets` into the batch, in offset order."""
        # No offset is both present and absent, so the values are never compared.
        merged = sorted([*zip(self._offsets, self._values, strict=True), *((offset, b"") for offset in offsets)])
        self._offsets = [offset for offset, _ in merged]
        self._values = [value for _, value in merged]

    def _flush(self) -> None:
        offsets, values, result = self._offsets, self._values, self._result
        self._offsets, self._values, self._bytes = [], [], 0
        self._result = BatchResult(result.cursor)
        filled = {offset for first, last in result.exceptions.get(FILLED, ()) for offset in range(first, last + 1)}
        # One key per batch: it is not replaced while a batch is being sent, so that a stop never splits a batch.
        key = self._keys.current() if self._keys is not None and offsets else None
        sent: list[tuple[list[bytes], int]] = []
        for start, end in offset_spans(offsets, self._options.disorder_offsets, first_batch=self._is_first_batch):
            span = offsets[start:end]
            datagrams: list[bytes] = []
            self._encode(datagrams, span, values[start:end], result, filled, key)
            self._transmitter.send(datagrams, len(span))
            sent.append((datagrams, len(span)))
        if offsets:
            self._confirm(sent)  # Only what has left this machine is accounted for.
        if self._keys is not None and offsets:
            self._keys.release()
        self._is_first_batch &= not offsets
        if offsets or result.exceptions or result.cursor > self._account.cursor:
            self._account.apply(result)
            self._on_batch(result)
        self._size = self._transmitter.batch_size

    def _confirm(self, sent: Sequence[tuple[list[bytes], int]]) -> None:
        """Return when the datagrams of all events `sent` have left this machine. Raises LinkError."""

        def repeat() -> None:
            for datagrams, events in sent:
                self._transmitter.send(datagrams, events)

        self._transmitter.confirm(repeat)

    def _encode(  # noqa: PLR0913, PLR0917 -- a span of events, its output and its account
        self,
        datagrams: list[bytes],
        offsets: list[int],
        values: list[bytes],
        result: BatchResult,
        filled: set[int],
        key: SessionKey | None,
    ) -> None:
        """Turn events into datagrams, and record in `result` what is not sent unchanged; those of `filled` are empty.

        Removes the events that are not sent from `offsets` and `values`.
        """
        options = self._options
        if not options.input_filter.passes_everything:
            for index, is_denied in enumerate(options.input_filter.denied(values)):
                if is_denied and offsets[index] not in filled:
                    values[index] = b""
                    result.add(FILTERED, offsets[index], offsets[index])
                    result.sent -= 1
        packed: list[bool] | None = None
        above = options.compress_above_bytes
        if above and max(map(len, values)) > above:
            packed = [len(value) > above for value in values]
            compressed = iter(gzip_bodies([value for value, big in zip(values, packed, strict=True) if big]))
            values = [next(compressed) if big else value for value, big in zip(values, packed, strict=True)]
        if max(map(len, values)) > self._always_fits:
            self._remove_too_large(offsets, values, packed, result)
        kind = PacketType.CLEAR
        if key is not None:
            kind = PacketType.ENCRYPTED
            values = key.seal_batch(values)
        if packed is None:
            self._packetizer.add_batch(datagrams, offsets, int(kind), values)
        elif options.keeps_order:
            kinds = [kind | GZIP_FLAG if big else int(kind) for big in packed]
            self._packetizer.add_batch(datagrams, offsets, kinds, values)
        else:
            for flag, is_packed in ((GZIP_FLAG, True), (0, False)):
                indexes = [index for index, big in enumerate(packed) if big is is_packed]
                self._packetizer.add_batch(
                    datagrams, [offsets[i] for i in indexes], kind | flag, [values[i] for i in indexes]
                )

    def _remove_too_large(
        self, offsets: list[int], values: list[bytes], packed: list[bool] | None, result: BatchResult
    ) -> None:
        """Remove the events that need too many fragments, or empty them if they are filled."""
        fills = Reason.TOO_LARGE in self._options.fill
        for index in range(len(offsets) - 1, -1, -1):
            length = len(values[index]) + self._options.encryption_overhead_bytes
            if self._fits(offsets[index], length):
                continue
            result.insert(FILLED if fills else str(Reason.TOO_LARGE), offsets[index])
            result.sent -= 1
            if fills:
                values[index] = b""
                if packed is not None:
                    packed[index] = False
            else:
                del offsets[index], values[index]
                if packed is not None:
                    del packed[index]

    def _fits(self, offset: int, length: int) -> bool:
        try:
            return self._packetizer.fragment_count(offset, length) <= self._options.max_fragments
        except PacketError:
            return False
