"""Owns one run of compaction over some topics: old segments leave, others are joined, then objects are deleted.

Must not know where a join is carried out: in this process or in Spark's tasks.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from gapless_archive.catalog.chain import Changes
from gapless_archive.compaction.grouping import group_joins
from gapless_archive.compaction.join import DamagedInput, discard
from gapless_archive.compaction.plan import CompactionRules, Join, plan_joins
from gapless_archive.compaction.removal import GRACE_PERIOD, delete_garbage, delete_orphans, expire
from gapless_archive.compaction.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """What a run does."""

    rules: CompactionRules = field(default_factory=CompactionRules)
    retention: Retention = field(default_factory=Retention)
    partitions: frozenset[int] | None = None
    """Those that are looked at; ``None`` for all."""
    delete: bool = True
    """Whether objects that are no longer needed are deleted."""
    grace_period: timedelta = GRACE_PERIOD
    """How long they stay for those who still read them."""


@dataclass(slots=True)
class CompactionResult:
    """What a run has done."""

    inputs: int = 0
    outputs: int = 0
    records: int = 0
    input_bytes: int = 0
    """Stored bytes of all inputs."""
    output_bytes: int = 0
    content_bytes: int = 0
    """Of the records in the new segments."""
    skipped: int = 0
    """Joins whose inputs another program has changed meanwhile."""
    expired: int = 0
    deleted: int = 0
    orphans: int = 0
    waiting: int = 0
    """Objects that are no longer needed and not deleted yet."""
    held: list[str] = field(default_factory=list)
    """Topics of which nothing is removed."""
    damaged: list[str] = field(default_factory=list)
    """A sentence for each join that met a damaged input."""


class JoinRunner(Protocol):
    """Carries out joins."""

    parallelism: int
    """How many threads call `run` at once."""

    def run(self, prefix: str, joins: Sequence[Join]) -> list[Segment | DamagedInput]:
        """Write the new segments of joins of one level; see `write_joins`."""

    def stop(self) -> None:
        """Make `run` end soon in all threads."""


def compact(  # noqa: PLR0913 -- what a run needs
    chains: Sequence[Chain],
    options: CompactionOptions,
    open_runner: Callable[[Sequence[Join]], JoinRunner],
    *,
    result: CompactionResult | None = None,
    on_joined: Callable[[Join], None] = lambda _: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> CompactionResult:
    """Do one run.

    Args:
        chains: of the topics.
        options: what is done.
        open_runner: gets all joins and returns who carries them out; is not called without any.
        result: what is done is added to it, also when the run fails later; ``None`` for a new one.
        on_joined: is told which join is done, whatever has become of it.
        clock: gives the time.

    Raises:
        GaplessError: the place does not answer or cannot be written. What was committed before stays.
    """
    result = CompactionResult() if result is None else result
    planned: list[tuple[Chain, tuple[Join, ...]]] = []
    for chain in chains:
        if options.retention.is_set:
            result.expired += len(expire(chain, options.retention, clock(), partitions=options.partitions))
        planned += [(chain, joins) for joins in group_joins(_planned(chain.load(), options, clock()))]
    if planned:
        runner = open_runner([join for _, joins in planned for join in joins])
        _carry_out(planned, options, runner, result, on_joined)
    for chain in chains:
        if options.delete:
            result.deleted += delete_garbage(chain, options.grace_period, clock())
            result.orphans += delete_orphans(chain, clock())
        state = chain.load()
        result.waiting += len(state.garbage)
        if state.is_held:
            result.held.append(chain.topic)
    return result


def _planned(state: TopicState, options: CompactionOptions, now: datetime) -> list[Join]:
    return [
        join
        for partition in state.partitions
        if options.partitions is None or partition in options.partitions
        for join in plan_joins(state.segments(partition), options.rules, now)
    ]


def _carry_out(
    planned: Sequence[tuple[Chain, tuple[Join, ...]]],
    options: CompactionOptions,
    runner: JoinRunner,
    result: CompactionResult,
    on_joined: Callable[[Join], None],
) -> None:
    lock = threading.Lock()
    pool = ThreadPoolExecutor(runner.parallelism, "compact")
    try:
        works = {pool.submit(_join_all, each, options, runner, result, lock): each for each in planned}
        for work in as_completed(works):
            work.result()
            for join in works[work][1]:
                on_joined(join)
    except BaseException:
        runner.stop()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _join_all(
    planned: tuple[Chain, tuple[Join, ...]],
    options: CompactionOptions,
    runner: JoinRunner,
    result: CompactionResult,
    lock: threading.Lock,
) -> None:
    """Carry out joins; what is left of one beside a damaged input is joined as far as the rules permit."""
    chain, joins = planned
    pending = list(joins)
    while pending:
        level = pending[0].level  # without a damaged input of a higher one it may be lower
        failed = _join(chain, [join for join in pending if join.level == level], runner, result, lock)
        pending = [join for join in pending if join.level != level]
        now = datetime.now(UTC)
        pending += [join for one in failed if one.inputs for join in plan_joins(one.inputs, options.rules, now)]


def _join(
    chain: Chain, joins: Sequence[Join], runner: JoinRunner, result: CompactionResult, lock: threading.Lock
) -> list[Join]:
    """Carry out some joins and commit each, unless another program has changed its inputs.

    Returns:
        Those that failed over one damaged input, without it.
    """
    state = chain.load()
    current = [join for join in joins if _is_current(state, join)]
    found = runner.run(chain.prefix, current) if current else []
    if any(isinstance(made, DamagedInput) for made in found):
        state = chain.load()  # Objects that another program has joined and deleted meanwhile are not damaged.
    left = []
    with lock:  # or the threads would disturb each other's commits
        result.skipped += len(joins) - len(current)
        for join, made in zip(current, found, strict=True):
            if isinstance(made, DamagedInput) and not _is_current(state, join):
                result.skipped += 1
            elif isinstance(made, DamagedInput):
                result.damaged.append(made.sentence)
                if made.index is not None:
                    left.append(Join((*join.inputs[: made.index], *join.inputs[made.index + 1 :])))
            elif commit_join(chain, join, made):
                _count(result, join, made)
            else:
                if chain.layout == "gapless":  # else another program may have committed the same object
                    discard(chain.place, made)
                result.skipped += 1
    return left


def _count(result: CompactionResult, join: Join, segment: Segment) -> None:
    result.inputs += len(join.inputs)
    result.outputs += 1
    result.records += segment.records
    result.input_bytes += join.stored_bytes
    result.output_bytes += segment.stored_bytes
    result.content_bytes += segment.bytes


def commit_join(chain: Chain, join: Join, segment: Segment) -> bool:
    """Put `segment` in the place of its inputs in one commit; ``False`` when one of them is no longer there."""
    is_committed = False

    def change(state: TopicState) -> Changes | None:
        nonlocal is_committed
        is_committed = _is_current(state, join)
        return Changes(action="compact", added=(segment,), removed=join.inputs) if is_committed else None

    chain.committed(change)
    return is_committed


def _is_current(state: TopicState, join: Join) -> bool:
    there = state.segments(join.partition)
    return all(segment in there for segment in join.inputs)
