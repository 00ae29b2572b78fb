"""A gaps topic that was recreated, or truncated, between two scans closes no gap of the first one."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyroaring import BitMap

from gapless_api.wire.bundle_origin import ORIGIN_MEMBER
from kit.kafka.broker import KafkaBroker
from kit.kafka.truncation import truncate

if TYPE_CHECKING:
    from integration.spark.conftest import Ended, Gapless

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaBroker]:
    """A broker of its own, because it is restarted."""
    with KafkaBroker() as broker:
        yield broker


def report_window(kafka: KafkaBroker, topic: str, first: int, missing: Iterable[int] = ()) -> None:
    value = struct.pack(">Bqq", 1, first, first + 999) + BitMap(missing).serialize()
    kafka.produce(topic, [value], keys=[f"transfer:0:{first}".encode()])


def scan(gapless: Gapless, kafka: KafkaBroker, topic: str, *more: str) -> Ended:
    return gapless("scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={topic}", *more)


def verify(gapless: Gapless, kafka: KafkaBroker, topic: str, old: Path, against: str | Path = "scan") -> Ended:
    more = (f"--bootstrap-servers={kafka.bootstrap}", f"--topics={topic}") if against == "scan" else ()
    return gapless("verify", str(old), f"--against={against}", *more)


def kept(ended: Ended, path: Path) -> Path:
    path.write_text(json.dumps(ended.bundle))
    return path


def counts(ended: Ended) -> dict[str, int]:
    assert ended.report is not None
    found = ended.report["reconciliation"]
    return {name: found[name] for name in ("closed", "open", "unknown") if found[name]}


def test_a_gaps_topic_that_was_recreated_closes_nothing(kafka: KafkaBroker, gapless: Gapless, tmp_path: Path) -> None:
    topic = kafka.create_topic("recreated-gaps", cleanup_policy="compact")
    report_window(kafka, topic, 0, range(100))
    old = kept(scan(gapless, kafka, topic), tmp_path / "old.json")
    report_window(kafka, topic, 0, range(50))
    same = kept(scan(gapless, kafka, topic), tmp_path / "same.json")
    assert counts(verify(gapless, kafka, topic, old, same)) == {"closed": 50, "open": 50}
    kafka.delete_topic(topic)
    kafka.create_topic(topic, cleanup_policy="compact")
    report_window(kafka, topic, 0)
    report_window(kafka, topic, 1000)
    compared = scan(gapless, kafka, topic, f"--compare-with={old}")
    new = kept(compared, tmp_path / "new.json")
    verified = verify(gapless, kafka, topic, old), verify(gapless, kafka, topic, old, new)
    assert counts(compared) == {"unknown": 100}
    for ended in verified:
        assert (ended.code, counts(ended)) == (4, {"unknown": 100})
        assert f"The gaps topic {topic} was deleted and recreated (topic ID " in " ".join(ended.err.split())


def test_a_gaps_topic_that_was_truncated_closes_nothing_also_when_it_has_grown_again(
    kafka: KafkaBroker, gapless: Gapless, tmp_path: Path
) -> None:
    topic = kafka.create_topic("truncated-gaps", cleanup_policy="compact")
    report_window(kafka, topic, 0)
    report_window(kafka, topic, 0, range(100))
    old = kept(scan(gapless, kafka, topic), tmp_path / "old.json")
    kafka.restart()
    kafka.await_leaders(topic, 1)
    assert counts(verify(gapless, kafka, topic, old)) == {"open": 100}, "a new leader alone is no loss"
    truncate(kafka, topic, end=1)
    shorter = scan(gapless, kafka, topic, f"--compare-with={old}")
    assert counts(shorter) == {"unknown": 100}
    new = kept(shorter, tmp_path / "new.json")
    verified = verify(gapless, kafka, topic, old, new), verify(gapless, kafka, topic, old)
    for first in (1000, 2000):
        report_window(kafka, topic, first)
    verified = (*verified, verify(gapless, kafka, topic, old))
    for ended in verified:
        assert (ended.code, counts(ended)) == (4, {"unknown": 100})
        assert f"The gaps topic {topic} was truncated: partition 0 had 2 offsets at the earlier scan, of which 1 " in (
            " ".join(ended.err.split())
        )
    assert counts(scan(gapless, kafka, topic, f"--compare-with={old}")) == {"unknown": 100}


def test_a_bundle_of_an_earlier_release_is_compared_and_said_to_be_without_a_topic_id(
    kafka: KafkaBroker, gapless: Gapless, tmp_path: Path
) -> None:
    topic = kafka.create_topic("older-gaps", cleanup_policy="compact")
    report_window(kafka, topic, 0, range(100))
    old = kept(scan(gapless, kafka, topic), tmp_path / "old.json")
    content = json.loads(old.read_text())
    del content["gapless"]["source"][ORIGIN_MEMBER]
    old.write_text(json.dumps(content))
    report_window(kafka, topic, 0)
    ended = verify(gapless, kafka, topic, old)
    assert (ended.code, counts(ended)) == (0, {"closed": 100}), ended.err
    assert "because the older bundle is without its topic ID" in " ".join(ended.out.split())
