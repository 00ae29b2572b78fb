"""Calls that signals can interrupt, although the called library blocks signals; must not know what is called."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def call_interruptibly(call: Callable[[], Result]) -> Result:
    """Return the result of `call`, or raise what a signal handler raises meanwhile.

    After a signal, the call continues in a daemon thread, for which the end of the program does not wait.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()  # only the main thread receives signals
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 -- is raised by result()
            future.set_exception(error)

    threading.Thread(target=run, name="store", daemon=True).start()
    return future.result()
