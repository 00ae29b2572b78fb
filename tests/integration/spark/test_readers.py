"""The proof that a command is read by what was asked for, and says in report, log and output what that was."""

from __future__ import annotations

import json
import os
import struct
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from pyroaring import BitMap

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.cli import main
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges

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

AUTO, SPARK, LOCAL = "--engine=auto", "--engine=spark", "--engine=local"
SENTENCES = {"spark": "Read by Spark.", "local": "Read by this process, without Spark."}


@pytest.fixture
def topics(kafka: KafkaBroker, topic: TopicFactory) -> dict[str, str]:
    """By command: a gaps topic that says what is missing, and received events of which one is missing."""
    gaps, received = topic(), topic()
    kafka.produce(gaps, [struct.pack(">Bqq", 1, 0, 999) + BitMap(range(100, 120)).serialize()], keys=[b"transfer:0:0"])
    receive(kafka, received, 0, 1, 3)
    return {"scan": gaps, "audit": received}


def receive(kafka: KafkaBroker, topic: str, *offsets: int) -> None:
    kafka.produce(topic, [b"event"] * len(offsets), keys=[f"transfer_0_{offset}".encode() for offset in offsets])


class Read(Protocol):
    """Runs a command that reads the topic for it."""

    def __call__(self, command: str, *more: str) -> Ended: ...


class Typed(Protocol):
    """Runs ``gapless`` with just these arguments; gives the exit code and standard output."""

    def __call__(self, *arguments: str) -> tuple[object, str]: ...


@pytest.fixture
def read(kafka: KafkaBroker, gapless: Gapless, topics: dict[str, str]) -> Read:
    def run(command: str, *more: str) -> Ended:
        which = "topics" if command == "audit" else "topic"
        return gapless(command, f"--bootstrap-servers={kafka.bootstrap}", f"--{which}={topics[command]}", *more)

    return run


@pytest.fixture
def typed(
    spark: None,  # noqa: ARG001 -- the commands find it
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Typed:
    def run(*arguments: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["gapless", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code, capfd.readouterr().out

    return run


def reader_of(ended: Ended) -> str | None:
    """What the report names, after a look at whether log and output say the same."""
    assert ended.report is not None
    found: str | None = ended.report["read_by"]
    if ended.code == 0:
        logged = [json.loads(line) for line in ended.err.splitlines() if line.startswith("{")]
        (finished,) = [entry for entry in logged if "missing" in entry]
        assert finished["read_by"] == found
        said = [line for line in ended.out.splitlines() if line.startswith("Read by")]
        assert said == ([SENTENCES[found]] if found is not None else [])
    return found


def words(ended: Ended) -> str:
    return " ".join(ended.err.split())


def test_a_scan_is_read_by_what_was_asked_for(read: Read) -> None:
    for engine, reader in ((AUTO, "local"), (SPARK, "spark"), (LOCAL, "local")):
        ended = read("scan", engine)
        assert reader_of(ended) == reader
        assert ended.gaps == {("transfer", 0): [[100, 119]]}


def test_spark_above_is_a_threshold_of_auto_and_of_nothing_else(read: Read) -> None:
    assert reader_of(read("scan", AUTO, "--spark-above=0")) == "spark"
    assert reader_of(read("scan", LOCAL, "--spark-above=0")) == "local"


def test_an_audit_is_read_by_what_was_asked_for_whether_it_continues_a_state_or_not(
    kafka: KafkaBroker, topics: dict[str, str], read: Read, tmp_path: Path
) -> None:
    for engine, reader in ((AUTO, "local"), (SPARK, "spark"), (LOCAL, "local")):
        ended = read("audit", engine)
        assert reader_of(ended) == reader
        assert ended.gaps == {("transfer", 0): [[2]]}

    state = f"--state={tmp_path / 'state'}"
    assert reader_of(read("audit", LOCAL, state)) == "local"
    for offset, (engine, reader) in enumerate({AUTO: "local", SPARK: "spark", LOCAL: "local"}.items(), start=4):
        receive(kafka, topics["audit"], offset)
        ended = read("audit", engine, state)
        assert reader_of(ended) == reader
        assert ended.gaps == {("transfer", 0): [[2]]}
        assert ended.report is not None
        assert ended.report["state"]["records_new"] == 1
    assert reader_of(read("audit", SPARK, state)) is None, "nobody reads what is not there"


def test_auto_leaves_an_audit_of_many_records_to_spark(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless_spark.audit.command.FEW_RECORDS", 2)  # and there are three
    assert [reader_of(read("audit", engine)) for engine in (AUTO, LOCAL)] == ["spark", "local"]


def test_under_spark_submit_spark_reads_also_for_an_audit_that_continues_a_state(
    kafka: KafkaBroker, topics: dict[str, str], read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = f"--state={tmp_path / 'state'}"
    assert reader_of(read("audit", LOCAL, state)) == "local"
    receive(kafka, topics["audit"], 4)
    monkeypatch.setitem(os.environ, "PYSPARK_GATEWAY_PORT", "1")  # the session of these tests is running already
    continued = read("audit", AUTO, state)
    assert reader_of(continued) == "spark"
    assert continued.gaps == {("transfer", 0): [[2]]}
    assert reader_of(read("scan", AUTO)) == "spark"
    refused = read("scan", LOCAL)
    assert (refused.code, refused.bundle) == (2, None)
    assert "engine=local reads without Spark, but spark-submit or the setting master requests Spark" in words(refused)


def test_what_takes_too_much_memory_for_this_process_is_left_to_spark_or_refused(
    kafka: KafkaBroker, topics: dict[str, str], read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = f"--state={tmp_path / 'state'}"
    read("audit", LOCAL, state)
    receive(kafka, topics["audit"], 4)
    monkeypatch.setattr("gapless_spark.audit.command.MAX_LOCAL_BYTES", 500)
    monkeypatch.setattr("gapless_spark.scan.command.MAX_LOCAL_BYTES", 500)
    commands: list[tuple[str, ...]] = [("scan",), ("audit", state)]
    for command in commands:
        refused = read(*command, LOCAL)
        assert (refused.code, refused.bundle) == (2, None)
        assert f"Reading {topics[command[0]]} takes more memory than this process may use" in words(refused)
        assert refused.report is not None
        assert (refused.report["outcome"], refused.report["read_by"]) == ("bad-configuration", "local")
        assert reader_of(read(*command, AUTO)) == "spark"


def test_create_is_read_by_what_was_asked_for(
    kafka: KafkaBroker, topics: dict[str, str], typed: Typed, tmp_path: Path
) -> None:
    where = (f"--bootstrapServers={kafka.bootstrap}", f"--topic={topics['scan']}", f"--resendFileName={tmp_path / 'b'}")
    for engine, reader in ((AUTO, "local"), (SPARK, "spark"), (LOCAL, "local")):
        code, out = typed("create", *where, engine)
        assert (code, SENTENCES[reader] in out) == (0, True)


@pytest.mark.parametrize("against", ["scan", "audit"])
def test_verify_reads_again_by_what_was_asked_for(
    kafka: KafkaBroker, topics: dict[str, str], typed: Typed, tmp_path: Path, against: str
) -> None:
    old, report = tmp_path / "old.json", tmp_path / "report.json"
    where = (f"--bootstrap-servers={kafka.bootstrap}", f"--topics={topics[against]}", f"--report={report}")
    gaps = PartitionGaps("transfer", 0, 0, 999, OffsetRanges([OffsetRange(100, 119)]))
    write_bundle(old, BundleKind.ALL, [gaps], created=datetime(2026, 11, 20, tzinfo=UTC), source={})
    for engine, reader in ((SPARK, "spark"), (LOCAL, "local")):
        _, out = typed("verify", str(old), f"--against={against}", *where, engine)
        assert json.loads(report.read_text())["read_by"] == reader
        assert SENTENCES[reader] in out
