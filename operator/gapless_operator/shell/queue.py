"""Owns when a resource is reconciled: one at a time each, woken by anything, again after a failure with growing delay.

Must not know what reconciling is. However often a resource is woken while it waits or runs, it runs once more after
that, which is all that a level-based reconciler needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from gapless_api.base.backoff import backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

KeyT = TypeVar("KeyT", bound="Hashable")

_FIRST_DELAY_SECONDS, _LAST_DELAY_SECONDS = 0.5, 60.0


@dataclass(slots=True)
class _Turn:
    """What is known about one key."""

    woken: asyncio.Event = field(default_factory=asyncio.Event)
    urgent: asyncio.Event = field(default_factory=asyncio.Event)
    """Woken by something that makes waiting after a failure pointless."""
    failures: int = 0
    task: asyncio.Task[None] | None = None


def pause_after(failures: int) -> float:
    """How many seconds to wait after another failure, when there were `failures` in a row before it."""
    delay = backoff(failures, first=_FIRST_DELAY_SECONDS, longest=_LAST_DELAY_SECONDS)
    return delay * random.uniform(0.8, 1.2)  # noqa: S311 -- spreads retries


class WorkQueue(Generic[KeyT]):
    """Runs ``work(key)`` for keys that were woken, at most `workers` at the same time, each key once at a time.

    ``work`` returns after how many seconds the key wants to be woken again (``None``: only by others). It raises when
    it failed, and is called again after a delay that doubles from half a second to a minute. Until then only an urgent
    wake has it called: whatever else happens around a resource that fails again and again, such as each look at all of
    them, must not make it fail oftener.
    """

    def __init__(
        self,
        work: Callable[[KeyT], Awaitable[float | None]],
        *,
        workers: int,
        failed: Callable[[KeyT, Exception, float], None],
    ) -> None:
        self._work = work
        self._failed = failed
        self._turns: dict[KeyT, _Turn] = {}
        self._free = asyncio.Semaphore(workers)
        self._waiting = 0
        self._closed = False

    @property
    def depth(self) -> int:
        """How many keys wait for a worker."""
        return self._waiting

    def wake(self, key: KeyT, *, urgent: bool = False) -> None:
        """Have `key` run soon. Only from the event loop's thread.

        Args:
            key: what to run.
            urgent: whether to run it although its pause after a failure is not over, because what failed has changed.
        """
        if self._closed:
            return
        turn = self._turns.setdefault(key, _Turn())
        turn.woken.set()
        if urgent:
            turn.failures = 0
            turn.urgent.set()
        if turn.task is None:
            turn.task = asyncio.get_running_loop().create_task(self._run(key, turn))

    def forget(self, key: KeyT) -> None:
        """Drop what is kept about a key that is gone; what runs for it ends by itself."""
        turn = self._turns.pop(key, None)
        if turn is not None:
            turn.woken.set()
            turn.urgent.set()

    async def close(self) -> None:
        """Start nothing more, and wait until what runs has ended."""
        self._closed = True
        tasks = [turn.task for turn in self._turns.values() if turn.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: KeyT, turn: _Turn) -> None:
        """Run `key` as long as it is the one that is known, and is woken or wants to be."""
        again_after: float | None = None
        while self._turns.get(key) is turn:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for((turn.urgent if turn.failures else turn.woken).wait(), again_after)
            if self._turns.get(key) is not turn:
                return
            turn.woken.clear()
            turn.urgent.clear()
            self._waiting += 1
            try:
                await self._free.acquire()
            finally:
                self._waiting -= 1
            try:
                # A cancelled wait must not leave a half-done reconcile behind unseen: shield what runs in a thread.
                again_after = await asyncio.shield(asyncio.ensure_future(self._work(key)))
                turn.failures = 0
            except Exception as error:  # noqa: BLE001 -- whatever it is, the resource is tried again
                again_after = pause_after(turn.failures)
                turn.failures += 1
                self._failed(key, error, again_after)
            finally:
                self._free.release()
