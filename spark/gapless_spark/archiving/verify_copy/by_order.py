"""The comparison of two copies with different offsets: records are compared in their order in the partition.

Batches of records are compared while they are equal. At the first difference, fingerprints of the following records are
aligned, with larger and larger windows until the copies agree again. Must not know where records come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gapless_archive.segments.rows import Record, records_of
from gapless_spark.archiving.verify_copy.compaction import hash_key
from gapless_spark.archiving.verify_copy.matching import Fingerprint, Pairing, align
from gapless_spark.archiving.verify_copy.parts import first_different_row, rows_equal
from gapless_spark.archiving.verify_copy.streams import Stream, offset_at

if TYPE_CHECKING:
    from gapless_api.wire.copy_report import Part, Side
    from gapless_spark.archiving.verify_copy.findings import Findings

_FIRST_WINDOW = 64
MAX_WINDOW = 65_536
"""Maximum number of records of each copy that are aligned; a longer loss in the middle of a partition is found, but the
records after it are not recognised as equal."""
_GROWTH = 4
_FINGERPRINT_BYTES = 16
_NAMES: tuple[Part, ...] = ("key", "value", "headers", "timestamp", "timestampType")


def compare_by_order(a: Stream, b: Stream, parts: Sequence[Part], findings: Findings) -> None:
    """Compare all records of two streams."""
    _Comparison(a, b, parts, findings).run()


class _Window:
    """Fingerprints of records that were read from one copy but not compared yet."""

    def __init__(self, stream: Stream, parts: Sequence[Part]) -> None:
        self.stream = stream
        self.offsets: list[int] = []
        self.prints: list[Fingerprint] = []
        self._parts = frozenset(parts)

    def fill(self, count: int) -> None:
        """Read until there are `count` records, or a gap, or the end."""
        while len(self.offsets) < count:
            self.stream.load()
            if not self.stream.rows.num_rows:
                return
            rows = self.stream.take(min(count - len(self.offsets), self.stream.rows.num_rows))
            for record in records_of(rows):
                self.offsets.append(record.offset)
                self.prints.append(_fingerprint(record, self._parts))

    @property
    def is_complete(self) -> bool:
        """Whether a gap or the end follows these records."""
        self.stream.load()
        return not self.stream.rows.num_rows

    def drop(self, count: int) -> None:
        del self.offsets[:count], self.prints[:count]


class _Comparison:
    def __init__(self, a: Stream, b: Stream, parts: Sequence[Part], findings: Findings) -> None:
        self._a, self._b, self._parts, self._findings = a, b, parts, findings
        self._window_a, self._window_b = _Window(a, parts), _Window(b, parts)
        self._reached_a = self._reached_b = -1
        """The highest offsets that were compared."""

    def run(self) -> None:
        a, b = self._a, self._b
        while True:
            a.load()
            b.load()
            if a.gap is not None or b.gap is not None:
                self._pass_gap()
            elif a.is_ended or b.is_ended:
                break
            else:
                self._compare_batches()
        self._take_rest("a", a)
        self._take_rest("b", b)

    def _compare_batches(self) -> None:
        count = min(self._a.rows.num_rows, self._b.rows.num_rows)
        rows_a, rows_b = self._a.rows.slice(0, count), self._b.rows.slice(0, count)
        same = count if rows_equal(rows_a, rows_b, self._parts) else first_different_row(rows_a, rows_b, self._parts)
        self._a.take(same)
        self._b.take(same)
        self._findings.add_equal(same)
        if same:
            self._reach(offset_at(rows_a, same - 1), offset_at(rows_b, same - 1))
        if same < count:
            self._resynchronise()

    def _take_rest(self, side: Side, stream: Stream) -> None:
        """Take the records at the end that only one copy has."""
        while True:
            stream.load()
            count = stream.rows.num_rows
            if not count:
                break
            rows = stream.take(count)
            keys = map(_digest, rows.column("key").to_pylist()) if self._findings.absences is not None else []
            self._add_absent(side, rows.column("offset").to_pylist(), keys)
        if stream.gap is not None:
            self._findings.add_not_compared(side, stream.gap)
            stream.pass_gap()
            self._take_rest(side, stream)

    def _pass_gap(self) -> None:
        """Skip a gap, and the same number of records of the other copy, which are not compared."""
        sides: tuple[tuple[Side, Stream, Stream], ...] = (("a", self._a, self._b), ("b", self._b, self._a))
        for side, stream, other in sides:
            gap = stream.gap
            if gap is not None:
                self._findings.add_not_compared(side, gap)
                stream.pass_gap()
                other.skip(gap.records or 0)

    def _resynchronise(self) -> None:
        """Compare fingerprints until both windows are empty, and the copies agree again."""
        a, b = self._window_a, self._window_b
        size = _FIRST_WINDOW
        while True:
            a.fill(size)
            b.fill(size)
            same = _common_prefix(a.prints, b.prints)
            self._findings.add_equal(same)
            if same:
                self._reach(a.offsets[same - 1], b.offsets[same - 1])
            a.drop(same)
            b.drop(same)
            if self._pass_gap_inside():
                continue
            if not a.offsets or not b.offsets:
                if a.offsets and b.is_complete:
                    self._only("a", a)
                elif b.offsets and a.is_complete:
                    self._only("b", b)
                if not a.offsets and not b.offsets:
                    return
                size = max(len(a.offsets), len(b.offsets))
            elif same:
                size = max(_FIRST_WINDOW, len(a.offsets), len(b.offsets))
            elif self._align_windows(is_last_try=size >= MAX_WINDOW):
                size = max(len(a.offsets), len(b.offsets), 1)
            else:
                size *= _GROWTH

    def _pass_gap_inside(self) -> bool:
        """Skip a gap once all records before it were compared."""
        a, b = self._window_a, self._window_b
        sides: tuple[tuple[Side, _Window, _Window], ...] = (("a", a, b), ("b", b, a))
        for side, window, other in sides:
            gap = window.stream.gap
            if gap is not None and not window.offsets:
                self._findings.add_not_compared(side, gap)
                window.stream.pass_gap()
                known = min(gap.records or 0, len(other.offsets))
                other.drop(known)
                other.stream.skip((gap.records or 0) - known)
                return True
        return False

    def _align_windows(self, *, is_last_try: bool) -> bool:
        """Align the beginnings of both windows; return ``False`` if that needs more records."""
        a, b = self._window_a, self._window_b
        is_complete = a.is_complete and b.is_complete
        is_all = is_complete and a.stream.is_ended and b.stream.is_ended
        if is_last_try and not is_all and self._skip_compacted():
            return True
        aligned = align(a.prints, b.prints, is_all=is_all, is_last_try=is_last_try or is_complete)
        if aligned is None:
            return False
        for pairing in aligned.pairings:
            self._take_pairing(pairing)
        a.drop(aligned.used_a)
        b.drop(aligned.used_b)
        return True

    def _skip_compacted(self) -> bool:
        """Take a whole window as absent from a compacted copy, which may lack more records than fit into a window.

        Without a record in common, the window that is taken is that of the other copy; if both copies were compacted,
        the older one by timestamps. Returns whether one was taken.
        """
        a, b, absences = self._window_a, self._window_b, self._findings.absences
        if absences is None or set(a.prints) & set(b.prints):
            return False
        may_skip_a, may_skip_b = absences.may_lack("b"), absences.may_lack("a")
        if may_skip_a and may_skip_b:
            may_skip_a, may_skip_b = _is_older(a, b), _is_older(b, a)
        if may_skip_a == may_skip_b:
            return False
        self._only(*(("a", a) if may_skip_a else ("b", b)))
        return True

    def _take_pairing(self, pairing: Pairing) -> None:
        a, b = self._window_a, self._window_b
        if pairing.a is None or pairing.b is None:
            side: Side = "a" if pairing.a is not None else "b"
            window, at = (a, pairing.a) if pairing.a is not None else (b, pairing.b or 0)
            self._add_absent(side, [window.offsets[at]], [window.prints[at].key])
            return
        offsets = a.offsets[pairing.a], b.offsets[pairing.b]
        if pairing.is_moved:
            self._findings.add_moved(*offsets)
            self._reach(*offsets)
            return
        print_a, print_b = a.prints[pairing.a], b.prints[pairing.b]
        values = zip(_NAMES, print_a, print_b, strict=True)
        different = tuple(name for name, in_a, in_b in values if in_a != in_b)
        if different and self._findings.absences is not None and not _are_similar(print_a, print_b):
            self._add_absent("a", [offsets[0]], [print_a.key])
            self._add_absent("b", [offsets[1]], [print_b.key])
            return
        self._reach(*offsets)
        if different:
            self._findings.add_different(different, *offsets)
        else:
            self._findings.add_equal(1)

    def _only(self, side: Side, window: _Window) -> None:
        self._add_absent(side, window.offsets, [each.key for each in window.prints])
        window.drop(len(window.offsets))

    def _add_absent(self, side: Side, offsets: Sequence[int], keys: Iterable[bytes | None]) -> None:
        self._findings.add_absent(side, offsets, keys, self._reached_b if side == "a" else self._reached_a)
        if side == "a":
            self._reach(offsets[-1], -1)
        else:
            self._reach(-1, offsets[-1])

    def _reach(self, offset_a: int, offset_b: int) -> None:
        self._reached_a, self._reached_b = max(self._reached_a, offset_a), max(self._reached_b, offset_b)


def _is_older(window: _Window, other: _Window) -> bool:
    """Whether all records of a window have lower timestamps than those of another one."""
    times = [each.timestamp for each in window.prints if each.timestamp is not None]
    others = [each.timestamp for each in other.prints if each.timestamp is not None]
    is_known = len(times) == len(window.prints) and len(others) == len(other.prints)
    return is_known and max(times) < min(others)


def _are_similar(a: Fingerprint, b: Fingerprint) -> bool:
    """Whether two different records are one record that was changed, and not two records."""
    return (a.key == b.key and (a.timestamp == b.timestamp or (a.value, a.headers) == (b.value, b.headers))) or (
        (a.value, a.timestamp) == (b.value, b.timestamp)
    )


def _common_prefix(a: Sequence[Fingerprint], b: Sequence[Fingerprint]) -> int:
    count = min(len(a), len(b))
    return next((at for at in range(count) if a[at] != b[at]), count)


def _fingerprint(record: Record, parts: frozenset[Part]) -> Fingerprint:
    headers = b"" if not record.headers else _header_digest(record.headers)
    return Fingerprint(
        _digest(record.key),
        _digest(record.value),
        headers,
        record.timestamp,
        record.timestamp_type if "timestampType" in parts else None,
    )


def _header_digest(headers: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    total = hashlib.blake2b(digest_size=_FINGERPRINT_BYTES)
    for name, value in headers:
        total.update(b"%d:%d:" % (len(name), -1 if value is None else len(value)))
        total.update(name)
        total.update(value or b"")
    return total.digest()


def _digest(content: bytes | None) -> bytes | None:
    return None if content is None else hash_key(content)
