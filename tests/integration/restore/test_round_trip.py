"""The proof that a topic is the same after archive, compaction and restore, as ``gapless verify-copy`` finds."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from gapless_api.cli import main
from gapless_api.wire.copy_report import COPY_REPORT, CopyReport
from gapless_archive.catalog.entry import absent_ranges
from gapless_archive.reading import open_archive
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place
from integration.restore.conftest import REGION, Gapless
from integration.restore.test_restore import varied
from kit.kafka.broker import KafkaBroker
from kit.kafka.far_offsets import move_offsets
from kit.machine.processes import wait_until

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

FAR = 2**62 - 20
MANY = 80
"""Partitions of the largest topic."""
LATEST = {"cleanup.policy": "compact,delete"}
JOIN_ALL = ("--min-segment-age=0", "--min-segment-count=2", "--min-segment-size=0", "--grace-period=0")


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaBroker]:
    """A broker that may be restarted."""
    with KafkaBroker() as broker:
        yield broker


class Typed(Protocol):
    """Runs ``gapless`` with just these arguments, and returns the exit code and what was printed."""

    def __call__(self, *arguments: str) -> tuple[object, str]: ...


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Typed:
    def run(*arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["gapless", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        printed = capfd.readouterr()
        return ended.value.code, printed.out + printed.err

    return run


@pytest.fixture
def compared(tmp_path: Path, typed: Typed) -> Callable[[str, str], CopyReport]:
    """Compare two copies."""

    def run(a: str, b: str) -> CopyReport:
        file = tmp_path / "evidence.json"
        file.unlink(missing_ok=True)
        _, printed = typed("verify-copy", a, b, f"--report={file}")
        assert file.exists(), printed
        return COPY_REPORT.from_json(json.loads(file.read_text()))

    return run


def in_many(kafka: KafkaBroker, topic: str) -> None:
    """Write some records to each of `MANY` partitions but one."""
    kafka.write(
        topic,
        (
            {
                "value": b"%d" % number,
                "key": b"k",
                "partition": number % MANY,
                "timestamp": 1_760_000_000_000 + number,
            }
            for number in range(3 * MANY)
            if number % MANY != 77
        ),
    )


def test_a_topic_is_the_same_after_archive_compaction_and_restore(  # noqa: PLR0917
    kafka: KafkaBroker,
    gapless: Gapless,
    archived: Callable[..., None],
    compared: Callable[[str, str], CopyReport],
    typed: Typed,
    place: Path,
) -> None:
    # Kafka must not compact one copy before they are compared.
    latest = {**LATEST, "min.compaction.lag.ms": str(2**60)}
    topics = {"varied": {}, "appended": {"message.timestamp.type": "LogAppendTime"}, "latest": latest, "far": {}}
    for name, configuration in topics.items():
        kafka.create_topic(name, 3, **{"max.message.bytes": "2000000"}, **configuration)
        varied(kafka, name, compacted=configuration is latest)
    kafka.create_topic("many", MANY)
    in_many(kafka, "many")
    made = (*topics, "many")
    move_offsets(kafka, "far", by=FAR)
    assert kafka.watermarks("far")[0][0] == FAR
    archived(*made)
    for name, configuration in topics.items():
        varied(kafka, name, compacted=configuration is latest)
    in_many(kafka, "many")
    archived(*made)
    code, printed = typed("compact", f"--archive={place}", *JOIN_ALL, "--engine=local")
    assert code == 0, printed
    assert len(list(place.glob(f"{REGION}/*/*/*/1/*.parquet"))) > MANY

    at = f"kafka://{kafka.bootstrap}"
    for name in made:
        with_source = compared(f"{at}/{name}", f"{place}#{name}")
        assert (with_source.outcome, with_source.alignment) == ("identical", "offsets"), (name, with_source.message)
        assert gapless("restore", f"--topics={name}", f"--to-topic={name}-restored").code == 0
        originals = [f"{at}/{name}", *([f"{place}#{REGION}/{name}"] if name == "far" else [])]
        for original in originals:
            found = compared(original, f"{at}/{name}-restored")
            assert (found.outcome, found.alignment) == ("identical", "order"), (name, found.message)
            assert found.totals.equal == with_source.totals.equal > 0
            for one in found.partitions:
                assert one.a is not None
                assert one.b is not None
                assert one.a.digest == one.b.digest


def latest(kafka: KafkaBroker, topic: str) -> dict[bytes | None, tuple[bytes | None, int]]:
    """The last value of each key, with its timestamp."""
    return {one.key(): (one.value(), one.timestamp()[1]) for one in kafka.read(topic)}  # type: ignore[misc]


def test_a_topic_that_kafka_has_compacted_comes_back_with_its_tombstones_and_without_its_holes(  # noqa: PLR0917
    kafka: KafkaBroker,
    gapless: Gapless,
    archived: Callable[..., None],
    compared: Callable[[str, str], CopyReport],
    typed: Typed,
    place: Path,
) -> None:
    kafka.create_topic(
        "compacted", cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100",
    )  # fmt: skip
    kafka.create_topic("compacted-restored", cleanup_policy="delete")
    for part in range(2):
        for number in range(5):
            values = [None if key % 7 == number else b"%d %d %d" % (part, number, key) for key in range(40)]
            kafka.produce("compacted", values, keys=[b"key-%d" % (key + part) for key in range(40)])
            time.sleep(0.12)
        end = kafka.watermarks("compacted")[0][1]
        kafka.produce("compacted", [b"the active segment is never compacted"], keys=[b"last"])
        wait_until(lambda end=end: len(kafka.read("compacted")) < end - 60, what="the cleaner")
        archived("compacted")
    source = latest(kafka, "compacted")
    assert sum(value is None for value, _ in source.values()) > 5, "there are no tombstones"

    code, printed = typed("compact", f"--archive={place}", *JOIN_ALL, "--topics=compacted", "--engine=local")
    assert code == 0, printed
    (segment,) = open_archive(open_place(parse_place(str(place)), S3Access()), "compacted").state.all_segments()
    assert (segment.level, segment.end) == (1, kafka.watermarks("compacted")[0][1])
    assert absent_ranges(segment.absent).count == segment.end - segment.records > 60
    assert typed("segments", "verify", f"--archive={place}", "--topics=compacted")[0] == 0

    assert gapless("restore", "--topics=compacted", "--to-topic=compacted-restored").code == 0
    at = f"kafka://{kafka.bootstrap}"
    found = compared(f"{place}#compacted", f"{at}/compacted-restored")
    assert (found.outcome, found.alignment, found.totals.equal) == ("identical", "order", segment.records)
    assert latest(kafka, "compacted-restored") == source
    found = compared(f"{at}/compacted", f"{place}#compacted")
    assert (found.alignment, found.totals.different, found.totals.only_in_a) == ("offsets", 0, 0)
