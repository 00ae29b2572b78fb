"""The proof that a restore looks at its target, and at all that it needs, before it claims or writes anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from integration.restore.conftest import REGION, Gapless, content
from kit.machine.processes import wait_until

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


def partitions_of(kafka: KafkaBroker, name: str) -> int:
    listed = kafka.admin().list_topics(timeout=10).topics
    return len(listed[name].partitions) if name in listed else 0


def test_an_empty_topic_is_created_as_the_archive_knows_it(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source = topic(3, retention_ms="123456789")
    archived(source)
    target = f"{source}-restored"
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    planned = gapless(*given, "--plan")
    assert (planned.code, partitions_of(kafka, target)) == (0, 0), planned.err
    ended = gapless(*given)
    assert (ended.code, ended.report["outcome"]) == (0, "restored"), ended.err
    reason = f"The archive has no records of {REGION}/{source} (topic ID "
    assert ended.report["message"].startswith(f"Created {target} (3 partitions). {reason}"), ended.report["message"]
    assert partitions_of(kafka, target) == 3
    resource = ConfigResource(ResourceType.TOPIC, target)
    settings = kafka.admin().describe_configs([resource])[resource].result()
    assert settings["retention.ms"].value == "123456789"
    again = gapless(*given)
    assert (again.code, again.report["outcome"]) == (0, "nothing-to-restore"), again.err
    assert again.report["message"].startswith(f"Nothing to restore. {reason}"), again.report["message"]
    assert "already has all" not in again.report["message"]


def test_limits_that_exclude_everything_are_not_called_restored(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source, target = topic(2), topic(2)
    kafka.produce(source, [b"1", b"2"])
    archived(source)
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    ended = gapless(*given, "--partitions=1")
    assert (ended.code, ended.report["outcome"]) == (0, "nothing-to-restore"), ended.err
    assert "in the given partitions, offsets and times" in ended.report["message"]
    assert "already has all" not in ended.report["message"]
    assert gapless(*given).code == 0
    again = gapless(*given)
    assert again.report["message"] == "Nothing to restore. The target already has all records."


def test_positions_of_empty_partitions_are_committed(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None], tmp_path: Path
) -> None:
    source, target = topic(3), topic(3)
    kafka.produce(source, [b"1", b"2"])
    archived(source)
    file = tmp_path / "positions.csv"
    file.write_text(f"{source},0,1\n{source},1,0\n{source},2,0\n", encoding="utf-8")
    group = f"group-{source}"
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local", f"--group-offsets={file}")
    ended = gapless(*given, f"--group-name={group}")
    assert (ended.code, ended.report["group_offsets"]) == (0, 3), ended.err
    consumer = Consumer(kafka.client_options(**{"group.id": group}))
    found = consumer.committed([TopicPartition(target, number) for number in range(3)], timeout=20)
    consumer.close()
    assert [each.offset for each in found] == [1, 0, 0]


@pytest.mark.parametrize("line", ["0,3", "1,1", "3,0"])
def test_a_position_that_cannot_be_committed_is_refused_before_the_first_record(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    gapless: Gapless,
    archived: Callable[..., None],
    tmp_path: Path,
    line: str,
) -> None:
    source = topic(2)
    kafka.produce(source, [b"1", b"2"])
    archived(source)
    target, file = f"{source}-restored", tmp_path / "positions.csv"
    file.write_text(f"g,{source},{line}\n", encoding="utf-8")
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local", f"--group-offsets={file}")
    ended = gapless(*given)
    assert ended.code == 2, ended.err
    assert "which is outside of the restored offsets" in ended.err
    assert partitions_of(kafka, target) == 0


def test_a_group_with_members_is_refused_before_the_first_record(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None], tmp_path: Path
) -> None:
    source, other = topic(1), topic(1)
    kafka.produce(source, [b"1"])
    archived(source)
    group, target, file = f"group-{source}", f"{source}-restored", tmp_path / "positions.csv"
    file.write_text(f"{group},{source},0,1\n", encoding="utf-8")
    member = Consumer(kafka.client_options(**{"group.id": group}))
    member.subscribe([other])
    try:
        wait_until(lambda: bool(member.poll(0.1) or member.assignment()), what="a member")
        given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local", f"--group-offsets={file}")
        ended = gapless(*given)
    finally:
        member.close()
    assert ended.code == 2, ended.err
    assert f"The consumer group {group} has members at the target" in ended.err
    assert partitions_of(kafka, target) == 0
    assert gapless(*given).code == 0


def test_records_that_were_deleted_from_the_target_are_not_called_there(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source, target = topic(1), topic(1)
    kafka.produce(source, [b"%d" % number for number in range(10)])
    archived(source)
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    assert gapless(*given).code == 0
    kafka.delete_records(target, 0, 4)
    ended = gapless(*given)
    assert (ended.code, ended.report["outcome"]) == (4, "deleted-from-target"), ended.err
    assert "4 of the 10 records that were restored from partition 0" in ended.report["message"]
    kafka.produce(source, [b"more"])
    archived(source)
    more = gapless(*given)
    assert (more.code, more.report["outcome"]) == (0, "restored"), more.err
    assert "4 of the 10 records that were restored" in more.report["message"]
    assert len(content(kafka, target)) == 7


def test_a_position_that_is_older_than_the_restored_records_is_refused(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    """The control topic lost its last records, or a program has written an older one: both leave an older position."""
    source, target, control = topic(1), topic(1), topic(2, cleanup_policy="compact")
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local", f"--control-topic={control}")
    positions = []
    for values in ([b"1", b"2"], [b"3"]):
        kafka.produce(source, values)
        archived(source)
        assert gapless(*given).code == 0
        written = [row for row in content(kafka, control) if b'"position"' in (row.key or b"")]
        positions.append(written[-1])
    assert positions[0].key == positions[1].key
    kafka.produce(control, [positions[0].value], keys=[positions[0].key])
    for more in ((), ("--plan",)):
        refused = gapless(*given, *more)
        assert refused.code == 2, refused.err
        assert f"The position of partition 0 of {REGION}/{source} is older than the records in {target}" in refused.err
    assert [row.value for row in content(kafka, target)] == [b"1", b"2", b"3"]
    kafka.produce(control, [positions[1].value], keys=[positions[1].key])
    assert gapless(*given).report["message"] == "Nothing to restore. The target already has all records."
