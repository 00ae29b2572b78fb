"""The proof that ``--layout=kafka-replicator`` keeps a topic, and lets a site switch both ways."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.archive.test_archive_once import recreate
from integration.restore.conftest import REGION, Gapless, Row, content, rows
from kit.kafka.transactions import end_transaction, in_transaction
from kit.peer.segment_reader import SegmentReader
from kit.story.commands import GAPLESS
from kit.story.peer_segments import peer_key, write_peer_segment
from kit.story.resending import PROGRAM

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LAYOUT = "--layout=kafka-replicator"


def archive(gapless: Gapless, topic: str, *arguments: str) -> Any:
    return gapless("archive", f"--topics={topic}", f"--region={REGION}", "--once", "--engine=local", LAYOUT, *arguments)


def stored(row: Row) -> Row:
    """What is left of a record: null is empty."""
    headers = tuple((key, value or b"") for key, value in row.headers)
    return Row(row.timestamp, row.key or b"", row.value or b"", headers)


def numbers(kafka: KafkaBroker, topic: str) -> list[int]:
    """The last word of each value."""
    return [int((row.value or b"").split()[-1]) for row in content(kafka, topic)]


def differences(tmp_path: Path, *addresses: str) -> tuple[int, list[tuple[int, tuple[str, ...], int, int]], str]:
    """How ``gapless verify-copy`` ended, and what it found: partition, parts, first and last offset in A."""
    file = tmp_path / "copy.json"
    ended = GAPLESS.run("verify-copy", *addresses, "--engine=local", f"--report={file}")
    found = [
        (each["partition"], tuple(each["parts"]), each["a"]["first"], each["a"]["last"])
        for each in json.loads(file.read_text())["differences"]
    ]
    return ended.returncode, found, ended.stderr


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_topic_comes_back_but_for_null(  # noqa: PLR0917 -- fixtures
    kafka: KafkaBroker,
    topic: TopicFactory,
    gapless: Gapless,
    place: Path,
    tmp_path: Path,
    engine: str,
    request: pytest.FixtureRequest,
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    source, target = topic(3), topic(3, retention_ms="-1")
    kafka.produce(source, [b"a", None, b"", b"b" * 5000], keys=[b"k", b"k", None, b""], timestamps=[5, 6, 7, 8])
    kafka.produce(source, [b"h"], keys=[b"k"], headers=[("x", None), ("x", b"1"), ("x", b"")])
    for commit in (True, False, True):
        end_transaction(in_transaction(kafka, source, [(b"t", b"%d" % n) for n in range(4)]), commit=commit)
    kafka.produce(source, [b"%d" % n for n in range(50)], keys=[b"k"] * 50, partition=1)
    ended = archive(gapless, source, "--max-segment-records=5", f"--engine={engine}")
    assert ended.code == 0, ended.err
    assert "stores null as empty and no timestamp types" in ended.err
    reader = SegmentReader(place, REGION, source)
    for number in range(2):
        assert reader.take(number) == [offset for offset, _ in rows(kafka, source, number)]
    assert reader.lost == []  # although transactions ended at borders of segments
    restored = gapless("restore", f"--topics={source}", f"--to-topic={target}", f"--engine={engine}")
    assert restored.code == 0, restored.err
    assert "in the layout of kafka-replicator, which stores null as empty" in restored.err
    for number in range(3):
        assert content(kafka, target, number) == [stored(row) for row in content(kafka, source, number)]
    kept = f"{place}#{source}"
    assert differences(tmp_path, f"kafka://{kafka.bootstrap}/{target}", kept)[:2] == (0, [])
    code, found, told = differences(tmp_path, f"kafka://{kafka.bootstrap}/{source}", kept)
    assert (code, found) == (4, [(0, ("value",), 1, 1), (0, ("key",), 2, 2), (0, ("headers",), 4, 4)])
    assert "in the layout of kafka-replicator" in told
    accepted = ("--common-only", "--ignore=null-as-empty,compacted")  # as the procedure says
    assert differences(tmp_path, f"kafka://{kafka.bootstrap}/{source}", kept, *accepted)[:2] == (0, [])
    kafka.produce(target, [b"more"], keys=[b"k"])
    assert differences(tmp_path, f"kafka://{kafka.bootstrap}/{target}", kept, *accepted)[0] == 4


def test_a_site_switches_from_the_peer_and_back(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path
) -> None:
    source = topic(2)
    for number in (0, 1):
        kafka.produce(source, [b"%d" % n for n in range(100)], partition=number)
    for first, end, level in ((0, 40, 1), (40, 60, 0), (45, 50, 0)):
        write_peer_segment(place, range(first, end), level=level, region=REGION, topic=source)
    ended = archive(gapless, source)
    assert ended.code == 0, ended.err
    (told,) = ended.report["topics"]
    assert told["records"] == 40 + 100
    assert (place / peer_key(0, 0, 60, 99, region=REGION, topic=source)).exists()
    assert (place / peer_key(1, 0, 0, 99, region=REGION, topic=source)).exists()
    # kafka-replicator's egress continues from its group; what it repeats overlaps. Its compaction joins and deletes.
    write_peer_segment(place, range(90, 130), region=REGION, topic=source)
    write_peer_segment(place, range(60), level=2, region=REGION, topic=source)
    for first, last, level in ((0, 39, 1), (40, 59, 0), (45, 49, 0)):
        (place / peer_key(0, level, first, last, region=REGION, topic=source)).unlink()
    reader = SegmentReader(place, REGION, source)
    assert (reader.take(0, checkpoint=30), reader.lost) == (list(range(31, 130)), [])
    kafka.produce(source, [b"%d" % n for n in range(100, 150)])
    again = archive(gapless, source)
    assert again.code == 0, again.err
    assert again.report["topics"][0]["records"] == 20
    assert (SegmentReader(place, REGION, source).take(0), reader.lost) == (list(range(150)), [])
    checked = GAPLESS.run("segments", "verify", f"--archive={place}")
    assert checked.returncode == 0, checked.stdout + checked.stderr


PROGRAM_KILLED = """
import os
from gapless_archive.catalog.chain import Chain
real = Chain.commit
def commit(chain, state, changes):
    return os.kill(os.getpid(), 9) if changes.action == "archive" else real(chain, state, changes)
Chain.commit = commit
from gapless_api.cli.main import main
main()
"""


def test_a_kill_between_object_and_commit_and_two_writers_leave_nothing_wrong(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gapless_spark.archiving.archive.engines import CycleEngine  # noqa: PLC0415 -- where something happens meanwhile

    source = topic()
    kafka.produce(source, [b"%d" % n for n in range(100)])
    given = [
        "archive", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={source}", f"--archive={place}",
        f"--region={REGION}", "--once", "--engine=local", LAYOUT,
    ]  # fmt: skip
    killed = subprocess.run([sys.executable, "-c", PROGRAM_KILLED, *given], check=False, timeout=120)
    assert killed.returncode == -9
    assert (place / peer_key(0, 0, 0, 99, region=REGION, topic=source)).exists()
    kafka.produce(source, [b"%d" % n for n in range(100, 120)])
    write, beside = CycleEngine.write, list[int]()

    def meanwhile(*arguments: Any) -> Any:
        found = write(*arguments)
        if not beside:
            beside.append(subprocess.run([str(PROGRAM), *given], check=False, timeout=120).returncode)
        return found

    monkeypatch.setattr(CycleEngine, "write", meanwhile)
    ended = archive(gapless, source)
    assert (beside, ended.code) == ([0], 2)
    assert f"has started to archive {source} to {place}" in ended.err
    assert archive(gapless, source).report["outcome"] == "nothing-to-do"
    target = topic(retention_ms="-1")
    elsewhere = gapless(
        "restore", f"--topics={source}", "--to-topic=no-such", "--engine=local", "--create-topics=false"
    )
    assert elsewhere.code == 2
    assert "no-such does not exist; create it, or restore without --create-topics=false." in elsewhere.err
    assert gapless("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local").code == 0
    assert content(kafka, target) == [stored(row) for row in content(kafka, source)]


def test_layouts_and_generations_are_not_mixed(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path
) -> None:
    source, other = topic(), topic()
    for name in (source, other):
        kafka.produce(name, [b"1", b"2"])
    assert archive(gapless, source).code == 0
    settings = [f"--region={REGION}", "--once", "--engine=local"]
    refused = gapless("archive", f"--topics={source}", *settings)
    assert refused.code == 2
    assert f"{place}/{REGION}/{source} is archived in the layout kafka-replicator; give --layout=" in refused.err
    assert gapless("archive", f"--topics={other}", *settings).code == 0
    assert "is archived in the layout gapless; give --layout=gapless" in archive(gapless, other).err
    recreate(kafka, source)
    kafka.produce(source, [b"new"])
    again = archive(gapless, source)
    assert again.code == 2
    assert "holds one generation of a topic; archive to another place" in again.err


def test_after_switching_back_everything_is_restored_and_verified(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path
) -> None:
    """The egress of kafka-replicator continues after the last commit; its compaction joins segments of both."""
    source, target = topic(), topic(retention_ms="-1")
    kafka.produce(source, [b"%d" % n for n in range(40)])
    assert archive(gapless, source).code == 0
    kafka.produce(source, [b"%d" % n for n in range(40, 60)])
    assert archive(gapless, source).code == 0
    write_peer_segment(place, range(60, 90), region=REGION, topic=source)
    write_peer_segment(place, range(80, 100), region=REGION, topic=source)
    ended = gapless("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local")
    assert ended.code == 0, ended.err
    assert "kafka-replicator has written 2 segments that no commit names (0/60-89, 0/80-99)" in ended.err
    assert numbers(kafka, target) == list(range(100))
    write_peer_segment(place, range(60), level=1, region=REGION, topic=source)
    for first, last in ((0, 39), (40, 59)):
        (place / peer_key(0, 0, first, last, region=REGION, topic=source)).unlink()
    checked = GAPLESS.run("segments", "verify", f"--archive={place}")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    again = topic(retention_ms="-1")
    assert gapless("restore", f"--topics={source}", f"--to-topic={again}", "--engine=local").code == 0
    assert numbers(kafka, again) == list(range(100))


def test_a_place_of_the_peer_is_not_archived_to_in_another_layout(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, place: Path
) -> None:
    source = topic()
    kafka.produce(source, [b"%d" % n for n in range(30)])
    write_peer_segment(place, range(20), region=REGION, topic=source)
    refused = gapless("archive", f"--topics={source}", f"--region={REGION}", "--once", "--engine=local")
    assert refused.code == 2
    assert f"{place}/{REGION}/{source} has segments of kafka-replicator, which commits in the layout" in refused.err
    assert not (place / REGION / source / "chain").exists()
    assert [path.name for path in (place / REGION / source).iterdir()] == ["0"], "nothing was written"
    assert archive(gapless, source).report["topics"][0]["records"] == 10, "as the message advises"
