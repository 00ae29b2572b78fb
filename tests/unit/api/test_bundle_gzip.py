"""The proof that a gzipped bundle is read like a plain one, and that a damaged one is refused in one sentence."""

from __future__ import annotations

import gzip
import os
import random
import threading
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gapless_api.base.errors import BundleError
from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges

_MEANINGLESS = range(4, 10)
"""Bytes of gzip's header that hold the time, how hard it was tried, and the system."""


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    chance = random.Random(3)
    gaps = [
        PartitionGaps("t", n, 0, 10**9, OffsetRanges((o, o) for o in chance.sample(range(10**9), 500)))
        for n in range(9)
    ]
    path = tmp_path / "bundle.json"
    write_bundle(path, BundleKind.ALL, gaps, created=datetime(2026, 1, 1, tzinfo=UTC), source={"name": "site"})
    return path


@pytest.mark.parametrize("name", ["bundle.json.gz", "bundle.json", "bundle"])
def test_the_content_tells_and_not_the_name(plain: Path, name: str) -> None:
    expected = read_bundle(plain)
    packed = plain.parent / name
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_bundle(packed) == expected


def test_several_members_one_after_the_other_are_one_bundle(plain: Path, tmp_path: Path) -> None:
    content = plain.read_bytes()
    (tmp_path / "two").write_bytes(gzip.compress(content[:1000]) + gzip.compress(content[1000:]))
    assert read_bundle(tmp_path / "two") == read_bundle(plain)


def test_a_pipe_can_be_read(plain: Path, tmp_path: Path) -> None:
    expected = read_bundle(plain)
    for content in (plain.read_bytes(), gzip.compress(plain.read_bytes())):
        pipe = tmp_path / f"pipe-{len(content)}"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        assert read_bundle(pipe) == expected
        writer.join()


@pytest.mark.parametrize("kept", [2, 5, 10, 100, 1000, -1, -4, -8])
def test_a_cut_one_is_refused_in_one_sentence(plain: Path, kept: int) -> None:
    packed = plain.with_suffix(".gz")
    packed.write_bytes(gzip.compress(plain.read_bytes())[:kept])
    with pytest.raises(BundleError, match=r"The gzip compression of the bundle .* is truncated; transfer it again"):
        read_bundle(packed)


def test_every_flipped_bit_is_noticed(plain: Path) -> None:
    expected, packed = read_bundle(plain), bytearray(gzip.compress(plain.read_bytes()))
    damaged = plain.with_suffix(".gz")
    chance = random.Random(5)
    for place in [*range(2, 12), *chance.sample(range(12, len(packed)), 200), *range(len(packed) - 8, len(packed))]:
        packed[place] ^= 1 << chance.randrange(8)
        damaged.write_bytes(packed)
        if place in _MEANINGLESS:
            assert read_bundle(damaged) == expected
        else:
            with pytest.raises(BundleError):
                read_bundle(damaged)
        packed = bytearray(gzip.compress(plain.read_bytes()))


def test_garbage_behind_the_end_is_refused(plain: Path) -> None:
    packed = plain.with_suffix(".gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()) + b"more")
    with pytest.raises(BundleError, match=r"The gzip compression of the bundle .* is damaged"):
        read_bundle(packed)


def test_a_bundle_that_is_ten_thousand_times_larger_when_unpacked_needs_no_more_memory(tmp_path: Path) -> None:
    packed = tmp_path / "bundle.gz"
    with gzip.open(packed, "wb") as stream:
        stream.write(b'{"type": "all", "results": [')
        for _ in range(64):
            stream.write(b" " * 1024 * 1024)
        stream.write(b"]}")
    assert packed.stat().st_size < 100_000
    tracemalloc.start()
    try:
        assert read_bundle(packed).results == ()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 1024 * 1024
