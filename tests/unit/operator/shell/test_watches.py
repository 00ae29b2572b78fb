"""An error of the watches' event loop is reported, except for a stream that is closed at the stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gapless_operator.shell.cache.watches import report_loop_error


@contextlib.asynccontextmanager
async def connection() -> AsyncIterator[None]:
    try:
        yield
    finally:
        await asyncio.sleep(0)


async def stream() -> AsyncIterator[int]:
    async with connection():
        yield 1


@pytest.mark.parametrize(("stopped", "reported"), [(1, 0), (0, 1)])
def test_a_stream_that_is_open_at_the_end(stopped: int, reported: int, caplog: pytest.LogCaptureFixture) -> None:
    left_open = stream()

    async def operate() -> None:
        asyncio.get_running_loop().set_exception_handler(report_loop_error(lambda: bool(stopped)))
        await anext(left_open)

    asyncio.run(operate())
    assert len([record for record in caplog.records if record.name == "asyncio"]) == reported


def test_any_other_error_is_reported_even_at_the_stop(caplog: pytest.LogCaptureFixture) -> None:
    async def operate() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(report_loop_error(lambda: True))
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.01)

    asyncio.run(operate())
    assert "ZeroDivisionError" in caplog.text
