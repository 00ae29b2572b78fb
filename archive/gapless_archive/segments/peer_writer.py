"""How rows are written to an object in the layout of kafka-replicator, and what the layout cannot store.

Its reader identifies columns by number and nesting, so the schema is exactly its own. Row groups are small and have
offset statistics, which it does not need, so that Gapless can read few records of an object.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gapless_api.base.errors import ConfigurationError
from gapless_api.codec.canonical import moment_text
from gapless_archive.segments.rows import HEADERS, SCHEMA, list_bounds
from gapless_archive.segments.writer import ParquetFile

if TYPE_CHECKING:
    from gapless_archive.catalog.peer_keys import PeerKey

CODEC = "snappy"
WRITER, WRITER_NAME = b"writer", b"gapless"
"""A pair of the footer that kafka-replicator does not write, and ignores."""
_NANOSECONDS_PER_MS = 1_000_000
_MAX_TIMESTAMP = (2**63 - 1) // _NANOSECONDS_PER_MS
"""The last millisecond that fits, in the year 2262."""
_NO_TIMESTAMP = -1
"""As in Kafka, in milliseconds."""
_PAGE_BYTES = 64 * 1024
_BYTES = pa.binary()
_HEADER = pa.struct([pa.field("key", _BYTES, nullable=False), pa.field("value", _BYTES, nullable=False)])
PEER_SCHEMA = pa.schema(
    [
        pa.field("key", _BYTES, nullable=False),
        pa.field("value", _BYTES, nullable=False),
        pa.field("offset", pa.uint64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("headers", pa.list_(pa.field("element", _HEADER, nullable=False)), nullable=False),
    ]
)
"""Timestamps are nanoseconds since 1970."""


def drop_unstorable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Remove from rows of `SCHEMA` what the layout cannot store: null becomes empty, timestamps lose their type."""
    columns = {name: rows.column(name) for name in SCHEMA.names}
    for name in ("key", "value"):
        columns[name] = pc.fill_null(columns[name], b"")
    columns["timestamp_type"] = pa.nulls(rows.num_rows, pa.int8())
    headers = columns["headers"]
    keys, values = headers.flatten().flatten()
    if values.null_count:
        pairs = pa.StructArray.from_arrays([keys, pc.fill_null(values, b"")], fields=list(HEADERS.value_type))
        columns["headers"] = pa.ListArray.from_arrays(list_bounds(headers), pairs, type=HEADERS)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=SCHEMA)


class PeerObjectWriter:
    """Writes one object to a local file."""

    def __init__(self, file: Path, topic: str, partition: int) -> None:
        """Open the file, of a partition of `topic`. Raises LocalStorageError."""
        self.file = file
        self._name = f"{topic}/{partition}"
        self._parquet = ParquetFile(file)
        self._parquet.open(
            PEER_SCHEMA,
            version="1.0",
            compression=CODEC,
            use_dictionary=False,
            write_statistics=["offset"],
            write_page_checksum=True,
            data_page_size=_PAGE_BYTES,
            store_schema=False,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Write a row group of rows that `drop_unstorable` returned.

        Raises:
            ConfigurationError: a timestamp is out of the range of the layout.
            LocalStorageError: the disk is full.
        """
        columns = [
            rows.column("key"),
            rows.column("value"),
            pc.cast(rows.column("offset"), pa.uint64()),
            self._nanoseconds(rows),
            _peer_headers(rows.column("headers")),
        ]
        table = pa.Table.from_arrays(columns, schema=PEER_SCHEMA)
        self._parquet.write(table)

    def close(self, key: PeerKey, records: int) -> int:
        """Finish the file with a footer for `key`, and return its size in bytes. Raises LocalStorageError."""
        footer = {
            "region": key.region,
            "topic": key.topic,
            "partition": str(key.partition),
            "level": str(key.level),
            "startOffset": str(key.first),
            "endOffset": str(key.last),
            "messageCount": str(records),
            "createdTimestamp": moment_text(datetime.now(UTC)),
            WRITER.decode(): WRITER_NAME.decode(),
        }
        return self._parquet.close(footer)

    def _nanoseconds(self, rows: pa.RecordBatch) -> pa.Array:
        times = rows.column("timestamp")
        bounds = pc.min_max(times).as_py()
        if bounds["max"] is not None and bounds["max"] > _MAX_TIMESTAMP:
            at = rows.column("offset")[pc.index(times, bounds["max"]).as_py()].as_py()
            raise ConfigurationError(
                f"{self._name} has a record at offset {at} with a timestamp after the year 2262, which the layout of "
                f"kafka-replicator cannot hold; archive this topic with --layout=gapless to another place."
            )
        return pc.multiply(pc.fill_null(times, _NO_TIMESTAMP), _NANOSECONDS_PER_MS)


def _peer_headers(column: pa.ListArray) -> pa.ListArray:
    keys, values = column.flatten().flatten()
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(_HEADER))
    return pa.ListArray.from_arrays(list_bounds(column), pairs, type=PEER_SCHEMA.field("headers").type)
