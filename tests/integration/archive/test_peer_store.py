"""The proof that an archive in a store is read with what kafka-replicator has written and deleted there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_archive.reading import open_archive
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place
from integration.archive.conftest import REGION, Archive
from kit.object_store import ObjectStore
from kit.story.peer_segments import peer_key, write_peer_segment

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


def test_what_the_peer_writes_and_deletes_in_a_store_is_seen(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, tmp_path: Path
) -> None:
    orders = topic()
    kafka.produce(orders, [b"%d" % number for number in range(50)])
    with ObjectStore() as store:
        store.make_bucket("events")
        (tmp_path / "id").write_text(store.ACCESS_KEY)
        (tmp_path / "key").write_text(store.SECRET_KEY)
        given = [
            "--archive=s3://events/data", f"--s3-endpoint={store.endpoint}", "--layout=kafka-replicator",
            f"--s3-access-key-id-file={tmp_path / 'id'}", f"--s3-secret-access-key-file={tmp_path / 'key'}",
        ]  # fmt: skip
        assert archive(f"--topics={orders}", *given).topic(orders)["records"] == 50
        access = S3Access(
            endpoint_url=store.endpoint, access_key_file=tmp_path / "id", secret_key_file=tmp_path / "key"
        )
        place = open_place(parse_place("s3://events/data"), access)
        for offsets, level in ((range(50), 1), (range(45, 70), 0)):
            key = write_peer_segment(tmp_path, offsets, level=level, region=REGION, topic=orders)
            place.put(key, tmp_path / key)
        place.delete(peer_key(0, 0, 0, 49, region=REGION, topic=orders))
        found = open_archive(place, orders)
        pieces = found.pieces(0, found.covered(0))
        read = [offset for piece in pieces for rows in found.read(piece) for offset in rows["offset"].to_pylist()]
        assert read == list(range(70))
        kafka.produce(orders, [b"%d" % number for number in range(50, 80)])
        assert archive(f"--topics={orders}", *given).topic(orders)["records"] == 10, "the rest is adopted"
