"""A listener has settled when it has recorded what has arrived, however late a busy machine lets it."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError

import pytest

from kit.network.listener import Listener


def test_what_is_not_read_yet_is_waited_for() -> None:
    listener = Listener()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, ThreadPoolExecutor(1) as pool:
        for number in range(5):
            sender.sendto(b"%d" % number, ("127.0.0.1", listener.port))
        settled = pool.submit(listener.settled, 0.01)
        try:
            with pytest.raises(NotYetError):
                settled.result(0.5)
        finally:
            listener.__enter__()  # only now its thread reads
        assert settled.result(60) == [b"%d" % number for number in range(5)]
    listener.__exit__()
