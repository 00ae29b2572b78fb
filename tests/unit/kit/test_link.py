from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from kit.network.datagrams import DatagramBatch, open_receiver
from kit.network.link import LossyLink
from kit.network.loss import Chances, LossPlan

_UDP_SEGMENT = 103


class Far:
    """The far end of the link."""

    def __init__(self) -> None:
        self.socket = open_receiver("127.0.0.1", 0, buffer_bytes=32 << 20)
        self.port = int(self.socket.getsockname()[1])
        self._batch = DatagramBatch()

    def take(self) -> list[bytes]:
        found: list[bytes] = []
        while lengths := self._batch.read(self.socket):
            found += [self._batch.datagram(index, length) for index, length in enumerate(lengths)]
        return found


@pytest.fixture
def far() -> Iterator[Far]:
    end = Far()
    yield end
    end.socket.close()


def send(port: int, datagrams: list[bytes]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", port))
        for number, datagram in enumerate(datagrams):
            sender.send(datagram)
            if number % 100 == 99:
                time.sleep(0.001)


def numbered(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


def test_a_good_link_passes_everything_in_order(far: Far) -> None:
    datagrams = [*numbered(1000), b"", bytes(65_507)]
    with LossyLink(far.port) as link:
        send(link.port, datagrams)
        stats = link.wait_idle()
    assert far.take() == datagrams
    assert (stats.received, stats.forwarded, stats.dropped, stats.overflowed) == (1002, 1002, 0, 0)


def test_the_datagrams_that_are_lost_follow_from_the_seed(far: Far) -> None:
    datagrams = numbered(2000)
    with LossyLink(far.port, drop=0.1, seed=42) as link:
        send(link.port, datagrams)
        stats = link.wait_idle()
    fates = LossPlan(42, Chances(drop=0.1)).decide(2000)
    assert far.take() == [each for each, fate in zip(datagrams, fates, strict=True) if fate == 0]
    assert stats.dropped == fates.count(1) > 0


def test_doubled_and_reordered_datagrams_all_arrive(far: Far) -> None:
    datagrams = numbered(2000)
    with LossyLink(far.port, duplicate=0.1, reorder=0.1, seed=1) as link:
        send(link.port, datagrams)
        stats = link.wait_idle()
    arrived = far.take()
    assert sorted(set(arrived)) == datagrams
    assert arrived != sorted(arrived)
    assert len(arrived) == stats.forwarded == 2000 + stats.duplicated
    assert stats.reordered > 100


def test_the_loss_can_change_while_the_link_runs(far: Far) -> None:
    with LossyLink(far.port, drop=1.0) as link:
        send(link.port, numbered(100))
        link.wait_idle()
        assert far.take() == []
        link.change(drop=0.0)
        send(link.port, numbered(100))
        link.wait_idle()
    assert far.take() == numbered(100)


def test_datagrams_that_the_sender_hands_over_in_one_piece_are_lost_one_by_one(far: Far) -> None:
    with LossyLink(far.port, drop=0.5, seed=9) as link:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(("127.0.0.1", link.port))
            sender.setsockopt(socket.IPPROTO_UDP, _UDP_SEGMENT, 6)
            sender.send(b"".join(numbered(40)))
        stats = link.wait_idle()
    assert stats.received == 40
    arrived = far.take()
    assert {len(each) for each in arrived} == {6}
    assert 0 < len(arrived) < 40


def test_a_link_to_nobody_counts_what_was_refused_and_goes_on(far: Far) -> None:
    gone = far.port
    far.socket.close()
    with LossyLink(gone) as link:
        for _ in range(5):
            send(link.port, numbered(10))
            time.sleep(0.05)
        stats = link.wait_idle()
    assert stats.received == 50
    assert stats.refused > 0
