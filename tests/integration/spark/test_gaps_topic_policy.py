"""What no record of a gaps topic tells of does not count as closed, on a broker whose topics lose records."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AclOperation, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyroaring import BitMap

from kit.kafka.cluster import USERS

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


def report_window(kafka: KafkaBroker, topic: str, first: int, missing: Iterable[int] = ()) -> None:
    """Write what a detector writes about one window of 1000 offsets; `missing` are positions in it."""
    value = struct.pack(">Bqq", 1, first, first + 999) + BitMap(missing).serialize()
    kafka.produce(topic, [value], keys=[f"transfer:0:{first}".encode()])


def scan(gapless: Gapless, kafka: KafkaBroker, topic: str, *more: str) -> Ended:
    return gapless("scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={topic}", *more)


def verify(gapless: Gapless, kafka: KafkaBroker, topic: str, old: Path, against: str = "scan") -> Ended:
    return gapless(
        "verify", str(old), f"--against={against}", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={topic}"
    )


def counts(ended: Ended) -> dict[str, int]:
    assert ended.report is not None
    found = ended.report["reconciliation"]
    return {name: found[name] for name in ("closed", "open", "unknown") if found[name]}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return tmp_path / "old.json"


def kept(ended: Ended, old: Path) -> None:
    """Keep the bundle of a scan as the older one."""
    old.write_text(json.dumps(ended.bundle))


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_gap_whose_record_expired_has_not_closed(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, old: Path, policy: str
) -> None:
    name = topic(cleanup_policy=policy)
    report_window(kafka, name, 0, range(100))
    first = scan(gapless, kafka, name)
    kept(first, old)
    assert first.report is not None
    assert first.report["cleanup_policy"] == policy
    said = f"The cleanup.policy of topic {name} is {policy} and not compact: records of gaps may have expired"
    assert said in first.out
    report_window(kafka, name, 1000, [3])
    report_window(kafka, name, 2000)
    kafka.delete_records(name, 0, 1)  # as retention does
    compared = scan(gapless, kafka, name, f"--compare-with={old}")
    assert counts(compared) == {"unknown": 100}
    assert compared.report is not None
    assert compared.report["partitions"][0]["without_record"] == 1000
    assert "not checked: 100" in compared.out
    newer = old.with_name("newer.json")
    kept(compared, newer)
    ended = verify(gapless, kafka, name, old)
    assert (ended.code, counts(ended)) == (4, {"unknown": 100})
    assert said in ended.err
    assert "run gapless audit to find out what has arrived" in ended.err
    ended = verify(gapless, kafka, name, old, str(newer))
    assert (ended.code, counts(ended)) == (4, {"unknown": 100})
    assert "may have lost records" in ended.err


def test_a_topic_that_loses_records_does_not_say_that_nothing_is_missing(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic(cleanup_policy="delete")
    report_window(kafka, name, 1000)
    ended = scan(gapless, kafka, name)
    assert ended.code == 0
    assert "Nothing is missing" not in ended.out
    assert "No record reports that anything is missing: 1 window of 1 partition" in ended.out


def test_in_a_compacted_topic_a_record_closes_and_a_tombstone_does_not(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, old: Path
) -> None:
    name = topic(cleanup_policy="compact")
    report_window(kafka, name, 0, range(100))
    report_window(kafka, name, 1000, [5])
    first = scan(gapless, kafka, name)
    kept(first, old)
    assert first.report is not None
    assert first.report["cleanup_policy"] == "compact"
    assert "cleanup.policy" not in first.out
    report_window(kafka, name, 0)
    assert counts(verify(gapless, kafka, name, old)) == {"closed": 100, "open": 1}
    report_window(kafka, name, 1000)
    second = scan(gapless, kafka, name)
    assert "Nothing is missing: 2 windows" in second.out
    newer = old.with_name("newer.json")
    kept(second, newer)
    for against in ("scan", str(newer)):
        assert verify(gapless, kafka, name, old, against).code == 0
    kafka.produce(name, [None], keys=[b"transfer:0:0"])
    ended = verify(gapless, kafka, name, old)
    assert (ended.code, counts(ended)) == (4, {"closed": 1, "unknown": 100})
    assert f"Topic {name} has no record of them" in ended.err


def test_a_bundle_of_a_topic_that_has_once_lost_records_closes_nothing_by_silence(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, old: Path
) -> None:
    name = topic(cleanup_policy="delete")
    report_window(kafka, name, 0, range(100))
    kept(scan(gapless, kafka, name), old)
    report_window(kafka, name, 1000)
    kafka.delete_records(name, 0, 1)
    compact = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[compact])
    kafka.admin().incremental_alter_configs([resource])[resource].result()
    newer = old.with_name("newer.json")
    kept(scan(gapless, kafka, name), newer)
    for against in ("scan", str(newer)):
        ended = verify(gapless, kafka, name, old, against)
        assert (ended.code, counts(ended)) == (4, {"unknown": 100})


def test_a_policy_that_may_not_be_read_is_unknown_and_closes_nothing_by_silence(
    secure_kafka: KafkaBroker, gapless: Gapless, tmp_path: Path
) -> None:
    name = secure_kafka.create_topic("hidden-policy", **{"cleanup.policy": "compact"})
    report_window(secure_kafka, name, 0)
    secure_kafka.deny(name, "bob", AclOperation.DESCRIBE_CONFIGS)
    secure_kafka.allow(name, "bob", AclOperation.READ)
    (tmp_path / "password").write_text(USERS["bob"])
    ended = gapless(
        "scan",
        f"--bootstrap-servers={secure_kafka.address('SASL_PLAINTEXT')}",
        f"--topic={name}",
        "--sasl-mechanism=SCRAM-SHA-512",
        "--sasl-username=bob",
        f"--sasl-password-file={tmp_path / 'password'}",
    )
    assert ended.code == 0
    assert ended.report is not None
    assert ended.report["cleanup_policy"] == "unknown"
    assert f"The cleanup.policy of topic {name} could not be read" in ended.out
    assert "allow DescribeConfigs" in ended.out
