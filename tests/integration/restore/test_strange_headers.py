"""The proof that archives and copies of them keep headers whose keys are any bytes, and compare them as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from integration.restore.conftest import REGION, Gapless
from kit.kafka.stored_headers import Headers, stored_headers
from kit.kafka.strange_records import produce_strange
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
STRANGE: tuple[Headers, ...] = (
    ((b"\xff\xfe", b"1"), (b"a\0b", None)),
    (),
    ((b"a", b""), (b"\xed\xa0\x80", b"\xff"), (b"", b"2")),
)


def write(kafka: KafkaBroker, topic: str, records: Sequence[Headers]) -> None:
    produce_strange(kafka, topic, records, timestamp=1_760_000_000_000)
    assert stored_headers(kafka.folder, topic) == list(records)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("layout", ["gapless", "kafka-replicator"])
def test_an_archive_keeps_keys_of_headers_that_are_any_bytes(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, engine: str, layout: str
) -> None:
    source, restored = (topic(**{"compression.type": "uncompressed"}) for _ in range(2))
    write(kafka, source, STRANGE)
    region = f"{REGION}-{layout}-{engine}"
    stored = gapless(
        "archive", f"--topics={source}", f"--region={region}", "--once", f"--engine={engine}", f"--layout={layout}"
    )
    assert stored.code == 0, stored.err
    told = gapless("restore", f"--topics={source}", f"--region={region}", f"--to-topic={restored}")
    assert told.code == 0, told.err
    null_as_empty: list[Headers] = [tuple((key, value or b"") for key, value in headers) for headers in STRANGE]
    assert stored_headers(kafka.folder, restored) == (list(STRANGE) if layout == "gapless" else null_as_empty)


@pytest.mark.parametrize(
    ("engine", "one", "other"),
    [
        ("local", b"a\0b", b"a"),
        ("local", b"a\0b", b"a\0c"),
        ("local", b"\xff", "\ufffd".encode()),
        ("spark", b"\xff\0", b"\xff"),
    ],
)
def test_keys_of_headers_that_differ_in_any_byte_are_different(
    kafka: KafkaBroker, topic: TopicFactory, engine: str, one: bytes, other: bytes
) -> None:
    source, copy, same = (topic(**{"compression.type": "uncompressed"}) for _ in range(3))
    for name, key in ((source, one), (copy, other), (same, one)):
        write(kafka, name, [((key, b"1"),)])
    for name, code in ((copy, 4), (same, 0)):
        addresses = (f"kafka://{kafka.bootstrap}/{each}" for each in (source, name))
        ended = GAPLESS.run("verify-copy", *addresses, f"--engine={engine}")
        assert ended.returncode == code, ended.stderr
