"""The proof that `gapless verify` and `compareWith` tell what has closed, against a real broker and Spark."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from pyroaring import BitMap

from gapless_api.bundle.reader import read_bundle
from gapless_api.cli import main
from gapless_api.wire.form import members_of
from gapless_api.wire.totals import Totals
from kit.object_store import ObjectStore

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

BUCKET = "older-bundles"
LOST = {*range(100, 120), *range(500, 505), 999}


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str
    report: dict[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        """What became of the older bundle, without what did not happen."""
        found = self.report["reconciliation"]
        names = ("closed", "filled", "unavailable", "open", "unknown", "new")
        return {name: found[name] for name in names if found[name]}


class Run(Protocol):
    def __call__(self, command: str, *arguments: str | Path) -> Ended: ...


@pytest.fixture
def run(
    spark: None,  # noqa: ARG001 -- the commands find it
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Run:
    """Runs ``gapless`` with a report."""

    def run(command: str, *arguments: str | Path) -> Ended:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        monkeypatch.setattr(sys, "argv", ["gapless", command, *map(str, arguments), f"--report={report}"])
        with pytest.raises(SystemExit) as ended:
            main.main()
        said = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, said.out, said.err, json.loads(report.read_text()))

    return run


def receive(kafka: KafkaBroker, topic: str, offsets: Iterable[int]) -> None:
    keys: list[bytes | None] = [f"transfer_0_{offset}".encode() for offset in offsets]
    kafka.produce(topic, [b"event"] * len(keys), keys=keys)


def report_gaps(kafka: KafkaBroker, topic: str, missing: Iterable[int]) -> None:
    """Write what a gap detector writes about one window."""
    value = struct.pack(">Bqq", 1, 0, 1999) + BitMap(missing).serialize()
    kafka.produce(topic, [value], keys=[b"transfer:0:0"])


@pytest.fixture
def received(kafka: KafkaBroker, topic: TopicFactory) -> str:
    name = topic()
    receive(kafka, name, [offset for offset in range(2000) if offset not in LOST])
    return name


def test_an_audit_proves_what_has_closed_and_names_what_has_not(
    kafka: KafkaBroker, received: str, run: Run, tmp_path: Path
) -> None:
    settings = (f"--bootstrap-servers={kafka.bootstrap}", f"--topics={received}")
    old = tmp_path / "old.json"
    assert run("audit", *settings, f"--resend-file-name={old}").code == 0
    assert run("verify", old, *settings).counts == {"open": 26}
    receive(kafka, received, range(100, 120))
    half = run("verify", old, "--against=audit", *settings)
    assert (half.code, half.counts) == (4, {"closed": 20, "open": 6})
    assert "Of 26 offsets of the older bundle still open: 6 (20 arrived)." in half.err
    assert half.report["found"]["missing"] == 6
    # What an audit was not told to look at is not proved to be missing by it; what it saw there has closed.
    narrow = run("verify", old, *settings, "--expect=transfer:0:0-99,transfer:0:600-1999")
    assert (narrow.code, narrow.counts) == (4, {"closed": 20, "open": 1, "unknown": 5})
    receive(kafka, received, range(500, 505))
    resent = tmp_path / "resent.json"
    ranges = {"filled": [[500, 504]], "NonExistent": [[999, 999]]}
    place = {"topic": "transfer", "partition": 0, "upstreamTopic": "transfer", "upstreamPartition": 0}
    partition = {**place, **dict.fromkeys(members_of(Totals), 6), "ranges": ranges}
    resent.write_text(json.dumps({"gaplessReport": 1, "started": "2026-11-20T10:00:00Z", "partitions": [partition]}))
    whole = run("verify", old, *settings, f"--resend-report={resent}")
    assert (whole.code, whole.counts) == (0, {"closed": 20, "filled": 5, "unavailable": 1})
    assert "1 permanently unavailable upstream" in whole.out


def test_a_scan_says_what_the_detector_believes(
    kafka: KafkaBroker, topic: TopicFactory, run: Run, tmp_path: Path
) -> None:
    name, old = topic(), tmp_path / "old.json"
    settings = (f"--bootstrap-servers={kafka.bootstrap}", f"--topic={name}")
    report_gaps(kafka, name, LOST)
    assert run("scan", *settings, f"--resend-file-name={old}", "--limit=first").code == 0
    report_gaps(kafka, name, [110, 999])
    ended = run("verify", old, "--against=scan", *settings)
    # The older bundle tells the first range only; the scan tells all.
    assert (ended.code, ended.counts) == (4, {"closed": 19, "open": 1, "new": 1})
    report_gaps(kafka, name, [])
    assert run("verify", old, "--against=scan", *settings).code == 0


def test_an_empty_topic_proves_nothing(
    kafka: KafkaBroker, topic: TopicFactory, received: str, run: Run, tmp_path: Path
) -> None:
    old = tmp_path / "old.json"
    run("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={received}", f"--resend-file-name={old}")
    for way in ("audit", "scan"):
        ended = run("verify", old, f"--against={way}", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={topic()}")
        assert (ended.code, ended.counts) == (4, {"unknown": 26})


def test_kafka_that_cannot_be_reached_ends_with_3_and_the_report_says_so(
    kafka: KafkaBroker, received: str, run: Run, tmp_path: Path
) -> None:
    old = tmp_path / "old.json"
    run("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={received}", f"--resend-file-name={old}")
    ended = run("verify", old, "--bootstrap-servers=127.0.0.1:1", "--topics=t", "--connect-timeout=1")
    assert (ended.code, ended.report["outcome"]) == (3, "unreachable")


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.make_bucket(BUCKET)
        yield running


def test_each_scheduled_scan_compares_with_the_bundle_that_it_replaces(
    kafka: KafkaBroker, topic: TopicFactory, store: ObjectStore, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "access").write_text(store.ACCESS_KEY)
    (tmp_path / "secret").write_text(store.SECRET_KEY)
    s3 = (
        f"--s3-endpoint={store.endpoint}",
        f"--s3-access-key-id-file={tmp_path / 'access'}",
        f"--s3-secret-access-key-file={tmp_path / 'secret'}",
    )
    name = topic()
    for place in (f"s3://{BUCKET}/last.json", str(tmp_path / "last.json")):
        settings = (f"--bootstrap-servers={kafka.bootstrap}", f"--topic={name}", f"--resend-file-name={place}", *s3)
        report_gaps(kafka, name, LOST)
        first = run("scan", *settings, f"--compare-with={place}")
        assert first.code == 0, "a bundle that is not there yet spoils no scan"
        assert first.report["reconciliation"]["with"] is None
        assert "last.json" in first.report["reconciliation"]["problem"]
        assert first.report["missing"] == len(LOST)
        assert "The older bundle was not compared" in first.out
        report_gaps(kafka, name, [999, 1000])
        second = run("scan", *settings, f"--compare-with={place}")
        assert second.report["reconciliation"]["with"]["id"] == first.report["bundle"]["id"]
        assert second.counts == {"closed": 25, "open": 1, "new": 1}
        assert "still open: 1 (25 arrived). 1 offset is missing now that it does not list." in second.out
    assert read_bundle(tmp_path / "last.json").missing == 2
