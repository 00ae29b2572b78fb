"""Each key runs once at a time, no more often than needed, and is never dropped."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from gapless_operator.shell.queue import WorkQueue, pause_after


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
        self.order: list[str] = []
        self.first: set[str] = set()

    async def work(self, key: str) -> float | None:
        self.order.append(key)
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


async def until(done: Callable[[], bool]) -> None:
    """Wait, with a limit that only a hanging queue meets."""
    async with asyncio.timeout(60):
        while not done():  # noqa: ASYNC110 -- the queue tells nobody
            await asyncio.sleep(0.002)


def run(bench: Bench, scene: Callable[[WorkQueue[str]], Awaitable[None]], *, workers: int = 3) -> None:
    async def whole() -> None:
        queue = WorkQueue(bench.work, workers=workers, on_failure=bench.failed, goes_first=bench.first.__contains__)
        await scene(queue)
        await queue.close()

    asyncio.run(whole())


def test_many_additions_during_a_run_cause_one_more_run() -> None:
    bench = Bench(seconds=0.05)

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(0.02)
        for _ in range(100):
            queue.add("a")
        await asyncio.sleep(0.3)

    run(bench, scene)
    assert bench.done == {"a": 2}
    assert bench.most_of_a_key == 1


def test_runs_are_limited_by_the_workers_and_every_key_runs() -> None:
    bench = Bench(seconds=0.01)

    async def scene(queue: WorkQueue[str]) -> None:
        for number in range(30):
            queue.add(f"key-{number}")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert queue.depth >= 20
        while queue.depth or len(bench.done) < 30:  # noqa: ASYNC110 -- a queue has no event; the test has a time limit
            await asyncio.sleep(0.01)

    run(bench, scene)
    assert bench.most == 3
    assert len(bench.done) == 30


def test_a_key_runs_again_after_the_returned_time() -> None:
    bench = Bench()
    bench.answer = lambda _key: 0.05

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await until(lambda: bench.done["a"] >= 3)

    run(bench, scene)


def test_a_key_does_not_run_before_the_returned_time() -> None:
    bench = Bench()
    bench.answer = {"a": 3600.0, "b": 0.01}.get

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        queue.add("b")
        await until(lambda: bench.done["b"] >= 5)

    run(bench, scene)
    assert bench.done["a"] == 1


def test_a_failure_is_reported_and_retried_after_growing_pauses() -> None:
    bench = Bench()

    def answer(_key: str) -> float | None:
        raise OSError("no")

    bench.answer = answer

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(0.1)
        await until(lambda: len(bench.failures) >= 4)

    run(bench, scene)
    assert all(later > sooner * 1.2 for sooner, later in zip(bench.failures, bench.failures[1:], strict=False))
    assert bench.failures[0] < 1


def test_a_failing_key_is_not_retried_sooner_because_it_is_added() -> None:
    bench = Bench()

    def answer(_key: str) -> float | None:
        if not bench.failures:
            raise OSError("no")
        return None

    bench.answer = answer
    began = time.monotonic()

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        while bench.done["a"] < 2:
            queue.add("a")
            await asyncio.sleep(0.005)

    run(bench, scene)
    assert time.monotonic() - began >= bench.failures[0] >= 0.4


def test_an_urgent_key_is_retried_at_once_and_its_pauses_restart() -> None:
    bench = Bench()

    def answer(_key: str) -> float | None:
        raise OSError("no")

    bench.answer = answer

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await until(lambda: len(bench.failures) >= 3)
        for number in range(4, 24):
            queue.add("a", urgent=True)
            await until(lambda number=number: len(bench.failures) >= number)

    run(bench, scene)
    assert bench.failures[2] > 1.5
    assert max(bench.failures[3:]) < 1


def test_a_change_while_it_fails_is_not_overlooked() -> None:
    bench = Bench(seconds=0.05)

    def answer(_key: str) -> float | None:
        if len(bench.failures) < 4:
            raise OSError("no")
        return None

    bench.answer = answer
    during: list[int] = []

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await until(lambda: len(bench.failures) == 3)
        await until(lambda: bool(bench.at_once["a"]))
        queue.add("a", urgent=True)
        await until(lambda: len(bench.failures) == 4)
        during.append(bench.done["a"])
        queue.add("b")
        await until(lambda: bench.done["b"] == 1)
        during.append(bench.done["a"])

    run(bench, scene)
    assert during == [4, 5], "its next run begins before one that is asked for after its failure has ended"


def test_a_pause_after_failures_is_a_minute_at_most() -> None:
    assert max(pause_after(failures) for failures in range(40)) <= 72
    assert min(pause_after(40) for _ in range(100)) >= 48


def test_a_forgotten_key_does_not_run_and_may_be_added_again() -> None:
    bench = Bench()
    bench.answer = lambda _key: 0.02

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await asyncio.sleep(0.01)
        queue.forget("a")
        await asyncio.sleep(0.01)
        before = bench.done["a"]
        await asyncio.sleep(0.1)
        assert bench.done["a"] == before
        queue.add("a")
        await asyncio.sleep(0.01)
        assert bench.done["a"] == before + 1

    run(bench, scene)


def test_a_queue_ends_even_if_a_key_is_added_just_before() -> None:
    async def close_after(steps: int) -> None:
        bench = Bench()
        bench.answer = lambda _key: 1000.0
        queue = WorkQueue(bench.work, workers=1, on_failure=bench.failed)
        queue.add("a")
        await until(lambda: bench.done["a"] == 1)
        queue.add("a")
        for _ in range(steps):
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            await queue.close()

    for steps in range(12):
        asyncio.run(close_after(steps))


def test_a_run_has_ended_when_the_queue_is_closed() -> None:
    bench = Bench(seconds=0.1)

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await until(lambda: bench.at_once["a"] == 1)
        await queue.close()
        assert bench.done == {"a": 1}

    run(bench, scene)


def test_a_key_that_goes_first_does_not_wait_behind_the_others() -> None:
    bench = Bench(seconds=0.001)
    bench.first = {"running"}

    async def scene(queue: WorkQueue[str]) -> None:
        for number in range(50):
            queue.add(f"new-{number}")
        queue.add("running")
        await until(lambda: len(bench.done) == 51)

    run(bench, scene, workers=2)
    assert bench.order.index("running") <= 3


@pytest.mark.parametrize("by_a_change", [False, True])
def test_a_key_that_waits_goes_first_from_when_it_may(*, by_a_change: bool) -> None:
    bench = Bench(seconds=0.001)

    async def scene(queue: WorkQueue[str]) -> None:
        for number in range(50):
            queue.add(f"known-{number}", has_changed=not by_a_change)
        await until(lambda: len(bench.done) > 5)
        assert queue.depth > 20
        if not by_a_change:
            bench.first.add("known-49")
        began = len(bench.order)
        queue.add("known-49")
        await until(lambda: len(bench.done) == 50)
        assert bench.order.index("known-49") <= began + 2

    run(bench, scene, workers=2)
    assert bench.done["known-49"] == 1


def test_many_that_go_first_do_not_hold_the_others_back() -> None:
    bench = Bench(seconds=0.001)
    bench.first = {f"running-{number}" for number in range(5)}
    bench.answer = lambda _key: 0.0

    async def scene(queue: WorkQueue[str]) -> None:
        for key in sorted(bench.first):
            queue.add(key)
        await until(lambda: bench.done.total() > 20)
        queue.add("new")
        await until(lambda: bench.done["new"] == 1)

    run(bench, scene, workers=1)


def test_a_change_does_not_wait_behind_those_that_run_again() -> None:
    bench = Bench(seconds=0.001)
    bench.first = {f"running-{number}" for number in range(50)}

    async def scene(queue: WorkQueue[str]) -> None:
        for key in sorted(bench.first):
            queue.add(key, has_changed=False)
        for number in range(10):
            queue.add(f"new-{number}")
        await until(lambda: len(bench.done) == 60)

    run(bench, scene, workers=2)
    assert len([key for key in bench.order[:16] if key not in bench.first]) == 10


def test_a_key_that_has_changed_runs_again_like_the_others() -> None:
    bench = Bench(seconds=0.001)
    bench.answer = {"changed": 0.0}.get

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("changed")
        for number in range(50):
            queue.add(f"new-{number}")
        await until(lambda: len(bench.done) == 51)

    run(bench, scene, workers=1)
    assert 5 < bench.order[:51].count("changed") < 15, "one of six turns: what runs again waits behind what has changed"


def test_many_changes_hold_no_line_back() -> None:
    bench = Bench(seconds=0.001)
    bench.first = {f"stopping-{number}" for number in range(200)} | {"running"}

    async def scene(queue: WorkQueue[str]) -> None:
        for number in range(200):
            queue.add(f"stopping-{number}")
        await until(lambda: len(bench.done) > 5)
        began = len(bench.order)
        for key in ("running", "known"):
            queue.add(key, has_changed=False)
        queue.add("new")
        await until(lambda: len(bench.done) == 203)
        assert {"running", "known", "new"} < set(bench.order[began : began + 12])

    run(bench, scene, workers=2)


def test_a_queue_that_is_closed_while_keys_wait_starts_none_of_them() -> None:
    bench = Bench(seconds=0.05)
    bench.first = {"running"}

    async def scene(queue: WorkQueue[str]) -> None:
        queue.add("a")
        await until(lambda: bench.at_once["a"] == 1)
        queue.add("b")
        queue.add("running")
        await until(lambda: queue.depth == 2)
        await queue.close()
        assert queue.depth == 0
        assert bench.order == ["a"]

    run(bench, scene, workers=1)


def test_a_key_runs_even_if_it_cannot_be_said_whether_it_goes_first() -> None:
    bench = Bench(seconds=0.001)

    def unknown(key: str) -> bool:
        raise AttributeError(key)

    async def whole() -> None:
        queue = WorkQueue(bench.work, workers=1, on_failure=bench.failed, goes_first=unknown)
        for _ in range(2):
            queue.add("a")
            queue.add("b")
            await until(lambda: bench.done["b"] > 0)
        await until(lambda: bench.done == {"a": 2, "b": 2})
        await queue.close()

    asyncio.run(whole())
