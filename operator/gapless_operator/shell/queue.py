"""Owns the work queue: when a resource is reconciled, never twice at a time, and with growing delays after failures.

Must not know what reconciling is. However often a key is added, it runs once if it waits, and once more if it runs,
which is all that a level-based reconciler needs. Of the keys that wait, some go first: what must be stopped must not
wait behind thousands that run nothing.
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
_TURNS_OF_OTHERS = 4
"""Every fourth turn is for those that do not go first, so that many that go first cannot hold them back."""


@dataclass(slots=True, eq=False)
class _Item:
    """The state of one key."""

    added: asyncio.Event = field(default_factory=asyncio.Event)
    urgent: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends the delay after a failure."""
    failures: int = 0
    task: asyncio.Task[None] | None = None


class _Turns:
    """Lets a number of items run at the same time; the others wait, in two lines."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._first: dict[_Item, asyncio.Future[None]] = {}
        self._others: dict[_Item, asyncio.Future[None]] = {}
        self._granted = 0

    @property
    def waiting(self) -> int:
        """Return how many wait."""
        return len(self._first) + len(self._others)

    async def take(self, item: _Item, *, goes_first: bool) -> None:
        """Wait for a turn, which must be given back."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        (self._first if goes_first else self._others)[item] = turn
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give_back()
            raise
        finally:
            self._first.pop(item, None)
            self._others.pop(item, None)

    def is_behind(self, item: _Item) -> bool:
        """Return whether an item waits behind those that go first."""
        return item in self._others

    def let_first(self, item: _Item) -> None:
        """Let an item that waits behind those that go first be one of them."""
        self._first[item] = self._others.pop(item)

    def give_back(self) -> None:
        """Grant a turn that has ended to the next that waits."""
        self._granted += 1
        lines = (self._others, self._first) if self._granted % _TURNS_OF_OTHERS == 0 else (self._first, self._others)
        for line in lines:
            while line:
                turn = line.pop(next(iter(line)))
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1


def pause_after(failures: int) -> float:
    """Return how many seconds to wait after a failure that follows `failures` others in a row."""
    delay = backoff(failures, first=_FIRST_DELAY_SECONDS, longest=_MAX_DELAY_SECONDS)
    return delay * random.uniform(0.8, 1.2)  # noqa: S311 -- spreads retries


class WorkQueue(Generic[KeyT]):
    """Runs ``work(key)`` for keys that were added, at most `workers` at the same time, each key once at a time.

    ``work`` returns after how many seconds to run the key again; ``None`` to wait until it is added. When it raises, it
    is called again after a delay that doubles from half a second to a minute. Only an urgent addition shortens that
    delay: a resync, for example, must not make a failing resource fail more often. ``goes_first`` is asked when a key
    begins to wait for a worker, and whenever it is added while it waits.
    """

    def __init__(
        self,
        work: Callable[[KeyT], Awaitable[float | None]],
        *,
        workers: int,
        on_failure: Callable[[KeyT, Exception, float], None],
        goes_first: Callable[[KeyT], bool] = lambda _: False,
    ) -> None:
        self._work, self._on_failure, self._goes_first = work, on_failure, goes_first
        self._items: dict[KeyT, _Item] = {}
        self._turns = _Turns(workers)
        self._running: set[asyncio.Future[float | None]] = set()
        self._closed = False

    @property
    def depth(self) -> int:
        """Return how many keys wait for a worker."""
        return self._turns.waiting

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
        if self._turns.is_behind(item) and self._is_first(key):
            self._turns.let_first(item)
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

    def _is_first(self, key: KeyT) -> bool:
        """Ask whether a key goes first; one for which this fails does, as its work will report why."""
        try:
            return self._goes_first(key)
        except Exception:  # noqa: BLE001 -- the key must run whatever is wrong with it
            return True

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
            await self._turns.take(item, goes_first=self._is_first(key))
            # What was added while it waited is what it runs for now.
            item.added.clear()
            item.urgent.clear()
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
                self._turns.give_back()
