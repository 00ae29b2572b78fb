"""The proof that records that the target of a restore refuses stop nothing else, and are never lost silently."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.wire.restore_progress import RESTORE_LINE
from integration.restore.conftest import REGION, Gapless, content
from integration.restore.test_restore import lines, write
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
_DAY_MS = 86_400_000
_COUNT = 6
_FLAWS: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "too large": ({"max_message_bytes": "3000"}, {"value": os.urandom(20_000)}, "too large"),
    "without a key": ({"cleanup_policy": "compact"}, {"value": b"no key"}, "accepts no record without a key"),
}


def good(first: int, partition: int = 0) -> list[dict[str, Any]]:
    now = int(time.time() * 1000)
    return [
        {"key": b"k%d" % number, "value": b"v%d" % number, "timestamp": now + number, "partition": partition}
        for number in range(first, first + _COUNT)
    ]


def fill(kafka: KafkaBroker, topic: str, bad: dict[str, Any]) -> None:
    """Write good records to two partitions, and bad ones to the first: one, and later two in a row."""
    write(kafka, topic, [*good(0), bad, *good(10), bad, bad, *good(20)])
    write(kafka, topic, good(0, partition=1))


BAD = [_COUNT, 2 * _COUNT + 1, 2 * _COUNT + 2]
"""The offsets of the bad records."""


@pytest.mark.parametrize(
    ("flaw", "engine"), [("too large", "local"), ("without a key", "local"), ("without a key", "spark")]
)
def test_a_refused_record_stops_its_partition_alone_or_is_skipped_and_recorded(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    gapless: Gapless,
    archived: Callable[..., None],
    flaw: str,
    engine: str,
    place: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    limit, bad, cause = _FLAWS[flaw]
    source, other = topic(2), topic(1)
    fill(kafka, source, bad)
    write(kafka, other, good(0))
    archived(source, other)
    target = topic(2, **limit)
    kept, kept_of_other = content(kafka, source), content(kafka, other)
    given = (
        "restore",
        f"--source={REGION}/{source}={target},{REGION}/{other}={other}-back",
        f"--engine={engine}",
        "--compression=none",
    )
    stopped = gapless(*given)
    assert stopped.code == 4, stopped.err
    assert cause in stopped.err
    assert f"partition 0 of {REGION}/{source} at offset {_COUNT}" in stopped.err
    assert content(kafka, target) == kept[:_COUNT]
    assert content(kafka, target, 1) == content(kafka, source, 1)
    assert content(kafka, f"{other}-back") == kept_of_other
    (of_source,) = [each for each in stopped.report["topics"] if each["topic"] == source]
    assert [each["stopped_at"] for each in of_source["partitions"]] == [_COUNT, None]
    last = lines(stopped.err, RESTORE_LINE)[-1]
    assert [(each.topic, each.partition, each.first) for each in last.lost_ranges] == [(source, 0, _COUNT)]
    assert last.remaining == len(kept) - _COUNT

    skipping = gapless(*given, "--on-bad-record=skip-and-record")
    assert skipping.code == 4, skipping.err
    assert content(kafka, target) == [row for offset, row in enumerate(kept) if offset not in BAD]
    for ended in (skipping, gapless(*given), gapless(*given, "--on-bad-record=skip-and-record")):
        assert ended.code == 4, ended.err
        assert "3 records are not in the target, because it refused them" in ended.err
        assert f"{REGION}/{source}/0 {BAD[0]}, {BAD[1]}-{BAD[2]}" in ended.err
        assert ended.report["refused"] == len(BAD)
        (of_source,) = [each for each in ended.report["topics"] if each["topic"] == source]
        assert [(each["first"], each["last"]) for each in of_source["partitions"][0]["refused"]] == [
            (BAD[0], BAD[0]),
            (BAD[1], BAD[2]),
        ]
        line = lines(ended.err, RESTORE_LINE)[-1]
        assert (line.lost, line.remaining, line.planned) == (len(BAD), 0, line.restored)
    assert len(content(kafka, target)) == len(kept) - len(BAD), "nothing is written twice"

    elsewhere = gapless("restore", f"--topics={source}", f"--to-topic={target}-all", f"--engine={engine}")
    assert elsewhere.code == 0, elsewhere.err
    assert content(kafka, f"{target}-all") == kept

    evidence = tmp_path / "evidence.json"
    checked = GAPLESS.run(
        "verify-copy", f"{place}#{source}", f"kafka://{kafka.bootstrap}/{target}", f"--report={evidence}"
    )
    assert checked.returncode == 4, checked.stderr
    differences = json.loads(evidence.read_text())["differences"]
    missing = [(each["kind"], each["a"]["first"], each["a"]["last"]) for each in differences]
    assert missing == [("onlyInA", BAD[0], BAD[0]), ("onlyInA", BAD[1], BAD[2])]


def test_without_transactions_every_other_record_is_written_at_least_once(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, archived: Callable[..., None]
) -> None:
    source = topic(2)
    limit, bad, _ = _FLAWS["too large"]
    fill(kafka, source, bad)
    archived(source)
    target = topic(2, **limit)
    given = ("restore", f"--topics={source}", f"--to-topic={target}", "--engine=local", "--compression=none")
    ended = gapless(*given, "--delivery=at-least-once", "--on-bad-record=skip-and-record")
    assert ended.code == 4, ended.err
    assert "3 records are not in the target" in ended.err
    for partition in (0, 1):
        kept = [row for row in content(kafka, source, partition) if len(row.value or b"") < 20_000]
        assert set(content(kafka, target, partition)) == set(kept)
