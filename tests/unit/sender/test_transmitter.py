"""However slow the line, the fragments of an event leave close together, and a batch ends soon."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_sender.link.gso_batches import GsoBatch, Order, arrange
from gapless_sender.link.transmitter import BATCH_SECONDS, SPREAD_SECONDS, BatchSize, Transmitter
from gapless_sender.pace.pace_state import PaceState
from gapless_sender.pace.pacing import Pace, Paces, wire_bits
from gapless_sender.replay.account import BatchResult, PartitionAccount
from gapless_sender.replay.input_filter import InputFilter
from gapless_sender.replay.replay import PartitionReplay, ReplayOptions
from gapless_sender.source.plan import FILLED, PartitionPlan, Reason
from gapless_sender.source.range_cursor import AbsentRange, Chunk, split_chunk
from gapless_sender.source.requests import MappedPartition
from kit.machine.examples import examples
from kit.peer.strict_packets import parse_packet

HEADER_BYTES = 28
PAYLOAD_SIZE = 1400
RECORDS_AT_ONCE = 1000


@dataclass
class Line:
    """A link in simulated time: keeps what left and when. Others may use up the same pace while somebody sleeps."""

    order: Order = "free"
    header_bytes: int = HEADER_BYTES
    seconds: float = 1_000.0
    others: Callable[[], None] = lambda: None
    left: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def keeps_order(self) -> bool:
        return self.order == "strict"

    def arrange(self, datagrams: Sequence[bytes]) -> list[GsoBatch]:
        return arrange(datagrams, self.order)

    def send_batches(self, runs: Sequence[GsoBatch]) -> None:
        self.left += [(self.seconds, datagram) for run in runs for datagram in run.datagrams]

    def confirm(self, repeat: Callable[[], None]) -> None:
        """Everything has left."""

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.others()


def replay(
    line: Line,
    pace: Pace | Paces,
    values: list[bytes],
    *,
    copies: int = 1,
    senders: int = 1,
    compress_above_bytes: int = 0,
    max_fragments: int = 4096,
    settled: Callable[[BatchResult], None] = lambda _: None,
) -> None:
    """Take `values`, a thousand at once as from Kafka before sizes are known, to the line."""
    plan = PartitionPlan(MappedPartition("t", 0, "t", 0), OffsetRanges([(0, len(values) - 1)]))
    options = ReplayOptions(
        PAYLOAD_SIZE,
        InputFilter(),
        keeps_order=line.keeps_order,
        compress_above_bytes=compress_above_bytes,
        max_fragments=max_fragments,
    )
    transmitter = Transmitter(line, pace, copies, on_send=lambda: None, senders=senders)  # type: ignore[arg-type]
    chunks = [
        Chunk(
            list(range(first, min(first + RECORDS_AT_ONCE, len(values)))),
            values[first : first + RECORDS_AT_ONCE],
            [],
            [],
            min(first + RECORDS_AT_ONCE, len(values)),
        )
        for first in range(0, len(values), RECORDS_AT_ONCE)
    ]
    PartitionReplay(plan.partition, PartitionAccount(), options, transmitter, keys=None, on_batch=settled).run(chunks)


def longest_distances(left: list[tuple[float, bytes]], copies: int) -> dict[bytes, float]:
    """For each event the most seconds from the first to the last fragment of a copy, all of which must be there."""
    moments: defaultdict[bytes, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    fragments: dict[bytes, int] = {}
    for moment, datagram in left:
        packet = parse_packet(datagram)
        moments[packet.packet_id][packet.number].append(moment)
        fragments[packet.packet_id] = packet.fragments
    assert all(
        found.keys() == set(range(1, fragments[event] + 1)) and {len(each) for each in found.values()} == {copies}
        for event, found in moments.items()
    )
    return {
        event: max(
            max(each[copy] for each in found.values()) - min(each[copy] for each in found.values())
            for copy in range(copies)
        )
        for event, found in moments.items()
    }


def cost_bits(size: int) -> int:
    """About the bits of an event on the wire."""
    capacity = PAYLOAD_SIZE - 13 - len("t_0_100")
    count = -(-size // capacity) or 1
    return wire_bits(size + count * 20, count, HEADER_BYTES)


SIZES = st.one_of(st.just((5_000, 5_000)), st.just((1, 2_000)), st.just((1, 100)), st.just((1, 30_000)))
RATES = st.sampled_from([2e5, 1.3e6, 1e7, 1e8])


@settings(max_examples=examples(25), deadline=None)
@given(
    SIZES,
    RATES,
    st.sampled_from([None, 0.1, 3, 40, 5_000]),
    st.integers(1, 3),
    st.sampled_from(["free", "strict"]),
    st.sampled_from([0, 500]),
    st.integers(0, 2**32),
)
def test_the_fragments_of_an_event_leave_within_its_own_time(  # noqa: PLR0917 -- what it may depend on
    sizes: tuple[int, int],
    rate: float,
    events_per_second: float | None,
    copies: int,
    order: Order,
    compress_above_bytes: int,
    seed: int,
) -> None:
    chance = random.Random(seed)
    values = [chance.randbytes(chance.randint(*sizes)) for _ in range(25)]
    line = Line(order)
    replay(
        line,
        Pace(events_per_second, rate, clock=line),
        values,
        copies=copies,
        compress_above_bytes=compress_above_bytes,
    )
    distances = longest_distances(line.left, copies)
    assert len(distances) == len(values)
    for offset, value in enumerate(values):
        own = cost_bits(len(value) + 100) / rate + (SPREAD_SECONDS if events_per_second else 0.0)
        distance = distances[b"t_0_%d" % offset]
        assert distance <= own * 1.01 + 0.001
        if events_per_second is None and own <= 0.0045:
            assert distance == 0.0, "an event that fits a burst leaves at once"


@settings(max_examples=examples(25), deadline=None)
@given(
    st.sampled_from([10, 1_000]), st.sampled_from([1e7, 1e9]), st.sampled_from(["free", "strict"]), st.integers(0, 9)
)
def test_after_a_drop_of_the_rate_an_event_takes_its_own_time_at_the_new_one(
    ratio: int, rate: float, order: Order, seed: int
) -> None:
    """What is made ready was made for the old rate."""
    chance = random.Random(seed)
    size = min(int(rate * 0.0045 / 8), 6_000)
    values = [chance.randbytes(chance.randint(size // 2, size)) for _ in range(300)]
    line = Line(order)
    pace = Pace(None, rate, clock=line)

    def drop() -> None:
        if len(line.left) > 30:
            pace.set_rates(None, rate / ratio)

    line.others = drop
    replay(line, pace, values)
    assert pace.rates == (None, rate / ratio)
    for event, distance in longest_distances(line.left, 1).items():
        assert distance <= cost_bits(len(values[int(event.rpartition(b"_")[2])])) * ratio / rate * 1.01


def test_an_event_that_is_left_out_does_not_separate_the_fragments_of_another() -> None:
    """There are as many datagrams as events then, and yet none of them is a complete event."""
    line = Line()
    replay(line, Pace(200, None, clock=line), [bytes(4 * PAYLOAD_SIZE), bytes(2_000)], max_fragments=3)
    assert list(longest_distances(line.left, 1).values()) == [0.0]


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 6), st.sampled_from([2e6, 1e8]), st.sampled_from(["processes", "budget"]), st.integers(0, 99))
def test_others_who_share_the_pace_do_not_part_the_fragments_of_an_event(
    senders: int, rate: float, how: str, seed: int
) -> None:
    """Processes of one resend, or unknown programs that share a budget."""
    chance = random.Random(seed)
    values = [chance.randbytes(1_800) for _ in range(60)]
    line = Line()
    budget = PaceState.shared()
    shared = Pace(None, rate, clock=line, state=budget)
    amount = rate * 0.005

    turn = {"ours": 0, "theirs": 0}

    def others() -> None:
        if len(line.left) > turn["ours"]:
            turn.update(ours=len(line.left), theirs=senders - 1)
        if turn["theirs"] and shared._try_admit(0.0, amount) <= 0.0:
            turn["theirs"] -= 1

    line.others = others
    pace: Pace | Paces = Paces(Pace(0, 0, clock=line), shared) if how == "budget" else shared
    replay(line, pace, values, senders=1 if how == "budget" else senders)
    own = cost_bits(1_800) / rate
    longest = max(longest_distances(line.left, 1).values())
    assert longest <= (0.0 if own <= 0.0045 else own * senders * 4)
    budget.close()


@settings(max_examples=15, deadline=None)
@given(SIZES, RATES, st.sampled_from([None, 3, 400]), st.integers(1, 3), st.integers(0, 2**32))
def test_a_batch_holds_what_the_pace_lets_through_in_a_moment_or_one_event(
    sizes: tuple[int, int], rate: float, events_per_second: float | None, copies: int, seed: int
) -> None:
    chance = random.Random(seed)
    values = [chance.randbytes(chance.randint(*sizes)) for _ in range(40)]
    line = Line()
    steps: list[tuple[float, BatchResult]] = []
    replay(
        line,
        Pace(events_per_second, rate, clock=line),
        values,
        copies=copies,
        settled=lambda step: steps.append((line.seconds, step)),
    )
    assert steps[-1][1].cursor == len(values)
    assert sum(step.sent for _, step in steps) == len(values)
    one = max(copies * cost_bits(max(map(len, values))) / rate, 1 / events_per_second if events_per_second else 0.0)
    assert max((b - a for (a, _), (b, _) in pairwise(steps)), default=0.0) <= 5 * BATCH_SECONDS + 2 * one


def test_a_pace_of_events_waits_between_events_and_not_between_fragments() -> None:
    line = Line()
    replay(line, Pace(0.01, None, clock=line), [bytes(6_000)] * 4)
    assert max(longest_distances(line.left, 1).values()) <= SPREAD_SECONDS
    assert line.left[-1][0] - line.left[0][0] == pytest.approx(300, rel=0.02)


def test_an_event_too_long_for_the_receiver_at_this_pace_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr(
        "gapless_sender.link.transmitter.log", lambda *said, **about: told.append({"said": said, **about})
    )
    line = Line()
    replay(line, Pace(None, 1e5, clock=line), [bytes(500_000), bytes(500_000), b"short"])
    assert len(told) == 1
    assert told[0]["fragments"] == 362


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 50)), unique_by=lambda pair: pair[0]),
    st.integers(1, 20),
    st.integers(1, 200),
    st.lists(st.tuples(st.integers(41, 50), st.sampled_from([FILLED, *Reason])), max_size=3),
)
def test_parts_are_the_chunk_and_keep_their_limits(
    events: list[tuple[int, int]], most_events: int, most_bytes: int, holes_at: list[tuple[int, str]]
) -> None:
    events.sort()
    taken = {offset for offset, _ in events}
    between = [offset for offset in range(41) if offset not in taken]
    absent: list[AbsentRange] = [(offset, offset, FILLED) for offset in between[::3]]
    absent += [(offset * 1000, offset * 1000 + 12, reason) for offset, reason in sorted(dict(holes_at).items())]
    outside = [(offset, offset) for offset in between[1::3]]
    chunk = Chunk([o for o, _ in events], [bytes(n) for _, n in events], absent, outside, 400_000)
    found = list(split_chunk(chunk, lambda: BatchSize(most_events, most_bytes)))
    assert [offset for part in found for offset in part.offsets] == chunk.offsets
    assert [value for part in found for value in part.values] == chunk.values
    assert sorted(each for part in found for each in _each(part.absent)) == sorted(_each(absent))
    assert sorted(each for part in found for each in part.outside) == outside
    assert found[-1].upto == chunk.upto
    for part, following in pairwise(found):
        assert max([*part.offsets, *(last for _, last, _ in part.absent)], default=-1) < part.upto
        assert min([*following.offsets, *(first for first, _, _ in following.absent)]) >= part.upto
    for part in found:
        count = len(part.offsets) + sum(outcome == FILLED for _, outcome in _each(part.absent))
        size = sum(map(len, part.values))
        assert count <= most_events
        assert size <= most_bytes or len(part.values) == 1


def _each(absent: list[AbsentRange]) -> tuple[tuple[int, str], ...]:
    return tuple((offset, outcome) for first, last, outcome in absent for offset in range(first, last + 1))
