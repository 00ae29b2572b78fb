"""The work of one process of a resend: connecting to Kafka, planning its partitions, and sending them in order.

Must not know what other processes do, nor how the resend is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gapless_sender.base.lazy_log import log
from gapless_sender.base.process_memory import MallocTrim
from gapless_sender.base.sharding import Shard
from gapless_sender.replay.account import BatchResult, PartitionAccount, Recheck
from gapless_sender.replay.checkpoint import Checkpoint, shard_path
from gapless_sender.replay.replay import Keys, PartitionReplay
from gapless_sender.source.requests import PartitionRequest, requests_of_shard
from gapless_sender.workers.partition_work import PartitionWork, all_requests, plan_partitions

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.resend_report import DamagedObject
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_sender.link.transmitter import Transmitter
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.replay.progress import ProgressView
    from gapless_sender.replay.report import Account
    from gapless_sender.replay.saved_progress import Progress
    from gapless_sender.source.event_source import EventSource
    from gapless_sender.source.plan import PartitionPlan, Selection
    from gapless_sender.workers.runtime import SenderRuntime


@dataclass(slots=True)
class ResendContext:
    """What all processes of a resend share: the selection, its source, and its progress."""

    selection: Selection
    connection: KafkaConnection
    progress: Progress
    checkpoint: Checkpoint | None
    view: ProgressView
    account: Account
    """Filled in at the end, also when an error ends the work."""


class PartitionWorker:
    """One process's share of a resend; created by `planned`."""

    def __init__(  # noqa: PLR0913, PLR0917 -- what `planned` has prepared
        self,
        runtime: SenderRuntime,
        selection: Selection,
        source: EventSource,
        requests: Sequence[PartitionRequest],
        progress: Progress,
        checkpoint: Checkpoint | None,
        processes: int,
    ) -> None:
        self._runtime = runtime
        self._selection = selection
        self._source = source
        self._processes = processes
        self.keys = tuple(request.partition.key for request in requests)
        """Its partitions."""
        self.progress = progress
        self.checkpoint = checkpoint
        fix_bounds = checkpoint.append_bounds if checkpoint is not None else progress.bounds.__setitem__
        learned = checkpoint.append_topic_id if checkpoint is not None else progress.topic_ids.__setitem__
        topics = sorted({request.partition.upstream_topic for request in requests})
        source.kafka.watch(topics, progress.topic_ids, learned)
        self.works: list[PartitionWork] = plan_partitions(selection, requests, source, progress, fix_bounds)

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
        """Connect to Kafka and plan the partitions of process `number` of `processes`, before any packet is sent.

        One of several processes saves its progress in a file of its own. `pulse` is called while waiting for Kafka.

        Raises:
            ConfigurationError: a topic or partition does not exist, was recreated, or the checkpoint does not fit.
            SourceUnreachableError: Kafka does not respond or denies access.
        """
        with ExitStack() as stack:
            source = runtime.source(resend.connection, resend.progress.topic_ids, pulse)
            stack.callback(source.kafka.close)
            source.kafka.connect()
            requests = requests_of_shard(all_requests(resend.selection, source), Shard(number, processes))
            progress, checkpoint = resend.progress, resend.checkpoint
            if processes > 1:
                progress = progress.subset([request.partition.key for request in requests])
                if checkpoint is not None:
                    path = shard_path(checkpoint.path, number)
                    checkpoint = Checkpoint(path, resend.selection.identity, progress) if requests else None
                if checkpoint is not None:
                    stack.callback(checkpoint.close)
            yield cls(runtime, resend.selection, source, requests, progress, checkpoint, processes)

    def send(
        self, link: UdpLink, *, keys: Keys | None, on_batch: Callable[[TopicPartition, BatchResult], None]
    ) -> None:
        """Send the partitions in order; `on_batch` is called with the result of each batch, before the next begins.

        Raises:
            SourceUnreachableError, LinkError, LocalStorageError, StoppedError: the accounts have what was done.
        """
        runtime, transmitter = self._runtime, self._runtime.transmitter(link, senders=self._processes)
        malloc_trim = MallocTrim()
        with ExitStack() as stack:
            if self.checkpoint is not None:
                stack.callback(self.checkpoint.save)
            remaining = [work for work in self.works if not work.done]
            for work, following in zip(remaining, [*remaining, None][1:], strict=True):
                plan, account = work.plan, work.account
                topic = plan.partition.upstream_topic

                def after_batch(result: BatchResult, key: TopicPartition = plan.partition.key) -> None:
                    on_batch(key, result)  # First, so that the caller never has less than the checkpoint.
                    if self.checkpoint is not None:
                        self.checkpoint.add(key, result)
                    runtime.shutdown.in_batch = False
                    malloc_trim.trim_if_due()
                    runtime.shutdown.check()

                if not account.recheck_done:
                    retry = replace(plan, requested=account.retry)
                    self._replay(retry, Recheck(account), transmitter, keys, after_batch)
                if not work.read_to_end:
                    self._replay(plan, account, transmitter, keys, after_batch)
                if following is None or following.plan.partition.upstream_topic != topic:
                    self._source.kafka.finish_topic(topic)
        if not self._source.kafka.settle_watch():
            log("warning", "Could not verify that topic IDs are unchanged")

    def _replay(
        self,
        plan: PartitionPlan,
        account: PartitionAccount | Recheck,
        transmitter: Transmitter,
        keys: Keys | None,
        after_batch: Callable[[BatchResult], None],
    ) -> None:
        options = self._runtime.options
        replay = PartitionReplay(plan.partition, account, options, transmitter, keys=keys, on_batch=after_batch)
        replay.run(
            self._source.read(
                plan,
                account.cursor,
                first_ms=self._selection.first_timestamp_ms,
                last_ms=self._selection.last_timestamp_ms,
                fill=options.fill,
                size=replay.batch_size,
            )
        )

    @property
    def damaged(self) -> tuple[DamagedObject, ...]:
        """Objects of the archive that could not be read."""
        return self._source.damaged
