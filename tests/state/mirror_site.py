"""A topic, its mirror and what happens to them, each step with the check that every claim about them is true.

A source record is in the target exactly once, or pending or lost with its offset, and no command says otherwise.
"""

from __future__ import annotations

import itertools
import os
import re
from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple

from kit.kafka.truncation import truncate
from state.commands import Commands, Kill
from state.logs import Topic, read_topic
from state.mirror_oracle import HOLDS, MISSING, Copied, MirrorOracle
from state.mirror_status import check_status, read_status
from state.topic_site import TopicSite

if TYPE_CHECKING:
    import subprocess

    from kit.kafka.cluster import KafkaCluster

_DECISION = re.compile(r"--(?:on-target-loss=|on-data-loss=)[a-z-]+|--start-at-target|--copy-again")
_OPTIONS = ("--lanes=2", "--heartbeat=false", "--commit-interval=0.2s")
_numbers = itertools.count(1)


class Seen(NamedTuple):
    """Both topics at one moment."""

    source: Topic
    target: Topic | None


class Committed(NamedTuple):
    """What was committed after a run."""

    ends: dict[int, int]
    """Of the logs of the control topic, by lane."""
    copied: dict[int, Copied]
    """What the oracle knew then."""


class MirrorSite(TopicSite):
    """A topic in two clusters, and the mirror between them."""

    def __init__(
        self,
        source: KafkaCluster,
        target: KafkaCluster,
        commands: Commands,
        partitions: int = 1,
        *,
        compacted: bool = False,
    ) -> None:
        super().__init__(source, commands, f"state-{os.getpid()}-{next(_numbers)}", partitions, compacted=compacted)
        self.target = target
        self.name = f"m-{self.source.name}"
        self._control = f"_gapless_mirror_{self.name}"
        self.oracle = MirrorOracle()
        self.had_groups = False
        """Whether positions of the consumer group were translated."""
        self.is_checked = True
        """Whether the status was compared with both topics since they have changed."""
        self._seen: Seen | None = None
        self._target_ends: dict[int, set[int]] = {}
        """Offsets where a target log can be cut, by partition."""
        self._committed: list[Committed] = []
        """After each of the last runs, between which nothing but records was written."""

    def changed(self) -> None:
        """Note that a topic has changed since it was read."""
        self.is_checked, self._seen, self._committed = False, None, []

    def produce(self, partition: int, count: int) -> None:
        """Write records, each with a value of its own."""
        committed = self._committed
        super().produce(partition, count)
        self._committed = committed

    def expire(self, partition: int, share: float) -> None:
        """Delete the oldest records of a source partition; only those before a cut that is not decided yet."""
        one = self.oracle.copied.get(partition % self.source.partitions)
        self.changed()
        self.source.expire(partition, share, one.cut_at if one is not None else None)

    def note_cut(self, partition: int, end: int) -> None:
        """Let the oracle know that a source log ends at `end` now."""
        self.oracle.cut_source(partition, end)

    # What happens to the target

    def delete_target(self, *, recreate: bool) -> None:
        """Delete the target topic, if it exists, and with `recreate` create an empty one."""
        if self.look().target is not None:
            self.changed()
            self.target.delete_topic(self.source.name)
            if recreate:
                self.target.create_topic(self.source.name, self.source.partitions)

    def expire_target(self, partition: int) -> None:
        """Delete all records of a target partition, as retention does; not where a cut is not decided yet.

        Kafka forgets the leader epochs of what it deletes, so nobody can know of such a cut afterwards.
        """
        target = self.look().target
        number = partition % self.source.partitions
        one = self.oracle.copied.get(number)
        self.changed()
        if target is not None and number in target.logs and not (one is not None and one.target_cut):
            self.target.delete_records(self.source.name, number, target.logs[number].end)

    def cut_target(self, partition: int, choice: int, foreign: int) -> None:
        """Cut the end off a target log under its topic ID; afterwards another program writes `foreign` records."""
        target = self.look().target
        number = partition % self.source.partitions
        log = target.logs.get(number) if target is not None else None
        ends = sorted(end for end in self._target_ends.get(number, {0}) if log and log.start <= end < log.end)
        if target is None or not ends:
            return
        self.changed()
        end = ends[choice % len(ends)]
        truncate(self.target, self.source.name, number, end=end)
        self._target_ends[number] = {each for each in ends if each <= end}
        self.oracle.cut_target(number, target.id, end)
        if foreign:
            self.target.produce(self.source.name, [b"foreign"] * foreign, keys=[b"key"] * foreign, partition=number)

    def delete_control(self, recreated: int = 0) -> None:
        """Delete the control topic of the mirror, if it exists; create one with `recreated` partitions."""
        self.changed()
        if self._has_control():
            self.target.delete_topic(self._control)
            self.oracle.forget()
            if recreated:
                self.target.create_topic(self._control, recreated, cleanup_policy="compact")

    def cut_control(self, choice: int) -> None:
        """Cut the end off the logs of the control topic, so that the positions of an earlier run are the last ones."""
        earlier = self._committed[:-1]
        if earlier:
            ends, copied = earlier[choice % len(earlier)]
            self.changed()
            for lane, (_, end) in self.target.watermarks(self._control).items():
                if ends[lane] < end:
                    truncate(self.target, self._control, lane, end=ends[lane])
            self.oracle.copied = deepcopy(copied)

    def add_control_partition(self) -> None:
        """Add a partition to the control topic of the mirror, if it exists; the mirror ignores it."""
        self.changed()
        if self._has_control():
            described = self.target.admin().list_topics(self._control, timeout=10).topics[self._control]
            self.target.add_partitions(self._control, len(described.partitions) + 1)

    def add_target_partition(self) -> None:
        """Add a partition to the target topic, if it exists."""
        target = self.look().target
        self.changed()
        if target is not None:
            self.target.add_partitions(self.source.name, len(target.logs) + 1)

    # What the product does

    def mirror(self, choice: int = 0, engine: str = "workers") -> None:
        """Copy what is there; when the mirror refuses, take one of the decisions that its message names."""
        decisions: set[str] = set()
        for _ in range(6):
            done = self._run(decisions, engine)
            if done.returncode != 4:
                return
            offered = sorted(set(_DECISION.findall(done.stderr)) - {"--copy-again"} | _named(done.stderr))
            if not offered:
                decisions = set()  # what was lost is recorded now
                continue
            untried = [each for each in offered if each not in decisions] or offered
            decisions = {untried[choice % len(untried)]}
            choice = choice // len(offered) + 1
        raise AssertionError(f"six decisions were not enough: {done.stderr}")

    def kill_mirror(self, number: int, *, after: bool = False) -> None:
        """Kill a mirror before or after its commit with a number."""
        self._run(set(), kill=Kill(number, after=after))

    def look(self) -> Seen:
        """Return both topics, which are read if something has changed them."""
        if self._seen is None:
            self._seen = Seen(self.read_source(), read_topic(self.target, self.source.name))
        return self._seen

    def check(self) -> None:
        """Compare what the mirror's status says with both topics, unless that was done after the last step."""
        if not self.is_checked:
            check_status(self, self.look(), *read_status(self))
        self.is_checked = True

    def _has_control(self) -> bool:
        return self._control in self.target.admin().list_topics(timeout=10).topics

    def _run(
        self, decisions: set[str], engine: str = "workers", kill: Kill | None = None
    ) -> subprocess.CompletedProcess[str]:
        before = self.look()
        starts = {p: self.oracle.continues_at(p, *before, decisions) for p in before.source.logs}
        states = {p: self.oracle.state(p, *before) for p in before.source.logs}
        done = self.run(
            "mirror",
            f"--name={self.name}",
            f"--topics={self.source.name}",
            "--once",
            *_OPTIONS,
            f"--engine={engine}",
            *decisions,
            kill=kill,
        )
        committed = self._committed
        self.changed()
        after = self.look()
        self._note_target_ends(before.target, after.target)
        story = f"exit code {done.returncode}, states {states}, starts {starts}, decided {decisions}: {done.stderr}"
        is_killed = done.returncode < 0
        refused = [p for p, start in starts.items() if start is None]
        if not is_killed:
            assert done.returncode in ({4} if refused else {0, 4}), story
            is_decided = any(state not in {HOLDS, MISSING} for state in states.values())
            assert done.returncode == 0 or refused or is_decided, story
        status = read_status(self)
        listed = status[1].get("partitions", ())
        positions = {each["partition"]: each["position"] for each in listed if each["begun"]}
        for p, start in starts.items():
            self._check_copied(
                p, start, before, after, positions.get(p), decisions=decisions, is_killed=is_killed, story=story
            )
        check_status(self, after, *status)
        self.is_checked = True
        if done.returncode == 0:
            ends = {lane: end for lane, (_, end) in self.target.watermarks(self._control).items()}
            self._committed = [*committed, Committed(ends, deepcopy(self.oracle.copied))]
        return done

    def _check_copied(
        self,
        p: int,
        start: int | None,
        before: Seen,
        after: Seen,
        position: int | None,
        *,
        decisions: set[str],
        is_killed: bool,
        story: str,
    ) -> None:
        """Check what a run has appended to a partition, and that its position says the same."""
        was = _values(before.target, p)
        if before.target is None or after.target is None or before.target.id != after.target.id:
            was = []
        now = _values(after.target, p)
        assert now[: len(was)] == was, f"{p}: records of the target have changed: {story}"
        appended = now[len(was) :]
        if start is None:
            assert not appended, f"{p}: copied in spite of a refusal: {story}"
            return
        log = after.source.logs[p]
        expected = log.values(start)
        assert appended == expected[: len(appended)], f"{p}: {appended} instead of {expected}: {story}"
        if not is_killed:
            assert appended == expected, f"{p}: {appended} instead of {expected}: {story}"
        if position is None:
            assert is_killed, f"{p}: no position: {story}"
            assert not appended, f"{p}: copied without a position: {story}"
            return
        if is_killed and not appended and self.oracle.copied.get(p) is not None:
            start = self.oracle.copied[p].next_offset
        uncopied = expected[len(appended) :]
        assert log.values(position) == uncopied, f"{p}: position {position}, not copied {uncopied}: {story}"
        assert after.target is not None
        both = (after.source, after.target)
        begins_behind = p not in self.oracle.copied or self.oracle.is_outdated(p, *before)
        continued = begins_behind and "--start-at-target" in decisions
        self.oracle.adopt(p, position, both, appended=bool(appended), killed=is_killed, continued=continued)

    def _note_target_ends(self, before: Topic | None, after: Topic | None) -> None:
        """Note where a target log can be cut: no batch or transaction spans its end now."""
        if before is None or after is None or before.id != after.id:
            self._target_ends = {}
        for number, log in after.logs.items() if after is not None else ():
            self._target_ends.setdefault(number, {0}).add(log.end)

    def run(self, *arguments: str, kill: Kill | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the mirror between both clusters."""
        clusters = [
            f"--source-bootstrap-servers={self.kafka.bootstrap}",
            f"--target-bootstrap-servers={self.target.bootstrap}",
        ]
        return self.commands.run(*arguments, *clusters, kill=kill)


def _values(topic: Topic | None, partition: int) -> list[bytes]:
    log = topic.logs.get(partition) if topic is not None else None
    return log.values() if log is not None else []


def _named(message: str) -> set[str]:
    """Return ``--copy-again`` if the message names it as a decision of its own."""
    return {"--copy-again"} if re.search(r"(?<!=)--copy-again\b", message) else set()
