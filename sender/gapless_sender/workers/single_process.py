"""A resend in a single process; must not know how several share the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_sender.workers.partition_work import sum_totals
from gapless_sender.workers.partition_worker import PartitionWorker, ResendContext

if TYPE_CHECKING:
    from gapless_sender.link.session_keys import AnnouncedKeys
    from gapless_sender.workers.runtime import SenderRuntime


def run_single_process(runtime: SenderRuntime, resend: ResendContext) -> None:
    """Run a resend in this process.

    Raises:
        GaplessError: what ended the resend early; the receiver gets a status if it is a signal.
    """
    link, account, view = runtime.link, resend.account, resend.view
    keys: AnnouncedKeys | None = None
    with PartitionWorker.planned(runtime, resend) as worker:
        works = worker.works
        account.begin(sum_totals(works))
        view.begin(sum_totals(works))
        try:
            if all(work.done for work in works):
                return
            runtime.send_start_status()
            keys = runtime.announced_keys()
            if keys is not None:
                keys.current()
                keys.release()
            worker.send(
                link,
                keys=keys,
                on_batch=lambda *_: view.update(
                    lambda: (sum_totals(works), runtime.traffic(link, with_interface=True))
                ),
            )
            link.settle_replies()
            runtime.send_end_status(None)
        except BaseException as error:
            runtime.send_end_status(error)
            raise
        finally:
            account.partitions = [work.result for work in works]
            account.traffic = runtime.traffic(link, with_interface=True)
            account.interface = link.interface_name
            account.damaged += worker.damaged
            account.keys_announced = keys.announced if keys is not None else 0
            view.end(sum_totals(works), account.traffic)
