"""A topic whose archive kafka-replicator writes, too, each step with the check that every claim about it is true.

What is archived once stays, whoever writes, joins or deletes objects: readers see the records of both programs once.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.peer.segment_reader import SegmentReader
from kit.story.peer_segments import peer_key, write_peer_segment
from state.logs import read_topic
from state.topic_site import TopicSite

if TYPE_CHECKING:
    import subprocess

    from kit.kafka.cluster import KafkaCluster
    from state.commands import Commands, Kill

REGION = "site-p"
_LAYOUT = "--layout=kafka-replicator"
_KEY = re.compile(r"(\d{20})-(\d{20})")
_numbers = itertools.count(1)


class PeerSite(TopicSite):
    """A topic, and a folder in which two programs archive it."""

    def __init__(self, source: KafkaCluster, commands: Commands, place: Path, partitions: int = 1) -> None:
        super().__init__(source, commands, f"state-{os.getpid()}-p{next(_numbers)}", partitions)
        self._place = place
        self._rows: dict[int, dict[int, dict[str, Any]]] = {}
        """Every record that was ever readable in Kafka, by partition and offset."""
        self._archived: dict[int, set[int]] = {}
        """The offsets of records that one of the programs has archived."""
        self._heads: dict[int, int] = {}
        """The next offset that Gapless archives."""
        self._may_have_begun = False
        """Whether a killed program may have recorded where archiving begins."""
        self._positions: dict[int, int] = {}
        """The next offset that kafka-replicator's egress archives: it does not know what Gapless has written."""

    def archive(self, kill: Kill | None = None) -> None:
        """Archive with Gapless, and check what is there."""
        live = self._read()
        done = self._gapless("archive", *self._where(), f"--topics={self.source.name}", f"--region={REGION}", kill=kill)
        if done.returncode >= 0:
            known = {p: max(self._heads.get(p, 0), max(self._archived.get(p, {-1}), default=-1) + 1) for p in live}
            # What was never archived by Gapless begins at its log start, or at 0 if it was added since.
            begun = {p for p in live if known[p] or self._heads}
            is_loss = any(live[p][0] > known[p] for p in begun)
            may_be_loss = self._may_have_begun and any(start > known[p] for p, (start, _, _) in live.items())
            for number, (_, end, offsets) in live.items():
                self._archived.setdefault(number, set()).update(each for each in offsets if each >= known[number])
                self._heads[number] = max(end, known[number])
            codes = {4} if is_loss else {0, 4} if may_be_loss else {0}
            assert done.returncode in codes, f"known {known}, {live}: {done.stderr}"
            self._may_have_begun = False
            self.check()
        else:
            self._may_have_begun = True

    def write_as_peer(self, partition: int) -> None:
        """Let kafka-replicator's egress archive what it has not read of a partition yet."""
        number = partition % self.source.partitions
        _, _, offsets = self._read()[number]
        new = [each for each in offsets if each >= self._positions.get(number, 0)]
        if new:
            self._write(number, new, level=0)
            self._archived.setdefault(number, set()).update(new)
            self._positions[number] = new[-1] + 1

    def join_as_peer(self, partition: int) -> None:
        """Let kafka-replicator's compaction join the objects of a partition, which it refuses where offsets lack."""
        number = partition % self.source.partitions
        objects = self._objects(number)
        offsets = sorted(self._offsets(number))
        is_whole = bool(offsets) and offsets == list(range(offsets[0], offsets[-1] + 1))
        if len(objects) > 1 and is_whole:
            level = max(level for level, _, _ in objects) + 1
            self._write(number, offsets, level=level)
            for old_level, first, last in objects:
                (self._place / peer_key(number, old_level, first, last, region=REGION, topic=self.source.name)).unlink()

    def check(self) -> None:
        """Restore the topic, and let kafka-replicator's ingress read it: each archived record is there once."""
        if not any(self._archived.values()):
            return
        verified = self._gapless("segments", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        copy = f"{self.source.name}-copy{next(_numbers)}"
        servers = f"--bootstrap-servers={self.kafka.bootstrap}"
        done = self._gapless(
            "restore", servers, f"--topics={self.source.name}", f"--to-topic={copy}", "--engine=local", "--on-lost=skip"
        )
        found = read_topic(self.kafka, copy)
        held = {} if found is None else {number: log.values() for number, log in found.logs.items()}
        for number, archived in self._archived.items():
            expected = [self._rows[number][each]["value"] for each in sorted(archived)]
            assert held.get(number, []) == expected, (
                f"{number}: exit code {done.returncode}: {done.stdout}{done.stderr}"
            )
            read = SegmentReader(self._place, REGION, self.source.name).take(number)
            assert read == sorted(archived), f"{number}: kafka-replicator reads {read}, archived {sorted(archived)}"
        assert done.returncode in {0, 4}, done.stderr
        pair = (f"kafka://{self.kafka.bootstrap}/{copy}", f"{self._place}#{self.source.name}")
        compared = self.commands.run("verify-copy", *pair, "--engine=local", "--common-only")
        assert compared.returncode == 0, compared.stdout + compared.stderr

    def _read(self) -> dict[int, tuple[int, int, list[int]]]:
        """Return the start, the end and the offsets of the records of each partition in Kafka."""
        marks = self.kafka.watermarks(self.source.name)
        live: dict[int, tuple[int, int, list[int]]] = {number: (*both, []) for number, both in marks.items()}
        for message in self.kafka.read(self.source.name, marks=marks):
            number, offset = message.partition() or 0, message.offset() or 0
            _, timestamp = message.timestamp()
            live[number][2].append(offset)
            self._rows.setdefault(number, {})[offset] = {
                "key": message.key(),
                "value": message.value(),
                "timestamp": timestamp * 1_000_000,
            }
        return live

    def _write(self, number: int, offsets: list[int], *, level: int) -> None:
        place = {"partition": number, "level": level, "region": REGION, "topic": self.source.name}
        write_peer_segment(self._place, offsets, records=self._rows[number], **place)  # type: ignore[arg-type]

    def _objects(self, number: int) -> list[tuple[int, int, int]]:
        """Return level, first and last offset in the key of each object of a partition."""
        files = (self._place / REGION / self.source.name / str(number)).glob("*/*")
        names = [(file.parent.name, _KEY.fullmatch(file.name)) for file in files]
        return [(int(level), int(name[1]), int(name[2])) for level, name in names if name and level.isdigit()]

    def _offsets(self, number: int) -> set[int]:
        return (
            set(SegmentReader(self._place, REGION, self.source.name).take(number)) if self._objects(number) else set()
        )

    def _where(self) -> tuple[str, ...]:
        return (f"--bootstrap-servers={self.kafka.bootstrap}", "--once", "--engine=local", _LAYOUT)

    def _gapless(self, *arguments: str, kill: Kill | None = None) -> subprocess.CompletedProcess[str]:
        return self.commands.run(*arguments, f"--archive={self._place}", kill=kill)
