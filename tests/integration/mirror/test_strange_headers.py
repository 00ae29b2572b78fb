"""The proof that a mirror copies headers whose keys are any bytes, which the broker accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.kafka.stored_headers import stored_headers
from kit.kafka.strange_records import produce_strange

if TYPE_CHECKING:
    from mirror.conftest import Scene

    from conftest import TopicFactory

pytestmark = pytest.mark.integration
STRANGE: tuple[tuple[tuple[bytes, bytes | None], ...], ...] = (
    ((b"plain", b"1"),),
    ((b"\xff\xfe", b"not UTF-8"), (b"plain", None)),
    (),
    ((b"cut\0here", b"\0"), (b"cut", b""), (b"\0", b"1"), (b"", b"2")),
    ((b"\xed\xa0\x80", None), ("ü".encode(), b"\xff"), (b"\xff\xfe", b"x" * 300)),
)
"""The topic stores batches as they arrive: a broker that changes their compression replaces what is not UTF-8."""


def write(scene: Scene, topic: str) -> None:
    produce_strange(scene.source, topic, STRANGE)
    assert stored_headers(scene.source.folder, topic) == list(STRANGE)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--provenance=always",),
        ("--engine=spark",),
        ("--engine=spark", "--transform=SELECT value FROM records"),
        ("--engine=spark", "--transform=SELECT filter(headers, h -> true) AS headers FROM records"),
    ],
    ids=["workers", "with provenance", "spark", "sql", "sql with headers"],
)
def test_keys_of_headers_are_any_bytes(scene: Scene, topic: TopicFactory, options: tuple[str, ...]) -> None:
    name, other = (topic(**{"compression.type": "uncompressed"}) for _ in range(2))
    write(scene, name)
    scene.source.produce(other, [b"1", b"2"])
    mirror = scene.run(f"--topics={name},{other}", "--once", "--compression=none", *options)
    assert (mirror.wait(), mirror.report["records"]) == (0, len(STRANGE) + 2), mirror.log
    copied = [
        tuple(pair for pair in headers if pair[0] != b"gapless-mirror")
        for headers in stored_headers(scene.target.folder, name)
    ]
    assert copied == list(STRANGE)
    assert len(stored_headers(scene.target.folder, other)) == 2
