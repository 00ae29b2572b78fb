"""Owns how much is sent at once and in which order, so that a slow pace never parts the fragments of an event.

Must not know where events come from nor what was done to them: it takes datagrams of whole events.

The receiver keeps an incomplete event for 30 seconds. What is admitted by the pace together leaves together, so the
fragments of an event are put into one burst, whatever the rate is, however many processes share it, and whatever it
becomes meanwhile. An event that is larger than a burst leaves alone, fragment after fragment: it takes the time that
its size takes at the rate this process gets, and where only events are limited, `SPREAD_SECONDS` at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gapless_sender.base.lazy_log import log
from gapless_sender.link.gso_batches import GsoBatch, arrange
from gapless_sender.pace.pacing import wire_bits
from gapless_sender.wire.packets import HEADER_BYTES, RECEIVER_KEEPS_SECONDS, event_fragments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.pace.pacing import Pace, Paces

MOST_BATCH_EVENTS = 16_000
MOST_BATCH_BYTES = 8 * 1024 * 1024
BATCH_SECONDS = 0.05
"""A batch holds no more than the pace lets through in this time, or one event.

While it is read and made ready nothing is sent, and a pace makes good only some milliseconds (see `pacing`). And it is
what a request to stop waits for.
"""
SPREAD_SECONDS = 1.0
"""The fragments of an event that is large for a limit of events are spread over its share of time, but no longer."""


class BatchSize(NamedTuple):
    """The most that one batch may hold; it holds one event at least."""

    events: int
    bytes: int
    """About so many, in values."""


class _Burst(NamedTuple):
    """What leaves at once."""

    batches: list[GsoBatch]
    payload_bytes: int
    events: float


class Transmitter:
    """Sends batches at the pace that is allowed."""

    def __init__(  # noqa: PLR0913 -- the link, the pace, and whom to tell
        self,
        link: UdpLink,
        pace: Pace | Paces,
        copies: int,
        *,
        under_way: Callable[[], None],
        sharers: int = 1,
        follow_rates: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the link and the pace, which `sharers` processes share.

        `under_way` is called when the first datagrams of a batch may go out, just before they do; `follow_rates` before
        each stretch, to change the pace if somebody wants that.
        """
        self._batch_seconds = BATCH_SECONDS / sharers
        self._link = link
        self._under_way = under_way
        self._follow_rates = follow_rates
        self._pace = pace
        self._copies = copies
        self._warned = False

    @property
    def batch_size(self) -> BatchSize:
        """The most that a batch may hold at the present pace."""
        events_per_second, bits_per_second = self._pace.rates
        events, size = MOST_BATCH_EVENTS, MOST_BATCH_BYTES
        if events_per_second is not None:
            events = min(events, int(events_per_second * self._batch_seconds))
        if bits_per_second is not None:
            size = max(1, min(size, int(bits_per_second * self._batch_seconds / 8 / self._copies)))
            # However short, an event costs its headers.
            events = min(events, size // (self._link.header_bytes + HEADER_BYTES))
        return BatchSize(max(1, events), size)

    def send(self, datagrams: list[bytes], events: int) -> None:
        """Send every datagram of a stretch of `events` whole events in all its copies. Raises LinkError.

        The copies of a stretch follow each other, so that a burst of loss does not take all copies of one event.
        """
        if not datagrams:
            return
        self._follow_rates()
        if self._pace.unlimited:
            batches = self._link.arrange(datagrams)
            self._under_way()
            for _ in range(self._copies):
                self._link.send_batches(batches)
            return
        lone, fragmented = self._apart(datagrams, events)
        lone_batches = self._link.arrange(lone)
        for _ in range(self._copies):
            for burst in self._bursts(lone_batches, 1 / self._copies):
                self._release(burst)
            for burst in self._bursts_of_events(fragmented):
                self._release(burst)

    def _release(self, burst: _Burst) -> None:
        datagrams = sum([len(batch.datagrams) for batch in burst.batches])
        self._pace.admit(burst.events, wire_bits(burst.payload_bytes, datagrams, self._link.header_bytes))
        self._under_way()
        self._link.send_batches(burst.batches)

    def _apart(self, datagrams: list[bytes], events: int) -> tuple[list[bytes], list[list[bytes]]]:
        """The datagrams that are events by themselves, which may change places freely, and the others by event.

        Where order counts, all are taken by event.
        """
        if len(datagrams) == events:
            return datagrams, []
        found = list(event_fragments(datagrams))
        if self._link.keeps_order:
            return [], found
        return [event[0] for event in found if len(event) == 1], [event for event in found if len(event) > 1]

    def _bursts(self, batches: Sequence[GsoBatch], events_each: float) -> Iterator[_Burst]:
        """Cut `batches` into what may leave at once."""
        header_bytes = self._link.header_bytes
        burst: list[GsoBatch] = []
        payload_bytes, part, count = 0, 0.0, 0
        for batch in batches:
            bits_each = wire_bits(batch.size, 1, header_bytes)
            start = 0
            while start < len(batch.datagrams):
                most = self._pace.largest_burst(events_each, bits_each)  # The pace may have changed since the last one.
                piece = batch.datagrams[start : start + most]
                start += most
                if burst and part + len(piece) / most > 1.0:
                    yield _Burst(burst, payload_bytes, events_each * count)
                    burst, payload_bytes, part, count = [], 0, 0.0, 0
                burst.append(GsoBatch(batch.size, piece))
                payload_bytes += batch.size * (len(piece) - 1) + len(piece[-1])
                part += len(piece) / most
                count += len(piece)
        if burst:
            yield _Burst(burst, payload_bytes, events_each * count)

    def _bursts_of_events(self, events: Sequence[list[bytes]]) -> Iterator[_Burst]:
        """Put the fragments of one event into one burst; an event that is larger than a burst gets several."""
        header_bytes, events_each = self._link.header_bytes, 1 / self._copies
        together: list[bytes] = []
        payload_bytes, bits, count = 0, 0, 0
        for fragments in events:
            size = sum(map(len, fragments))
            cost = wire_bits(size, len(fragments), header_bytes)
            most_events, most_bits = self._pace.burst
            if together and ((count + 1) * events_each > most_events or bits + cost > most_bits):
                yield _Burst(self._link.arrange(together), payload_bytes, events_each * count)
                together, payload_bytes, bits, count = [], 0, 0, 0
            if len(fragments) > 1 and (events_each > most_events or cost > most_bits):
                yield from self._bursts_of_one(fragments, cost)
                continue
            together += fragments
            payload_bytes, bits, count = payload_bytes + size, bits + cost, count + 1
        if together:
            yield _Burst(self._link.arrange(together), payload_bytes, events_each * count)

    def _bursts_of_one(self, fragments: list[bytes], bits: int) -> Iterator[_Burst]:
        """Cut one event into bursts, in order; the last one bears what of the event the others do not.

        So a pace of an event a minute waits a minute between events and not between the fragments of one.
        """
        whole = left = 1 / self._copies
        events_per_second, bits_per_second = self._pace.rates
        if bits_per_second is not None and bits / bits_per_second > RECEIVER_KEEPS_SECONDS:
            self._warn(len(fragments), bits / bits_per_second)
        spread = whole if events_per_second is None else min(whole, events_per_second * SPREAD_SECONDS)
        held: _Burst | None = None
        for burst in self._bursts(arrange(fragments, "strict"), spread / len(fragments)):
            if held is not None:
                yield held
                left -= held.events
            held = burst
        if held is not None:
            yield held._replace(events=left)

    def _warn(self, fragments: int, seconds: float) -> None:
        if self._warned:
            return
        self._warned = True
        log(
            "warning",
            f"an event takes longer at this pace than the receiver keeps incomplete events ({RECEIVER_KEEPS_SECONDS} "
            f"s), so that it may be lost; raise the rate",
            fragments=fragments,
            seconds=round(seconds, 1),
        )
