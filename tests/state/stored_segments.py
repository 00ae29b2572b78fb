"""The records of an archive in a folder, read from its commits and Parquet files without the product."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from state.logs import Found

Records = dict[int, list[Found]]
"""By partition, in offset order."""


def stored_records(place: Path, region: str, topic: str) -> dict[str, Records]:
    """Return the records of each generation of a topic, by topic ID."""
    return {key: _records(place, commits) for key, commits in _chains(place, region, topic)}


def stored_heads(place: Path, region: str, topic: str) -> dict[str, dict[int, int]]:
    """Return the next offset to archive of each partition, by topic ID."""
    generations = {}
    for key, commits in _chains(place, region, topic):
        starts = [each for commit in commits for each in commit["started"]]
        heads: dict[int, int] = {each["partition"]: each["nextOffset"] for each in starts}
        for each in (each for commit in commits for each in (*commit["added"], *commit["lost"])):
            heads[each["partition"]] = max(heads.get(each["partition"], 0), each["end"])
        generations[key] = heads
    return generations


def _chains(place: Path, region: str, topic: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for folder in sorted((place / region / topic).glob("*/chain")):
        files = sorted(file for file in folder.glob("*.json") if ".snapshot" not in file.name)
        commits = [json.loads(file.read_text()) for file in files]
        assert [commit["sequence"] for commit in commits] == list(range(1, len(commits) + 1))
        yield str(commits[0]["topicId"]), commits


def _records(place: Path, commits: list[dict[str, Any]]) -> Records:
    segments: dict[tuple[str, int, int, int], dict[str, Any]] = {}
    for commit in commits:
        for segment in commit["removed"]:
            del segments[_key(segment)]
        segments |= {_key(segment): segment for segment in commit["added"]}
    records: Records = {}
    for segment in sorted(segments.values(), key=lambda each: (each["partition"], each["first"])):
        found = _rows(place, segment)
        assert len(found) == segment["records"], segment
        assert all(segment["first"] <= record.offset < segment["end"] for record in found), segment
        records.setdefault(segment["partition"], []).extend(found)
    return records


def _key(segment: dict[str, Any]) -> tuple[str, int, int, int]:
    return segment["object"], segment["partition"], segment["first"], segment["end"]


def _rows(place: Path, segment: dict[str, Any]) -> list[Found]:
    if not segment["object"]:
        return []
    file = pq.ParquetFile(place / segment["object"], page_checksum_verification=True)
    rows: list[dict[str, Any]] = []
    for group in segment["rowGroups"]:
        rows += file.read_row_group(group["number"]).slice(group["firstRow"], group["rows"]).to_pylist()
    return [Found(row["offset"], row["value"]) for row in rows]
