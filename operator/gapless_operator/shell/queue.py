"""Owns the work queue: when a resource is reconciled, never twice at a time, and with growing delays after failures.

Must not know what reconciling is. However often a key is added while it waits or runs, it runs once more after that,
which is all that a level-based reconciler needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gapless_api.base.backoff import backoff

KeyT = TypeVar("KeyT", bound="Hashable")

_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.5, 60.0


@dataclass(slots=True)
class _Item:
    """The state of one key."""

    added: asyncio.Event = field(default_factory=asyncio.Event)
    urgent: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends the delay after a failure."""
    failures: int = 0
    task: asyncio.Task[None] | None = None


def pause_after(failures: int) -> float:
    """Return how many seconds to wait after a failure that follows `failures` others in a row."""
    delay = backoff(failures, first=_FIRST_DELAY_SECONDS, longest=_MAX_DELAY_SECONDS)
    return delay * random.uniform(0.8, 1.2)  # noqa: S311 -- spreads retries


class WorkQueue(Generic[KeyT]):
    """Runs ``work(key)`` for keys that were added, at most `workers` at the same time, each key once at a time.

    ``work`` returns after how many seconds to run the key again; ``None`` to wait until it is added. When it raises, it
    is called again after a delay that doubles from half a second to a minute. Only an urgent addition shortens that
    delay: a resync, for example, must not make a failing resource fail more often.
    """

    def __init__(
        self,
        work: Callable[[KeyT], Awaitable[float | None]],
        *,
        workers: int,
        on_failure: Callable[[KeyT, Exception, float], None],
    ) -> None:
        self._work = work
        self._on_failure = on_failure
        self._items: dict[KeyT, _Item] = {}
        self._free = asyncio.Semaphore(workers)
        self._running: set[asyncio.Future[float | None]] = set()
        self._waiting = 0
        self._closed = False

    @property
    def depth(self) -> int:
        """Return how many keys wait for a worker."""
        return self._waiting

    def add(self, key: KeyT, *, urgent: bool = False) -> None:
        """Run `key` soon. Only from the thread of the event loop.

        Args:
            key: what to run.
            urgent: whether to end its delay after a failure, because its spec has changed.
        """
        if self._closed:
            return
        item = self._items.setdefault(key, _Item())
        item.added.set()
        if urgent:
            item.failures = 0
            item.urgent.set()
        if item.task is None:
            item.task = asyncio.get_running_loop().create_task(self._run(key, item))

    def forget(self, key: KeyT) -> None:
        """Forget a key; a run that has started ends by itself."""
        item = self._items.pop(key, None)
        if item is not None:
            item.added.set()
            item.urgent.set()

    async def close(self) -> None:
        """Start no more runs, and wait until those that run have ended."""
        self._closed = True
        tasks = [item.task for item in self._items.values() if item.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, key: KeyT, item: _Item) -> None:
        """Run `key` whenever it was added or its delay is over, until it is forgotten."""
        again_after: float | None = None
        while self._items.get(key) is item:
            with contextlib.suppress(TimeoutError):
                # `asyncio.wait_for` of Python 3.11 loses the cancellation of `close` if the key is added just then.
                async with asyncio.timeout(again_after):
                    await (item.urgent if item.failures else item.added).wait()
            if self._items.get(key) is not item:
                return
            item.added.clear()
            item.urgent.clear()
            self._waiting += 1
            try:
                await self._free.acquire()
            finally:
                self._waiting -= 1
            try:
                # A cancelled wait must not abandon a reconcile that runs in a thread, so it is shielded.
                run = asyncio.ensure_future(self._work(key))
                self._running.add(run)
                run.add_done_callback(self._running.discard)
                again_after = await asyncio.shield(run)
                item.failures = 0
            except Exception as error:  # noqa: BLE001 -- whatever it is, the resource is tried again
                again_after = pause_after(item.failures)
                item.failures += 1
                self._on_failure(key, error, again_after)
            finally:
                self._free.release()
