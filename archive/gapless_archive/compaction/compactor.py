"""One compaction run over some topics: expire old segments, join others, then delete unneeded objects.

Joins whose inputs share row groups, as with quiet partitions, are carried out together: otherwise each join of two
hundred quiet partitions would read the row groups of all of them.
Must not know where joins run: in this process or in Spark tasks.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.compaction.join import DamagedInput, discard
from gapless_archive.compaction.plan import CompactionRules, Join, plan_joins
from gapless_archive.compaction.removal import GRACE_PERIOD, delete_garbage, delete_orphans, expire
from gapless_archive.compaction.retention import Retention
from gapless_archive.segments.peer_adoption import find_foreign_changes
from gapless_archive.segments.writer import ROW_GROUP_BYTES

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState


_MAX_BUFFERED_BYTES = 128 * 1024 * 1024
"""Memory that the new segments of a group may need."""
_MAX_JOINS = 256
"""Of a group; each join has an open file."""


def group_joins(joins: Sequence[Join]) -> list[tuple[Join, ...]]:
    """Divide joins of one topic into groups of one level; most groups have one join.

    A join is grouped when more than half of its records are in row groups that other joins also read.
    """
    uses = Counter(source for join in joins for source in _sources(join))
    single = [join for join in joins if 2 * _shared_records(join, uses) <= _records(join)]
    shared = [join for join in joins if 2 * _shared_records(join, uses) > _records(join)]
    groups: list[list[Join]] = []
    buffered, group_sources = 0, set[tuple[str, int]]()
    for join in sorted(shared, key=lambda each: (each.level, each.inputs[0].written_at, each.inputs[0].object)):
        size, sources = _buffered_bytes(join), _sources(join)
        fits = groups and buffered + size <= _MAX_BUFFERED_BYTES and len(groups[-1]) < _MAX_JOINS
        if not fits or groups[-1][0].level != join.level or group_sources.isdisjoint(sources):
            groups.append([])
            buffered, group_sources = 0, set()
        groups[-1].append(join)
        buffered += size
        group_sources |= sources
    return [*((join,) for join in single), *(tuple(group) for group in groups)]


def _sources(join: Join) -> set[tuple[str, int]]:
    return {(segment.object, group.number) for segment in join.inputs for group in segment.row_groups}


def _records(join: Join) -> int:
    return sum(segment.records for segment in join.inputs)


def _shared_records(join: Join, uses: Counter[tuple[str, int]]) -> int:
    return sum(
        group.rows for segment in join.inputs for group in segment.row_groups if uses[segment.object, group.number] > 1
    )


def _buffered_bytes(join: Join) -> int:
    return min(ROW_GROUP_BYTES, sum(segment.bytes for segment in join.inputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """What a run may do."""

    rules: CompactionRules = field(default_factory=CompactionRules)
    retention: Retention = field(default_factory=Retention)
    partitions: frozenset[int] | None = None
    """Those that are compacted; ``None`` for all."""
    delete: bool = True
    """Whether unneeded objects are deleted."""
    grace_period: timedelta = GRACE_PERIOD
    """How long unneeded objects stay, for programs that still read them."""


@dataclass(slots=True)
class CompactionResult:
    """What a run has done; the fields are those of the report."""

    inputs: int = 0
    outputs: int = 0
    records: int = 0
    input_bytes: int = 0
    """Stored bytes of all inputs."""
    output_bytes: int = 0
    content_bytes: int = 0
    """Of the records in the new segments."""
    skipped: int = 0
    """Joins whose inputs were changed by another program."""
    expired: int = 0
    deleted: int = 0
    orphans: int = 0
    waiting: int = 0
    """Unneeded objects that are not deleted yet."""
    held: list[str] = field(default_factory=list)
    """Topics on hold, of which nothing is removed."""
    damaged: list[str] = field(default_factory=list)
    """A message for each join with a damaged input."""


class JoinRunner(Protocol):
    """Carries out joins."""

    parallelism: int
    """How many threads may call `run` concurrently."""

    def run(self, prefix: str, joins: Sequence[Join]) -> list[Segment | DamagedInput]:
        """Write the new segments of joins that all have the same level; see `write_joins`."""

    def stop(self) -> None:
        """Make `run` return or raise soon in all threads."""


def compact(  # noqa: PLR0913 -- what a run needs
    chains: Sequence[Chain],
    options: CompactionOptions,
    open_runner: Callable[[Sequence[Join]], JoinRunner],
    *,
    result: CompactionResult | None = None,
    on_joined: Callable[[Join], None] = lambda _: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> CompactionResult:
    """Run the compaction once.

    Args:
        chains: of the topics.
        options: what the run may do.
        open_runner: returns a runner for all planned joins; is called only if there are any.
        result: is updated while the run works, so that it is right after a failure, too; ``None`` for a new one.
        on_joined: is called with each join that has ended, successfully or not.
        clock: returns the time.

    Raises:
        GaplessError: the place does not answer or cannot be written. What was committed before stays.
    """
    result = CompactionResult() if result is None else result
    planned: list[tuple[Chain, tuple[Join, ...]]] = []
    for chain in chains:
        if options.retention.is_set:
            result.expired += len(expire(chain, options.retention, clock(), partitions=options.partitions))
        planned += [(chain, joins) for joins in group_joins(_plan(chain, options, clock()))]
    if planned:
        runner = open_runner([join for _, joins in planned for join in joins])
        _run_joins(planned, options, runner, result, on_joined)
    for chain in chains:
        if options.delete:
            result.deleted += delete_garbage(chain, options.grace_period, clock())
            result.orphans += delete_orphans(chain, clock())
        state = chain.load()
        result.waiting += len(state.garbage)
        if state.is_held:
            result.held.append(chain.topic)
    return result


def _plan(chain: Chain, options: CompactionOptions, now: datetime) -> list[Join]:
    """Plan the joins of a topic, without segments that the next archiving program will replace by what is stored."""
    state = chain.load()
    if chain.layout == "kafka-replicator" and state.last is not None:
        state = state.with_changes((), find_foreign_changes(chain, state).removed)
    return [
        join
        for partition in state.partitions
        if options.partitions is None or partition in options.partitions
        for join in plan_joins(state.segments(partition), options.rules, now)
    ]


def _run_joins(
    planned: Sequence[tuple[Chain, tuple[Join, ...]]],
    options: CompactionOptions,
    runner: JoinRunner,
    result: CompactionResult,
    on_joined: Callable[[Join], None],
) -> None:
    lock = threading.Lock()
    pool = ThreadPoolExecutor(runner.parallelism, "compact")
    try:
        works = {pool.submit(_run_group, each, options, runner, result, lock): each for each in planned}
        for work in as_completed(works):
            work.result()
            for join in works[work][1]:
                on_joined(join)
    except BaseException:
        runner.stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _run_group(
    planned: tuple[Chain, tuple[Join, ...]],
    options: CompactionOptions,
    runner: JoinRunner,
    result: CompactionResult,
    lock: threading.Lock,
) -> None:
    """Carry out a group of joins. The undamaged inputs of a failed join are joined as far as the rules permit."""
    chain, joins = planned
    pending = list(joins)
    while pending:
        level = pending[0].level  # without a damaged input of a higher one it may be lower
        retries = _run_level(chain, [join for join in pending if join.level == level], runner, result, lock)
        pending = [join for join in pending if join.level != level]
        now = datetime.now(UTC)
        pending += [join for retry in retries if retry.inputs for join in plan_joins(retry.inputs, options.rules, now)]


def _run_level(
    chain: Chain, joins: Sequence[Join], runner: JoinRunner, result: CompactionResult, lock: threading.Lock
) -> list[Join]:
    """Carry out joins of one level and commit each, unless another program has changed its inputs.

    Returns:
        The joins that failed because of one damaged input, without that input.
    """
    state = chain.load()
    current = [join for join in joins if _is_current(state, join)]
    outcomes = runner.run(chain.prefix, current) if current else []
    if any(isinstance(outcome, DamagedInput) for outcome in outcomes):
        state = chain.load()  # objects that another program has joined and deleted meanwhile are not damaged
    retries = []
    with lock:  # or the commits of the threads would conflict
        result.skipped += len(joins) - len(current)
        for join, outcome in zip(current, outcomes, strict=True):
            if isinstance(outcome, DamagedInput) and not _is_current(state, join):
                result.skipped += 1
            elif isinstance(outcome, DamagedInput):
                result.damaged.append(outcome.message)
                if outcome.index is not None:
                    retries.append(Join((*join.inputs[: outcome.index], *join.inputs[outcome.index + 1 :])))
            elif commit_join(chain, join, outcome):
                _count(result, join, outcome)
            else:
                if chain.layout == "gapless":  # else another program may have committed the same object
                    discard(chain.place, outcome)
                result.skipped += 1
    return retries


def _count(result: CompactionResult, join: Join, segment: Segment) -> None:
    result.inputs += len(join.inputs)
    result.outputs += 1
    result.records += segment.records
    result.input_bytes += join.stored_bytes
    result.output_bytes += segment.stored_bytes
    result.content_bytes += segment.bytes


def commit_join(chain: Chain, join: Join, segment: Segment) -> bool:
    """Replace the inputs with `segment` in one commit; ``False`` when one of them is no longer in the archive."""
    is_committed = False

    def change(state: TopicState) -> Changes | None:
        nonlocal is_committed
        is_committed = _is_current(state, join)
        return Changes(action="compact", added=(segment,), removed=join.inputs) if is_committed else None

    chain.update(change)
    return is_committed


def _is_current(state: TopicState, join: Join) -> bool:
    segments = state.segments(join.partition)
    return all(segment in segments for segment in join.inputs)
