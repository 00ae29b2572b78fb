"""Reading and validating a bundle; must not know what it is used for.

It is read as a stream of JSON events, so only the ranges are kept in memory (8 bytes each, 16 beyond 2^32); gzip is
decompressed while reading. Ambiguous content is refused; unknown keys are skipped. Only a file without our digest may
list an offset twice.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from gapless_api.base.errors import BundleError
from gapless_api.bundle.form import (
    METADATA_VERSION,
    Bundle,
    BundleKind,
    BundleMetadata,
    PartitionGaps,
    canonical_sha256,
    inferred_sha256,
)
from gapless_api.codec.canonical import moment_of
from gapless_api.codec.strict_json import Plain, StrictReading, read_stream
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, TopicPartition, is_topic
from gapless_api.offsets.range_accumulator import RangeAccumulator


def read_bundle(path: Path, *, verification_key: Path | None = None, called: str = "") -> Bundle:
    """Read a bundle, of Gapless or of the peer, plain or compressed with gzip.

    Args:
        path: the bundle.
        verification_key: an Ed25519 public key (PEM) with which the bundle must be signed; ``None`` for any bundle.
        called: its name in messages; empty for `path`.

    Returns:
        The bundle, with results in canonical order. ``"results": []`` is a bundle with nothing to resend.

    Raises:
        BundleError: the file is missing, truncated, altered or not a bundle; the message says where.
        ConfigurationError: the key is invalid.
    """
    name = called or str(path)
    try:
        with path.open("rb") as stream:
            bundle = read_stream(_Reading, _Reading.bundle, name, stream)
    except OSError as error:
        raise BundleError(
            f"The bundle {name} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    if verification_key is not None:
        from gapless_api.bundle.signature import verify_metadata  # noqa: PLC0415 -- cryptography is slow to import

        verify_metadata(bundle.metadata, verification_key, bundle=path)
    return bundle


def read_bundle_text(text: bytes, *, name: str) -> Bundle:
    """Read a bundle from memory; `name` is its name in messages.

    Raises:
        BundleError: as `read_bundle`.
    """
    return read_stream(_Reading, _Reading.bundle, name, io.BufferedReader(io.BytesIO(text)))


class _Partition:
    """The merged entries of one topic and partition."""

    __slots__ = ("ranges", "window_max", "window_min")

    def __init__(self) -> None:
        self.ranges = RangeAccumulator()
        self.window_min: int | None = None
        self.window_max: int | None = None

    def join(self, other: _Partition) -> None:
        self.ranges.join(other.ranges)
        if other.window_min is not None:
            self.window_min = min(other.window_min, other.window_min if self.window_min is None else self.window_min)
        if other.window_max is not None:
            self.window_max = max(other.window_max, other.window_max if self.window_max is None else self.window_max)


class _Reading(StrictReading):
    """One reading of one bundle."""

    KIND = "bundle"
    REFUSAL = BundleError

    def __init__(self, name: str, stream: Plain) -> None:
        super().__init__(name, stream)
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._inferred: dict[TopicPartition, _Partition] = {}
        self._inferred_sha256: str | None = None
        self._repeated = 0

    def bundle(self) -> Bundle:
        names, kind_text, metadata = self._parsed(self._parse)
        if "results" not in names:
            self._refuse("is not a bundle: it has no results", "give the file that gapless scan or create wrote")
        kind = self._kind(kind_text)
        # The peer's create repeats offsets when its window size has changed, and its resend sends each once.
        results = tuple(
            self._gaps(key, self._partitions.pop(key), merges=metadata is None) for key in sorted(self._partitions)
        )
        if metadata is not None:
            metadata = replace(metadata, inferred=self._checked_inferred(results))
            self._check_metadata(metadata, kind, results)
        return Bundle(kind, results, metadata, self._repeated)

    def _parse(self) -> tuple[set[str], Any, BundleMetadata | None]:
        """Read the text; return the names of its members, the type as text, and the metadata."""
        if next(self._events)[0] != "start_map":
            self._refuse("is not a bundle: it is not a JSON object", "give the file that gapless scan or create wrote")
        kind_text: Any = None
        names: set[str] = set()
        metadata: BundleMetadata | None = None
        for name in self._members(frozenset({"type", "results", "gapless"})):
            names.add(name)
            if name == "type":
                _, kind_text = self._scalar()
            elif name == "results":
                self._results()
            else:
                metadata = self._metadata()
        self._end()
        return names, kind_text, metadata

    def _kind(self, text: Any) -> BundleKind:
        if text is None and not self._partitions:
            return BundleKind.ALL
        try:
            return BundleKind(text)
        except ValueError:
            shown = "no type" if text is None else f"the unknown type {str(text)[:40]!r}"
            self._refuse(f"has {shown}, and only all and first are supported", "create a new one")

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
        names = set()
        for name in self._members(frozenset({"gaps", "partition", "topic", "window_max", "window_min"})):
            names.add(name)
            if name == "gaps":
                partition.ranges = self._ranges() or RangeAccumulator()
            elif name == "topic":
                topic = self._topic()
            elif name == "partition":
                number = self._integer(MAX_PARTITION)
            elif name == "window_min":
                partition.window_min = self._integer(MAX_OFFSET)
            else:
                partition.window_max = self._integer(MAX_OFFSET)
        self._where = where
        for name in ("topic", "partition", "gaps"):
            if name not in names:
                self._refuse(f"has no {name}")
        assert topic is not None  # noqa: S101 -- for the type checker: it is among `names`
        assert number is not None  # noqa: S101
        before = self._partitions.setdefault((topic, number), partition)
        if before is not partition:
            before.join(partition)

    def _topic(self) -> str:
        event, topic = self._scalar()
        if event != "string" or not is_topic(topic):
            self._refuse("is not the name of a topic")
        return str(topic)

    def _gaps(self, key: TopicPartition, partition: _Partition, *, merges: bool = False) -> PartitionGaps:
        topic, number = key
        try:
            ranges = partition.ranges.build(merges=merges)
        except ValueError as error:
            self._refuse(f"lists offset {error} of topic {topic}, partition {number}, twice", "create a new one")
        self._repeated += partition.ranges.repeated
        highest = ranges.last_offset if len(ranges) else 0
        window_max = highest if partition.window_max is None else partition.window_max
        return PartitionGaps(topic, number, partition.window_min or 0, window_max, ranges)

    def _metadata(self) -> BundleMetadata:
        self._expect("start_map", "is not an object")
        texts: dict[str, str] = {}
        numbers: dict[str, int] = {}
        source: dict[str, str] | None = None
        known = frozenset(
            {"version", "id", "created", "source", "missing", "sha256", "inferred_sha256", "signature", "inferred"}
        )
        for name in self._members(known):
            if name in {"version", "missing"}:
                numbers[name] = self._integer(None)
            elif name == "source":
                source = self._source()
            elif name == "inferred":
                self._inferred_list()
            else:
                texts[name] = self._text()
        self._where = "gapless"
        if numbers.get("version", METADATA_VERSION) != METADATA_VERSION:
            self._refuse(
                f"has version {numbers['version']}, and this program reads only {METADATA_VERSION}", "update it"
            )
        for name in ("version", "id", "created", "source", "missing", "sha256"):
            if name not in {*texts, *numbers} and (name != "source" or source is None):
                self._refuse(f"has no {name}")
        self._inferred_sha256 = texts.get("inferred_sha256")
        created = moment_of(texts["created"])
        if created is None:
            self._refuse("has a creation time that is not like 2026-11-20T10:00:00Z")
        return BundleMetadata(
            numbers["version"],
            texts["id"],
            created,
            source or {},
            numbers["missing"],
            texts["sha256"],
            texts.get("signature"),
        )

    def _inferred_list(self) -> None:
        outer = self._where
        self._expect("start_array", "is not a list")
        for index, (event, _) in enumerate(self._events):
            self._where = outer
            if event == "end_array":
                return
            self._where = f"{outer}[{index}]"
            if event != "start_map":
                self._refuse("is not an object")
            self._inferred_entry()

    def _inferred_entry(self) -> None:
        where = self._where
        partition = _Partition()
        topic, number = None, None
        for name in self._members(frozenset({"partition", "ranges", "topic"})):
            if name == "ranges":
                partition.ranges = self._ranges() or RangeAccumulator()
            elif name == "topic":
                topic = self._topic()
            else:
                number = self._integer(MAX_PARTITION)
        self._where = where
        if topic is None or number is None or not len(partition.ranges):
            self._refuse(f"has no {'topic' if topic is None else 'partition' if number is None else 'ranges'}")
        if self._inferred.setdefault((topic, number), partition) is not partition:
            self._refuse(f"is a second entry for topic {topic}, partition {number}")

    def _checked_inferred(self, results: tuple[PartitionGaps, ...]) -> tuple[PartitionGaps, ...]:
        """Return the inferred ranges of the metadata, which must be among `results`."""
        self._where = "gapless.inferred" if self._inferred else ""
        by_partition = {(entry.topic, entry.partition): entry for entry in results}
        inferred = []
        for key in sorted(self._inferred):
            entry = self._gaps(key, self._inferred.pop(key))
            result = by_partition.get(key)
            beyond = entry.ranges - result.ranges if result is not None else entry.ranges
            if result is None or len(beyond):
                self._refuse(
                    f"lists offset {beyond.first_offset} of topic {key[0]}, partition {key[1]}, but the gaps do not"
                )
            inferred.append(replace(result, ranges=entry.ranges))
        self._where = ""
        return tuple(inferred)

    def _check_metadata(self, metadata: BundleMetadata, kind: BundleKind, results: tuple[PartitionGaps, ...]) -> None:
        inferred = inferred_sha256(metadata.inferred) if metadata.inferred else None
        if inferred != self._inferred_sha256:
            self._refuse("was altered: its inferred ranges do not match its inferred_sha256")
        sha256 = canonical_sha256(kind, results)
        if sha256 != metadata.sha256:
            self._refuse(f"was altered: the digest of its content is {sha256[:12]}… and not {metadata.sha256[:12]!r}…")
        missing = sum(entry.ranges.count for entry in results)
        if missing != metadata.missing:
            self._refuse(f"lists {missing} missing offsets, but its metadata has {metadata.missing}")
