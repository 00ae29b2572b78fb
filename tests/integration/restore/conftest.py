"""Running ``gapless archive`` and ``gapless restore`` in this process, and reading the restored records."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest

from gapless_api.cli import main
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


class Gapless(Protocol):
    """Runs a command of ``gapless`` with the archive of the test and a report."""

    def __call__(self, *arguments: str) -> Ended: ...


class Row(NamedTuple):
    """A record without its offset."""

    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


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
def gapless(
    kafka: KafkaBroker,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Gapless:
    def run(*arguments: str) -> Ended:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        options = [f"--bootstrap-servers={kafka.bootstrap}", f"--archive={place}", f"--report={report}"]
        monkeypatch.setattr(sys, "argv", ["gapless", arguments[0], *options, *arguments[1:]])
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, out, err, json.loads(report.read_text()) if report.exists() else {})

    return run


@pytest.fixture
def archived(gapless: Gapless) -> Any:
    """Archives topics up to their current ends."""

    def archive(*topics: str, region: str = REGION, engine: str = "local") -> None:
        ended = gapless("archive", f"--topics={','.join(topics)}", f"--region={region}", "--once", f"--engine={engine}")
        assert ended.code in {0, 4}, ended.err

    return archive


def rows(kafka: KafkaBroker, topic: str, partition: int = 0) -> list[tuple[int, Row]]:
    """Return all committed records of a partition with their offsets, read by a plain consumer."""
    records = []
    for message in kafka.read(topic):
        if message.partition() == partition:
            kind, time = message.timestamp()
            headers: Any = message.headers() or ()
            parts: Any = (message.key(), message.value())
            records.append((message.offset() or 0, Row(time if kind and time >= 0 else None, *parts, tuple(headers))))
    return records


def content(kafka: KafkaBroker, topic: str, partition: int = 0) -> list[Row]:
    """Return all committed records of a partition in offset order, without the offsets."""
    return [row for _, row in rows(kafka, topic, partition)]
