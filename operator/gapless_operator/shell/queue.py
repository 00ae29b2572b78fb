"""The work queue: when a resource is reconciled, never twice at a time, and with growing delays after failures.

Must not know what reconciling is. However often a key is added, it runs once if it waits, and once more if it runs,
which is all that a level-based reconciler needs. Keys wait in lines, by why they run: what must be stopped must not
wait behind thousands that run nothing, nor a change behind thousands that are only looked at again.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import random
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gapless_api.base.backoff import backoff

KeyT = TypeVar("KeyT", bound="Hashable")

_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.5, 60.0


class _Line(enum.IntEnum):
    """Where a key waits for a worker; those of a lower number go first."""

    CHANGED_FIRST = 0
    CHANGED = 1
    AGAIN_FIRST = 2
    AGAIN = 3


@dataclass(slots=True, eq=False)
class _Item:
    """The state of one key."""

    added: asyncio.Event = field(default_factory=asyncio.Event)
    urgent: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends the delay after a failure."""
    has_changed: bool = False
    """Whether it was added because of a change, since it last ran."""
    failures: int = 0
    task: asyncio.Task[None] | None = None


class _Turns:
    """Lets a number of items run at the same time; the others wait, in lines.

    Every second turn goes to the first line in which one waits. The turns between begin with each of the other lines
    alternately, so that many that go first cannot hold the others back.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._lines: dict[_Line, dict[_Item, asyncio.Future[None]]] = {line: {} for line in _Line}
        self._granted = 0

    @property
    def waiting(self) -> int:
        """Return how many wait."""
        return sum(map(len, self._lines.values()))

    async def take(self, item: _Item, line: _Line) -> None:
        """Wait for a turn, which must be given back."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._lines[line][item] = turn
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give_back()
            raise
        finally:
            for waiting in self._lines.values():
                waiting.pop(item, None)

    def line_of(self, item: _Item) -> _Line | None:
        """Return where an item waits; ``None`` if it does not."""
        return next((line for line, waiting in self._lines.items() if item in waiting), None)

    def move(self, item: _Item, before: _Line, line: _Line) -> None:
        """Let an item wait in another line."""
        self._lines[line][item] = self._lines[before].pop(item)

    def give_back(self) -> None:
        """Grant a turn that has ended to the next that waits."""
        self._granted += 1
        round_number, is_between = divmod(self._granted, 2)
        begins = [_Line(1 + round_number % (len(_Line) - 1))] if is_between else []
        for line in (*begins, *_Line):
            waiting = self._lines[line]
            while waiting:
                turn = waiting.pop(next(iter(waiting)))
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
    delay: a resync, for example, must not make a failing resource fail more often. What has changed goes before what
    runs again, and of each, those first for which ``goes_first`` is true: it is asked when a key begins to wait for a
    worker, and whenever it is added while it waits.
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

    def add(self, key: KeyT, *, urgent: bool = False, has_changed: bool = True) -> None:
        """Run `key` soon. Only from the thread of the event loop.

        Args:
            key: what to run.
            urgent: whether to end its delay after a failure, because its spec has changed.
            has_changed: whether anything has changed for it; otherwise it is only run again.
        """
        if self._closed:
            return
        item = self._items.setdefault(key, _Item())
        item.added.set()
        item.has_changed |= has_changed
        if urgent:
            item.failures = 0
            item.urgent.set()
        if (before := self._turns.line_of(item)) is not None and (line := self._line(key, item)) < before:
            self._turns.move(item, before, line)
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

    def _line(self, key: KeyT, item: _Item) -> _Line:
        """Return where a key waits; one for which this cannot be said goes first, as its work will report why."""
        try:
            is_first = self._goes_first(key)
        except Exception:  # noqa: BLE001 -- the key must run whatever is wrong with it
            is_first = True
        if item.has_changed:
            return _Line.CHANGED_FIRST if is_first else _Line.CHANGED
        return _Line.AGAIN_FIRST if is_first else _Line.AGAIN

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
            await self._turns.take(item, self._line(key, item))
            # What was added while it waited is what it runs for now.
            item.added.clear()
            item.urgent.clear()
            item.has_changed = False
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
