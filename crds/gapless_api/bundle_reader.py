"""Owns how a bundle is read and what is refused; must not know what is done with it.

Read as a stream of JSON events, so that memory holds the ranges (16 bytes each) and nothing else; a bundle that is
compressed with gzip is unpacked on the way. Everything that a program could misunderstand is refused with one sentence;
keys that nobody knows are skipped.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from array import array
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, NoReturn

import ijson

from gapless_api.bundle_form import MARK_VERSION, Bundle, BundleKind, BundleMark, PartitionGaps, canonical_sha256
from gapless_api.errors import BundleError
from gapless_api.ids import MAX_OFFSET, MAX_PARTITION, is_topic
from gapless_api.offsets import OffsetRanges, RangesBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CARRY_AGAIN = "carry it again or have it made again"
_MOST_SOURCE_MEMBERS = 1000
_GZIP_MAGIC = b"\x1f\x8b"


def read_bundle(path: Path, *, verification_key: Path | None = None, called: str = "") -> Bundle:
    """Read a bundle of ours or of the peer's, plain or compressed with gzip.

    Args:
        path: the bundle.
        verification_key: an Ed25519 public key (PEM) with which the bundle must be signed; ``None`` for any bundle.
        called: what messages call it; nothing for `path`.

    Returns:
        The bundle, its results in canonical order. ``"results": []`` is a bundle with nothing to do.

    Raises:
        BundleError: the file is missing, cut, altered or not a bundle; the sentence says where.
        ConfigurationError: the key cannot be used.
    """
    name = called or str(path)
    try:
        with path.open("rb") as stream:
            bundle = _read(name, stream)
    except OSError as error:
        raise BundleError(
            f"The bundle {name} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    if verification_key is not None:
        from gapless_api.bundle_signature import verify_mark  # noqa: PLC0415 -- cryptography is slow to import

        verify_mark(bundle.mark, verification_key, bundle=path)
    return bundle


def read_bundle_text(text: bytes, *, name: str) -> Bundle:
    """Read a bundle that is already in memory; `name` is what error messages call it.

    Raises:
        BundleError: as `read_bundle`.
    """
    return _read(name, io.BufferedReader(io.BytesIO(text)))


def _read(name: str, stream: io.BufferedReader) -> Bundle:
    if stream.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):  # an editor of Windows has been there
        stream.read(len(codecs.BOM_UTF8))
    if not stream.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
        return _Reading(name, stream).bundle()
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            return _Reading(name, unpacked).bundle()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        problem = "is cut off" if isinstance(error, EOFError) else "is damaged"
        raise BundleError(f"The bundle {name} {problem} within its gzip compression; {_CARRY_AGAIN}.") from None


class _Partition:
    """What the entries of one topic and partition have said so far."""

    __slots__ = ("firsts", "in_order", "lasts", "window_max", "window_min")

    def __init__(self) -> None:
        self.firsts = array("q")
        self.lasts = array("q")
        self.in_order = True
        """Whether every range begins beyond the end of the one before, with at least one offset between."""
        self.window_min: int | None = None
        self.window_max: int | None = None

    def join(self, other: _Partition) -> None:
        self.firsts += other.firsts
        self.lasts += other.lasts
        self.in_order = False
        if other.window_min is not None:
            self.window_min = min(other.window_min, other.window_min if self.window_min is None else self.window_min)
        if other.window_max is not None:
            self.window_max = max(other.window_max, other.window_max if self.window_max is None else self.window_max)

    def ranges(self) -> OffsetRanges:
        """All ranges in order.

        Raises:
            ValueError: two of them overlap; the argument is an offset that both hold.
        """
        if self.in_order:
            return OffsetRanges.of_canonical(self.firsts, self.lasts)
        # Disjoint ranges have the same order by their first and by their last offsets, so each column can be sorted
        # for itself; and ranges sorted so overlap somewhere if and only if two neighbours do.
        firsts = array("q", sorted(self.firsts))
        self.firsts = array("q")
        lasts = array("q", sorted(self.lasts))
        self.lasts = array("q")
        builder = RangesBuilder()
        previous = -1
        for first, last in zip(firsts, lasts, strict=True):
            if first <= previous:
                raise ValueError(first)
            builder.add(first, last)
            previous = last
        return builder.build()


class _Counted:
    """A stream that knows how far it was read and whether its end was reached."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream = stream
        self.bytes_read = 0
        self.ended = False

    def read(self, size: int = -1) -> bytes:
        piece = self._stream.read(size)
        self.bytes_read += len(piece)
        self.ended = self.ended or (size != 0 and not piece)
        return piece


class _Reading:
    """One reading of one bundle; `_where` is the place that an error message names."""

    def __init__(self, name: str, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._name = name
        self._stream = _Counted(stream)
        self._events: Iterator[tuple[str, Any]] = ijson.basic_parse(self._stream)
        self._where = ""
        self._complete = False
        self._partitions: dict[tuple[str, int], _Partition] = {}

    def bundle(self) -> Bundle:
        try:
            found, kind_text, mark = self._parse()
        except (ijson.JSONError, ValueError, SystemError) as error:  # the last two for numbers of thousands of digits
            self._refuse_text(error)
        if "results" not in found:
            self._refuse("is no bundle, for it has no results", "give the file that gapless scan or create wrote")
        kind = self._kind(kind_text)
        results = tuple(self._gaps_of(place) for place in sorted(self._partitions))
        bundle = Bundle(kind, results, mark)
        if mark is not None:
            self._check_mark(mark, bundle)
        return bundle

    def _parse(self) -> tuple[set[str], Any, BundleMark | None]:
        """Read the whole text; return the members it has, the type as it stands there, and the mark."""
        if next(self._events)[0] != "start_map":
            self._refuse("is no bundle, for it is no JSON object", "give the file that gapless scan or create wrote")
        kind_text: Any = None
        found: set[str] = set()
        mark: BundleMark | None = None
        for name in self._members(frozenset({"type", "results", "gapless"})):
            found.add(name)
            if name == "type":
                _, kind_text = self._scalar()
            elif name == "results":
                self._results()
            else:
                mark = self._mark()
        self._complete = True
        self._where = ""
        for _ in self._events:  # the parser finds what stands behind the end
            pass
        return found, kind_text, mark

    def _kind(self, text: Any) -> BundleKind:
        if text is None and not self._partitions:
            return BundleKind.ALL
        try:
            return BundleKind(text)
        except ValueError:
            shown = "no type" if text is None else f"the unknown type {str(text)[:40]!r}"
            self._refuse(f"has {shown}, and only all and first are understood", "have it made again")

    def _results(self) -> None:
        self._where = "results"
        self._expect("start_array", "is not a list")
        for index, (event, _) in enumerate(self._events):
            if event == "end_array":
                return
            self._where = f"results[{index}]"
            if event != "start_map":
                self._refuse("is not an object")
            self._entry()

    def _entry(self) -> None:
        where = self._where
        partition = _Partition()
        topic, number = None, None
        known = frozenset({"gaps", "partition", "topic", "window_max", "window_min"})
        found = set()
        for name in self._members(known):
            found.add(name)
            if name == "gaps":
                self._gaps(partition)
            elif name == "topic":
                event, topic = self._scalar()
                if event != "string" or not is_topic(topic):
                    self._refuse("is not the name of a topic")
            elif name == "partition":
                number = self._whole(MAX_PARTITION)
            elif name == "window_min":
                partition.window_min = self._whole(MAX_OFFSET)
            else:
                partition.window_max = self._whole(MAX_OFFSET)
        self._where = where
        for name in ("topic", "partition", "gaps"):
            if name not in found:
                self._refuse(f"has no {name}")
        assert topic is not None  # noqa: S101 -- for the type checker: it is among `found`
        assert number is not None  # noqa: S101
        known_before = self._partitions.setdefault((topic, number), partition)
        if known_before is not partition:
            known_before.join(partition)

    def _gaps(self, into: _Partition) -> None:
        """Read a list of ``[offset]`` and ``[first, last]``. The inner loop of reading, so it is written flat."""
        take = self._events.__next__
        firsts, lasts = into.firsts, into.lasts
        event, _ = take()
        if event == "null":
            return
        if event != "start_array":
            self._refuse("is not a list")
        previous = -2
        while True:
            event, _ = take()
            if event == "end_array":
                return
            if event != "start_array":
                self._refuse_gap(len(firsts), "is not a list of one or two offsets")
            _, first = take()
            event, last = take()
            if event == "end_array":
                last = first
            elif take()[0] != "end_array":
                self._refuse_gap(len(firsts), "is not a list of one or two offsets")
            if type(first) is not int or type(last) is not int or not 0 <= first <= last <= MAX_OFFSET:
                self._refuse_gap(len(firsts), _why_no_range(first, last))
            if first <= previous + 1:
                into.in_order = False
            previous = last
            firsts.append(first)
            lasts.append(last)

    def _gaps_of(self, place: tuple[str, int]) -> PartitionGaps:
        topic, number = place
        partition = self._partitions.pop(place)
        try:
            ranges = partition.ranges()
        except ValueError as error:
            self._refuse(f"lists offset {error} of topic {topic}, partition {number}, twice", "have it made again")
        highest = ranges.last_offset if len(ranges) else 0
        window_max = highest if partition.window_max is None else partition.window_max
        return PartitionGaps(topic, number, partition.window_min or 0, window_max, ranges)

    def _mark(self) -> BundleMark:
        self._expect("start_map", "is not an object")
        texts: dict[str, str] = {}
        numbers: dict[str, int] = {}
        source: dict[str, str] | None = None
        known = frozenset({"version", "id", "created", "source", "missing", "sha256", "signature"})
        for name in self._members(known):
            if name in {"version", "missing"}:
                numbers[name] = self._whole(None)
            elif name == "source":
                source = self._source()
            else:
                event, text = self._scalar()
                if event != "string":
                    self._refuse("is not text")
                texts[name] = text
        self._where = "gapless"
        if numbers.get("version", MARK_VERSION) != MARK_VERSION:
            self._refuse(f"has version {numbers['version']}, and this program knows only {MARK_VERSION}", "update it")
        for name in ("version", "id", "created", "source", "missing", "sha256"):
            if name not in {*texts, *numbers} and (name != "source" or source is None):
                self._refuse(f"has no {name}")
        created = _moment(texts["created"])
        if created is None:
            self._refuse("has a time of making that is not like 2026-11-20T10:00:00Z")
        return BundleMark(
            numbers["version"],
            texts["id"],
            created,
            source or {},
            numbers["missing"],
            texts["sha256"],
            texts.get("signature"),
        )

    def _source(self) -> dict[str, str]:
        self._expect("start_map", "is not an object")
        source: dict[str, str] = {}
        for name in self._members(None):
            event, text = self._scalar()
            if event != "string":
                self._refuse("is not text")
            source[name] = text
            if len(source) > _MOST_SOURCE_MEMBERS:
                self._refuse("is one of too many")
        return source

    def _check_mark(self, mark: BundleMark, bundle: Bundle) -> None:
        sha256 = canonical_sha256(bundle.kind, bundle.results)
        if sha256 != mark.sha256:
            self._refuse(
                f"was altered: the digest of its content is {sha256[:12]}… and it says {mark.sha256[:12]!r}…",
                _CARRY_AGAIN,
            )
        if bundle.missing != mark.missing:
            self._refuse(f"lists {bundle.missing} missing offsets and says {mark.missing}", _CARRY_AGAIN)

    def _members(self, known: frozenset[str] | None) -> Iterator[str]:
        """Go through the members of the object just begun: yield `known` names once each, skip others' values.

        The caller must take the whole value of a name before it goes on.
        """
        outer = self._where
        found: set[str] = set()
        for event, name in self._events:
            if event == "end_map":
                self._where = outer
                return
            shown = "".join(each if each.isprintable() else "?" for each in name[:80])
            self._where = f"{outer}.{shown}" if outer else shown
            if known is not None and name not in known:
                self._skip()
                continue
            if name in found:
                self._refuse("is there twice")
            found.add(name)
            yield name

    def _skip(self) -> None:
        depth = 0
        for event, _ in self._events:
            if event in {"start_map", "start_array"}:
                depth += 1
            elif event in {"end_map", "end_array"}:
                depth -= 1
            if depth == 0:
                return

    def _scalar(self) -> tuple[str, Any]:
        event, value = next(self._events)
        if event in {"start_map", "start_array"}:
            self._refuse("is not a single value")
        return event, value

    def _whole(self, most: int | None) -> int:
        _, number = self._scalar()
        if type(number) is not int or number < 0 or (most is not None and number > most):
            self._refuse(f"is not a whole number {'of 0 or more' if most is None else f'from 0 to {most}'}")
        return number

    def _expect(self, event: str, otherwise: str) -> None:
        if next(self._events)[0] != event:
            self._refuse(otherwise)

    def _refuse_gap(self, index: int, problem: str) -> NoReturn:
        self._where = f"{self._where}[{index}]"
        self._refuse(problem)

    def _refuse(self, problem: str, cure: str = _CARRY_AGAIN) -> NoReturn:
        place = f": {self._where}" if self._where else ""
        raise BundleError(f"The bundle {self._name}{place} {problem}; {cure}.")

    def _refuse_text(self, error: Exception) -> NoReturn:
        """Say why the text is no JSON: it is empty, cut, followed by something, or wrong in the middle."""
        place = f" (in {self._where})" if self._where else ""
        self._where = ""
        if self._stream.bytes_read == 0:
            self._refuse("is empty", "the program that made it failed: have it made again")
        if self._complete:
            self._refuse("goes on after its end", "delete what follows the last brace, or " + _CARRY_AGAIN)
        if self._stream.ended and isinstance(error, ijson.IncompleteJSONError):
            self._refuse(f"is cut off after {self._stream.bytes_read} bytes{place}", _CARRY_AGAIN)
        self._refuse(f"is not valid JSON{place}", _CARRY_AGAIN)


def _why_no_range(first: Any, last: Any) -> str:
    if type(first) is not int or type(last) is not int:
        return "is not a list of one or two whole numbers"
    if last < first:
        return f"is reversed: it goes from {first} to {last}"
    return f"has an offset that is not within 0 to {MAX_OFFSET}"


def _moment(text: str) -> datetime | None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text, re.ASCII):
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
