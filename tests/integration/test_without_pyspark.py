"""An installation of the package without its extra `spark`: everything that runs in one process works."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from pyroaring import BitMap

from kit.machine.absent_packages import run_without

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.kafka.shared_broker import SharedBroker

pytestmark = pytest.mark.integration


class Gapless(Protocol):
    """Runs ``gapless``; returns the exit code, and what was printed."""

    def __call__(self, *arguments: str) -> tuple[int, str]: ...


@pytest.fixture
def gapless(tmp_path: Path) -> Gapless:
    def run(*arguments: str) -> tuple[int, str]:
        ended = run_without(tmp_path, ("pyspark", "pandas", "py4j", "numpy", "obstore"), *arguments)
        return ended.returncode, ended.stdout + ended.stderr

    return run


def report(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def test_gaps_are_found_and_verified(gapless: Gapless, kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path) -> None:
    gaps, received = topic(), topic()
    bitmap = BitMap([2, 3])
    kafka.produce(gaps, [struct.pack(">Bqq", 1, 0, 5) + bitmap.serialize()], keys=[b"t:0:0"])
    kafka.produce(received, [b"event"] * 4, keys=[b"t_0_0", b"t_0_1", b"t_0_4", b"t_0_5"])
    servers = f"--bootstrap-servers={kafka.bootstrap}"
    found, audited, written = tmp_path / "scan.json", tmp_path / "audit.json", tmp_path / "report.json"
    code, told = gapless("scan", servers, f"--topic={gaps}", f"--resend-file-name={found}", f"--report={written}")
    assert (code, report(written)["read_by"]) == (0, "local"), told
    expected = (servers, f"--topics={received}", "--expect=t:0:0-5")
    code, told = gapless("audit", *expected, f"--resend-file-name={audited}", f"--report={written}")
    assert (code, report(written)["read_by"]) == (0, "local"), told
    assert [entry["gaps"] for file in (found, audited) for entry in report(file)["results"]] == [[[2, 3]]] * 2
    kafka.produce(received, [b"event"] * 2, keys=[b"t_0_2", b"t_0_3"])
    code, told = gapless("verify", str(audited), servers, f"--topics={received}", f"--report={written}")
    assert (code, report(written)["reconciliation"]["closed"]) == (0, 2), told


def test_topics_are_archived_compacted_restored_and_compared(
    gapless: Gapless, kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path
) -> None:
    source, place = topic(2), tmp_path / "archive"
    at = (f"--bootstrap-servers={kafka.bootstrap}", f"--archive={place}", "--region=here")
    for round_ in range(2):
        for partition in range(2):
            kafka.produce(source, [b"%d" % number for number in range(50)], partition=partition)
        code, told = gapless("archive", *at, f"--topics={source}", "--once")
        assert code == 0, (round_, told)
    joined = ("--min-segment-age=0", "--min-segment-count=2", "--min-segment-size=0")
    code, told = gapless("compact", f"--archive={place}", *joined)
    assert code == 0, told
    code, told = gapless("restore", *at, f"--topics={source}", f"--to-topic={source}-restored")
    assert code == 0, told
    copies = (f"kafka://{kafka.bootstrap}/{source}", f"kafka://{kafka.bootstrap}/{source}-restored")
    code, told = gapless("verify-copy", *copies)
    assert (code, "identical" in told) == (0, True), told
    code, told = gapless("verify-copy", *copies, "--engine=spark")
    assert (code, "gapless[spark]" in told) == (2, True), told


def test_topics_are_mirrored_by_workers_and_not_by_spark(
    gapless: Gapless, kafka: KafkaBroker, topic: TopicFactory, shared_broker: Callable[[str], SharedBroker]
) -> None:
    source, target = topic(), shared_broker("target")
    kafka.produce(source, [b"%d" % number for number in range(50)])
    mirror = (
        "mirror",
        f"--source-bootstrap-servers={kafka.bootstrap}",
        f"--target-bootstrap-servers={target.bootstrap}",
        f"--name={source}",
        f"--topics={source}",
        "--once",
    )
    code, told = gapless(*mirror, "--engine=spark")
    assert (code, "gapless[spark]" in told) == (2, True), told
    code, told = gapless(*mirror)
    assert code == 0, told
    assert [message.value() for message in target.read(source)] == [b"%d" % number for number in range(50)]


def test_a_connection_is_checked(gapless: Gapless, kafka: KafkaBroker) -> None:
    code, told = gapless("doctor", f"--bootstrap-servers={kafka.bootstrap}")
    assert code == 0, told
