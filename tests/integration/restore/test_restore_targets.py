"""The proof that a restore goes where it should, says what a target would spoil, and translates positions."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from gapless_api.base.exit_codes import ExitCode
from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.level_zero import LevelZeroWriter
from gapless_archive.segments.row_buffer import Coverage, Limits
from gapless_archive.segments.rows import SCHEMA, PartitionRows
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from integration.restore.conftest import Gapless, content, rows
from kit.kafka.transactions import write_transactions

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration

DAY_MS = 24 * 3600 * 1000


def settings(kafka: KafkaBroker, topic: str) -> dict[str, str]:
    """The settings of a topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return {name: entry.value for name, entry in kafka.admin().describe_configs([resource])[resource].result().items()}


def numbers(kafka: KafkaBroker, topic: str, partition: int = 0) -> list[int]:
    return [int(row.value or b"") for row in content(kafka, topic, partition)]


def write(kafka: KafkaBroker, topic: str, first: int, end: int, *, partition: int = 0, at: int | None = None) -> None:
    """Write numbers; with `at`, each a millisecond after the one before."""
    times = None if at is None else range(at, at + end - first)
    kafka.produce(topic, [str(number).encode() for number in range(first, end)], partition=partition, timestamps=times)


def test_old_records_need_retention_that_keeps_them(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source, target = topic(), topic(retention_ms=str(7 * DAY_MS), segment_ms="60000000")
    now = int(time.time() * 1000)
    kafka.alter_topic(source, retention_ms="-1")
    write(kafka, source, 0, 20, at=now - 30 * DAY_MS)
    archived(source)
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    refused = gapless(*given)
    assert refused.code == ExitCode.BAD_CONFIGURATION
    assert f"{target} keeps records for 7 days (retention.ms={7 * DAY_MS})" in refused.err
    assert content(kafka, target) == []
    planned = gapless(*given, "--plan")
    assert planned.code == ExitCode.BAD_CONFIGURATION
    assert planned.report["records"] == 20
    ended = gapless(*given, "--adjust-retention")
    assert ended.code == 0, ended.err
    assert f"The settings of {target} have their previous values again (retention.ms)." in ended.out
    assert settings(kafka, target)["retention.ms"] == str(7 * DAY_MS)
    assert ended.report["records"] == 20, "Kafka may have deleted them again since"
    kept = gapless(
        "restore", f"--topics={source}", f"--to-topic={target}-kept", "--adjust-retention=keep", "--engine=local"
    )
    assert kept.code == 0, kept.err
    assert settings(kafka, f"{target}-kept")["retention.ms"] == "-1"
    assert content(kafka, f"{target}-kept") == content(kafka, source)


def test_a_topic_that_stamps_its_own_time_comes_back_with_the_archived_times(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source = topic(message_timestamp_type="LogAppendTime", retention_ms="-1")
    write(kafka, source, 0, 5)
    archived(source)
    time.sleep(0.05)
    ended = gapless("restore", f"--topics={source}", f"--to-topic={source}-back", "--engine=local")
    assert ended.code == 0, ended.err
    assert content(kafka, f"{source}-back") == content(kafka, source)
    assert settings(kafka, f"{source}-back")["message.timestamp.type"] == "LogAppendTime"
    target = topic(message_timestamp_type="LogAppendTime", retention_ms="-1")
    refused = gapless("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    assert refused.code == ExitCode.BAD_CONFIGURATION
    assert "replaces timestamps by the time of writing" in refused.err
    accepted = gapless(
        "restore", f"--topics={source}", f"--to-topic={target}", "--engine=local", "--timestamps=replace"
    )
    assert accepted.code == 0, accepted.err
    assert numbers(kafka, target) == [0, 1, 2, 3, 4]


def test_fewer_partitions_are_refused_unless_a_rule_maps_them(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source, target = topic(4, retention_ms="-1"), topic(2, retention_ms="-1")
    for partition in range(4):
        write(kafka, source, 100 * partition, 100 * partition + 15, partition=partition)
    archived(source)
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local", "--batch-size=4")
    refused = gapless(*given)
    assert refused.code == ExitCode.BAD_CONFIGURATION
    assert f"{target} has 2 partitions, but the restore needs 4" in refused.err
    assert [content(kafka, target, partition) for partition in (0, 1)] == [[], []]
    ended = gapless(*given, "--remap-partitions=modulo")
    assert ended.code == 0, ended.err
    for partition in range(2):
        found = numbers(kafka, target, partition)
        for origin in (partition, partition + 2):
            expected = list(range(100 * origin, 100 * origin + 15))
            assert [number for number in found if number // 100 == origin] == expected
        assert len(found) == 30
    other = gapless(*given, "--remap-partitions=2:1,3:0")
    assert other.code == ExitCode.BAD_CONFIGURATION
    assert "use the same --remap-partitions" in other.err


def test_several_sources_share_a_target_and_keep_their_order(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source, target = topic(2, retention_ms="-1"), topic(2, retention_ms="-1")
    write(kafka, source, 0, 30, partition=1)
    archived(source, region="east")
    archived(source, region="west")
    sources = [f"--source={region}/{source}={target}" for region in ("east", "west")]
    ended = gapless("restore", *sources, "--engine=local", "--batch-size=7")
    assert ended.code == 0, ended.err
    found = numbers(kafka, target, 1)
    assert sorted(found) == sorted([*range(30), *range(30)])
    firsts = [number for position, number in enumerate(found) if number not in found[:position]]
    assert firsts == list(range(30))
    ambiguous = gapless("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    assert ambiguous.code == ExitCode.BAD_CONFIGURATION
    assert "choose one with --region" in ambiguous.err
    again = gapless("restore", *sources, "--engine=local")
    assert "Nothing to restore" in again.out


def test_parts_are_restored_in_order_or_not_at_all(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source, target = topic(2, retention_ms="-1"), topic(2, retention_ms="-1")
    start = int(time.time() * 1000) - 1000
    for partition in (0, 1):
        write(kafka, source, 0, 60, partition=partition, at=start)
    archived(source)
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local", "--batch-size=8")
    assert gapless(*given, "--offsets=10-19", "--partitions=1").code == 0
    assert gapless(*given, "--offsets=10-29", "--partitions=1").code == 0
    assert (numbers(kafka, target), numbers(kafka, target, 1)) == ([], list(range(10, 30)))
    refused = gapless(*given)
    assert refused.code == ExitCode.BAD_CONFIGURATION
    assert (
        f"Offsets 0-9 of partition 1 of site-a/{source} would be written out of order, after later ones" in refused.err
    )
    assert gapless(*given, "--offsets=20-").code == 0
    assert (numbers(kafka, target), numbers(kafka, target, 1)) == (list(range(20, 60)), list(range(10, 60)))
    moments = [time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((start + at) / 1000)) for at in (0, 50)]
    timed = gapless(*given, f"--since={moments[0]}.000Z", f"--until={moments[1]}.999Z")
    assert timed.code == ExitCode.BAD_CONFIGURATION
    assert "other values of --since and --until" in timed.err
    by_time = topic(2, retention_ms="-1")
    limits = (f"--since={_moment(start + 5)}", f"--until={_moment(start + 12)}")
    ended = gapless("restore", f"--topics={source}", f"--to-topic={by_time}", "--engine=local", *limits)
    assert ended.code == 0, ended.err
    assert [numbers(kafka, by_time, partition) for partition in (0, 1)] == [list(range(5, 12))] * 2
    onto_itself = gapless("restore", f"--topics={source}", "--engine=local")
    assert onto_itself.code == ExitCode.BAD_CONFIGURATION
    assert "is the topic from which the archive was written" in onto_itself.err


def _moment(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"


def test_positions_of_groups_continue_with_the_same_record(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None], tmp_path: Path
) -> None:
    source, target = topic(2, retention_ms="-1"), topic(2, retention_ms="-1")
    write_transactions(kafka, source, True, False, True)  # offsets 0-3, 4-7 aborted, 8-11
    write(kafka, source, 12, 40)
    write(kafka, source, 0, 9, partition=1)
    archived(source)
    file = tmp_path / "positions.csv"
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local", "--batch-size=5")
    for offset in (0, 2, 5, 12, 39, 40):
        group = f"group-{source}-{offset}"
        file.write_text(f"{source},0,{offset}\n{source},1,9\n", encoding="utf-8")
        ended = gapless(*given, f"--group-offsets={file}", f"--group-name={group}")
        assert ended.code == 0, ended.err
        assert ended.report["group_offsets"] == 2
        consumer = Consumer(kafka.client_options(**{"group.id": group}))
        (first, other) = consumer.committed([TopicPartition(target, 0), TopicPartition(target, 1)], timeout=20)
        consumer.close()
        expected = [row for at, row in rows(kafka, source) if at >= offset]
        assert [row for at, row in rows(kafka, target) if at >= first.offset] == expected
        assert [row for at, row in rows(kafka, target, 1) if at >= other.offset] == []
        assert other.offset > rows(kafka, target, 1)[-1][0]
    file.write_text(f"billing,{source},0,12\npayroll,{source},1,9\n", encoding="utf-8")
    foreign = gapless(*given, f"--group-offsets={file}", "--allowed-groups=b*,p")
    assert foreign.code == ExitCode.BAD_CONFIGURATION
    assert f"The file {file} of groupOffsets names the consumer group payroll, whose positions" in foreign.err
    file.write_text(f"g,{source},0,41\n", encoding="utf-8")
    outside = gapless(*given, f"--group-offsets={file}")
    assert outside.code == ExitCode.BAD_CONFIGURATION
    assert (
        f"Group g continues at offset 41 of {source}/0, which is outside of the restored offsets (0-39)" in outside.err
    )


def test_what_kafka_deleted_before_it_was_archived_is_told_and_stops_nothing(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source = topic(retention_ms="-1", cleanup_policy="delete")
    write(kafka, source, 0, 10)
    archived(source)
    write(kafka, source, 10, 30)
    kafka.delete_records(source, 0, 20)
    archived(source)
    ended = gapless("restore", f"--topics={source}", f"--to-topic={source}-back", "--engine=local")
    assert ended.code == 0, ended.err
    assert numbers(kafka, f"{source}-back") == [*range(10), *range(20, 30)]
    (partition,) = ended.report["topics"][0]["partitions"]
    assert (partition["explained"], partition["lost"]) == ([{"first": 10, "last": 19}], [])


def test_a_damaged_segment_is_named_and_skipped_only_by_request(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None], place: Path
) -> None:
    source, target = topic(2, retention_ms="-1"), topic(2, retention_ms="-1")
    for part in range(3):
        write(kafka, source, 10 * part, 10 * part + 10)
        write(kafka, source, 0, 1, partition=1)
        archived(source)
    objects = sorted(place.glob(f"site-a/{source}/*/level-0/*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    assert len(objects) == 3
    objects[1].write_bytes(b"PAR1 no more")
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    failed = gapless(*given)
    assert failed.code == ExitCode.INCOMPLETE
    assert objects[1].name in failed.err
    assert numbers(kafka, target) == list(range(10))
    skipped = gapless(*given, "--on-lost=skip")
    assert skipped.code == ExitCode.INCOMPLETE
    assert "11 offsets in 2 partitions were skipped" in skipped.err
    assert skipped.report["lost"] == 11
    assert numbers(kafka, target) == [*range(10), *range(20, 30)]
    assert "Nothing to restore" in gapless(*given).out


def test_a_compacted_topic_comes_back_with_its_deletions(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source = topic(
        cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01", delete_retention_ms="1"
    )
    keys = [str(number % 7).encode() for number in range(60)]
    kafka.produce(source, [None if number % 5 == 0 else b"v" for number in range(60)], keys=keys)
    archived(source)
    ended = gapless("restore", f"--topics={source}", f"--to-topic={source}-back", "--engine=local")
    assert ended.code == 0, ended.err
    found = {row.key: row.value for row in content(kafka, f"{source}-back")}
    assert found == {key: None if number % 5 == 0 else b"v" for number, key in enumerate(keys)}
    assert settings(kafka, f"{source}-back")["cleanup.policy"] == "compact"


def test_offsets_at_the_upper_end_come_back_and_translate(
    kafka: KafkaBroker, gapless: Gapless, place: Path, tmp_path: Path, topic: TopicFactory
) -> None:
    """No broker gets there in a test, so the archive is made without one."""
    first = 2**62 - 5
    held = [offset for offset in range(first, first + 40) if offset % 7]
    make_archive(open_place(parse_place(str(place)), S3Access()), "far", held, first, first + 40)
    target = topic(1, retention_ms="-1")
    file = tmp_path / "positions.csv"
    file.write_text(f"far,0,{first + 20}\n", encoding="utf-8")
    given = ("restore", "--topics=far", f"--to-topic={target}", "--engine=local", "--batch-size=6")
    ended = gapless(*given, f"--offsets={first}-{first + 29}", f"--group-offsets={file}", f"--group-name=g-{target}")
    assert ended.code == 0, ended.err
    assert numbers(kafka, target) == [offset for offset in held if offset < first + 30]
    consumer = Consumer(kafka.client_options(**{"group.id": f"g-{target}"}))
    (position,) = consumer.committed([TopicPartition(target, 0)], timeout=20)
    consumer.close()
    after = [int(row.value or b"") for at, row in rows(kafka, target) if at >= position.offset]
    assert after == [offset for offset in held if first + 20 <= offset < first + 30]
    assert gapless(*given).code == 0
    assert numbers(kafka, target) == held


def make_archive(place: Place, name: str, offsets: list[int], first: int, end: int) -> None:
    """Archive a topic with one partition whose records hold their offsets."""
    chain = Chain(place, "site-a", name, f"{name}-id")
    coverage = Coverage(
        topic=name,
        partition=0,
        first=first,
        end=end,
        prefix=chain.prefix,
        limits=Limits(9, 1 << 20),
        origin=Origin(log_start=first, high_watermark=end, epoch=1),
    )
    empty = {"timestamp": None, "timestamp_type": None, "key": None, "headers": []}
    records = [{"partition": 0, "offset": offset, "value": b"%d" % offset, **empty} for offset in offsets]
    with place.scratch() as scratch, LevelZeroWriter(place, scratch, [coverage]) as writer:
        writer.add(PartitionRows(name, 0, pa.RecordBatch.from_pylist(records, schema=SCHEMA)))
        segments = tuple(one.segment for one in writer.close())
    chain.commit(chain.load(), Changes(action="archive", epoch=1, partitions=1, configuration={}, added=segments))
