"""What one thread freed goes back to the system although it is another one's."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import pytest

from gapless_sender.base import process_memory
from gapless_sender.base.process_memory import TRIM_INTERVAL_SECONDS, MallocTrim, trim

BLOCKS, BLOCK_BYTES = 60_000, 1000


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1024 / 1024


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library is not glibc")
def test_what_a_thread_has_filled_and_freed_goes_back() -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = (ctypes.c_void_p,)
    kept: list[int] = []
    freed, done = threading.Event(), threading.Event()

    def broker() -> None:
        blocks = [library.malloc(BLOCK_BYTES) for _ in range(BLOCKS)]
        for block in blocks:
            ctypes.memset(block, 1, BLOCK_BYTES)
        kept.append(blocks.pop())  # The newest one keeps what lies before it from shrinking away.
        for block in blocks:
            library.free(block)
        freed.set()
        done.wait(20)

    thread = threading.Thread(target=broker)
    thread.start()
    assert freed.wait(20)
    before = resident_mib()
    trim()
    after = resident_mib()
    done.set()
    thread.join()
    library.free(kept[0])
    assert before - after > BLOCKS * BLOCK_BYTES / 1024 / 1024 / 2


def test_it_is_done_now_and_then_and_never_in_a_short_resend(monkeypatch: pytest.MonkeyPatch) -> None:
    given = threading.Semaphore(0)
    monkeypatch.setattr(process_memory, "trim", given.release)
    times = [100.0]
    memory = MallocTrim(lambda: times[-1])

    def trim_if_due(seconds: float) -> None:
        times.append(100.0 + seconds)
        memory.trim_if_due()

    trim_if_due(0)
    trim_if_due(TRIM_INTERVAL_SECONDS - 0.1)
    assert not given.acquire(timeout=0.2)
    trim_if_due(TRIM_INTERVAL_SECONDS)
    trim_if_due(TRIM_INTERVAL_SECONDS + 1)
    trim_if_due(2 * TRIM_INTERVAL_SECONDS)
    assert given.acquire(timeout=20)
    assert given.acquire(timeout=20)
    assert not given.acquire(timeout=0.2)
