"""Owns how these tests run ``gapless archive`` and ``gapless restore`` in this process, and read what was written."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest

from gapless_api.cli import main
from gapless_spark.runtime.session import Engine, session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.kafka.broker import KafkaBroker

REGION = "site-a"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str
    report: dict[str, Any]


class Gapless(Protocol):
    """Runs a command of ``gapless`` with the archive of the test and a report."""

    def __call__(self, *arguments: str) -> Ended: ...


class Row(NamedTuple):
    """A record without the offset that it has."""

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
        given = [f"--bootstrap-servers={kafka.bootstrap}", f"--archive={place}", f"--report={report}"]
        monkeypatch.setattr(sys, "argv", ["gapless", arguments[0], *given, *arguments[1:]])
        with pytest.raises(SystemExit) as ended:
            main.main()
        told = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, told.out, told.err, json.loads(report.read_text()) if report.exists() else {})

    return run


@pytest.fixture
def archived(gapless: Gapless) -> Any:
    """Archive topics as they are now."""

    def archive(*topics: str, region: str = REGION, engine: str = "local") -> None:
        ended = gapless("archive", f"--topics={','.join(topics)}", f"--region={region}", "--once", f"--engine={engine}")
        assert ended.code in {0, 4}, ended.err

    return archive


def rows(kafka: KafkaBroker, topic: str, partition: int = 0) -> list[tuple[int, Row]]:
    """All committed records of a partition with their offsets, as a plain consumer reads them."""
    found = []
    for message in kafka.read(topic):
        if message.partition() == partition:
            kind, time = message.timestamp()
            headers: Any = message.headers() or ()
            parts: Any = (message.key(), message.value())
            found.append((message.offset() or 0, Row(time if kind and time >= 0 else None, *parts, tuple(headers))))
    return found


def content(kafka: KafkaBroker, topic: str, partition: int = 0) -> list[Row]:
    """All committed records of a partition in their order, without their offsets."""
    return [row for _, row in rows(kafka, topic, partition)]
