"""The proof that records are absent from a copy because of compaction; must not know how records are aligned.

A record may be absent if the copy has a later record with the same key, or if it is superseded by a tombstone that is
old enough to be removed, and the copy has no record with this key at all. Both are proved with the last offset of each
key of the copy, which was read. A record without a key is never excused.

The keys are hashed, and in a temporary database: at most `_CACHE_KIB` of memory, the rest in the temporary directory.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow.compute as pc

from gapless_api.base.errors import LocalStorageError
from gapless_spark.archiving.verify_copy.findings import Findings, Unreadable

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_api.wire.copy_report import CopyAddress, Side

    Items = Iterator[pa.RecordBatch | Unreadable]

_CACHE_KIB = 65_536
"""The memory of the database of one partition."""
_RAW_BYTES = 16
_HASH_BYTES = 16
_BATCH = 10_000
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA temp_store = FILE;
CREATE TABLE keys (side TEXT, key BLOB, last INTEGER, PRIMARY KEY (side, key)) WITHOUT ROWID;
CREATE TABLE tombstones (side TEXT, key BLOB, last INTEGER, PRIMARY KEY (side, key)) WITHOUT ROWID;
CREATE TABLE absent (
    number INTEGER PRIMARY KEY, side TEXT, offset INTEGER, position INTEGER, key BLOB, neighbours INTEGER
);
"""
_UPDATE = "INSERT INTO {} VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET last = max(last, excluded.last)"
_PROVED = """
SELECT absent.side, absent.offset, absent.neighbours, absent.key IS NOT NULL AND (
    keys.last > absent.position
    OR (keys.last IS NULL AND tombstones.last >= absent.offset AND instr(?, absent.side) = 0)
)
FROM absent
LEFT JOIN keys ON keys.side <> absent.side AND keys.key = absent.key
LEFT JOIN tombstones ON tombstones.side = absent.side AND tombstones.key = absent.key
ORDER BY absent.number
"""


class CompactedCopy(Protocol):
    """What is known of the compaction of a copy."""

    @property
    def about(self) -> CopyAddress:
        """Its description."""

    @property
    def tombstone_seconds(self) -> float | None:
        """How long compaction keeps tombstones; ``None`` if it is not compacted."""


class Compaction(NamedTuple):
    """Which copies may lack records because of compaction: how long tombstones are kept, ``None`` for the others."""

    a: float | None = None
    b: float | None = None

    @property
    def is_possible(self) -> bool:
        """Whether compaction may have removed records from one of the copies."""
        return self.a is not None or self.b is not None


def compaction_of(a: CompactedCopy, b: CompactedCopy) -> Compaction:
    """Return which of two copies may lack records that the other one has."""
    return Compaction(_tombstone_seconds(a, b), _tombstone_seconds(b, a))


def _tombstone_seconds(copy: CompactedCopy, other: CompactedCopy) -> float | None:
    """Return how long compaction kept tombstones in `copy` or its source; ``None`` if it was not compacted.

    An archive cannot lack what its own topic still has. A topic may have been copied after its source was compacted,
    which only an archive of the source tells: a source in Kafka that still has a record had it when it was copied.
    """
    is_source = other.about.kind == "kafka" and copy.about.topic_id == other.about.topic_id
    if copy.about.kind == "archive":
        return None if is_source else copy.tombstone_seconds
    known = [copy.tombstone_seconds, other.tombstone_seconds if other.about.kind == "archive" else None]
    return min((seconds for seconds in known if seconds is not None), default=None)


class Absences:
    """The records of one partition that only one copy has, and the keys of the other copy."""

    def __init__(self, compaction: Compaction, *, empty_is_null: bool = False) -> None:
        """Start without records.

        Args:
            compaction: which copies may lack records.
            empty_is_null: whether an empty key may stand for none.
        """
        self._seconds: dict[Side, float | None] = {"a": compaction.a, "b": compaction.b}
        self._empty_is_null = empty_is_null
        self._now_ms = time.time() * 1000
        self._damaged: set[Side] = set()
        self._rows: list[tuple[str, int, int, bytes | None, int]] = []
        with _storage():
            self._database = sqlite3.connect("", isolation_level=None)
            self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._database.executescript(_TABLES)
            self._database.execute("BEGIN")

    def close(self) -> None:
        """Delete the database."""
        self._database.close()

    def may_lack(self, side: Side) -> bool:
        """Whether compaction may have removed records from this copy."""
        return self._seconds[side] is not None

    def watch(self, side: Side, items: Items) -> Items:
        """Yield `items` of a copy, and keep what proves that the other copy, or this one, was compacted."""
        for item in items:
            if isinstance(item, Unreadable):
                if item.reason == "Damaged":
                    self._damaged.add(side)
            else:
                self._add_keys(side, item)
            yield item

    def add(self, side: Side, offset: int, position: int, key: bytes | None, neighbours: int) -> None:
        """Add a record that only the copy `side` has.

        Args:
            side: the copy with the record.
            offset: in this copy.
            position: the last offset before it in the other copy.
            key: its key, as `hash_key` returns it.
            neighbours: equal for records that follow each other in `side` without another finding between them.
        """
        self._rows.append((side, offset, position, (key or None) if self._empty_is_null else key, neighbours))
        if len(self._rows) >= _BATCH:
            self._store()

    def is_unproved(self, side: Side) -> bool:
        """Whether the copy `side` lacks records for which there is no proof yet."""
        self._store()
        with _storage():
            return any(not proved for holder, *_, proved in self._proofs() if holder != side)

    def add_to(self, findings: Findings) -> None:
        """Add all records to `findings`: those that compaction removed from the other copy, and the others."""
        self._store()
        before: object = None
        with _storage():
            for side, offset, neighbours, proved in self._proofs():
                if before != (side, neighbours):
                    findings.end_range()
                before = side, neighbours
                findings.add_only(side, offset, offset, 1, is_compacted=bool(proved))
        findings.sort()

    def _proofs(self) -> Iterable[tuple[Side, int, int, int | None]]:
        # If records of the other copy could not be read, it is not proved that it has no record with a key.
        doubtful = "".join("b" if side == "a" else "a" for side in self._damaged)
        yield from self._database.execute(_PROVED, (doubtful,))

    def _store(self) -> None:
        with _storage():
            self._database.executemany(
                "INSERT INTO absent (side, offset, position, key, neighbours) VALUES (?, ?, ?, ?, ?)", self._rows
            )
        self._rows.clear()

    def _add_keys(self, side: Side, rows: pa.RecordBatch) -> None:
        """Add the keys of a copy that may lack records, and the removable tombstones of the other copy."""
        other: Side = "b" if side == "a" else "a"
        if self.may_lack(side):
            offsets, keys = rows.column("offset").to_pylist(), rows.column("key").to_pylist()
            self._update("keys", side, zip(offsets, keys, strict=True))
        seconds = self._seconds[other]
        if seconds is not None:
            limit = int(self._now_ms - seconds * 1000)
            old = pc.and_(pc.is_null(rows.column("value")), pc.less_equal(rows.column("timestamp"), limit))
            rows = rows.filter(old)
            offsets, keys = rows.column("offset").to_pylist(), rows.column("key").to_pylist()
            self._update("tombstones", side, zip(offsets, keys, strict=True))

    def _update(self, table: str, side: Side, records: Iterable[tuple[int, bytes | None]]) -> None:
        last = {key: offset for offset, key in records if key is not None}
        with _storage():
            self._database.executemany(
                _UPDATE.format(table), ((side, hash_key(key), offset) for key, offset in last.items())
            )


def hash_key(content: bytes) -> bytes:
    """Return the content if it is short, otherwise a hash of it that no short content equals."""
    if len(content) <= _RAW_BYTES:
        return content
    return b"of " + hashlib.blake2b(content, digest_size=_HASH_BYTES).digest()


@contextmanager
def _storage() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise LocalStorageError(
            f"The keys of a compacted topic cannot be stored in the temporary directory ({error}); free space there, "
            f"or set TMPDIR to another directory."
        ) from None
