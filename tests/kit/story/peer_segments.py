"""A writer of kafka-replicator's segments: keys, columns and footer; must not know the product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ZERO_TIME = -6_795_364_578_871_345_152
"""Go's zero time in nanoseconds, which overflows to a time in 1754."""
_BYTES = pa.binary()
_HEADER = pa.struct([pa.field("key", _BYTES, nullable=False), pa.field("value", _BYTES, nullable=False)])
_SCHEMA = pa.schema(
    [
        pa.field("key", _BYTES, nullable=False),
        pa.field("value", _BYTES, nullable=False),
        pa.field("offset", pa.uint64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("headers", pa.list_(pa.field("element", _HEADER, nullable=False)), nullable=False),
    ]
)


def peer_key(partition: int, level: int, first: int, last: int, *, region: str = "r", topic: str = "t") -> str:
    """Return the key of a segment below the prefix."""
    return f"{region}/{topic}/{partition}/{level}/{first:020d}-{last:020d}"


def write_peer_segment(
    folder: str | Path,
    offsets: Sequence[int],
    *,
    records: Mapping[int, Mapping[str, Any]] | None = None,
    first: int | None = None,
    last: int | None = None,
    partition: int = 0,
    level: int = 0,
    region: str = "r",
    topic: str = "t",
    footer: Mapping[str, str | None] | None = None,
) -> str:
    """Write a segment with the records of `offsets` and return its key.

    Args:
        folder: the prefix.
        offsets: of the records.
        records: fields of some records by offset; the others have a value that contains their offset.
        first: first offset in the key, instead of the first of `offsets`.
        last: last offset in the key, instead of the last of `offsets`.
        partition: of the topic.
        level: 0 for a segment that was never compacted.
        region: of the cluster.
        topic: name of the topic.
        footer: replaced footer fields; None removes a field.
    """
    first = offsets[0] if first is None else first
    last = offsets[-1] if last is None else last
    rows = [
        {
            "key": b"key",
            "value": b"value %d" % offset,
            "timestamp": (1_700_000_000_000 + offset) * 1_000_000,
            "headers": [],
            **(records or {}).get(offset, {}),
            "offset": offset,
        }
        for offset in offsets
    ]
    metadata = {
        "region": region,
        "topic": topic,
        "partition": str(partition),
        "level": str(level),
        "startOffset": str(first),
        "endOffset": str(last),
        "messageCount": str(len(rows)),
        "createdTimestamp": "2026-11-22T10:00:00.123456789Z",
        **(footer or {}),
    }
    key = peer_key(partition, level, first, last, region=region, topic=topic)
    file = Path(folder) / key
    file.parent.mkdir(parents=True, exist_ok=True)
    options = {
        "version": "1.0",
        "compression": "snappy",
        "use_dictionary": False,
        "write_statistics": False,
        "data_page_size": 8192,
        "store_schema": False,
    }
    with pq.ParquetWriter(file, _SCHEMA, **options) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA))
        writer.add_key_value_metadata({name: text for name, text in metadata.items() if text is not None})
    return key
