"""Owns how kafka-replicator's ingress finds and takes segments: by listing keys, in order, until the last offset."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq

_KEY = re.compile(r"(\d{20})-(\d{20})")


class SegmentReader:
    """Reads the partitions of one topic below a folder that stands for the bucket and its prefix."""

    def __init__(self, folder: str | Path, region: str, topic: str) -> None:
        """Begin without a checkpoint."""
        self._folder = Path(folder)
        self._region, self._topic = region, topic
        self.lost: list[tuple[int, int]] = []
        """Ranges that it would wait for, a day each, and then give up."""

    def take(self, partition: int, checkpoint: int | None = None) -> list[int]:
        """The offsets that it writes to Kafka, from behind `checkpoint` or from the earliest segment on."""
        taken: list[int] = []
        next_offset = None if checkpoint is None else checkpoint + 1
        for first, last, level in self._listed(partition):
            if next_offset is None:
                next_offset = first
            if last < next_offset:
                continue
            if first > next_offset:
                self.lost.append((next_offset, first - 1))
                next_offset = first
            offsets = [offset for offset in self._open(partition, level, first, last) if offset >= next_offset]
            taken += offsets
            # It goes on reading until a record has the last offset of the key.
            if not offsets or last not in offsets:
                raise ValueError(f"no record has the last offset of {first}-{last}")
            next_offset = last + 1
        return taken

    def _listed(self, partition: int) -> list[tuple[int, int, int]]:
        """Keys by their first offset, the longest of them first; it passes over what is no key."""
        found = []
        for file in (self._folder / self._region / self._topic / str(partition)).glob("*/*"):
            name = _KEY.fullmatch(file.name)
            if name is not None and file.parent.name.isdigit():
                found.append((int(name[1]), int(name[2]), int(file.parent.name)))
        return sorted(found, key=lambda key: (key[0], -key[1]))

    def _open(self, partition: int, level: int, first: int, last: int) -> list[int]:
        name = f"{self._region}/{self._topic}/{partition}/{level}/{first:020d}-{last:020d}"
        file = pq.ParquetFile(self._folder / name)
        footer = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
        stated = [footer[key] for key in ("region", "topic", "partition", "level", "startOffset", "endOffset")]
        if stated != [self._region, self._topic, str(partition), str(level), str(first), str(last)]:
            raise ValueError(f"the footer of {name} says {stated}")
        if not {"messageCount", "createdTimestamp"} <= footer.keys():
            raise ValueError(f"the footer of {name} lacks fields")
        offsets: list[int] = file.read(["offset"]).column("offset").to_pylist()
        if int(footer["messageCount"]) != len(offsets):
            raise ValueError(f"the footer of {name} counts {footer['messageCount']} records")
        return offsets
