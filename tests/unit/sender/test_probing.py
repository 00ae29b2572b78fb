"""The form of probes, the counting of what became of them, and the advice that follows; no sockets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.link_profile import LINK_PROFILE, LinkProfile, parse_link_profile
from gapless_sender.link_test.advice import StepResult, advice
from gapless_sender.link_test.counting import Arrival
from gapless_sender.link_test.form import HEAD_BYTES, MARK, Damaged, Kind, Probe, ProbeMaker, Step, read
from gapless_sender.link_test.profile import profile_of
from gapless_sender.link_test.reception import STRAGGLING_SECONDS, FinishedRun, FinishedStep, Reception
from gapless_sender.link_test.steps import Rate, between, planned, rate
from kit.peer.reassembly import RefusedDatagramError, parse

if TYPE_CHECKING:
    import random

STEP = Step(run=7, number=1, steps=2, header_bytes=28, payload_bytes=100, probes=1_000, asked_millihertz=500_000)


def view(datagram: bytes) -> memoryview:
    return memoryview(bytearray(datagram))


@given(
    st.integers(0, 2**64 - 1),
    st.integers(64, 65_459),
    st.sampled_from(Kind),
    st.integers(0, 999),
    st.integers(0, 2**64 - 1),
)
def test_a_probe_is_read_as_it_was_made(run: int, size: int, kind: Kind, number: int, microseconds: int) -> None:
    step = STEP._replace(run=run, payload_bytes=size)
    datagram = ProbeMaker(step).make(kind, number, microseconds)
    assert len(datagram) == size
    assert read(view(datagram)) == Probe(step, kind, number, microseconds)


def test_a_probe_is_what_its_description_says_byte_by_byte() -> None:
    made = ProbeMaker(STEP).make(Kind.PROBE, 258, 3)
    assert made[:48].hex(" ") == (
        "47 4c 50 ff ff ff ff 01 00 00 00 00 00 00 00 07 00 01 02 1c 00 64 00 00 00 00 01 02 00 00 03 e8 "
        "00 00 00 00 00 07 a1 20 00 00 00 00 00 00 00 03"
    )
    assert made[52:] == bytes(range(48))


@given(st.integers(0, 99), st.integers(1, 255), st.randoms(use_true_random=False))
def test_a_probe_with_another_byte_is_damaged_or_no_probe_at_all(at: int, change: int, chance: random.Random) -> None:
    datagram = bytearray(ProbeMaker(STEP).make(Kind.PROBE, chance.randrange(1_000), 5))
    datagram[at] ^= change
    found = read(memoryview(datagram))
    assert found is None if at < len(MARK) else isinstance(found, Damaged)


@pytest.mark.parametrize("length", [8, 20, HEAD_BYTES - 1, HEAD_BYTES, 99])
def test_a_probe_that_was_cut_is_damaged(length: int) -> None:
    assert isinstance(read(view(ProbeMaker(STEP).make(Kind.PROBE, 1, 2)[:length])), Damaged)


@given(st.binary(max_size=200))
def test_nothing_else_is_a_probe(datagram: bytes) -> None:
    found = read(view(datagram))
    assert isinstance(found, Damaged) if datagram.startswith(MARK) else found is None


@pytest.mark.parametrize(
    "step",
    [
        STEP._replace(number=0),
        STEP._replace(number=3),
        STEP._replace(steps=101),
        STEP._replace(probes=10),
        STEP._replace(probes=4_000_000_000),
        STEP._replace(payload_bytes=101),
    ],
)
def test_what_no_sender_says_is_not_believed(step: Step) -> None:
    made = ProbeMaker(step._replace(payload_bytes=100)).make(Kind.PROBE, 10, 0)
    if step.payload_bytes != 100:
        made = ProbeMaker(step).make(Kind.PROBE, 10, 0)[:100]
    assert isinstance(read(view(made)), Damaged)


def at(seconds: float, dropped: int = 0) -> Arrival:
    return Arrival(seconds, dropped, 18, 63)


def received(reception: Reception, numbers: Iterable[int], step: Step = STEP, *, now: float = 0.0) -> None:
    maker = ProbeMaker(step)
    for index, number in enumerate(numbers):
        reception.take(view(maker.make(Kind.PROBE, number, 0)), at(now + index * 0.001))


def told(reception: Reception, kind: Kind, sent: int, step: Step = STEP, *, now: float, seconds: float = 2.0) -> None:
    reception.take(view(ProbeMaker(step).make(kind, sent, int(seconds * 1e6))), at(now))


def listening() -> Reception:
    return Reception(margin=0.2, accepted_loss=0.0, idle_seconds=30)


def only_run(reception: Reception, now: float = 1e6) -> FinishedRun:
    (run,) = [found for found in reception.pop_finished(now) if isinstance(found, FinishedRun)]
    return run


def test_loss_duplicates_disorder_drops_and_damage_are_told_apart() -> None:
    reception = listening()
    received(reception, [0, 1, 2, 2, 5, 4, 3, 9])
    spoilt = bytearray(ProbeMaker(STEP).make(Kind.PROBE, 10, 0))
    spoilt[80] ^= 1
    reception.take(memoryview(spoilt), at(0.1))
    reception.take(view(ProbeMaker(STEP).make(Kind.PROBE, 19, 0)), at(0.2, dropped=3))
    told(reception, Kind.STEP_ENDED, 20, now=0.3)
    told(reception, Kind.STEP_ENDED, 20, now=0.4)
    told(reception, Kind.RUN_ENDED, 20, now=0.5)
    (step,) = only_run(reception).results
    assert step.sent == 20
    assert step.received == 8
    assert step.duplicates == 1
    assert (step.disordered, step.farthest) == (2, 2)
    assert step.damaged == 1
    assert step.socket_drops == 3
    assert step.missing == 12
    assert step.lost == 8
    assert step.per_second == 10
    assert step.bits_per_second == 10 * 128 * 8
    assert (step.code_points, step.times_to_live) == ((18,), (63,))


@given(st.integers(1, 300), st.randoms(use_true_random=False))
def test_counts_add_up_whatever_order_probes_come_in(sent: int, chance: random.Random) -> None:
    reception = listening()
    arrivals = [number for number in range(sent) for _ in range(chance.choice([0, 1, 1, 1, 2, 3]))]
    chance.shuffle(arrivals)
    received(reception, arrivals)
    told(reception, Kind.RUN_ENDED, sent, now=1)
    (step,) = only_run(reception).results
    assert step.received == len(set(arrivals))
    assert step.duplicates == len(arrivals) - step.received
    assert step.lost == sent - step.received
    seen: list[int] = []
    for number in arrivals:
        if number not in seen:
            seen.append(number)
    assert step.disordered == sum(number < max(seen[:index], default=-1) for index, number in enumerate(seen))


def test_a_step_is_over_when_its_end_is_told_or_a_later_one_begins_and_the_run_after_its_own_end() -> None:
    reception = listening()
    received(reception, range(10))
    assert list(reception.pop_finished(1)) == []
    told(reception, Kind.STEP_ENDED, 10, now=1)
    assert list(reception.pop_finished(1.1)) == []
    (step,) = reception.pop_finished(1 + STRAGGLING_SECONDS)
    assert isinstance(step, FinishedStep)
    second = STEP._replace(number=2)
    received(reception, range(4), second, now=3)
    assert list(reception.pop_finished(3.1)) == []
    told(reception, Kind.RUN_ENDED, 5, second, now=3.2)
    over = list(reception.pop_finished(3.2 + STRAGGLING_SECONDS))
    assert [type(found) for found in over] == [FinishedStep, FinishedRun]
    assert isinstance(over[1], FinishedRun)
    assert [result.lost for result in over[1].results] == [0, 1]
    assert over[1].end_reported


def test_a_run_that_falls_silent_is_over_and_what_was_not_told_is_only_what_is_certain() -> None:
    reception = listening()
    received(reception, range(900))
    received(reception, range(5), STEP._replace(number=2), now=10)
    received(reception, [7], STEP._replace(number=2), now=11)
    assert not any(isinstance(found, FinishedRun) for found in reception.pop_finished(20))
    run = only_run(reception, now=50)
    assert not run.end_reported
    assert [(step.sent, step.sent_is_reported, step.lost) for step in run.results] == [
        (1000, False, 100),
        (8, False, 2),
    ]
    assert run.advice.safe is None


def test_a_step_of_which_nothing_arrives_is_a_row_of_its_own_and_not_safe() -> None:
    reception = listening()
    second = STEP._replace(number=2)
    received(reception, range(10), second)
    told(reception, Kind.RUN_ENDED, 10, second, now=1)
    run = only_run(reception)
    assert [step.sent for step in run.results] == [None, 10]
    assert run.advice.safe is None


def test_a_run_of_which_nothing_more_arrives_does_not_pass_for_one_without_a_step_that_was_too_fast() -> None:
    reception, step = listening(), STEP._replace(steps=2)
    received(reception, range(10), step)
    told(reception, Kind.STEP_ENDED, 10, step, now=1)
    says = " ".join(only_run(reception).advice.sentences)
    assert "Nothing arrived after step 1, not even the end of the run" in says
    assert "No step was too fast" not in says
    told_off = listening()
    received(told_off, range(10), step)
    told(told_off, Kind.RUN_ENDED, 10, step, now=1)
    assert "No step was too fast" in " ".join(only_run(told_off).advice.sentences)


def test_several_runs_foreign_datagrams_and_late_probes_do_not_mix() -> None:
    reception = listening()
    other = STEP._replace(run=8)
    reception.take(view(b"06 no probe"), at(0))
    received(reception, [0, 1])
    received(reception, [0], other)
    reception.take(view(ProbeMaker(STEP._replace(probes=999)).make(Kind.PROBE, 3, 0)), at(0))
    for stranger in range(100, 105):
        received(reception, [0], STEP._replace(run=stranger))
    assert reception.in_progress == 4
    told(reception, Kind.RUN_ENDED, 2, now=1)
    told(reception, Kind.RUN_ENDED, 2, other, now=1)
    runs = {found.run: found for found in reception.pop_finished(2) if isinstance(found, FinishedRun)}
    assert {number: run.results[0].lost for number, run in runs.items()} == {7: 0, 8: 1}
    received(reception, [1, 1], other)
    assert reception.late == 2
    assert reception.foreign == 2 + 3
    received(reception, [4], STEP._replace(run=9))
    assert reception.in_progress == 3


def test_what_the_kernel_drops_after_the_last_probe_is_of_the_step_under_way() -> None:
    reception = listening()
    reception.drop(5)
    received(reception, range(3))
    reception.drop(2)
    told(reception, Kind.RUN_ENDED, 5, now=1)
    (step,) = only_run(reception).results
    assert reception.dropped == 5
    assert (step.socket_drops, step.lost) == (2, 0)


def result(number: int, per_second: float, *, missing: int = 0, drops: int = 0, told_: bool = True) -> StepResult:
    return StepResult(
        number=number,
        asked_per_second=per_second,
        sent=10_000,
        sent_is_reported=told_,
        received=10_000 - missing,
        socket_drops=drops,
        damaged=0,
        duplicates=0,
        disordered=0,
        farthest=0,
        per_second=per_second,
        wire_bytes=1_000,
        goodput_bits_per_second=None,
        code_points=(),
        times_to_live=(),
    )


@pytest.mark.parametrize(
    ("steps", "accepted", "safe", "says"),
    [
        ([result(1, 100), result(2, 200)], 0.0, 2, "the limit is unknown"),
        ([result(1, 100), result(2, 200, missing=1)], 0.0, 1, "lost 1 of 10,000 datagrams on the link"),
        ([result(1, 100), result(2, 200, missing=1), result(3, 400)], 0.0, 1, "Step 2 lost 1"),
        ([result(1, 100), result(2, 200, missing=1)], 0.0001, 2, "Step 2 lost 1 of 10,000"),
        ([result(1, 100), result(2, 200, missing=9, drops=9)], 0.0, 1, "too fast for this machine"),
        ([result(1, 100, missing=100), result(2, 200, missing=120)], 0.0, None, "hardly depends on the rate"),
        ([result(1, 100, missing=1), result(2, 200, missing=5_000)], 0.0, None, "Test lower rates"),
        ([result(1, 100, told_=False)], 0.0, None, "is unknown"),
        ([], 0.0, None, "Nothing arrived"),
    ],
)
def test_the_advice_is_the_fastest_step_before_the_first_that_lost_something(
    steps: list[StepResult], accepted: float, safe: int | None, says: str
) -> None:
    found = advice(steps, payload_bytes=972, margin=0.2, accepted_loss=accepted)
    assert (found.safe and found.safe.number) == safe
    assert says in " ".join(found.sentences)
    if safe is not None:
        assert found.datagrams_per_second == int(100 * 2 ** (safe - 1) * 0.8)
        assert found.bits_per_second == found.datagrams_per_second * 8_000
    else:
        assert found.bits_per_second == found.datagrams_per_second == 0


def finished(*steps: StepResult, payload: int = 1000, accepted: float = 0.0) -> FinishedRun:
    found = advice(list(steps), payload_bytes=payload, margin=0.2, accepted_loss=accepted)
    info = bytes(8) + bytes([10, 0, 0, 2])
    return FinishedRun(7, len(steps), payload, steps, found, True, 28, info)


def profiled(run: FinishedRun, accepted: float = 0.0) -> LinkProfile | str:
    now = datetime(2026, 11, 20, 10, tzinfo=UTC)
    return profile_of(run, now=now, nic="eth1", port=24117, margin=0.2, accepted_loss=accepted)


def test_a_profile_states_the_safe_step_less_the_margin_and_can_be_read() -> None:
    found = profiled(finished(result(1, 100), result(2, 200), result(3, 400, missing=9)))
    assert isinstance(found, LinkProfile)
    assert parse_link_profile(json.dumps(LINK_PROFILE.to_json(found))) == found
    assert (found.datagrams_per_second, found.bits_per_second, found.copies) == (160, 160 * 8_000, 1)
    assert (found.target, found.receiver_nic, found.measured_at) == ("10.0.0.2", "eth1", "2026-11-20T10:00:00Z")
    assert found.measurement.step == 2
    assert found.measurement.probes == 10_000
    assert found.measurement.is_limit_known
    open_ended = profiled(finished(result(1, 100)))
    assert isinstance(open_ended, LinkProfile)
    assert not open_ended.measurement.is_limit_known


def test_with_loss_that_is_accepted_everything_is_sent_twice() -> None:
    found = profiled(finished(result(1, 100, missing=1), accepted=0.001), accepted=0.001)
    assert isinstance(found, LinkProfile)
    assert (found.copies, found.measurement.missing) == (2, 1)


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (finished(), "no step of it is safe"),
        (finished(result(1, 100, missing=1)), "no step of it is safe"),
        (finished(result(1, 100, told_=False)), "no step of it is safe"),
        (finished(result(1, 100, missing=5, drops=5)), "no step of it is safe"),
        (finished(result(1, 100), payload=499), "give gapless link test a --payload-size from 500 to 65459"),
    ],
)
def test_a_measurement_that_supports_no_rate_gives_no_profile(run: FinishedRun, says: str) -> None:
    found = profiled(run)
    assert isinstance(found, str)
    assert says in found


def test_a_recommended_rate_is_never_0_which_would_mean_no_limit() -> None:
    found = advice([result(1, 1)], payload_bytes=972, margin=0.75)
    assert found.datagrams_per_second == pytest.approx(0.25)
    assert found.as_json()["eventsPerSecond"] == pytest.approx(0.25)
    assert "0.25 datagrams/s" in " ".join(found.sentences)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500", Rate(500, False)),
        ("5k", Rate(5_000, False)),
        ("1.5M", Rate(1.5e6, False)),
        ("20Mbit", Rate(20e6, True)),
        ("800kbit/s", Rate(8e5, True)),
        ("9600bps", Rate(9600, True)),
        ("2gbits", Rate(2e9, True)),
    ],
)
def test_a_rate_is_in_datagrams_or_in_bits(text: str, expected: Rate) -> None:
    assert rate(text) == expected


@pytest.mark.parametrize("text", ["", "fast", "-5", "0", "1e3", "5 Mbit please", "nan", "9999G", "5x"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="per second"):
        rate(text)


def test_rates_rise_by_one_factor_from_the_first_to_the_last() -> None:
    rates = between(Rate(500, False), Rate(16_000, False), 6)
    assert [round(found.number) for found in rates] == [500, 1000, 2000, 4000, 8000, 16_000]
    plan = planned(rates, wire_bytes=1428, step_seconds=2, pause_seconds=1)
    assert [step.datagrams for step in plan.steps] == [1000, 2000, 4000, 8000, 16_000, 32_000]
    assert plan.seconds == pytest.approx(6 * 3)
    assert not plan.is_harmless
    bits = planned((Rate(8e6, True),), wire_bytes=1000, step_seconds=1, pause_seconds=0)
    assert bits.steps[0].datagrams == 1000
    assert bits.is_harmless


@pytest.mark.parametrize(
    ("rates", "seconds", "says"),
    [
        ((), 1, "1 to 100"),
        ((Rate(5, False),) * 101, 1, "1 to 100"),
        ((Rate(5, False),), 1, "the minimum is 10"),
        ((Rate(0.5, False),), 3600, "the minimum is 1"),
        ((Rate(1e6, False),), 3600, "the maximum is 100,000,000"),
        ((Rate(50, False), Rate(40, False)), 1, "do not rise"),
        ((Rate(50, False), Rate(50, False)), 1, "do not rise"),
        ((Rate(50, False), Rate(400, True)), 1, "the minimum is 1"),
    ],
)
def test_a_plan_that_says_nothing_or_never_ends_is_refused(rates: tuple[Rate, ...], seconds: float, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        planned(rates, wire_bytes=1428, step_seconds=seconds, pause_seconds=1)


@pytest.mark.parametrize(
    ("first", "last", "steps", "says"),
    [
        (Rate(5, False), Rate(5, True), 2, "different units"),
        (Rate(5, False), Rate(4, False), 2, "do not rise"),
        (Rate(5, False), Rate(5, False), 2, "do not rise"),
        (Rate(5, False), Rate(6, False), 1, "cannot have two rates"),
    ],
)
def test_a_range_that_is_none_is_refused(first: Rate, last: Rate, steps: int, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        between(first, last, steps)


@pytest.mark.parametrize("size", [64, 1400, 65_459])
@pytest.mark.parametrize("max_fragments", [4096, 65_535])
def test_the_usual_receiver_refuses_a_probe_by_its_head_alone(size: int, max_fragments: int) -> None:
    for kind in Kind:
        made = ProbeMaker(STEP._replace(payload_bytes=size)).make(kind, 0, 0)
        with pytest.raises(RefusedDatagramError, match=r"nrMessages 65535 exceeds|Length is: 65535"):
            parse(made, max_fragments)
