"""The proof that shards agree on their shares without a word, and keep out of each other's files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_api.base.settings import resolve
from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps
from gapless_api.offsets.ranges import OffsetRanges
from gapless_sender.base.sharding import (
    INDEX_VARIABLE,
    UNSHARDED,
    FileOrFolder,
    Shard,
    shard_of,
    with_own_files,
)
from gapless_sender.settings.pace import PaceSettings
from gapless_sender.settings.resend import RESEND, ResendSettings
from gapless_sender.settings.selection import SelectionSettings
from gapless_sender.source.plan import requests_of_all_partitions, select

if TYPE_CHECKING:
    from gapless_sender.source.requests import PartitionRequest

NEEDED = {"targetIP": "10.0.0.2", "targetPort": "1234", "bootstrapServers": "kafka:9092"}


def values(**given: Any) -> dict[str, Any]:
    texts = {**NEEDED, **{name: str(value) for name, value in given.items()}}
    return resolve(RESEND, file=None, environment={}, options=texts).values


def shard_among(found: dict[str, Any], environment: dict[str, str]) -> Shard:
    return shard_of(found["shardCount"], found["shardIndex"], environment)


gaps = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 5000)), min_size=1, max_size=5)
bundles = st.dictionaries(st.tuples(st.sampled_from(["a", "b_c", "d"]), st.integers(0, 40)), gaps, max_size=30)


@given(bundles, st.integers(1, 64), st.randoms())
def test_every_partition_of_a_bundle_belongs_to_exactly_one_shard(
    found: dict[tuple[str, int], list[tuple[int, int]]], count: int, chance: Any
) -> None:
    results = [
        PartitionGaps(topic, partition, 0, 0, OffsetRanges([(first, first + more) for first, more in ranges]))
        for (topic, partition), ranges in found.items()
    ]
    shares: list[PartitionRequest] = []
    for index in range(count):
        chance.shuffle(results)  # The order in which a bundle lists its partitions does not matter.
        bundle = Bundle(BundleKind.ALL, tuple(results), None)
        shares += select(SelectionSettings.of(values()), bundle, shard=Shard(index, count)).requests
    places = [(request.partition.topic, request.partition.partition) for request in shares]
    assert sorted(places) == sorted(found)
    assert sum(request.ranges.count for request in shares) == sum(gaps.ranges.count for gaps in results)


@given(st.integers(1, 64), st.integers(1, 100), st.integers(0, 20))
def test_shards_of_a_time_range_agree_even_if_the_topic_grows_while_they_start(
    count: int, partitions: int, more: int
) -> None:
    chosen = select(SelectionSettings.of(values(topic="t", **{"from": "2026-01-01T00:00:00Z"})), None)
    shards = [replace(chosen, shard=Shard(index, count)) for index in range(count)]
    early = [
        {request.partition.partition for request in requests_of_all_partitions(shard, partitions)} for shard in shards
    ]
    late = [
        {request.partition.partition for request in requests_of_all_partitions(shard, partitions + more)}
        for shard in shards
    ]
    assert sorted(partition for share in early for partition in share) == list(range(partitions))
    assert all(before <= after for before, after in zip(early, late, strict=True))


def test_a_single_partition_belongs_to_the_first_shard() -> None:
    chosen = values(topic="t", partition=3, offsetFrom=5, offsetTo=9)
    assert [len(select(SelectionSettings.of(chosen), None, shard=Shard(index, 3)).requests) for index in range(3)] == [
        1,
        0,
        0,
    ]


def test_a_checkpoint_belongs_to_one_shard_of_one_count() -> None:
    chosen = values(topic="t", partition=3, offsetFrom=5)
    assert select(SelectionSettings.of(chosen), None, shard=Shard(1, 3)).identity["shard"] == "1-of-3"
    assert "shard" not in select(SelectionSettings.of(chosen), None).identity, (
        "so that checkpoints of before are understood"
    )


def test_the_index_comes_from_the_setting_or_from_the_indexed_job() -> None:
    assert shard_among(values(), {INDEX_VARIABLE: "7"}) == UNSHARDED
    assert shard_among(values(shardCount=4, shardIndex=2), {INDEX_VARIABLE: "1"}) == Shard(2, 4)
    assert shard_among(values(shardCount=4), {INDEX_VARIABLE: "1"}) == Shard(1, 4)


@pytest.mark.parametrize(
    ("given", "environment", "words"),
    [
        ({"shardCount": 4}, {}, "shardIndex is missing; give shardIndex, 0 to 3"),
        ({"shardCount": 4}, {INDEX_VARIABLE: "x"}, "shardIndex is missing"),
        ({"shardCount": 4}, {INDEX_VARIABLE: "4"}, "The variable JOB_COMPLETION_INDEX is 4 and shardCount is 4"),
        ({"shardIndex": 1}, {}, "The setting shardIndex is 1 and shardCount is 1"),
    ],
)
def test_a_shard_that_does_not_exist_is_refused(given: dict[str, int], environment: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        shard_among(values(**given), environment)


def test_each_shard_has_its_own_files(tmp_path: Path) -> None:
    files = values(checkpoint=tmp_path / "run.checkpoint", report=tmp_path / "report.json")
    assert with_own_files(files, UNSHARDED)["checkpoint"] == tmp_path / "run.checkpoint"
    own = with_own_files(files, Shard(2, 4))
    assert own["checkpoint"] == tmp_path / "run.2-of-4.checkpoint"
    assert own["report"] == tmp_path / "report.2-of-4.json"
    assert with_own_files(values(), Shard(2, 4))["report"] is None


def test_a_folder_gets_files_of_usual_names(tmp_path: Path) -> None:
    files = values(checkpoint=f"{tmp_path}/new/folder/", report=tmp_path)
    assert files["checkpoint"] == FileOrFolder(tmp_path / "new" / "folder", is_folder=True)
    own = with_own_files(files, UNSHARDED)
    assert own["checkpoint"] == tmp_path / "new" / "folder" / "resend.checkpoint"
    assert own["report"] == tmp_path / "report.json"
    assert own["checkpoint"].parent.is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(LocalStorageError, match="file cannot be created"):
        with_own_files(values(checkpoint=f"{tmp_path}/file/"), UNSHARDED)


@pytest.mark.parametrize(
    ("given", "shard", "words"),
    [
        ({"sessionKeyFile": "k"}, UNSHARDED, "encryption is off"),
        (
            {"sessionKeyFile": "k", "encryption": "true", "generateNewSymmetricKeyEvery": 60},
            UNSHARDED,
            "requires keyRotationFile, with which the senders that share the key replace it together",
        ),
        (
            {"sessionKeyFile": "k", "encryption": "true", "keyRotationFile": "r"},
            UNSHARDED,
            "keyRotationFile requires sessionKeyFile and generateNewSymmetricKeyEvery",
        ),
        (
            {"encryption": "true", "generateNewSymmetricKeyEvery": 60, "keyRotationFile": "r"},
            UNSHARDED,
            "set both, or remove keyRotationFile",
        ),
        ({"encryption": "true"}, Shard(0, 2), "give all of them the same sessionKeyFile"),
        ({"budgetEps": 5}, UNSHARDED, "require budgetFile"),
        ({"budgetBitsPerSecond": 5}, UNSHARDED, "require budgetFile"),
    ],
)
def test_settings_that_would_do_harm_together_are_refused(given: dict[str, Any], shard: Shard, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        ResendSettings.of(values(**given)).check_sharing(shard)


def test_a_budget_file_without_a_budget_keeps_the_pace() -> None:
    assert PaceSettings.of(values(budgetFile="b")).shared_file == Path("b")
    assert PaceSettings.of(values(budgetFile="b", budgetEps=5)).shared_file is None
    assert PaceSettings.of(values(budgetFile="b", budgetEps=5, paceFile="p")).shared_file == Path("p")
    assert PaceSettings.of(values(budgetFile="b", paceFile="p")).shared_file == Path("p")
    assert PaceSettings.of(values()).shared_file is None
