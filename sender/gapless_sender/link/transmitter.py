"""How much is sent at once and in which order, so that a slow pace never separates the fragments of an event.

Must not know where events come from nor how they were encoded: its input are the datagrams of complete events.

The receiver keeps an incomplete event for 30 seconds. What the pace admits together is sent together, so the fragments
of an event are put into one burst, whatever the rate, also if it changes, and however many processes share it. An event
that is larger than a burst is sent alone, one fragment after the other: it takes the time of its size at the rate of
this process, and `SPREAD_SECONDS` at most if only events are limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gapless_sender.base.lazy_log import log
from gapless_sender.link.gso_batches import GsoBatch, arrange
from gapless_sender.pace.pacing import Pace, Paces, wire_bits
from gapless_sender.wire.packets import HEADER_BYTES, RECEIVER_KEEPS_SECONDS, event_fragments

if TYPE_CHECKING:
    from gapless_sender.link.udp_link import UdpLink

MAX_BATCH_EVENTS = 16_000
MAX_BATCH_BYTES = 8 * 1024 * 1024
BATCH_SECONDS = 0.05
"""A batch has at most what the pace admits in this time, or one event.

While it is read and encoded nothing is sent, and a pace catches up only some milliseconds (see `pacing`). A request to
stop waits for the end of a batch.
"""
SPREAD_SECONDS = 1.0
"""The fragments of an event that is large for a limit of events are spread over its share of time, but no longer."""


class BatchSize(NamedTuple):
    """The limits of a batch, which has at least one event."""

    events: int
    bytes: int
    """Of values, approximately."""


class _Burst(NamedTuple):
    """What is sent at once."""

    batches: list[GsoBatch]
    payload_bytes: int
    events: float


class Transmitter:
    """Sends batches at the pace that is allowed."""

    def __init__(  # noqa: PLR0913 -- the link, the pace, and callbacks
        self,
        link: UdpLink,
        pace: Pace | Paces,
        copies: int,
        *,
        on_send: Callable[[], None],
        senders: int = 1,
        follow_rates: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the link and the pace, which `senders` processes share.

        `on_send` is called before datagrams are sent, after the pace has admitted them; `follow_rates` before each
        `send`, to change the pace if its rates have changed.
        """
        self._batch_seconds = BATCH_SECONDS / senders
        self._link = link
        self._on_send = on_send
        self._follow_rates = follow_rates
        self._pace = pace
        self._copies = copies
        self._warned = False

    @property
    def batch_size(self) -> BatchSize:
        """The limits of a batch at the current pace."""
        events_per_second, bits_per_second = self._pace.rates
        events, size = MAX_BATCH_EVENTS, MAX_BATCH_BYTES
        if events_per_second is not None:
            events = min(events, int(events_per_second * self._batch_seconds))
        if bits_per_second is not None:
            size = max(1, min(size, int(bits_per_second * self._batch_seconds / 8 / self._copies)))
            # Even an empty event has headers.
            events = min(events, size // (self._link.header_bytes + HEADER_BYTES))
        return BatchSize(max(1, events), size)

    def send(self, datagrams: list[bytes], events: int) -> None:
        """Send all copies of the `datagrams` of `events` complete events. Raises LinkError.

        One copy of all events follows the other, so that a burst of loss does not take all copies of one event.
        """
        if not datagrams:
            return
        self._follow_rates()
        if self._pace.unlimited:
            batches = self._link.arrange(datagrams)
            self._on_send()
            for _ in range(self._copies):
                self._link.send_batches(batches)
            return
        single, fragmented = self._split_fragmented(datagrams, events)
        single_batches = self._link.arrange(single)
        for _ in range(self._copies):
            for burst in self._bursts(single_batches, 1 / self._copies):
                self._send_burst(burst)
            for burst in self._bursts_of_events(fragmented):
                self._send_burst(burst)

    def confirm(self, repeat: Callable[[], None]) -> None:
        """Return when what was sent has left this machine; `repeat` sends it again. Raises LinkError."""
        self._link.confirm(repeat)

    def _send_burst(self, burst: _Burst) -> None:
        datagrams = sum([len(batch.datagrams) for batch in burst.batches])
        self._pace.admit(burst.events, wire_bits(burst.payload_bytes, datagrams, self._link.header_bytes))
        self._on_send()
        self._link.send_batches(burst.batches)

    def _split_fragmented(self, datagrams: list[bytes], events: int) -> tuple[list[bytes], list[list[bytes]]]:
        """Split into events of one datagram, which may be reordered freely, and the fragments of the others.

        If order must be kept, all are in the second part.
        """
        if len(datagrams) == events:
            return datagrams, []
        by_event = list(event_fragments(datagrams))
        if self._link.keeps_order:
            return [], by_event
        single = [fragments[0] for fragments in by_event if len(fragments) == 1]
        return single, [fragments for fragments in by_event if len(fragments) > 1]

    def _bursts(self, batches: Sequence[GsoBatch], events_each: float) -> Iterator[_Burst]:
        """Split `batches` into bursts."""
        header_bytes = self._link.header_bytes
        burst: list[GsoBatch] = []
        payload_bytes, part, count = 0, 0.0, 0
        for batch in batches:
            bits_each = wire_bits(batch.size, 1, header_bytes)
            start = 0
            while start < len(batch.datagrams):
                limit = self._pace.largest_burst(events_each, bits_each)  # The pace may have changed meanwhile.
                piece = batch.datagrams[start : start + limit]
                start += limit
                if burst and part + len(piece) / limit > 1.0:
                    yield _Burst(burst, payload_bytes, events_each * count)
                    burst, payload_bytes, part, count = [], 0, 0.0, 0
                burst.append(GsoBatch(batch.size, piece))
                payload_bytes += batch.size * (len(piece) - 1) + len(piece[-1])
                part += len(piece) / limit
                count += len(piece)
        if burst:
            yield _Burst(burst, payload_bytes, events_each * count)

    def _bursts_of_events(self, events: Sequence[list[bytes]]) -> Iterator[_Burst]:
        """Put the fragments of an event into one burst; an event that is larger than a burst gets several."""
        header_bytes, events_each = self._link.header_bytes, 1 / self._copies
        burst: list[bytes] = []
        payload_bytes, bits, count = 0, 0, 0
        for fragments in events:
            size = sum(map(len, fragments))
            cost = wire_bits(size, len(fragments), header_bytes)
            max_events, max_bits = self._pace.burst
            if burst and ((count + 1) * events_each > max_events or bits + cost > max_bits):
                yield _Burst(self._link.arrange(burst), payload_bytes, events_each * count)
                burst, payload_bytes, bits, count = [], 0, 0, 0
            if len(fragments) > 1 and (events_each > max_events or cost > max_bits):
                yield from self._bursts_of_one(fragments, cost)
                continue
            burst += fragments
            payload_bytes, bits, count = payload_bytes + size, bits + cost, count + 1
        if burst:
            yield _Burst(self._link.arrange(burst), payload_bytes, events_each * count)

    def _bursts_of_one(self, fragments: list[bytes], bits: int) -> Iterator[_Burst]:
        """Split one event into bursts, in order; the last one counts as the rest of the event.

        So a pace of one event per minute waits a minute between events and not between the fragments of one.
        """
        event = remaining = 1 / self._copies
        events_per_second, bits_per_second = self._pace.rates
        if bits_per_second is not None and bits / bits_per_second > RECEIVER_KEEPS_SECONDS:
            self._warn(len(fragments), bits / bits_per_second)
        spread = event if events_per_second is None else min(event, events_per_second * SPREAD_SECONDS)
        pending: _Burst | None = None
        for burst in self._bursts(arrange(fragments, "strict"), spread / len(fragments)):
            if pending is not None:
                yield pending
                remaining -= pending.events
            pending = burst
        if pending is not None:
            yield pending._replace(events=remaining)

    def _warn(self, fragments: int, seconds: float) -> None:
        if self._warned:
            return
        self._warned = True
        log(
            "warning",
            f"an event takes longer at this pace than the receiver keeps incomplete events ({RECEIVER_KEEPS_SECONDS} "
            f"s) and may be lost; raise the rate",
            fragments=fragments,
            seconds=round(seconds, 1),
        )
