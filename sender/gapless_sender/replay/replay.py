"""Owns the way of a batch: filter, compress, encrypt, packetise, pace, send, checkpoint.

Must not know how events are chosen or read, nor how many processes share the work. It works on batches of thousands of
events, because what is done for each event alone is what a resend costs.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gapless_sender.replay.account import BatchResult
from gapless_sender.source.plan import FILLED, FILTERED, OUTSIDE, Reason
from gapless_sender.source.range_cursor import parts
from gapless_sender.wire.compression import gzip_bodies
from gapless_sender.wire.packets import GZIP_FLAG, EventPacketizer, PacketError, PacketType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gapless_sender.link.transmitter import BatchSize, Transmitter
    from gapless_sender.replay.account import PartitionAccount, SecondLook
    from gapless_sender.replay.input_filter import InputFilter
    from gapless_sender.source.plan import Place
    from gapless_sender.source.range_cursor import Chunk
    from gapless_sender.wire.encryption import SessionKey

MOST_BATCH_EXCEPTIONS = 50_000
"""Ranges that are not sent as they are; they cost memory like events."""
DETECTOR_WINDOW_OFFSETS = 1_000
"""How many offsets a window of the receiving side's gap detector holds unless it is set otherwise."""
DISORDER_OFFSETS = 2 * DETECTOR_WINDOW_OFFSETS
"""How far datagrams may change places when a gap detector watches the receiving side.

The receiving side's gap detector remembers five windows of 1,000 offsets for each partition, in the order in which they
appeared. Two neighbouring stretches of 2,000 offsets touch at most five windows, so none is pushed out half received;
with 16,000 it reported 120,000 events as missing of which 6,000 were.
"""
GATHERING_SECONDS = 0.4
"""A batch that Kafka fills slowly goes out after this time."""


class Keys(Protocol):
    """Where the session key comes from."""

    def current(self) -> SessionKey:
        """The key for the next batch; the receiver has it when this returns, until `release`."""

    def release(self) -> None:
        """Take note that the batch is on the link."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """What is done to an event on its way."""

    payload_size: int
    input_filter: InputFilter
    compress_above_bytes: int = 0
    """0 for never."""
    fill: frozenset[Reason] = frozenset()
    """Reasons for which an event that cannot be sent is sent empty instead of being reported."""
    most_fragments: int = 4096
    keeps_order: bool = False
    disorder_offsets: int = DISORDER_OFFSETS
    """Datagrams of offsets that are this far apart keep their order, and copies follow at this distance."""
    sealing_bytes: int = 0
    """What encryption adds to each body; 0 without encryption."""


def stretches(offsets: Sequence[int], most_offsets: int, *, opening: bool = False) -> Iterator[tuple[int, int]]:
    """Cut ascending `offsets` into slices (start, end) that each span `most_offsets` offsets at most.

    With `opening` the first slice ends with its detector window: what a detector that has just been started sees first
    is the oldest that it will ever count.
    """
    start = 0
    while start < len(offsets):
        limit = offsets[start] + most_offsets
        if opening and start == 0:
            limit = min(limit, (offsets[0] // DETECTOR_WINDOW_OFFSETS + 1) * DETECTOR_WINDOW_OFFSETS)
        end = bisect_left(offsets, limit, start)
        yield start, end
        start = end


class PartitionReplay:
    """Takes the chunks of one partition to the link and into the account."""

    def __init__(  # noqa: PLR0913 -- the parts of the pipeline
        self,
        place: Place,
        account: PartitionAccount | SecondLook,
        treatment: Treatment,
        transmitter: Transmitter,
        *,
        keys: Keys | None,
        on_batch: Callable[[BatchResult], None],
    ) -> None:
        """`on_batch` is called after each batch is on the link, to save its result."""
        self._account = account
        self._treatment = treatment
        self._transmitter = transmitter
        self._keys = keys
        self._on_batch = on_batch
        self._packetizer = EventPacketizer(place.topic, place.partition, treatment.payload_size)
        self._size = transmitter.batch_size
        # A body below this always fits, whatever its offset's digits; only what is larger is looked at one by one.
        self._surely_fits = self._packetizer.largest_body(treatment.most_fragments) - treatment.sealing_bytes
        self._offsets: list[int] = []
        self._values: list[bytes] = []
        self._result = BatchResult(account.cursor)
        self._bytes = 0
        self._begun = False
        self._gathering_since = 0.0

    def batch_size(self) -> BatchSize:
        """The most that the batch at hand may hold; it is decided once for each, because the pace may change."""
        return self._size

    def run(self, chunks: Iterable[Chunk]) -> None:
        """Send all of `chunks`. Raises what reading, the link and the checkpoint raise."""
        # Nobody knows sizes before reading, so what was read is cut into what a batch may hold.
        for part in (part for chunk in chunks for part in parts(chunk, lambda: self._size)):
            if not self._offsets:
                self._gathering_since = time.monotonic()
            self._take_in(part)
            full = len(self._offsets) >= self._size.events or self._bytes >= self._size.bytes
            full |= self._result.size >= MOST_BATCH_EXCEPTIONS
            if full or time.monotonic() - self._gathering_since > GATHERING_SECONDS:
                self._flush()
        self._flush()

    def _take_in(self, chunk: Chunk) -> None:
        result = self._result
        for first, last in chunk.outside:
            result.add(OUTSIDE, first, last)
        filled: list[int] = []
        for first, last, outcome in chunk.holes:
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
            self._fill(filled)

    def _fill(self, offsets: list[int]) -> None:
        """Put empty events for `offsets` into the batch, in the order of offsets."""
        # An id that exists and one that does not are never the same, so the values do not take part in the comparison.
        merged = sorted([*zip(self._offsets, self._values, strict=True), *((offset, b"") for offset in offsets)])
        self._offsets = [offset for offset, _ in merged]
        self._values = [value for _, value in merged]

    def _flush(self) -> None:
        offsets, values, result = self._offsets, self._values, self._result
        self._offsets, self._values, self._bytes = [], [], 0
        self._result = BatchResult(result.cursor)
        filled = {o for first, last in result.exceptions.get(FILLED, ()) for o in range(first, last + 1)}
        # One key for the whole batch: while it is replaced no batch is under way, so that a stop leaves nothing half.
        key = self._keys.current() if self._keys is not None and offsets else None
        for start, end in stretches(offsets, self._treatment.disorder_offsets, opening=not self._begun):
            datagrams: list[bytes] = []
            self._make(datagrams, offsets[start:end], values[start:end], result, filled, key)
            self._transmitter.send(datagrams, end - start)
        if self._keys is not None and offsets:
            self._keys.release()
        self._begun = self._begun or bool(offsets)
        if offsets or result.exceptions or result.cursor > self._account.cursor:
            self._account.apply(result)
            self._on_batch(result)
        self._size = self._transmitter.batch_size

    def _make(  # noqa: PLR0913, PLR0917 -- a stretch, and what it becomes
        self,
        datagrams: list[bytes],
        offsets: list[int],
        values: list[bytes],
        result: BatchResult,
        filled: set[int],
        key: SessionKey | None,
    ) -> None:
        """Turn events into datagrams, and note in `result` what is not sent as it is; those of `filled` are empty."""
        treatment = self._treatment
        if not treatment.input_filter.passes_everything:
            denied = treatment.input_filter.denied(values)
            for index, no in enumerate(denied):
                if no and offsets[index] not in filled:
                    values[index] = b""
                    result.add(FILTERED, offsets[index], offsets[index])
                    result.sent -= 1
        packed: list[bool] | None = None
        above = treatment.compress_above_bytes
        if above and max(map(len, values)) > above:
            packed = [len(value) > above for value in values]
            compressed = iter(gzip_bodies([value for value, big in zip(values, packed, strict=True) if big]))
            values = [next(compressed) if big else value for value, big in zip(values, packed, strict=True)]
        if max(map(len, values)) > self._surely_fits:
            self._leave_out_too_large(offsets, values, packed, result)
        kind = PacketType.CLEAR
        if key is not None:
            kind = PacketType.ENCRYPTED
            values = key.seal_batch(values)
        if packed is None:
            self._packetizer.add_batch(datagrams, offsets, int(kind), values)
        elif treatment.keeps_order:
            kinds = [kind | GZIP_FLAG if big else int(kind) for big in packed]
            self._packetizer.add_batch(datagrams, offsets, kinds, values)
        else:
            for flag, wanted in ((GZIP_FLAG, True), (0, False)):
                those = [index for index, big in enumerate(packed) if big is wanted]
                self._packetizer.add_batch(
                    datagrams, [offsets[i] for i in those], kind | flag, [values[i] for i in those]
                )

    def _leave_out_too_large(
        self, offsets: list[int], values: list[bytes], packed: list[bool] | None, result: BatchResult
    ) -> None:
        """Take the events out that need too many fragments, or empty them if they are to be filled."""
        for index in range(len(offsets) - 1, -1, -1):
            length = len(values[index]) + self._treatment.sealing_bytes
            if self._fits(offsets[index], length):
                continue
            fills = Reason.TOO_LARGE in self._treatment.fill
            kind = FILLED if fills else str(Reason.TOO_LARGE)
            result.insert(kind, offsets[index])
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
            return self._packetizer.fragment_count(offset, length) <= self._treatment.most_fragments
        except PacketError:
            return False
