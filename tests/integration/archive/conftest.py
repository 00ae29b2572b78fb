"""Running ``gapless archive`` in this process, and reading an archive without the product."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless_api.cli import main
from gapless_spark.archiving.archive.engines import CycleEngine
from gapless_spark.runtime.session import Engine, session

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker

REGION = "site-a"


@dataclass(frozen=True)
class Ended:
    """The result of a command."""

    code: int
    out: str
    err: str
    report: dict[str, Any]

    def topic(self, name: str) -> dict[str, Any]:
        """Return a topic's entry in the report."""
        (entry,) = (topic for topic in self.report["topics"] if topic["topic"] == name)
        return dict(entry)


class Archive(Protocol):
    """Runs ``gapless archive --once`` with the archive of the test and a report."""

    def __call__(self, *arguments: str) -> Ended: ...


@pytest.fixture(scope="session")
def spark() -> Iterator[None]:
    """One Spark session for all commands of this process."""
    with session(Engine("tests")):
        yield


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The archive of the test."""
    return tmp_path / "archive"


@pytest.fixture
def archive(
    kafka: KafkaBroker,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Archive:
    def run(*arguments: str) -> Ended:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        options = [f"--bootstrap-servers={kafka.bootstrap}", f"--archive={place}", f"--region={REGION}", "--once"]
        monkeypatch.setattr(sys, "argv", ["gapless", "archive", *options, f"--report={report}", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, out, err, json.loads(report.read_text()) if report.exists() else {})

    return run


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let something happen once, before or after a cycle's records are read and written."""
    write = CycleEngine.write

    def happens(*, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None) -> None:
        left = {"before": before, "after": after}

        def faulty(*arguments: Any) -> Any:
            if (action := left.pop("before", None)) is not None:
                action()
            written = write(*arguments)
            if (action := left.pop("after", None)) is not None:
                action()
            return written

        monkeypatch.setattr(CycleEngine, "write", faulty)

    return happens


def commits(place: Path, topic: str) -> list[dict[str, Any]]:
    """Return all commits of a topic with one topic ID, from the files in the folder."""
    files = sorted(file for file in place.glob(f"{REGION}/{topic}/*/chain/*.json") if ".snapshot" not in file.name)
    found = [json.loads(file.read_text()) for file in files]
    assert [commit["sequence"] for commit in found] == list(range(1, len(found) + 1))
    return found


def segments(place: Path, topic: str, partition: int) -> list[dict[str, Any]]:
    """Return all segments of a partition in offset order."""
    added = [segment for commit in commits(place, topic) for segment in commit["added"]]
    return sorted((entry for entry in added if entry["partition"] == partition), key=lambda entry: entry["first"])


def archived(place: Path, topic: str, partition: int = 0) -> list[dict[str, Any]]:
    """Return all records of a partition, after checking that its segments have no holes between them."""
    rows: list[dict[str, Any]] = []
    before = None
    for segment in segments(place, topic, partition):
        assert before is None or segment["first"] == before
        before = segment["end"]
        inside: list[dict[str, Any]] = []
        if segment["object"]:
            file = pq.ParquetFile(place / segment["object"], page_checksum_verification=True)
            for group in segment["rowGroups"]:
                part: pa.Table = file.read_row_group(group["number"]).slice(group["firstRow"], group["rows"])
                inside += part.to_pylist()
        assert len(inside) == segment["records"]
        assert all(segment["first"] <= row["offset"] < segment["end"] for row in inside)
        rows += inside
    assert all(row.pop("partition") == partition for row in rows)
    return rows


def in_kafka(kafka: KafkaBroker, topic: str, partition: int = 0) -> list[dict[str, Any]]:
    """Return all committed records of a partition, read by a plain consumer."""
    rows = []
    for message in kafka.read(topic):
        if message.partition() == partition:
            kind, time = message.timestamp()
            rows.append(
                {
                    "offset": message.offset(),
                    "timestamp": time if kind and time >= 0 else None,
                    "timestamp_type": kind - 1 if kind and time >= 0 else None,
                    "key": message.key(),
                    "value": message.value(),
                    "headers": [{"key": str(key).encode(), "value": value} for key, value in message.headers() or []],
                }
            )
    return sorted(rows, key=lambda row: row["offset"])


def fill_compressed(kafka: KafkaBroker, topic: str, partition: int, batches: int) -> None:
    """Write batches of five records."""
    for number in range(batches):
        records = [{"value": f"{number}.{record}".encode() * 50, "partition": partition} for record in range(5)]
        kafka.write(topic, records, compression_type="gzip", linger_ms=200)
