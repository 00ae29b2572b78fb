"""The proof of what becomes of a partition's chunks: on a real socket, in the account, and at which pace."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.offsets.ranges import OffsetRanges
from gapless_sender.link.session_keys import AnnouncedKeys
from gapless_sender.link.transmitter import Transmitter
from gapless_sender.link.udp_link import UdpLink
from gapless_sender.pace.pacing import Pace
from gapless_sender.replay.account import BatchResult, PartitionAccount, totals
from gapless_sender.replay.input_filter import InputFilter
from gapless_sender.replay.replay import PartitionReplay, ReplayOptions
from gapless_sender.source.plan import FILLED, FILTERED, NOT_REQUESTED, OUTSIDE, Reason
from gapless_sender.source.range_cursor import Chunk
from gapless_sender.source.requests import MappedPartition
from gapless_sender.wire.encryption import KeyExchange, SessionKey
from gapless_sender.wire.key_schedule import KeyTimings
from kit.network.listener import Listener
from kit.peer.opening import KEY_EXCHANGE, Opener
from kit.peer.reassembly import FragmentCache, parse

if TYPE_CHECKING:
    from gapless_sender.link.gso_batches import Order

VECTORS = Path(__file__).parents[1] / "vectors"
PARTITION = MappedPartition("topic", 3, "topic", 3)
PAYLOAD = 600


class Steps:
    """A clock that sleeps at once."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class Replayed:
    """A partition's replay, and what was seen of it."""

    listener: Listener
    requested: OffsetRanges
    options: ReplayOptions = field(default_factory=lambda: ReplayOptions(PAYLOAD, InputFilter()))
    copies: int = 1
    eps: float | None = None
    bits_per_second: float | None = None
    keys: AnnouncedKeys | None = None
    clock: Steps = field(default_factory=Steps)
    account: PartitionAccount = field(default_factory=PartitionAccount)
    steps: list[BatchResult] = field(default_factory=list)
    sent_at_settling: list[int] = field(default_factory=list)
    """How many datagrams the link had taken when each step was reported."""

    def run(self, *chunks: Chunk) -> None:
        pace = Pace(self.eps, self.bits_per_second, clock=self.clock)
        order: Order = "strict" if self.options.keeps_order else "free"
        with UdpLink.open("127.0.0.1", self.listener.port, order=order) as link:
            transmitter = Transmitter(link, pace, self.copies, on_send=lambda: None)

            def settled(step: BatchResult) -> None:
                self.steps.append(step)
                self.sent_at_settling.append(link.stats.datagrams)

            PartitionReplay(PARTITION, self.account, self.options, transmitter, keys=self.keys, on_batch=settled).run(
                chunks
            )

    @property
    def sums(self) -> dict[str, int]:
        sums = totals(self.requested, self.requested.count, self.account)
        assert sums.is_balanced
        return {name: count for name, count in asdict(sums).items() if count}

    def arrived(self) -> dict[int, bytes]:
        """Offset to value of every event that a receiver can join, which must be one."""
        opener = Opener(str(VECTORS / "test-private.pem"), key_delay_seconds=0, min_key_interval_seconds=0)
        cache, found = FragmentCache(), {}
        for datagram in self.listener.settled():
            message = cache.add(parse(datagram), 0.0)
            if message is None:
                continue
            if message.kind == KEY_EXCHANGE:
                opener.exchange(message.body, 0.0)
                continue
            event = opener.open(message, 0.0)
            topic, partition, offset = event.event_id.split("_")
            assert (topic, partition) == ("topic", "3")
            assert int(offset) not in found
            found[int(offset)] = event.value
        return found


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as listening:
        yield listening


@pytest.fixture
def link(listener: Listener) -> Iterator[UdpLink]:
    """On which keys are announced."""
    with UdpLink.open("127.0.0.1", listener.port) as opened:
        yield opened


def read(first: int, values: list[bytes], **more: list[tuple[int, int, Reason]] | list[tuple[int, int]]) -> Chunk:
    """What one step found when every offset from `first` on is there."""
    offsets = list(range(first, first + len(values)))
    last = max([offsets[-1] if offsets else first - 1, *(pair[1] for pairs in more.values() for pair in pairs)])
    return Chunk(offsets, values, more.get("holes", []), more.get("outside", []), last + 1)  # type: ignore[arg-type]


def some_values(count: int) -> list[bytes]:
    generator = random.Random(5)
    return [generator.randbytes(generator.choice([0, 1, 100, 586, 587, 600, 2000])) for _ in range(count)]


def test_every_event_arrives_whole_and_once_and_the_account_says_so(listener: Listener) -> None:
    values = some_values(500)
    replayed = Replayed(listener, OffsetRanges([(100, 599)]))
    replayed.run(read(100, values[:200]), read(300, values[200:]))
    assert replayed.arrived() == dict(enumerate(values, start=100))
    assert replayed.sums == {"planned": 500, "sent": 500}
    assert replayed.account.cursor == 600


def test_a_step_is_reported_when_its_datagrams_are_on_the_link_and_in_the_account(listener: Listener) -> None:
    replayed = Replayed(listener, OffsetRanges([(0, 29)]), eps=100)
    replayed.run(*(read(first, [b"x"] * 5) for first in range(0, 30, 5)))
    assert [step.cursor for step in replayed.steps] == [5, 10, 15, 20, 25, 30], "a batch is a twentieth of a second"
    assert [step.sent for step in replayed.steps] == [5] * 6
    assert replayed.sent_at_settling == [5, 10, 15, 20, 25, 30]


def test_what_is_not_there_is_noted_by_its_reason_or_filled(listener: Listener) -> None:
    holes = [(12, 13, Reason.NON_EXISTENT), (14, 15, Reason.NOT_YET_WRITTEN)]
    chunk = read(10, [b"a", b"b"], holes=holes)
    replayed = Replayed(listener, OffsetRanges([(10, 15)]))
    replayed.run(chunk)
    assert replayed.sums == {"planned": 6, "sent": 2, "unavailable": 4}
    assert list(replayed.account.ranges(Reason.NON_EXISTENT)) == [(12, 13)]
    assert list(replayed.account.ranges(Reason.NOT_YET_WRITTEN)) == [(14, 15)]
    assert replayed.arrived() == {10: b"a", 11: b"b"}
    listener.forget()
    filled = Replayed(listener, OffsetRanges([(10, 15)]))
    filled.run(read(10, [b"a", b"b"], holes=[(12, 13, FILLED), (14, 15, Reason.NOT_YET_WRITTEN)]))
    assert filled.sums == {"planned": 6, "sent": 2, "filled": 2, "unavailable": 2}
    assert list(filled.account.ranges(FILLED)) == [(12, 13)]
    assert filled.arrived() == {10: b"a", 11: b"b", 12: b"", 13: b""}


def test_holes_below_the_first_record_are_filled_in_the_order_of_offsets(listener: Listener) -> None:
    filling = ReplayOptions(PAYLOAD, InputFilter(), keeps_order=True)
    replayed = Replayed(listener, OffsetRanges([(3, 6)]), filling)
    replayed.run(read(5, [b"5", b"6"], holes=[(3, 4, FILLED)]))
    assert list(replayed.arrived()) == [3, 4, 5, 6]


def test_holes_of_an_open_end_and_what_is_outside_the_time_range_are_not_of_the_plan(listener: Listener) -> None:
    replayed = Replayed(listener, OffsetRanges([(0, 9)]))
    holes = [(2, 3, Reason.NON_EXISTENT), (4, 5, NOT_REQUESTED)]
    replayed.run(read(6, [b"6", b"7"], holes=holes, outside=[(0, 1), (8, 9)]))
    assert list(replayed.account.ranges(Reason.NON_EXISTENT)) == [(2, 3)]
    assert list(replayed.account.ranges(NOT_REQUESTED)) == [(4, 5)]
    assert list(replayed.account.ranges(OUTSIDE)) == [(0, 1), (8, 9)]
    assert replayed.sums == {"planned": 4, "sent": 2, "unavailable": 2, "outside_time_range": 4}


def test_a_filtered_event_is_sent_empty_and_a_filled_one_is_not_filtered(listener: Listener) -> None:
    options = ReplayOptions(PAYLOAD, InputFilter.parse("deny:secret,allow:fine", "deny"))
    replayed = Replayed(listener, OffsetRanges([(0, 3)]), options)
    replayed.run(read(0, [b"fine", b"secret and fine", b"neither"], holes=[(3, 3, FILLED)]))
    assert replayed.arrived() == {0: b"fine", 1: b"", 2: b"", 3: b""}
    assert replayed.sums == {"planned": 4, "sent": 1, "filtered": 2, "filled": 1}
    assert list(replayed.account.ranges(FILTERED)) == [(1, 2)]


MOST_FRAGMENTS = 4
BODY = PAYLOAD - 13 - len("topic_3_0")


@pytest.mark.parametrize("sealing", [0, 28])
@pytest.mark.parametrize("more", [0, 1])
def test_an_event_of_one_fragment_too_many_is_not_sent(
    listener: Listener, link: UdpLink, more: int, sealing: int
) -> None:
    """With encryption it is the sealed body that must fit."""
    large = b"x" * (MOST_FRAGMENTS * BODY - sealing + more)
    options = ReplayOptions(PAYLOAD, InputFilter(), max_fragments=MOST_FRAGMENTS, encryption_overhead_bytes=sealing)
    replayed = Replayed(listener, OffsetRanges([(0, 2)]), options)
    if sealing:
        replayed.keys = announced_keys(link, replayed.clock)
    replayed.run(read(0, [b"a", large, b"c"]))
    arrived = {0: b"a", 2: b"c"} if more else {0: b"a", 1: large, 2: b"c"}
    assert replayed.arrived() == arrived
    assert replayed.sums == {"planned": 3, "sent": len(arrived)} | ({"unavailable": 1} if more else {})
    assert list(replayed.account.ranges(Reason.TOO_LARGE)) == ([(1, 1)] if more else [])
    assert max(parse(datagram).announced for datagram in listener.datagrams) <= MOST_FRAGMENTS


@pytest.mark.parametrize("compress_above_bytes", [0, 100])
def test_an_event_that_is_too_large_is_sent_empty_when_it_is_to_be_filled(
    listener: Listener, compress_above_bytes: int
) -> None:
    noise = random.Random(7).randbytes(MOST_FRAGMENTS * BODY + 100)
    options = ReplayOptions(
        PAYLOAD,
        InputFilter(),
        max_fragments=MOST_FRAGMENTS,
        fill=frozenset({Reason.TOO_LARGE}),
        compress_above_bytes=compress_above_bytes,
    )
    replayed = Replayed(listener, OffsetRanges([(0, 3)]), options)
    replayed.run(read(0, [b"a", noise, b"c" * 200, noise]))
    assert replayed.arrived() == {0: b"a", 1: b"", 2: b"c" * 200, 3: b""}
    assert replayed.sums == {"planned": 4, "sent": 2, "filled": 2}


def test_compression_lets_a_large_event_fit_and_strict_order_stays(listener: Listener) -> None:
    values = [b"small", b"large " * 2000, b"small again", b"larger " * 2000]
    options = ReplayOptions(
        PAYLOAD, InputFilter(), compress_above_bytes=100, max_fragments=MOST_FRAGMENTS, keeps_order=True
    )
    replayed = Replayed(listener, OffsetRanges([(0, 3)]), options)
    replayed.run(read(0, values))
    assert list(replayed.arrived().items()) == list(enumerate(values))
    loose = Replayed(listener, OffsetRanges([(0, 3)]), ReplayOptions(PAYLOAD, InputFilter(), compress_above_bytes=100))
    listener.forget()
    loose.run(read(0, values))
    assert loose.arrived() == dict(enumerate(values))


def announced_keys(link: UdpLink, clock: Steps, every_seconds: float = 0.0) -> AnnouncedKeys:
    exchange = KeyExchange.load(VECTORS / "test-cert.pem")
    return AnnouncedKeys(
        exchange, link, payload_size=PAYLOAD, timings=KeyTimings(), every_seconds=every_seconds, clock=clock
    )


def test_after_a_rotation_events_are_sealed_with_the_new_key_and_the_old_one_is_gone(
    listener: Listener, link: UdpLink
) -> None:
    clock = Steps()
    keys = announced_keys(link, clock, every_seconds=10.0)
    used: list[tuple[SessionKey, bytes]] = []
    present = keys.current

    def current() -> SessionKey:
        key = present()
        used.append((key, key.key))
        return key

    keys.current = current  # type: ignore[method-assign]
    replayed = Replayed(
        listener,
        OffsetRanges([(0, 59)]),
        ReplayOptions(PAYLOAD, InputFilter(), encryption_overhead_bytes=28),
        eps=20,
        clock=clock,
    )
    replayed.keys = keys
    replayed.run(*(read(offset, [b"%d" % offset]) for offset in range(60)))
    assert keys.announced == len({key for _, key in used}) == 1, "three seconds of events"
    clock.seconds += 10.0
    replayed.requested = OffsetRanges([(0, 119)])
    replayed.run(*(read(offset, [b"%d" % offset]) for offset in range(60, 120)))
    assert keys.announced == len({key for _, key in used}) == 2
    assert used[0][0] is not used[-1][0]
    with pytest.raises(ValueError, match="destroyed"):
        used[0][0].seal_batch([b"with the old key"])[0]
    assert replayed.arrived() == {offset: b"%d" % offset for offset in range(120)}, "a receiver has one key at a time"


def test_a_key_is_held_from_before_a_batch_until_it_is_on_the_link_and_no_longer(
    listener: Listener, link: UdpLink
) -> None:
    keys = announced_keys(link, Steps())
    held: list[tuple[str, int]] = []
    present = keys.current

    def current() -> SessionKey:
        held.append(("current", link.stats.datagrams))
        return present()

    keys.current = current  # type: ignore[method-assign]
    keys.release = lambda: held.append(("release", len(listener.settled(0.05))))  # type: ignore[method-assign]
    replayed = Replayed(
        listener, OffsetRanges([(0, 9)]), ReplayOptions(PAYLOAD, InputFilter(), encryption_overhead_bytes=28), eps=1000
    )
    replayed.keys = keys
    replayed.run(*(read(offset, [b"x"] * 5) for offset in (0, 5)))
    assert [word for word, _ in held] == ["current", "release"] * (len(held) // 2)
    assert held[-1][1] == len(listener.settled()), "when it is let go, all has left"


@pytest.mark.parametrize("pace", ["eps", "bits_per_second", "none"])
def test_copies_all_leave_and_cost_bits_but_no_events(listener: Listener, pace: str) -> None:
    values = [b"x" * 400] * 100
    copies, bits = 3, 8 * (400 + 13 + len("topic_3_10") + 28)
    rates = {"eps": {"eps": 50.0}, "bits_per_second": {"bits_per_second": bits * 50.0}, "none": {}}[pace]
    replayed = Replayed(listener, OffsetRanges([(10, 109)]), copies=copies, **rates)  # type: ignore[arg-type]
    began = replayed.clock.seconds
    replayed.run(*(read(10 + first, values[first : first + 10]) for first in range(0, 100, 10)))
    counts = Counter(listener.settled())
    assert len(counts) == 100
    assert set(counts.values()) == {copies}
    assert replayed.sums == {"planned": 100, "sent": 100}
    seconds = replayed.clock.seconds - began
    assert seconds == pytest.approx({"eps": 2.0, "bits_per_second": 6.0, "none": 0.0}[pace], rel=0.1)


def test_a_second_copy_follows_behind_the_stretch_and_not_behind_its_first(listener: Listener) -> None:
    replayed = Replayed(listener, OffsetRanges([(0, 19)]), copies=2, eps=400)
    replayed.run(read(0, [b"%d" % offset for offset in range(20)]))
    arrived = [int(parse(datagram).event_id.split("_")[2]) for datagram in listener.settled()]
    assert sorted(arrived[:20]) == sorted(arrived[20:]) == list(range(20))
