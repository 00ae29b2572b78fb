"""Writing a bundle: one partition per line, the metadata last; must not know how gaps are found.

It is written as a stream, so ten million ranges need no more memory than in an `OffsetRanges`. The same input gives the
same bytes, except for the creation time and what depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import IO

from gapless_api.base.files import atomic_writer_or_stdout
from gapless_api.bundle.form import (
    MADE_OF_RECORDS,
    Bundle,
    BundleKind,
    BundleMetadata,
    CanonicalDigest,
    PartitionGaps,
    canonical_inferred,
    canonical_line,
    canonical_results,
    inferred_line,
    new_metadata,
)


def write_bundle(  # noqa: PLR0913 -- the content of a bundle, and where it goes
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
        results: in any order; entries for the same topic and partition are merged.
        created: the creation time, with a time zone.
        source: the origin of the bundle, for people.
        inferred: the ranges of `results` that were only inferred; others are left out.
        signing_key: an Ed25519 private key (PEM, PKCS#8) to sign with; ``None`` for no signature.

    Returns:
        The metadata that was written.

    Raises:
        ConfigurationError: the key cannot be used.
        LocalStorageError: the file cannot be written.
        ValueError: `created` has no time zone, or a topic is invalid.
    """
    sign = _signer(signing_key)
    ordered = canonical_results(kind, results)
    ordered_inferred = canonical_inferred(inferred, ordered)

    def finish(sha256: str, missing: int) -> BundleMetadata:
        return sign(
            new_metadata(created=created, source=source, missing=missing, sha256=sha256, inferred=ordered_inferred)
        )

    with atomic_writer_or_stdout(path, what="bundle") as stream:
        return _write(stream, kind, ordered, finish)


def write_signed(path: Path | None, bundle: Bundle, *, created: datetime, signing_key: Path) -> BundleMetadata:
    """Write `bundle` with a signature; if it has no metadata, new metadata with the time `created` is added.

    Raises:
        ConfigurationError: the key cannot be used.
        LocalStorageError: the file cannot be written.
    """
    sign = _signer(signing_key)
    old = bundle.metadata

    def finish(sha256: str, missing: int) -> BundleMetadata:
        if old is not None:
            return sign(replace(old, missing=missing, sha256=sha256, signature=None))
        # Only bundles of the peer have no metadata, and they are made of records.
        return sign(new_metadata(created=created, source=dict(MADE_OF_RECORDS), missing=missing, sha256=sha256))

    with atomic_writer_or_stdout(path, what="bundle") as stream:
        return _write(stream, bundle.kind, bundle.results, finish)


def _write(
    stream: IO[bytes],
    kind: BundleKind,
    results: tuple[PartitionGaps, ...],
    finish: Callable[[str, int], BundleMetadata],
) -> BundleMetadata:
    """Write canonical `results`, and the metadata that `finish` creates from the digest and the number of offsets."""
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
