"""Owns how a bundle is written: one partition a line, our metadata last; must not know what is missing.

Written as a stream, so that ten million ranges need no more memory than they take in an `OffsetRanges`. The same input
gives the same bytes, but for the creation time and what follows from it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from gapless_api.base.files import atomic_writer_or_stdout
from gapless_api.bundle.form import (
    MADE_OF_RECORDS,
    BundleKind,
    CanonicalDigest,
    canonical_inferred,
    canonical_line,
    canonical_results,
    inferred_line,
    new_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from pathlib import Path

    from gapless_api.bundle.form import Bundle, BundleMetadata, PartitionGaps


def write_bundle(  # noqa: PLR0913 -- what a bundle says, and where it goes
    path: Path | None,
    kind: BundleKind,
    results: Iterable[PartitionGaps],
    *,
    created: datetime,
    source: dict[str, str],
    inferred: Iterable[PartitionGaps] = (),
    signing_key: Path | None = None,
) -> BundleMetadata:
    """Write a bundle completely or not at all.

    Args:
        path: the file; ``None`` for standard output.
        kind: `FIRST` keeps only the first range of each partition.
        results: in any order; several for the same topic and partition become one.
        created: when the bundle is made, with a time zone.
        source: where it comes from, for people.
        inferred: what of `results` was only inferred; ranges that the bundle does not hold are left out.
        signing_key: an Ed25519 private key (PEM, PKCS#8) to sign with.

    Returns:
        The metadata that was written.

    Raises:
        ConfigurationError: the key cannot be used.
        LocalStorageError: the file cannot be written.
        ValueError: `created` has no time zone, or a topic is none.
    """
    sign = _signer(signing_key)
    ordered = canonical_results(kind, results)
    marked = canonical_inferred(inferred, ordered)

    def finish(sha256: str, missing: int) -> BundleMetadata:
        return sign(new_metadata(created=created, source=source, missing=missing, sha256=sha256, inferred=marked))

    with atomic_writer_or_stdout(path, what="bundle") as stream:
        return _write(stream, kind, ordered, finish)


def write_signed(path: Path | None, bundle: Bundle, *, created: datetime, signing_key: Path) -> BundleMetadata:
    """Write `bundle` again with a signature; one without metadata gets it with the time `created`.

    Raises:
        ConfigurationError: the key cannot be used.
        LocalStorageError: the file cannot be written.
    """
    sign = _signer(signing_key)
    old = bundle.metadata

    def finish(sha256: str, missing: int) -> BundleMetadata:
        if old is not None:
            return sign(replace(old, missing=missing, sha256=sha256, signature=None))
        # Only the peer's have none, and it makes them of records.
        return sign(new_metadata(created=created, source=dict(MADE_OF_RECORDS), missing=missing, sha256=sha256))

    with atomic_writer_or_stdout(path, what="bundle") as stream:
        return _write(stream, bundle.kind, bundle.results, finish)


def _write(
    stream: IO[bytes],
    kind: BundleKind,
    results: tuple[PartitionGaps, ...],
    finish: Callable[[str, int], BundleMetadata],
) -> BundleMetadata:
    """Write canonical `results`, and the metadata that `finish` makes of the digest and the count."""
    digest = CanonicalDigest(kind)
    stream.write(f'{{\n  "type": "{kind}",\n  "results": [\n'.encode())
    for index, entry in enumerate(results):
        stream.write(b",\n  " if index else b"  ")
        for piece in canonical_line(entry):
            digest.update(piece)
            stream.write(piece)
        digest.end_line()
    metadata = finish(digest.hexdigest(), sum(entry.ranges.count for entry in results))
    end_of_last = "\n" if results else ""
    text = json.dumps(metadata.members(), ensure_ascii=False)
    stream.write(f'{end_of_last}],\n  "gapless": {text[:-1]}'.encode())
    for index, entry in enumerate(metadata.inferred):
        stream.write(b", " if index else b', "inferred": [')
        for piece in inferred_line(entry):
            stream.write(piece)
    stream.write(b"]}\n}\n" if metadata.inferred else b"}\n}\n")
    return metadata


def _signer(key_file: Path | None) -> Callable[[BundleMetadata], BundleMetadata]:
    if key_file is None:
        return lambda metadata: metadata
    from gapless_api.bundle.signature import load_signer  # noqa: PLC0415 -- cryptography is slow to import

    return load_signer(key_file)
