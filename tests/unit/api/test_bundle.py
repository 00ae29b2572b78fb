from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import LocalStorageError
from gapless_api.bundle.form import Bundle, BundleKind, BundleMetadata, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges

CREATED = datetime(2026, 11, 20, 10, 0, 0, 999, tzinfo=UTC)
PEERS_ENTRIES = [
    PartitionGaps("transfer", 2, 0, 999, OffsetRanges()),
    PartitionGaps("transfer", 0, 0, 2999, OffsetRanges([(5, 5), (1005, 1005), (1010, 1015), (1050, 1050)])),
    PartitionGaps("transfer", 1, 0, 999, OffsetRanges([(0, 899)])),
]
RANGES = st.builds(
    lambda base, pairs: OffsetRanges((base + first, base + first + more) for first, more in pairs),
    st.sampled_from([0, 2**53, MAX_OFFSET - 1100]),
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 100)), max_size=20),
)
TOPICS = st.sampled_from(["transfer", "a.b_c-d", "Z", "übertragung", 'with "quotes" and \\', "🦆"])
ENTRIES = st.lists(
    st.builds(PartitionGaps, TOPICS, st.integers(0, 3), st.just(0), st.just(MAX_OFFSET), RANGES), max_size=8
)


def write(path: Path, entries: list[PartitionGaps], kind: BundleKind = BundleKind.ALL, **given: Any) -> BundleMetadata:
    return write_bundle(path, kind, entries, **{"created": CREATED, "source": {"topic": "gaps"}, **given})


def test_the_results_have_the_peers_very_bytes(tmp_path: Path, vectors: Path) -> None:
    write(tmp_path / "b", PEERS_ENTRIES)
    ours, _, metadata = (tmp_path / "b").read_text().partition(',\n  "gapless": ')
    assert ours + "\n}\n" == (vectors / "bundle-out-all.json").read_text()
    assert metadata.endswith("}\n}\n")
    assert metadata.count("\n") == 2


def test_the_documented_example_is_what_is_written(tmp_path: Path) -> None:
    page = Path(__file__).parents[3].joinpath("docs", "reference", "bundle-format.md").read_text()
    write(tmp_path / "b", PEERS_ENTRIES)
    assert page.partition("```json\n")[2].partition("```")[0] == (tmp_path / "b").read_text()


def test_first_keeps_only_the_first_gap_of_each_partition_as_a_range_if_it_is_one(tmp_path: Path) -> None:
    metadata = write(tmp_path / "b", PEERS_ENTRIES, BundleKind.FIRST)
    assert (
        (tmp_path / "b")
        .read_text()
        .startswith(
            '{\n  "type": "first",\n  "results": [\n'
            '  {"gaps":[[5]],"partition":0,"topic":"transfer","window_max":2999,"window_min":0},\n'
            '  {"gaps":[[0,899]],"partition":1,"topic":"transfer","window_max":999,"window_min":0},\n'
            '  {"gaps":null,"partition":2,"topic":"transfer","window_max":999,"window_min":0}\n'
            '],\n  "gapless": {'
        )
    )
    assert metadata.missing == 901


def test_a_bundle_without_results_is_laid_out_like_the_peers(tmp_path: Path) -> None:
    write(tmp_path / "b", [])
    assert (tmp_path / "b").read_text().startswith('{\n  "type": "all",\n  "results": [\n],\n  "gapless": {')
    assert read_bundle(tmp_path / "b").results == ()


@given(ENTRIES, st.sampled_from(BundleKind))
def test_what_is_written_is_what_is_read(tmp_path: Path, entries: list[PartitionGaps], kind: BundleKind) -> None:
    metadata = write(tmp_path / "b", entries, kind)
    wanted: dict[tuple[str, int], OffsetRanges] = {}
    for entry in entries:
        place = (entry.topic, entry.partition)
        wanted[place] = wanted.get(place, OffsetRanges()) | entry.ranges
    if kind is BundleKind.FIRST:
        wanted = {place: OffsetRanges(ranges.head(1)) for place, ranges in wanted.items()}
    results = tuple(
        PartitionGaps(topic, number, 0, MAX_OFFSET, wanted[topic, number]) for topic, number in sorted(wanted)
    )
    assert read_bundle(tmp_path / "b") == Bundle(kind, results, metadata)
    assert metadata.missing == sum(ranges.count for ranges in wanted.values())
    standard = json.loads((tmp_path / "b").read_text())
    assert [(e["topic"], e["partition"], [(g[0], g[-1]) for g in e["gaps"] or []]) for e in standard["results"]] == [
        (e.topic, e.partition, list(e.ranges)) for e in results
    ]


@given(ENTRIES, st.randoms())
def test_the_order_in_which_results_come_does_not_show(
    tmp_path: Path, entries: list[PartitionGaps], random: Any
) -> None:
    write(tmp_path / "one", entries)
    random.shuffle(entries)
    write(tmp_path / "other", entries)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_the_largest_offset_keeps_every_digit(tmp_path: Path) -> None:
    write(tmp_path / "b", [PartitionGaps("t", 0, 0, MAX_OFFSET, OffsetRanges.of_offsets([2**53 + 1, MAX_OFFSET]))])
    assert '"gaps":[[9007199254740993],[9223372036854775807]]' in (tmp_path / "b").read_text()
    assert list(read_bundle(tmp_path / "b").results[0].ranges) == [(2**53 + 1,) * 2, (MAX_OFFSET,) * 2]


def test_the_mark_tells_bundles_apart_and_fits_a_kubernetes_name(tmp_path: Path) -> None:
    metadata = write(tmp_path / "b", PEERS_ENTRIES)
    assert metadata == BundleMetadata(
        version=1,
        id=f"20261120-100000-{metadata.sha256[:8]}",
        created=CREATED.replace(microsecond=0),
        source={"topic": "gaps"},
        missing=909,
        sha256=metadata.sha256,
        signature=None,
    )
    assert write(tmp_path / "b", PEERS_ENTRIES[:1]).id != metadata.id
    assert write(tmp_path / "b", PEERS_ENTRIES, created=CREATED + timedelta(seconds=1)).id != metadata.id
    assert write(tmp_path / "b", PEERS_ENTRIES, BundleKind.FIRST).sha256 != metadata.sha256


def test_the_time_of_making_is_written_in_utc_whatever_the_zone(tmp_path: Path) -> None:
    elsewhere = CREATED.astimezone(timezone(timedelta(hours=-7)))
    assert write(tmp_path / "b", [], created=elsewhere) == write(tmp_path / "b", [])
    with pytest.raises(ValueError, match="needs a time zone"):
        write(tmp_path / "b", [], created=CREATED.replace(tzinfo=None))


def test_a_source_that_utf8_cannot_hold_is_written_all_the_same(tmp_path: Path) -> None:
    write(tmp_path / "b", [], source={"file": "\udcff", "note": 'a\n"ü"'})
    metadata = read_bundle(tmp_path / "b").metadata
    assert metadata is not None
    assert metadata.source == {"file": "?", "note": 'a\n"ü"'}


def test_a_topic_that_no_id_can_have_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a topic name"):
        write(tmp_path / "b", [PartitionGaps("a\nb", 0, 0, 0, OffsetRanges())])
    assert not (tmp_path / "b").exists()


def test_the_digest_is_that_of_the_lines_as_they_stand(tmp_path: Path) -> None:
    metadata = write(tmp_path / "b", PEERS_ENTRIES)
    written = (tmp_path / "b").read_text().splitlines()
    lines = [line.strip().removesuffix(",") for line in written if line.startswith('  {"gaps"')]
    assert hashlib.sha256("".join(f"{line}\n" for line in ["all", *lines]).encode()).hexdigest() == metadata.sha256


@pytest.mark.skipif(not (shutil.which("sed") and shutil.which("sha256sum")), reason="needs sed and sha256sum")
def test_the_digest_can_be_checked_with_a_shell(tmp_path: Path) -> None:
    metadata = write(tmp_path / "b", [*PEERS_ENTRIES, PartitionGaps("ü{},", 0, 0, 9, OffsetRanges([(1, 3)]))])
    script = r"""sed -n 's/^  "type": "\(.*\)",$/\1/p; s/^  \({.*}\),\{0,1\}$/\1/p' "$1" | sha256sum"""
    summed = subprocess.run(
        ["sh", "-c", script, "sh", str(tmp_path / "b")], capture_output=True, text=True, check=True, timeout=30
    )
    assert summed.stdout.split()[0] == metadata.sha256


def test_standard_output_is_a_place_for_a_bundle(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    metadata = write_bundle(None, BundleKind.ALL, PEERS_ENTRIES, created=CREATED, source={"topic": "gaps"})
    assert metadata == write(tmp_path / "b", PEERS_ENTRIES)
    assert capfdbinary.readouterr().out == (tmp_path / "b").read_bytes()


def test_a_disk_that_is_full_leaves_the_old_bundle(tmp_path: Path) -> None:
    with pytest.raises(LocalStorageError, match="The bundle /dev/full cannot be written"):
        write(tmp_path.parent.parent / "/dev/full", PEERS_ENTRIES)
    with pytest.raises(LocalStorageError, match=r"The bundle .* cannot be written \(No such file or directory\)"):
        write(tmp_path / "missing" / "b", PEERS_ENTRIES)
