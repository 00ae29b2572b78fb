"""The proof that what a disk of the source has altered is never copied, and stops its partition alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from integration.mirror.conftest import rows
from kit.kafka.damage import alter, damage
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from mirror.conftest import Scene

    from conftest import TopicFactory

pytestmark = pytest.mark.integration
_SIZE = 5
"""Records of a batch."""
_BATCHES = 4


def fill(scene: Scene, topic: str, partition: int, compression: str) -> None:
    """Write batches of five records."""
    for batch in range(_BATCHES):
        values = [b"value %d of batch %d " % (number, batch) + b"x" * 200 for number in range(_SIZE)]
        records = [{"value": value, "partition": partition} for value in values]
        scene.source.write(topic, records, compression_type=compression, linger_ms=200)


@pytest.mark.parametrize(("engine", "compression"), [("workers", "none"), ("workers", "lz4"), ("spark", "none")])
def test_an_altered_batch_stops_its_partition_until_it_is_mended_or_deleted(
    scene: Scene, topic: TopicFactory, engine: str, compression: str
) -> None:
    name, other = topic(2), topic()
    for number in (0, 1):
        fill(scene, name, number, compression)
    fill(scene, other, 0, compression)
    expected = rows(scene.source, name)
    if compression == "none":
        mend = alter(scene.source, name, 0, batch_at=_SIZE, old=b"value 2 of batch 1", new=b"value 9 of batch 1")
    else:
        mend = damage(scene.source, name, 0, batch_at=_SIZE)
    given = (f"--topics={name},{other}", "--once", f"--engine={engine}")
    mirror = scene.run(*given)
    assert mirror.wait() == 4, mirror.log
    assert f"{name}/0 is not copied from offset 5 on: its log in the source is damaged there" in mirror.log
    assert scene.arrived(name) == {**expected, 0: expected[0][:_SIZE]}
    assert scene.copied(other)
    if engine == "workers":
        mend()
        again = scene.run(*given)
        assert again.wait() == 0, again.log
        assert scene.arrived(name) == expected
        return
    cut = TopicPartition(name, 0, 2 * _SIZE)
    scene.source.admin().delete_records([cut])[cut].result()
    skipping = scene.run(*given, "--on-data-loss=skip-and-record")
    assert skipping.wait() == 4, skipping.log
    assert scene.arrived(name) == {**expected, 0: [*expected[0][:_SIZE], *expected[0][2 * _SIZE :]]}
    clusters = {"source": scene.source, "target": scene.target}
    options = (f"--{side}-bootstrap-servers={cluster.bootstrap}" for side, cluster in clusters.items())
    status = GAPLESS.run("mirror", "status", f"--name={scene.name}", *options, "--json")
    found: list[dict[str, Any]] = json.loads(status.stdout)["partitions"]
    (entry,) = [each for each in found if (each["topic"], each["partition"]) == (name, 0)]
    lost = [(one["first"], one["last"], one["reason"]) for one in entry["lost_ranges"]]
    assert lost == [(_SIZE, 2 * _SIZE - 1, "RetentionOvertook")]
