"""How kafka-replicator's ingress finds and reads segments: by listing keys, in order, until the last offset."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq

_KEY = re.compile(r"(\d{20})-(\d{20})")


class SegmentReader:
    """Reads the partitions of one topic from a folder that stands in for the bucket and its prefix."""

    def __init__(self, folder: str | Path, region: str, topic: str) -> None:
        """Start without a checkpoint."""
        self._folder = Path(folder)
        self._region, self._topic = region, topic
        self.lost: list[tuple[int, int]] = []
        """Ranges that the ingress would skip, after waiting one day for each."""

    def take(self, partition: int, checkpoint: int | None = None) -> list[int]:
        """Return the offsets that it writes to Kafka, starting after `checkpoint` or at the earliest segment."""
        taken: list[int] = []
        next_offset = None if checkpoint is None else checkpoint + 1
        for first, last, level in self._list_segments(partition):
            if next_offset is None:
                next_offset = first
            if last < next_offset:
                continue
            if first > next_offset:
                self.lost.append((next_offset, first - 1))
                next_offset = first
            offsets = [offset for offset in self._read_offsets(partition, level, first, last) if offset >= next_offset]
            taken += offsets
            # The ingress reads until a record has the last offset of the key.
            if not offsets or last not in offsets:
                raise ValueError(f"no record has the last offset of {first}-{last}")
            next_offset = last + 1
        return taken

    def _list_segments(self, partition: int) -> list[tuple[int, int, int]]:
        """Return first offset, last offset and level, by first offset, longest first; other files are ignored."""
        segments = []
        for file in (self._folder / self._region / self._topic / str(partition)).glob("*/*"):
            name = _KEY.fullmatch(file.name)
            if name is not None and file.parent.name.isdigit():
                segments.append((int(name[1]), int(name[2]), int(file.parent.name)))
        return sorted(segments, key=lambda key: (key[0], -key[1]))

    def _read_offsets(self, partition: int, level: int, first: int, last: int) -> list[int]:
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
