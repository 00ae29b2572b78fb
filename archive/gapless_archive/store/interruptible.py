"""Owns waiting that signals end, for calls of a library that does not let them; must not know what is waited for."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")


def answer_of(ask: Callable[[], Answer]) -> Answer:
    """Call `ask` and return what it returns; what a signal's handler raises meanwhile ends the waiting for it.

    What was begun goes on in a thread that the end of the program does not wait for.
    """
    if threading.current_thread() is not threading.main_thread():
        return ask()  # signals come to the main thread alone
    found: Future[Answer] = Future()

    def wait() -> None:
        try:
            found.set_result(ask())
        except BaseException as error:  # noqa: BLE001 -- is raised again
            found.set_exception(error)

    threading.Thread(target=wait, name="store", daemon=True).start()
    return found.result()
