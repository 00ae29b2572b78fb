"""The real detector's stand-in, Kafka and Spark: what a scan infers, what it calls stale, and what it then writes."""

from __future__ import annotations

import itertools
import os
import random
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest
from pyroaring import BitMap

from gapless_api.offsets.ids import MAX_OFFSET
from kit.peer.detector import Detector

if TYPE_CHECKING:
    from conftest import TopicFactory
    from integration.spark.conftest import Ended, Gapless
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

Record = tuple[bytes, bytes | None]


@pytest.fixture
def gapless(gapless_of_both_readers: Gapless) -> Gapless:
    """Spark and this process must agree on every scan of this file."""
    return gapless_of_both_readers


def gap(partition: int, window_min: int, window_max: int, missing: Iterable[int] = ()) -> Record:
    bitmap = BitMap(offset - window_min for offset in missing).serialize()
    return f"t:{partition}:{window_min}".encode(), struct.pack(">Bqq", 1, window_min, window_max) + bitmap


def write(kafka: KafkaBroker, topic: str, records: Iterable[Record]) -> None:
    listed = list(records)
    kafka.produce(topic, [value for _, value in listed], keys=[key for key, _ in listed])


def scan(gapless: Gapless, kafka: KafkaBroker, topic: str, *more: str) -> Ended:
    return gapless("scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={topic}", *more)


def listed(ended: Ended) -> dict[int, list[list[int]]]:
    """What the mark of the bundle calls inferred."""
    assert ended.bundle is not None
    return {entry["partition"]: entry["ranges"] for entry in ended.bundle["gapless"].get("inferred", [])}


@pytest.fixture(scope="module")
def detected(kafka: KafkaBroker) -> str:
    """The gaps topic after a stream of two partitions: losses at edges, lost windows, old holes, a silent stretch."""
    raw, gaps, dedup = (kafka.create_topic(f"detected-{what}-{os.getpid()}", 2) for what in ("raw", "gaps", "dedup"))
    lost = {0: {5, *range(950, 1051), *range(3000, 5000), 9001}, 1: {*range(1990, 2000)}}
    detector = Detector(kafka.bootstrap, [raw], gap_topic=gaps, dedup_topic=dedup)
    try:
        for begin in range(0, 10_000, 1000):  # so that each window is reported while the detector remembers it
            for partition in (0, 1):
                arrived = [o for o in range(begin, begin + 1000) if o not in lost[partition]]
                keys = [f"{raw}_{partition}_{offset}".encode() for offset in arrived]
                if keys:
                    kafka.produce(raw, [b"x"] * len(keys), partition=partition, keys=keys)
            detector.drain()
    finally:
        detector.close()
    return gaps


def test_what_the_detector_never_reports_is_inferred_marked_and_told(
    kafka: KafkaBroker, gapless: Gapless, detected: str
) -> None:
    reported = [[5], [1000, 1050], [9001]]
    plain = scan(gapless, kafka, detected, "--include-stale")
    assert sorted(plain.gaps.values()) == [[], reported]
    assert listed(plain) == {}
    assert plain.report is not None
    assert (plain.report["inferred_events"], plain.report["stale_events"], plain.report["stale_windows"]) == (0, 52, 2)

    ended = scan(gapless, kafka, detected, "--infer")
    assert ended.code == 0
    # Behind the last offset that is certain: the records do not tell that it was 949, or 2999.
    assert listed(ended) == {0: [[7, 999], [2001, 4999]]}
    assert sorted(ended.gaps.values()) == [[], [[5], [7, 1050], [2001, 4999], [9001]]]
    assert ended.report is not None
    assert ended.bundle is not None
    name = ended.bundle["results"][0]["topic"]
    inferred = 993 + 2999
    assert (ended.report["inferred_events"], ended.report["inferred_ranges"]) == (inferred, 2)
    assert [p["inferred_events"] for p in ended.report["partitions"]] == [inferred, 0]
    assert ended.report["missing"] == ended.bundle["gapless"]["missing"] == inferred + 53
    assert ended.report["recommended"] == f"gapless audit --topics={name}"
    sentence = f"{inferred:,} of them, in 2 ranges, are inferred and not reported by any record; some may have arrived."
    assert sentence in ended.out
    assert f"For an exact result run gapless audit --topics={name} where the received events are stored." in ended.out

    everything = scan(gapless, kafka, detected, "--infer", "--infer-tails=all")
    assert listed(everything)[1][1] == [1001, 1999], "the loss that ends with its window is among them"


def test_what_the_detector_no_longer_tracks_is_neither_missing_now_nor_hidden(
    kafka: KafkaBroker, gapless: Gapless, detected: str
) -> None:
    told = "52 events in 2 windows are no longer tracked by the detector"
    ended = scan(gapless, kafka, detected, "--exit-code")
    assert ended.code == 10
    assert sorted(ended.gaps.values()) == [[], [[9001]]]
    assert "1 event is missing now, in 1 range of 1 partition; 1 of 2 partitions is complete." in ended.out
    assert f"{told}: missing when it last wrote the records, and unknown since. They are left out" in ended.out
    assert ended.report is not None
    assert (ended.report["missing"], ended.report["missing_now"], ended.report["stale_events"]) == (1, 1, 52)
    for pair in (("--include-stale", "--skip-stale"), ("--include-stale=false", "--skip-stale=false")):
        refused = scan(gapless, kafka, detected, *pair)
        assert refused.code == 2
        assert "includeStale and skipStale contradict each other" in refused.err
    assert sorted(scan(gapless, kafka, detected, "--skip-stale=false").gaps.values())[1][0] == [5]


def test_what_the_detector_has_forgotten_is_left_out_of_what_is_inferred_on_request(
    kafka: KafkaBroker, gapless: Gapless, detected: str
) -> None:
    ended = scan(gapless, kafka, detected, "--skip-stale", "--infer")
    assert ended.code == 0
    assert sorted(ended.gaps.values()) == [[], [[9001]]]
    assert listed(ended) == {}
    assert ended.report is not None
    assert (ended.report["stale_events"], ended.report["stale_windows"]) == (52, 2)
    assert ended.bundle is not None
    assert [r["window_min"] for r in ended.bundle["results"]] == [5000, 5000]
    assert "52 events in 2 windows are no longer tracked by the detector" in ended.out
    more = scan(gapless, kafka, detected, "--skip-stale", "--detector-windows=8")
    assert sorted(more.gaps.values()) == [[], [[5], [1000, 1050], [9001]]]


def test_runs_of_complete_windows_are_found_in_java_as_in_python(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name, chance = topic(), random.Random(7)
    size = 10
    # A bitmap holds 32,768 windows: these stretches begin and end in it, and go across its border.
    numbers = [*range(200), *range(32_600, 32_900), *range(65_400, 65_700), *range(69_800, 70_000)]
    present = sorted(set(numbers) - set(chance.sample(numbers, 60)))
    records = [gap(0, size * window, size * window + size - 1) for window in present]
    records += [
        gap(1, 5, 14), gap(1, 15, 24), gap(1, 45, 54),  # not at a multiple of their size
        gap(2, 0, MAX_OFFSET), gap(3, 0, 9), gap(3, MAX_OFFSET - 9, MAX_OFFSET),
        gap(4, 0, 999), gap(4, 1500, 1999), gap(4, 3000, 3999),  # the window size was changed
        gap(5, 0, 9), gap(5, 10, 19), (b"t:5:10", None), gap(5, 20, 29), gap(5, 40, 49),
    ]  # fmt: skip
    write(kafka, name, records)
    ended = scan(gapless, kafka, name, "--infer", "--detector-windows=1000")
    found = listed(ended)
    neighbours = [(before, behind) for before, behind in itertools.pairwise(present) if behind > before + 1]
    assert found[0] == [[size * before + 1, size * behind - 1] for before, behind in neighbours]
    assert found[1] == [[16, 44]]
    assert 2 not in found
    assert found[3] == [[1, MAX_OFFSET - 10]]
    assert found[4] == [[1, 1499], [1501, 2999]]
    assert found[5] == [[21, 39]]
    assert ended.report is not None
    assert ended.report["complete_windows"] == ended.report["windows"] == len(present) + 3 + 1 + 2 + 3 + 3
