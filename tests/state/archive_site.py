"""A topic, its archive and its restored copies, each step with the check that every claim about them is true."""

from __future__ import annotations

import itertools
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from state.logs import read_topic
from state.stored_segments import Records, stored_heads, stored_records
from state.topic_site import TopicSite

if TYPE_CHECKING:
    import subprocess

    from kit.kafka.cluster import KafkaCluster
    from state.commands import Commands, Kill

REGION = "site-a"
_FENCED = 2
"""The exit code of a program that stops because another one archives the topic."""
_GENERATION = re.compile(r"--generation=?\s?(\S+)")
_copies = itertools.count(1)


@dataclass
class Generation:
    """What the archive must hold of a topic with one ID."""

    records: Records = field(default_factory=dict)
    heads: dict[int, int] = field(default_factory=dict)
    """The next offset to archive, by partition."""
    cut: set[int] = field(default_factory=set)
    """The partitions whose log was cut below their head."""

    def values(self, partition: int) -> list[bytes]:
        """Return the values of a partition in order."""
        return [record.value for record in self.records.get(partition, ())]


class ArchiveSite(TopicSite):
    """A topic, and the archive of it in a folder."""

    def __init__(
        self, source: KafkaCluster, commands: Commands, place: Path, partitions: int = 1, *, compacted: bool = False
    ) -> None:
        super().__init__(source, commands, f"state-{os.getpid()}-a{next(_copies)}", partitions, compacted=compacted)
        self._place = place
        self._copy = f"{self.source.name}-copy"
        self.generations: dict[str, Generation] = {}
        """By topic ID, in the order in which they were archived."""

    def note_cut(self, partition: int, end: int) -> None:
        """Let the oracle know that a source log ends at `end` now."""
        one = self.generations.get(self.read_source().id)
        if one is not None and end < one.heads.get(partition, 0):
            one.cut.add(partition)

    def archive(self, kill: Kill | None = None) -> None:
        """Archive what is there, and check each record and the exit code."""
        self._check_archived(self._archive(self.commands, kill))

    def archive_twice_at_once(self) -> None:
        """Archive with two programs at once: one of them ends as if it were alone, and each record is there once."""
        with ThreadPoolExecutor(2) as threads:
            both = [threads.submit(self._archive, commands) for commands in (self.commands, self.commands.others)]
        self._check_archived(*(each.result() for each in both))

    def _archive(self, commands: Commands, kill: Kill | None = None) -> subprocess.CompletedProcess[str]:
        return commands.run(
            "archive",
            f"--bootstrap-servers={self.kafka.bootstrap}",
            f"--topics={self.source.name}",
            f"--region={REGION}",
            "--once",
            "--engine=local",
            f"--archive={self._place}",
            kill=kill,
        )

    def _check_archived(self, *runs: subprocess.CompletedProcess[str]) -> None:
        """Check what runs at the same time have archived; at least one has its end unless it was killed."""
        topic, told = self.read_source(), "; ".join(f"exit code {run.returncode}: {run.stderr}" for run in runs)
        key = topic.id
        one = self.generations.get(key, Generation())
        stored = self._stored()
        for other, known in self.generations.items():
            assert other == key or _filled(stored.get(other, {})) == _filled(known.records), told
        now = stored.get(key, {})
        is_killed, is_loss = any(run.returncode < 0 for run in runs), False
        # A partition, or a generation of the topic, that was added since begins at offset 0.
        has_begun = bool(one.heads) or bool(self.generations.keys() - {key})
        committed = stored_heads(self._place, REGION, self.source.name).get(key, {})
        for number, log in topic.logs.items():
            head, had = one.heads.get(number, 0 if has_begun else None), one.records.get(number, [])
            is_cut = number in one.cut or (head is not None and log.end < head)
            new = [] if is_cut else [record for record in log.records if record.offset >= (head or 0)]
            found = now.get(number, [])
            story = f"{number}: {found}, had {had}, new {new}, {told}"
            assert found[: len(had)] == had, story
            assert found[len(had) :] == new[: len(found) - len(had)], story
            assert is_killed or len(found) == len(had) + len(new), story
            is_loss |= is_cut or (head is not None and log.start > head)
            one.records[number] = found
            if not is_cut and not is_killed:
                one.heads[number] = log.end
            elif not is_cut and number in committed:
                last = found[-1].offset if found else -1
                assert last < committed[number] <= max(log.end, head or 0), story
                one.heads[number] = committed[number]
        if is_killed and key not in stored:
            return
        self.generations[key] = one
        codes = {run.returncode for run in runs} - {_FENCED if len(runs) > 1 else 0}
        assert is_killed or codes <= {0, 4}, told
        assert is_killed or max(codes, default=0) == (4 if is_loss else 0), f"loss {is_loss}: {told}"

    def compact(self, kill: Kill | None = None) -> None:
        """Join all segments, delete the old objects, and check that every record is still there."""
        if not self.generations:
            return
        rules = ("--min-segment-age=0s", "--min-segment-count=2", "--min-segment-size=0", "--grace-period=0s")
        done = self._gapless("compact", *rules, kill=kill)
        assert done.returncode == 0 or kill, done.stderr
        self.check()

    def check(self) -> None:
        """Compare what is stored, and what the commands say of it, with what was archived."""
        stored = self._stored()
        for key, one in self.generations.items():
            assert _filled(stored.get(key, {})) == _filled(one.records), key
        if self.generations:
            verified = self._gapless("segments", "verify")
            assert verified.returncode == 0, verified.stderr + verified.stdout
            listed = json.loads(self._gapless("segments", "list", "--json").stdout)
            counts = {(each["topicId"], each["partition"]): each["records"] for each in listed["partitions"]}
            for key, one in self.generations.items():
                for number, records in one.records.items():
                    assert counts.get((key, number), 0) == len(records), f"{key}, {number}: {records}: {listed}"

    def compare(self) -> None:
        """Compare the source with the archive: identical is said only where they are."""
        if not self.generations:
            return
        topic = self.read_source()
        newest = list(self.generations.values())[-1]
        pair = (f"kafka://{self.kafka.bootstrap}/{self.source.name}", f"{self._place}#{self.source.name}")
        done = self.commands.run("verify-copy", *pair, "--engine=local")
        same = all(log.values() == newest.values(number) for number, log in topic.logs.items())
        # Offsets of a later transaction are not archived and not compared, also if it was aborted.
        is_archived = all(newest.heads.get(number, 0) >= log.end for number, log in topic.logs.items())
        allowed = {2} | ({0} if same else set()) | (set() if same and is_archived else {4})
        assert done.returncode in allowed, f"{topic}, {newest}: {done.stdout}{done.stderr}"

    def restore(self) -> None:
        """Restore the newest generation; when that is refused, to a topic of another name."""
        if not self.generations:
            return
        for _ in range(4):
            newest, before = list(self.generations)[-1], read_topic(self.kafka, self._copy)
            done, is_chosen = self._restore(), False
            if done.returncode == 2 and _GENERATION.search(done.stderr):
                done, is_chosen = self._restore(f"--generation={newest}"), True
            expected, found = self.generations[newest], read_topic(self.kafka, self._copy)
            story = f"exit code {done.returncode}: {done.stdout}{done.stderr}; {expected}; {found}"
            held = {} if found is None else {number: log.values() for number, log in found.logs.items()}
            is_whole = found is not None and all(
                self._is_restored(newest, p, held.get(p, [])) for p in expected.records
            )
            if done.returncode in {0, 4} and is_whole:
                return
            if done.returncode == 0 and not any(expected.records.values()):  # the copy is that of an older generation
                assert found == before, story
                assert is_chosen or f"{newest} is restored" in done.stderr, story
                assert "Nothing to restore" in done.stdout + done.stderr, story
                return
            assert done.returncode in {2, 4}, story
            self._copy = f"{self.source.name}-copy{next(_copies)}"
        raise AssertionError(f"no restore is complete: {story}")

    def _is_restored(self, key: str, partition: int, values: list[bytes]) -> bool:
        """Whether a copy has each record of a generation once, in order, beside those of generations before it."""
        expected = self.generations[key].values(partition)
        others = {value for each in self.generations.values() for value in each.values(partition)} - {*expected}
        own = [value for value in values if value not in others]
        return own == expected and len(set(values)) == len(values)

    def kill_restore(self, kill: Kill) -> None:
        """Kill a restore at one of its commits, and then restore."""
        if self.generations:
            self._restore(kill=kill)
            self.restore()

    def expire_copy(self) -> None:
        """Delete all records of the restored topic, as retention does."""
        topic = read_topic(self.kafka, self._copy)
        for number, log in topic.logs.items() if topic is not None else ():
            if log.end > log.start:
                self.kafka.delete_records(self._copy, number, log.end)

    def delete_copy(self) -> None:
        """Delete the restored topic."""
        if read_topic(self.kafka, self._copy) is not None:
            self.kafka.delete_topic(self._copy)

    def _restore(self, *more: str, kill: Kill | None = None) -> subprocess.CompletedProcess[str]:
        servers = f"--bootstrap-servers={self.kafka.bootstrap}"
        topics = (f"--topics={self.source.name}", f"--to-topic={self._copy}")
        return self._gapless("restore", servers, *topics, "--engine=local", *more, kill=kill)

    def _stored(self) -> dict[str, Records]:
        return stored_records(self._place, REGION, self.source.name)

    def _gapless(self, *arguments: str, kill: Kill | None = None) -> subprocess.CompletedProcess[str]:
        return self.commands.run(*arguments, f"--archive={self._place}", kill=kill)


def _filled(records: Records) -> Records:
    return {number: found for number, found in records.items() if found}
