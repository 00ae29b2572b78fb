from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.offsets.ids import MAX_OFFSET
from kit.kafka.transactions import end_transaction, in_transaction

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


def receive(kafka: KafkaBroker, topic: str, keys: Iterable[str | bytes | None], partition: int = 0) -> None:
    """Write what a receiver writes: the id is the key."""
    listed = [key.encode() if isinstance(key, str) else key for key in keys]
    kafka.produce(topic, [b"event"] * len(listed), partition=partition, keys=listed)


def audit(gapless: Gapless, kafka: KafkaBroker, topics: str, *more: str) -> Ended:
    return gapless("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={topics}", "--engine=spark", *more)


def test_losses_at_window_ends_and_of_whole_windows_are_found_which_the_detector_never_reports(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic(2)
    lost = {*range(950, 1051), *range(2000, 4000)}
    receive(kafka, name, [f"transfer_0_{o}" for o in range(6000) if o not in lost])
    receive(kafka, name, [f"transfer_1_{o}" for o in range(100, 200)], 1)
    ended = audit(gapless, kafka, name)
    assert ended.code == 0
    assert ended.gaps == {("transfer", 0): [[950, 1050], [2000, 3999]], ("transfer", 1): []}
    assert ended.report is not None
    assert (ended.report["outcome"], ended.report["missing"]) == ("gaps-found", 2101)
    assert [p["bounds"] for p in ended.report["partitions"]] == ["seen", "seen"]
    incomplete, complete = ended.report["partitions"]
    assert ended.report["created"][:4] <= incomplete["lost_after"] <= incomplete["lost_before"]
    assert (complete["lost_after"], complete["lost_before"]) == (None, None)
    assert sum(hour["missing"] for hour in ended.report["lost"]["hours"]) == 2101
    assert "2,101 events are missing, in 2 ranges of 1 partition; 1 of 2 partitions is complete." in ended.out


def test_expectations_show_tails_and_silent_partitions(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    name = topic()
    receive(kafka, name, [f"t_x_0_{o}" for o in range(10, 20)])
    (tmp_path / "expected").write_text("# from the other side\nt_x:7:5-6\n")
    wanted = [f"--expect-file={tmp_path / 'expected'}", "--expect=t_x:0:8-21", "--expect", "quiet:3:0-0"]
    ended = audit(gapless, kafka, name, *wanted)
    assert ended.gaps == {("quiet", 3): [[0]], ("t_x", 0): [[8, 9], [20, 21]], ("t_x", 7): [[5, 6]]}
    assert ended.report is not None
    rows = {(p["topic"], p["partition"]): p for p in ended.report["partitions"]}
    assert (rows["t_x", 0]["first_expected"], rows["t_x", 0]["last_expected"]) == (8, 21)
    assert (rows["quiet", 3]["received"], rows["quiet", 3]["bounds"]) == (0, "given")
    assert "--expect" not in ended.report["message"]


def test_duplicates_and_foreign_keys_are_counted_and_harm_nothing(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    keys: list[str | bytes | None] = [f"t_0_{o}" for o in (1, 2, 2, 2, 4, 1)]
    keys += [None, "STATUS", "random_17", "t_0_", "t_01_3", b"\xff_0_3", f"t_0_{MAX_OFFSET + 1}", ""]
    receive(kafka, name, keys)
    ended = audit(gapless, kafka, name)
    assert ended.gaps == {("t", 0): [[3]]}
    assert ended.report is not None
    counts = {key: ended.report[key] for key in ("records", "foreign_keys", "received", "duplicates", "unexpected")}
    assert counts == {"records": 14, "foreign_keys": 8, "received": 3, "duplicates": 3, "unexpected": 0}


def test_several_topics_are_audited_together(kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless) -> None:
    raw, resent = topic(), topic(2)
    receive(kafka, raw, [f"t_0_{o}" for o in range(100) if not 40 <= o < 60])
    receive(kafka, resent, [f"t_0_{o}" for o in range(45, 70)], 1)
    ended = audit(gapless, kafka, f"{raw},{resent}", "--limit=first")
    assert ended.bundle is not None
    assert ended.bundle["type"] == "first"
    assert ended.gaps == {("t", 0): [[40, 44]]}
    assert ended.report is not None
    assert ended.report["duplicates"] == 10


def test_offsets_to_the_largest_are_exact(kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless) -> None:
    name = topic()
    far = 2**53
    receive(kafka, name, [f"t_0_{far}", f"t_0_{far + 2}", f"t_1_{MAX_OFFSET}", f"t_1_{MAX_OFFSET - 3}", "t_2_0"])
    receive(kafka, name, [f"t_2_{MAX_OFFSET}"])
    ended = audit(gapless, kafka, name)
    assert ended.gaps == {
        ("t", 0): [[far + 1]],
        ("t", 1): [[MAX_OFFSET - 2, MAX_OFFSET - 1]],
        ("t", 2): [[1, MAX_OFFSET - 1]],
    }


def test_a_complete_stream_is_nothing_missing_with_its_caution(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    receive(kafka, name, [f"t_0_{o}" for o in range(50)])
    seen = audit(gapless, kafka, name)
    assert seen.code == 0
    assert seen.report is not None
    assert seen.report["outcome"] == "nothing-missing"
    assert "give the expected offsets with --expect" in seen.out
    given = audit(gapless, kafka, name, "--expect=t:0:0-49")
    assert "Nothing is missing: 50 events of 1 partition were received.\n" in given.out


def test_events_of_committed_transactions_count_and_markers_are_no_losses(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic()
    for offset, commits in ((0, True), (1, False), (2, True)):
        end_transaction(in_transaction(kafka, name, [(f"t_0_{offset}", b"x")]), commit=commits)
    assert audit(gapless, kafka, name).gaps == {("t", 0): [[1]]}


def test_an_empty_topic_is_nothing_to_do_a_foreign_one_is_4_and_a_missing_one_is_2(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    empty, foreign = topic(), topic()
    receive(kafka, foreign, ["STATUS", None])
    ended = audit(gapless, kafka, empty)
    assert (ended.code, ended.gaps) == (0, {})
    assert f"Nothing to do: topic {empty} holds no records, and nothing is expected." in ended.out
    ended = audit(gapless, kafka, foreign)
    assert (ended.code, ended.gaps) == (4, {})
    assert f"None of 2 records of topic {foreign} has the key of an event" in ended.err
    assert "(the first key: 'STATUS')" in ended.err
    ended = audit(gapless, kafka, empty, "--expect=t:0:0-9")
    assert (ended.code, ended.gaps) == (0, {("t", 0): [[0, 9]]})
    ended = audit(gapless, kafka, f"{empty},not-there")
    assert (ended.code, ended.bundle) == (2, None)
    assert "does not have the topic not-there" in ended.err


def test_a_shuffled_lossy_stream_of_many_partitions_is_audited_exactly(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name, chance = topic(3), random.Random(7)
    kept: dict[tuple[str, int], set[int]] = {}
    keys: list[str] = []
    for source in ("a", "b_c.d"):
        for partition in range(12):
            start = chance.choice([0, 2**20 - 300, 2**40])
            offsets = [o for o in range(start, start + 700) if chance.random() > 0.03 and not 90 < o - start < 210]
            kept[source, partition] = set(offsets)
            keys += [f"{source}_{partition}_{o}" for o in offsets + chance.sample(offsets, 200)]
    chance.shuffle(keys)
    for partition in range(3):
        receive(kafka, name, keys[partition::3], partition)
    ended = audit(gapless, kafka, name)
    expected = {place: set(range(min(seen), max(seen) + 1)) - seen for place, seen in kept.items()}
    assert {p: {o for g in gaps for o in range(g[0], g[-1] + 1)} for p, gaps in ended.gaps.items()} == expected
    assert ended.report is not None
    assert ended.report["duplicates"] == 24 * 200
