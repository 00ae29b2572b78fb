"""The proof that a mirror keeps records as they are, and says what it cannot copy any more."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from integration.mirror.conftest import Scene, rows
from kit.kafka.transactions import end_transaction, in_transaction
from kit.machine.processes import wait_until
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = pytest.mark.integration

NOTHING_AND_EMPTY = (None, b"", b"x")
HEADERS: tuple[list[tuple[str, bytes | None]], ...] = ([], [("a", b"1"), ("a", None), ("b", b""), ("a", b"1")])
SKIP = "--on-data-loss=skip-and-record"


def test_records_are_copied_as_they_are(scene: Scene, topic: TopicFactory) -> None:
    name = topic(2)
    appended = topic(1, message_timestamp_type="LogAppendTime")
    written: dict[str, list[dict[str, Any]]] = {name: [], appended: []}
    for where, key, value, headers, at in itertools.product(
        ((name, 0), (name, 1), (appended, 0)), NOTHING_AND_EMPTY, NOTHING_AND_EMPTY, HEADERS, (-1, 1, 1_700_000_000_000)
    ):
        given: Any = headers
        written[where[0]].append({"value": value, "key": key, "partition": where[1], "timestamp": at, "headers": given})
    for of_topic, records in written.items():
        scene.source.write(of_topic, records)
    end_transaction(in_transaction(scene.source, name, [(b"never", b"seen")]), commit=False)
    left_open = in_transaction(scene.source, name, [(b"open", b"open")])
    mirror = scene.run(f"--topics={name},{appended}", "--once")
    assert (mirror.wait(), mirror.report["records"]) == (0, 3 * 54), mirror.log
    assert scene.copied(name)
    assert scene.copied(appended)
    end_transaction(left_open, commit=True)
    mirror = scene.run(f"--topics={name},{appended}", "--once")
    assert (mirror.wait(), mirror.report["records"]) == (0, 1), mirror.log
    assert scene.copied(name)


def status(scene: Scene, *, code: int = 0) -> dict[int, dict[str, Any]]:
    """What `gapless mirror status` says of the partitions of one topic."""
    clusters = [
        f"--source-bootstrap-servers={scene.source.bootstrap}",
        f"--target-bootstrap-servers={scene.target.bootstrap}",
    ]
    ended = GAPLESS.run("mirror", "status", *clusters, f"--name={scene.name}", "--json")
    assert ended.returncode == code, ended.stderr
    found = json.loads(ended.stdout)
    return {one["partition"]: one for one in found["partitions"]}


def test_what_the_source_has_deleted_stops_a_partition_or_is_recorded(scene: Scene, topic: TopicFactory) -> None:
    name = topic(2)
    values = [b"%d" % number for number in range(10)]
    for partition in (0, 1):
        scene.source.produce(name, values, partition=partition)
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    for partition in (0, 1):
        scene.source.produce(name, values, partition=partition)
    scene.source.delete_records(name, 0, 15)
    failed = scene.run(f"--topics={name}", "--once")
    assert (failed.wait(), failed.report["records"]) == (4, 10), failed.log
    assert f"deleted the offsets 10-14 of {name}/0 before they were copied" in failed.log
    skipped = scene.run(f"--topics={name}", "--once", SKIP)
    assert (skipped.wait(), skipped.report["records"], skipped.report["lost"]) == (4, 5, 5), skipped.log
    found = status(scene)
    assert [(one["first"], one["last"], one["reason"]) for one in found[0]["lost_ranges"]] == [
        (10, 14, "RetentionOvertook")
    ]
    assert (found[0]["lag"], found[1]["lost_ranges"]) == (0, [])
    assert [row.value for row in rows(scene.target, name)[0]] == [*values, *values[5:]]
    assert scene.run(f"--topics={name}", "--once").wait() == 0


def test_a_topic_that_is_recreated_while_the_mirror_runs_is_noticed(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    scene.source.produce(name, [b"%d" % number for number in range(10)])
    mirror = scene.start(f"--topics={name}", "--topic-refresh=1h")
    scene.wait_for(name, 10)
    scene.source.delete_topic(name)
    scene.source.create_topic(name, 1)
    scene.source.produce(name, [b"new %d" % number for number in range(30)])
    # Not the message of the watch, which ends when a busy worker loses its lanes for a while.
    wait_until(lambda: '"partition stopped"' in mirror.log, what="the stop of the lane")
    assert len(rows(scene.target, name)[0]) == 10
    code = mirror.stop()
    assert code == 3, mirror.log
    skipped = scene.run(f"--topics={name}", "--once", SKIP)
    assert skipped.report["records"] == 30, skipped.log
    assert rows(scene.target, name)[0][10:] == rows(scene.source, name)[0]


def test_new_topics_and_partitions_are_copied_from_their_beginning(scene: Scene, topic: TopicFactory) -> None:
    first = topic(1, prefix=f"follow{scene.name}")
    mirror = scene.start(f"--topic-prefix=follow{scene.name}", "--topic-refresh=1s", "--workers=2")
    scene.source.produce(first, [b"1"])
    scene.wait_for(first, 1)
    second = topic(2, prefix=f"follow{scene.name}")
    scene.source.produce(second, [b"2"], partition=1)
    scene.wait_for(second, 1)
    scene.source.add_partitions(first, 3)
    scene.source.produce(first, [b"3"], partition=2)
    scene.wait_for(first, 2)
    assert mirror.stop() == 143, mirror.log
    assert scene.copied(first)
    assert scene.copied(second)


def test_what_expires_in_a_new_partition_before_the_mirror_sees_it_is_lost(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    values = [b"%d" % number for number in range(10)]
    scene.source.produce(name, values)
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    scene.source.add_partitions(name, 3)
    for partition in (1, 2):
        scene.source.produce(name, values, partition=partition)
    scene.source.delete_records(name, 1, 5)
    waiting = status(scene, code=4)
    assert {number: (one["begun"], one["lag"], one["state"]) for number, one in waiting.items()} == {
        0: (True, 0, "Holds"),
        1: (False, None, "RetentionOvertook"),
        2: (False, 10, "Holds"),
    }
    failed = scene.run(f"--topics={name}", "--once")
    assert (failed.wait(), failed.report["records"]) == (4, 10), failed.log
    assert f"deleted the offsets 0-4 of {name}/1 before they were copied" in failed.log
    skipped = scene.run(f"--topics={name}", "--once", SKIP)
    assert (skipped.wait(), skipped.report["records"], skipped.report["lost"]) == (4, 5, 5), skipped.log
    assert [(one["first"], one["last"]) for one in status(scene)[1]["lost_ranges"]] == [(0, 4)]
    assert scene.run(f"--topics={name}", "--once").wait() == 0


def test_what_has_expired_before_a_mirror_begins_a_topic_is_not_lost(scene: Scene, topic: TopicFactory) -> None:
    name = topic(3)
    for partition in (0, 1, 2):
        scene.source.produce(name, [b"%d" % number for number in range(10)], partition=partition)
        scene.source.delete_records(name, partition, 5)
    mirror = scene.run(f"--topics={name}", "--once")
    assert (mirror.wait(), mirror.report["records"], mirror.report["lost"]) == (0, 15, 0), mirror.log


def test_what_expires_in_a_recreated_topic_before_the_mirror_sees_it_is_lost(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    scene.source.produce(name, [b"%d" % number for number in range(10)])
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    scene.source.delete_topic(name)
    scene.source.create_topic(name, 1)
    scene.source.produce(name, [b"new %d" % number for number in range(30)])
    scene.source.delete_records(name, 0, 7)
    skipped = scene.run(f"--topics={name}", "--once", SKIP)
    assert (skipped.wait(), skipped.report["records"], skipped.report["lost"]) == (4, 23, 7), skipped.log
    found = status(scene)[0]
    assert [(one["first"], one["last"], one["reason"]) for one in found["lost_ranges"]] == [(0, 6, "RetentionOvertook")]
    assert scene.run(f"--topics={name}", "--once").wait() == 0


def test_a_pattern_that_matches_no_topic_is_a_warning_and_no_success(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    scene.source.write(name, [{"value": b"x"}])
    mirror = scene.run(f"--topics={name}", "--topic-pattern=no-such-topic-.*", "--once")
    sentence = "No topic of the source matches topicPattern=no-such-topic-.*"
    assert (mirror.wait(), mirror.report["records"]) == (4, 1), mirror.log
    assert sentence in mirror.report["message"]
    assert mirror.log.count(sentence) >= 2, "in a warning at the start, and at the end"
