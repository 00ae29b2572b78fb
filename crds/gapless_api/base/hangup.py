"""The SIGHUP handler of this process: it calls every registered method, and the process continues.

Must not know who registers. One handler for all, because a second `signal.signal` would replace the first handler.
"""

from __future__ import annotations

import contextlib
import signal
import weakref
from collections.abc import Callable

_methods: list[weakref.WeakMethod[Callable[[], None]]] = []


def ignore_hangups() -> None:
    """Prevent SIGHUP from ending this process."""
    with contextlib.suppress(ValueError):  # not in the main thread: then the program handles signals itself
        signal.signal(signal.SIGHUP, _call_methods)


def on_hangup(method: Callable[[], None]) -> None:
    """Call `method` at each SIGHUP, as long as its object is referenced elsewhere.

    It runs between any two instructions of the program, so it may only set a flag.
    """
    _methods[:] = [reference for reference in _methods if reference() is not None]
    _methods.append(weakref.WeakMethod(method))
    ignore_hangups()


def _call_methods(*_: object) -> None:
    for reference in _methods.copy():
        method = reference()
        if method is not None:
            method()
