"""Owns the work of one process of a resend: it reaches Kafka, plans its partitions, and does them one after the other.

Must not know what other processes do, nor how the whole is reported.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gapless_sender.base.lazy_log import log
from gapless_sender.base.process_memory import MallocTrim
from gapless_sender.base.sharding import Shard
from gapless_sender.replay.account import SecondLook
from gapless_sender.replay.checkpoint import Checkpoint, shard_path
from gapless_sender.replay.replay import PartitionReplay
from gapless_sender.source.shares import wishes_of_shard
from gapless_sender.workers.partition_work import all_wishes, plan_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.resend_report import DamagedObject
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_sender.link.transmitter import Transmitter
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.replay.account import BatchResult, PartitionAccount
    from gapless_sender.replay.progress import ProgressView
    from gapless_sender.replay.replay import Keys
    from gapless_sender.replay.report import Account
    from gapless_sender.replay.saved_progress import Progress
    from gapless_sender.source.event_source import EventSource
    from gapless_sender.source.plan import PartitionPlan, Selection, Wish
    from gapless_sender.workers.partition_work import PartitionWork
    from gapless_sender.workers.runtime import SenderRuntime


@dataclass(slots=True)
class ResendContext:
    """A resend in all its processes: what is wanted, from where, how far it is, and where that is kept and shown."""

    selection: Selection
    connection: KafkaConnection
    progress: Progress
    checkpoint: Checkpoint | None
    view: ProgressView
    account: Account
    """Filled in at the end, also when an error ends the work."""


class PartitionWorker:
    """The part of a resend that one process does; made by `planned`."""

    def __init__(  # noqa: PLR0913, PLR0917 -- what `planned` has found
        self,
        runtime: SenderRuntime,
        selection: Selection,
        source: EventSource,
        wishes: Sequence[Wish],
        progress: Progress,
        checkpoint: Checkpoint | None,
        processes: int,
    ) -> None:
        self._runtime = runtime
        self._selection = selection
        self._source = source
        self._processes = processes
        self.keys = tuple(wish.key for wish in wishes)
        """Its partitions."""
        self.progress = progress
        self.checkpoint = checkpoint
        fix_bounds = checkpoint.append_bounds if checkpoint is not None else progress.bounds.__setitem__
        learned = checkpoint.append_topic_id if checkpoint is not None else progress.topic_ids.__setitem__
        source.kafka.watch(sorted({wish.place.upstream_topic for wish in wishes}), progress.topic_ids, learned)
        self.partitions: list[PartitionWork] = plan_partitions(selection, wishes, source, progress, fix_bounds)

    @classmethod
    @contextmanager
    def planned(
        cls,
        runtime: SenderRuntime,
        resend: ResendContext,
        *,
        number: int = 0,
        processes: int = 1,
        pulse: Callable[[], None] | None = None,
    ) -> Iterator[PartitionWorker]:
        """Reach Kafka and plan the partitions of process `number` of so many: all that must be known before any packet.

        Every process does it this way; one of several keeps its progress in a file of its own. `pulse` is called while
        Kafka is waited for.

        Raises:
            ConfigurationError: a topic or partition does not exist, is another one than before, or the checkpoint does
                not fit.
            SourceUnreachableError: Kafka does not answer or denies access.
        """
        with ExitStack() as stack:
            source = runtime.source(resend.connection, resend.progress.topic_ids, pulse)
            stack.callback(source.kafka.close)
            source.kafka.connect()
            wishes = wishes_of_shard(all_wishes(resend.selection, source), Shard(number, processes))
            progress, checkpoint = resend.progress, resend.checkpoint
            if processes > 1:
                progress = progress.part([wish.key for wish in wishes])
                if checkpoint is not None:
                    path = shard_path(checkpoint.path, number)
                    checkpoint = Checkpoint(path, resend.selection.identity, progress) if wishes else None
                if checkpoint is not None:
                    stack.callback(checkpoint.close)
            yield cls(runtime, resend.selection, source, wishes, progress, checkpoint, processes)

    def send(
        self, link: UdpLink, *, keys: Keys | None, on_batch: Callable[[TopicPartition, BatchResult], None]
    ) -> None:
        """Do the partitions in order; `on_batch` is called after each batch with what it did, before the next begins.

        Raises:
            SourceUnreachableError, LinkError, LocalStorageError, StoppedError: the accounts hold what was done.
        """
        runtime, transmitter = self._runtime, self._runtime.transmitter(link, sharers=self._processes)
        malloc_trim = MallocTrim()
        with ExitStack() as stack:
            if self.checkpoint is not None:
                stack.callback(self.checkpoint.save)
            left = [partition for partition in self.partitions if not partition.done]
            for partition, following in zip(left, [*left, None][1:], strict=True):
                place = partition.plan.place

                def after_batch(result: BatchResult, key: TopicPartition = (place.topic, place.partition)) -> None:
                    on_batch(key, result)  # First, so that whoever listens never knows less than the checkpoint.
                    if self.checkpoint is not None:
                        self.checkpoint.note(key, result)
                    runtime.shutdown.in_batch = False
                    malloc_trim.trim_if_due()
                    runtime.shutdown.check()

                if not partition.account.has_looked_again:
                    second_look = SecondLook(partition.account)
                    again = replace(partition.plan, wanted=partition.account.again)
                    self._replay(again, second_look, transmitter, keys, after_batch)
                if not partition.is_through:
                    self._replay(partition.plan, partition.account, transmitter, keys, after_batch)
                if following is None or following.plan.place.upstream_topic != place.upstream_topic:
                    self._source.kafka.leave(place.upstream_topic)
        if not self._source.kafka.settle_watch():
            log("warning", "Could not verify that topic IDs are unchanged")

    def _replay(
        self,
        plan: PartitionPlan,
        account: PartitionAccount | SecondLook,
        transmitter: Transmitter,
        keys: Keys | None,
        after_batch: Callable[[BatchResult], None],
    ) -> None:
        treatment = self._runtime.treatment
        replay = PartitionReplay(plan.place, account, treatment, transmitter, keys=keys, on_batch=after_batch)
        replay.run(
            self._source.read(
                plan,
                account.cursor,
                first_ms=self._selection.first_timestamp_ms,
                last_ms=self._selection.last_timestamp_ms,
                fill=treatment.fill,
                size=replay.batch_size,
            )
        )

    @property
    def damaged(self) -> tuple[DamagedObject, ...]:
        """Objects of the archive that could not be read."""
        return self._source.damaged
