"""The proof that ``gapless restore`` writes what was archived as it was, once, to where it belongs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.wire.restore_progress import RESTORE_LINE, RESTORE_PLAN_LINE
from integration.restore.conftest import REGION, Gapless, content, rows
from kit.kafka.transactions import end_transaction, in_transaction

if TYPE_CHECKING:
    from conftest import TopicFactory
    from gapless_api.wire.form import Form
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

Archived = "Callable[..., None]"
DAY_MS = 24 * 3600 * 1000


def write(kafka: KafkaBroker, topic: str, records: list[dict[str, Any]]) -> None:
    """Write records with anything that Kafka's client takes."""
    kafka.write(topic, ({"partition": 0, **record} for record in records))


def lines(text: str, form: Form[Any]) -> list[Any]:
    """The messages of one form in what a command has written to standard error."""
    return [form.from_json(json.loads(line)) for line in text.splitlines() if f'"event":"{form.event}"' in line]


def varied(kafka: KafkaBroker, topic: str, *, compacted: bool = False) -> None:
    """Write every kind of record: null, empty and duplicate parts, transactions, no timestamp, old ones, large ones.

    A compacted topic refuses records without a key.
    """
    no_key = b"none" if compacted else None
    chance = random.Random(11)
    now = 1_760_000_000_000
    for commit in (True, False, True, True, False):
        records = [(b"in", chance.randbytes(30)) for _ in range(chance.randrange(1, 6))]
        end_transaction(in_transaction(kafka, topic, records), commit=commit)
        write(
            kafka,
            topic,
            [
                {"key": no_key, "value": None, "timestamp": now},
                {"key": b"", "value": b"", "timestamp": now - 1},
                {"key": b"\x00\xff", "value": b"\xff" * 1000, "timestamp": -1},
                {
                    "key": b"k",
                    "value": None,
                    "timestamp": 1,
                    "headers": [("h", None), ("h", b""), ("", b"x"), ("h", b"1")],
                },
                {"key": b"k", "value": b"v", "timestamp": now + 5, "headers": [("ü", b"\x00")]},
            ],
        )
    large = [{"value": chance.randbytes(1 << 20), "timestamp": now + n} for n in range(3)]
    write(kafka, topic, [{"key": no_key, "partition": 2, **record} for record in large])


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_records_come_back_as_they_were(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    gapless: Gapless,
    archived: Callable[..., None],
    engine: str,
    request: pytest.FixtureRequest,
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    source = topic(3, max_message_bytes="2000000", retention_ms="-1")
    varied(kafka, source)
    kept = content(kafka, source)
    assert [row.timestamp for row in kept].count(None) == 5
    archived(source)
    target = f"{source}-back"
    arguments = ("restore", f"--topics={source}", f"--to-topic={target}", f"--engine={engine}", "--batch-size=7")
    planned = gapless(*arguments, "--plan")
    assert planned.code == 0, planned.err
    assert target not in kafka.admin().list_topics(timeout=10).topics, "a plan must not create anything"
    (line,) = lines(planned.err, RESTORE_PLAN_LINE)
    assert (line.records, line.restored_before, [topic.create for topic in line.topics]) == (
        planned.report["records"],
        0,
        [True],
    )
    ended = gapless(*arguments)
    assert ended.code == 0, ended.err
    done = lines(ended.err, RESTORE_LINE)[-1]
    assert (done.state, done.planned, done.restored, done.remaining) == ("done", line.records, line.records, 0)
    for partition in range(3):
        assert content(kafka, target, partition) == content(kafka, source, partition)
    assert ended.report["written_by"] == engine
    written = sum(len(content(kafka, source, partition)) for partition in range(3))
    assert ended.report["records"] == planned.report["records"] == written
    assert kafka.admin().list_topics(timeout=10).topics[target].partitions.keys() == {0, 1, 2}
    again = gapless(*arguments)
    assert lines(again.err, RESTORE_LINE)[-1].restored == line.records
    assert (again.code, again.report["outcome"]) == (0, "nothing-to-restore"), again.err
    assert "Nothing to restore" in again.out
    assert len(rows(kafka, target)) == len(rows(kafka, source))
    assert REGION in ended.out
