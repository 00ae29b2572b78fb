"""Owns the work of one process: its partitions, one after the other, from Kafka to the link.

Must not know whether other processes work beside it, nor how the whole is reported.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_sender.base.lazy_log import log
from gapless_sender.base.process_memory import MallocTrim
from gapless_sender.replay.account import BatchResult, PartitionAccount, totals
from gapless_sender.replay.replay import PartitionReplay
from gapless_sender.replay.report import PartitionResult, partition_result
from gapless_sender.source.plan import plan_partition, wishes_of_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.totals import Totals
    from gapless_sender.base.shutdown import Shutdown
    from gapless_sender.link.transmitter import Transmitter
    from gapless_sender.replay.checkpoint import Checkpoint
    from gapless_sender.replay.replay import Keys, Treatment
    from gapless_sender.replay.saved_progress import Progress
    from gapless_sender.source.kafka_source import KafkaSource
    from gapless_sender.source.plan import PartitionPlan, Selection, Wish


@dataclass(slots=True)
class PartitionWork:
    """One partition to be done."""

    plan: PartitionPlan
    wanted_count: int
    account: PartitionAccount

    @property
    def totals(self) -> Totals:
        """Its account so far."""
        return totals(self.plan.wanted, self.wanted_count, self.account)

    @property
    def done(self) -> bool:
        """Whether nothing is left of it."""
        return self.plan.wanted.index_reaching(self.account.cursor) == len(self.plan.wanted)

    @property
    def result(self) -> PartitionResult:
        """Its account, with all ranges."""
        return partition_result(self.plan, self.wanted_count, self.account)


def prepare_partitions(
    selection: Selection,
    wishes: Sequence[Wish],
    source: KafkaSource,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> list[PartitionWork]:
    """Plan `wishes`, and make sure that their topics are those of before: all that must be known before any packet.

    What Kafka says goes into `progress`, and into `checkpoint` if there is one. Raises like `plan_partitions`.
    """
    fix_bounds = checkpoint.append_bounds if checkpoint is not None else progress.bounds.__setitem__
    learned = checkpoint.append_topic_id if checkpoint is not None else progress.topic_ids.__setitem__
    source.watch(sorted({wish.place.upstream_topic for wish in wishes}), progress.topic_ids, learned)
    return plan_partitions(selection, wishes, source, progress, fix_bounds)


def plan_partitions(
    selection: Selection,
    wishes: Sequence[Wish],
    source: KafkaSource,
    progress: Progress,
    fix_bounds: Callable[[TopicPartition, tuple[int, int]], None],
) -> list[PartitionWork]:
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
    partitions = []
    counts: dict[str, int] = {}
    for wish in wishes:
        place = wish.place
        if place.upstream_partition >= counts.get(place.upstream_topic, 0):
            counts[place.upstream_topic] = source.check(place)
        if not _is_known(wish, progress):
            fix_bounds((place.topic, place.partition), _bounds(selection, wish, source))
        partitions.append(partition_work(wish, progress))
    source.settle_watch()
    return partitions


def known_partitions(selection: Selection, progress: Progress) -> list[PartitionWork]:
    """The partitions of which all is known without Kafka: those that are wanted by numbers, or have their bounds.

    Raises:
        ConfigurationError: the checkpoint does not fit.
    """
    wishes = selection.wishes
    if selection.all_partitions_of is not None:
        last = max((selection.window.to_upstream(partition) for _, partition in progress.bounds), default=-1)
        wishes = wishes_of_all(selection, last + 1)
    return [partition_work(wish, progress) for wish in wishes if _is_known(wish, progress)]


def _is_known(wish: Wish, progress: Progress) -> bool:
    is_open = wish.by_time or wish.open_from is not None
    return not is_open or wish.key in progress.bounds


def partition_work(wish: Wish, progress: Progress) -> PartitionWork:
    """The partition of one partition whose bounds are known, if it needs any. Raises ConfigurationError."""
    first, end = progress.bounds.get(wish.key, (0, 0))
    plan = plan_partition(wish, end=end, first_in_time=first if wish.by_time else None)
    account = progress.account(wish.key)
    behind = plan.wanted.clip(0, account.cursor - 1).count if account.cursor > 0 else 0
    if account.accounted != behind:
        raise ConfigurationError(
            f"The checkpoint was altered or is of other work: it accounts for {account.accounted} offsets of "
            f"{wish.place} where {behind} were wanted; give another path, or delete the file to begin anew."
        )
    return PartitionWork(plan, plan.wanted.count, account)


def _bounds(selection: Selection, wish: Wish, source: KafkaSource) -> tuple[int, int]:
    low, high = source.topics.watermarks(wish.place.upstream)
    if wish.open_from is not None:
        return wish.open_from, high
    if selection.first_timestamp_ms is None:
        return low, high
    return source.topics.first_offset_since(wish.place.upstream, selection.first_timestamp_ms, high), high


def all_wishes(selection: Selection, source: KafkaSource) -> tuple[Wish, ...]:
    """The selection's wishes; for a time range over a whole topic, one for each partition that Kafka has."""
    if selection.all_partitions_of is None:
        return selection.wishes
    return wishes_of_all(selection, source.topics.partition_count(selection.all_partitions_of.upstream_topic))


def work_through(  # noqa: PLR0913 -- the parts of the pipeline
    partitions: Sequence[PartitionWork],
    selection: Selection,
    source: KafkaSource,
    treatment: Treatment,
    transmitter: Transmitter,
    *,
    keys: Keys | None,
    checkpoint: Checkpoint | None,
    shutdown: Shutdown,
    on_batch: Callable[[TopicPartition, BatchResult], None],
) -> None:
    """Do `partitions` in order; `on_batch` is called after each batch with what it did, before the next one begins.

    Raises:
        SourceUnreachableError, LinkError, LocalStorageError, StoppedError: the accounts hold what was done.
    """
    malloc_trim = MallocTrim()
    with ExitStack() as stack:
        if checkpoint is not None:
            stack.callback(checkpoint.save)
        left = [partition for partition in partitions if not partition.done]
        for partition, following in zip(left, [*left, None][1:], strict=True):
            place = partition.plan.place

            def after_batch(result: BatchResult, key: TopicPartition = (place.topic, place.partition)) -> None:
                on_batch(key, result)  # First, so that whoever listens never knows less than the checkpoint.
                if checkpoint is not None:
                    checkpoint.note(key, result)
                shutdown.in_batch = False
                malloc_trim.glance()
                shutdown.check()

            replay = PartitionReplay(place, partition.account, treatment, transmitter, keys=keys, on_batch=after_batch)
            replay.run(
                source.read(
                    partition.plan,
                    partition.account.cursor,
                    first_ms=selection.first_timestamp_ms,
                    last_ms=selection.last_timestamp_ms,
                    fill=treatment.fill,
                    size=replay.batch_size,
                )
            )
            if following is None or following.plan.place.upstream_topic != place.upstream_topic:
                source.leave(place.upstream_topic)
    if not source.settle_watch():
        log("warning", "Could not verify that topic IDs are unchanged")
