"""Owns the run of a resend that needs one process only; must not know how several share the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_sender.workers.partition_work import total_of
from gapless_sender.workers.partition_worker import PartitionWorker

if TYPE_CHECKING:
    from gapless_sender.link.session_keys import AnnouncedKeys
    from gapless_sender.workers.partition_worker import ResendContext
    from gapless_sender.workers.runtime import SenderRuntime


def work_alone(runtime: SenderRuntime, resend: ResendContext) -> None:
    """Do a resend in this process.

    Raises:
        GaplessError: whatever ends the work early; the receiver is told when it is a signal.
    """
    link, account, view = runtime.link, resend.account, resend.view
    keys: AnnouncedKeys | None = None
    with PartitionWorker.planned(runtime, resend) as worker:
        partitions = worker.partitions
        account.begin(total_of(partitions))
        view.begin(total_of(partitions))
        try:
            if all(partition.done for partition in partitions):
                return
            runtime.say_starting()
            keys = runtime.announced_keys()
            if keys is not None:
                keys.current()
                keys.release()
            worker.send(
                link,
                keys=keys,
                on_batch=lambda *_: view.advanced(lambda: (total_of(partitions), link.stats.datagrams)),
            )
            runtime.say_ended(None)
        except BaseException as error:
            runtime.say_ended(error)
            raise
        finally:
            account.partitions = [partition.result for partition in partitions]
            account.traffic = runtime.traffic(link)
            account.damaged += worker.damaged
            account.keys_announced = keys.announced if keys is not None else 0
            view.end(total_of(partitions), link.stats.datagrams)
