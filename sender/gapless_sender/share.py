"""Owns the work of one process: its partitions, one after the other, from Kafka to the link.

Must not know whether other processes work beside it, nor how the whole is reported.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.errors import ConfigurationError
from gapless_sender.freed_memory import FreedMemory
from gapless_sender.lazy_log import log
from gapless_sender.ledger import PartitionLedger, Step, totals
from gapless_sender.plan import plan_partition, wishes_of_all
from gapless_sender.replay import PartitionReplay
from gapless_sender.report import PartitionAccount, account_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gapless_api.wire.totals import Totals
    from gapless_sender.checkpoint import Checkpoint, Progress
    from gapless_sender.plan import PartitionPlan, Selection, Wish
    from gapless_sender.replay import Keys, Treatment
    from gapless_sender.source import KafkaSource
    from gapless_sender.stopping import Stopping
    from gapless_sender.transmitter import Transmitter


@dataclass(slots=True)
class Job:
    """One partition to be done."""

    plan: PartitionPlan
    wanted_count: int
    ledger: PartitionLedger

    @property
    def totals(self) -> Totals:
        """Its account so far."""
        return totals(self.plan.wanted, self.wanted_count, self.ledger)

    @property
    def done(self) -> bool:
        """Whether nothing is left of it."""
        return self.plan.wanted.index_reaching(self.ledger.cursor) == len(self.plan.wanted)

    @property
    def account(self) -> PartitionAccount:
        """Its account, with all ranges."""
        return account_of(self.plan, self.wanted_count, self.ledger)


def planned_jobs(
    selection: Selection,
    wishes: Sequence[Wish],
    source: KafkaSource,
    progress: Progress,
    fix_bounds: Callable[[tuple[str, int], tuple[int, int]], None],
) -> list[Job]:
    """Ask Kafka what must be known before anything is sent, for every partition.

    Args:
        selection: what the user asks for.
        wishes: the part of it that is this process's.
        source: connected.
        progress: what was done before; its bounds are kept, so that a resumed open range has the same end.
        fix_bounds: called for each new bound.

    Raises:
        ConfigurationError: a topic or partition does not exist, is another one than before, or the checkpoint does
            not fit.
        SourceUnreachableError: Kafka does not answer or denies access.
    """
    jobs = []
    counts: dict[str, int] = {}
    for wish in wishes:
        place = wish.place
        if place.upstream_partition >= counts.get(place.upstream_topic, 0):
            counts[place.upstream_topic] = source.check(place)
        key = (place.topic, place.partition)
        first, end = 0, 0
        if wish.by_time or wish.open_from is not None:
            if key not in progress.bounds:
                first, end = _bounds(selection, wish, source)
                fix_bounds(key, (first, end))
            first, end = progress.bounds.get(key, (first, end))
        jobs.append(_job(wish, (first, end), progress))
    source.settle_watch()
    return jobs


def watch_topics(
    wishes: Sequence[Wish], source: KafkaSource, progress: Progress, checkpoint: Checkpoint | None
) -> None:
    """Hold on to the topics that are resent from, and to what the checkpoint says of them."""
    learned = checkpoint.append_topic_id if checkpoint is not None else progress.topic_ids.__setitem__
    source.watch(sorted({wish.place.upstream_topic for wish in wishes}), progress.topic_ids, learned)


def remembered_jobs(selection: Selection, progress: Progress) -> list[Job]:
    """The partitions of a finished resend, by its checkpoint alone."""
    wishes = selection.wishes
    if selection.all_partitions_of is not None:
        last = max((selection.window.to_upstream(partition) for _, partition in progress.bounds), default=-1)
        wishes = wishes_of_all(selection, last + 1)
    jobs = []
    for wish in wishes:
        key = (wish.place.topic, wish.place.partition)
        first, end = progress.bounds.get(key, (0, 0))
        jobs.append(_job(wish, (first, end), progress))
    return jobs


def _job(wish: Wish, bounds: tuple[int, int], progress: Progress) -> Job:
    """Put together what is wanted of a partition and what was done of it. Raises ConfigurationError."""
    first, end = bounds
    plan = plan_partition(wish, end=end, first_in_time=first if wish.by_time else None)
    ledger = progress.ledger((wish.place.topic, wish.place.partition))
    behind = plan.wanted.clip(0, ledger.cursor - 1).count if ledger.cursor > 0 else 0
    if ledger.accounted != behind:
        raise ConfigurationError(
            f"The checkpoint was altered or is of other work: it accounts for {ledger.accounted} offsets of "
            f"{wish.place} where {behind} were wanted; give another path, or delete the file to begin anew."
        )
    return Job(plan, plan.wanted.count, ledger)


def _bounds(selection: Selection, wish: Wish, source: KafkaSource) -> tuple[int, int]:
    low, high = source.watermarks(wish.place)
    if wish.open_from is not None:
        return wish.open_from, high
    if selection.first_timestamp_ms is None:
        return low, high
    return source.first_offset_since(wish.place, selection.first_timestamp_ms, high), high


def all_wishes(selection: Selection, source: KafkaSource) -> tuple[Wish, ...]:
    """The selection's wishes; for a time range over a whole topic, one for each partition that Kafka has."""
    if selection.all_partitions_of is None:
        return selection.wishes
    return wishes_of_all(selection, source.partition_count(selection.all_partitions_of.upstream_topic))


def work_through(  # noqa: PLR0913 -- the parts of the pipeline
    jobs: Sequence[Job],
    selection: Selection,
    source: KafkaSource,
    treatment: Treatment,
    transmitter: Transmitter,
    *,
    keys: Keys | None,
    checkpoint: Checkpoint | None,
    stopping: Stopping,
    advanced: Callable[[], None],
) -> None:
    """Do `jobs` in order; `advanced` is called after each batch.

    Raises:
        SourceUnreachableError, LinkError, LocalStorageError, StoppedError: the accounts hold what was done.
    """
    freed_memory = FreedMemory()
    with ExitStack() as stack:
        if checkpoint is not None:
            stack.callback(checkpoint.save)
        left = [job for job in jobs if not job.done]
        for job, following in zip(left, [*left, None][1:], strict=True):
            place = job.plan.place

            def fit_to_pace() -> None:
                source.most_events = min(transmitter.batch_events, 1000)
                source.most_bytes = min(transmitter.batch_bytes, 4 * 1024 * 1024)
                source.most_hole_offsets = dict.fromkeys(treatment.fill, transmitter.batch_events)

            def settled(step: Step, key: tuple[str, int] = (place.topic, place.partition)) -> None:
                if checkpoint is not None:
                    checkpoint.note(key, step)
                stopping.in_batch = False
                advanced()
                freed_memory.glance()
                stopping.check()
                fit_to_pace()  # It may have changed.

            fit_to_pace()
            replay = PartitionReplay(job.plan, job.ledger, treatment, transmitter, keys=keys, settled=settled)
            replay.run(
                source.read(
                    job.plan,
                    job.ledger.cursor,
                    first_ms=selection.first_timestamp_ms,
                    last_ms=selection.last_timestamp_ms,
                )
            )
            if following is None or following.plan.place.upstream_topic != place.upstream_topic:
                source.leave(place.upstream_topic)
            advanced()
    if not source.settle_watch():
        log("warning", "Kafka did not say whether every topic is still the one that it was at the start")
