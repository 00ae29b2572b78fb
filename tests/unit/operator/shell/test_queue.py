"""Each resource is worked on by one at a time, no oftener than needed, and never dropped."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from gapless_operator.shell.queue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Bench:
    """Counts how work goes."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.done: Counter[str] = Counter()
        self.at_once: Counter[str] = Counter()
        self.most_of_a_key = 0
        self.most = 0
        self.failures: list[float] = []
        self.answer: Callable[[str], float | None] = lambda _key: None

    async def work(self, key: str) -> float | None:
        self.at_once[key] += 1
        self.most_of_a_key = max(self.most_of_a_key, self.at_once[key])
        self.most = max(self.most, self.at_once.total())
        try:
            await asyncio.sleep(self.seconds)
            self.done[key] += 1
            return self.answer(key)
        finally:
            self.at_once[key] -= 1

    def failed(self, _key: str, _error: Exception, again_after: float) -> None:
        self.failures.append(again_after)


def run(bench: Bench, scene: Callable[[WorkQueue[str]], Awaitable[None]], *, workers: int = 3) -> None:
    async def whole() -> None:
        queue = WorkQueue(bench.work, workers=workers, failed=bench.failed)
        await scene(queue)
        await queue.close()

    asyncio.run(whole())


def test_many_wakes_while_it_runs_are_one_more_run() -> None:
    bench = Bench(seconds=0.05)

    async def scene(queue: WorkQueue[str]) -> None:
        queue.wake("a")
        await asyncio.sleep(0.02)
        for _ in range(100):
            queue.wake("a")
        await asyncio.sleep(0.3)

    run(bench, scene)
    assert bench.done == {"a": 2}
    assert bench.most_of_a_key == 1


def test_no_more_than_the_workers_work_at_once_and_all_get_their_turn() -> None:
    bench = Bench(seconds=0.01)

    async def scene(queue: WorkQueue[str]) -> None:
        for number in range(30):
            queue.wake(f"key-{number}")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert queue.depth >= 20
        await asyncio.sleep(0.5)
        assert queue.depth == 0

    run(bench, scene)
    assert bench.most == 3
    assert len(bench.done) == 30


def test_what_wants_to_be_woken_later_is() -> None:
    bench = Bench()
    bench.answer = lambda _key: 0.05

    async def scene(queue: WorkQueue[str]) -> None:
        queue.wake("a")
        await asyncio.sleep(0.28)

    run(bench, scene)
    assert 3 <= bench.done["a"] <= 7


def test_a_failure_is_told_and_tried_again_after_growing_pauses() -> None:
    bench = Bench()

    def answer(_key: str) -> float | None:
        raise OSError("no")

    bench.answer = answer

    async def scene(queue: WorkQueue[str]) -> None:
        queue.wake("a")
        await asyncio.sleep(0.1)
        for _ in range(5):
            queue.wake("a")
            await asyncio.sleep(0.02)

    run(bench, scene)
    assert len(bench.failures) == 6
    assert all(later > sooner * 1.2 for sooner, later in zip(bench.failures, bench.failures[1:], strict=False))
    assert bench.failures[0] < 1


def test_what_is_forgotten_runs_no_more_and_may_come_back() -> None:
    bench = Bench()
    bench.answer = lambda _key: 0.02

    async def scene(queue: WorkQueue[str]) -> None:
        queue.wake("a")
        await asyncio.sleep(0.01)
        queue.forget("a")
        await asyncio.sleep(0.01)
        before = bench.done["a"]
        await asyncio.sleep(0.1)
        assert bench.done["a"] == before
        queue.wake("a")
        await asyncio.sleep(0.01)
        assert bench.done["a"] == before + 1

    run(bench, scene)
