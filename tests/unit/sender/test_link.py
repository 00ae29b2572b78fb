"""The behaviour of the link on loopback sockets, and on a socket that refuses now and then."""

from __future__ import annotations

import errno
import os
import random
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError, LinkError, error_outcome
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.settings import resolve
from gapless_sender.base.network import MAX_PAYLOAD_SIZE, resolve_target
from gapless_sender.base.shutdown import Shutdown
from gapless_sender.link.gso_batches import MAX_SEGMENT_BYTES, MAX_SEGMENTS, GsoBatch, Order, arrange
from gapless_sender.link.opening import open_link
from gapless_sender.link.sendmmsg import MAX_BATCHES
from gapless_sender.link.udp_link import UdpLink, UnsentError
from gapless_sender.settings.link import LinkSettings
from gapless_sender.settings.resend import RESEND
from kit.machine.examples import examples
from kit.network.listener import Listener

IP_RECVTTL = 12
"""Missing in Python's socket module."""
LOOPBACKS = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]


class Receiver:
    """A UDP socket on loopback with room for a whole test."""

    def __init__(self, family: socket.AddressFamily, address: str) -> None:
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        self.socket.bind((address, 0))
        self.socket.settimeout(0.2)
        self.address = address
        self.port: int = self.socket.getsockname()[1]

    def all(self) -> list[bytes]:
        """Everything that has arrived."""
        found = []
        self.socket.setblocking(False)
        try:
            while True:
                found.append(self.socket.recv(65535))
        except BlockingIOError:
            return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(socket.AF_INET, "127.0.0.1")
    yield made
    made.socket.close()


def noise(sizes: list[int], seed: int = 1) -> list[bytes]:
    generator = random.Random(seed)
    return [generator.randbytes(size) for size in sizes]


@pytest.mark.parametrize(("family", "address"), LOOPBACKS, ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("gso", [True, False])
@pytest.mark.parametrize("order", ["free", "strict"])
def test_every_datagram_arrives_byte_for_byte(
    family: socket.AddressFamily,
    address: str,
    gso: bool,  # noqa: FBT001 -- a parameter of the test
    order: Order,
) -> None:
    receiver = Receiver(family, address)
    sizes = (
        [200] * 130
        + [1400, 1400, 900, 900, 900, 1]
        + random.Random(2).choices(range(1, 1500), k=150)
        + [60_000, 65_459]
    )
    datagrams = noise(sizes)
    with UdpLink.open(address, receiver.port, gso=gso, order=order) as link:
        link.send(datagrams)
        assert link._gso == gso
        assert link.stats.datagrams == len(datagrams)
        assert link.stats.payload_bytes == sum(sizes)
        assert (link.stats.calls < len(datagrams)) == gso
    arrived = receiver.all()
    receiver.socket.close()
    assert Counter(arrived) == Counter(datagrams)
    if order == "strict":
        assert arrived == datagrams


batches = st.lists(st.integers(1, 1500) | st.sampled_from([200, 1400, 40_000, 65_459]), max_size=300)


@given(batches, st.sampled_from(["free", "strict"]))
def test_runs_hold_every_datagram_once_and_keep_the_rules_of_segmentation(sizes: list[int], order: Order) -> None:
    datagrams = [index.to_bytes(4, "big") + bytes(size) for index, size in enumerate(sizes)]
    runs = arrange(datagrams, order)
    placed = [datagram for run in runs for datagram in run.datagrams]
    assert Counter(placed) == Counter(datagrams)
    if order == "strict":
        assert placed == datagrams
    for run in runs:
        *before, last = run.datagrams
        assert all(len(datagram) == run.size for datagram in before)
        assert 0 < len(last) <= run.size
        assert len(run.datagrams) <= MAX_SEGMENTS
        assert len(run.datagrams) == 1 or sum(map(len, run.datagrams)) <= MAX_SEGMENT_BYTES


def test_a_host_that_answers_port_unreachable_is_counted_and_no_datagram_is_lost_for_it() -> None:
    gone = Receiver(socket.AF_INET, "127.0.0.1")
    gone.socket.close()
    with UdpLink.open("127.0.0.1", gone.port) as link:
        for number in range(20):
            link.send([b"%d" % number])
        link.send(noise([300] * 100))
        assert link.stats.datagrams == 120
        assert link.stats.refused >= 20
        assert link.stats.retries == 0


def test_the_datagram_that_meets_an_old_answer_is_sent_all_the_same() -> None:
    gone = Receiver(socket.AF_INET, "127.0.0.1")
    gone.socket.close()
    with UdpLink.open("127.0.0.1", gone.port) as link:
        link.send([b"nobody listens"])
        late = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        late.bind(("127.0.0.1", gone.port))
        late.settimeout(5)
        link.send([b"somebody listens"])
        assert late.recv(100) == b"somebody listens"
        assert link.stats.refused == 1
        late.close()


def test_a_datagram_that_is_too_large_is_refused_with_the_size_that_fits(receiver: Receiver) -> None:
    with UdpLink.open("127.0.0.1", receiver.port) as link:
        with pytest.raises(UnsentError) as caught:
            link.send([b"fits", bytes(65_536), b"later"])
        assert "65536 bytes does not fit the MTU 65535" in str(caught.value)
        assert "set payloadSize to auto" in str(caught.value)
        assert error_outcome(caught.value).exit_code == ExitCode.LINK_FAILED
        assert Counter(caught.value.unsent) + Counter(receiver.all()) == Counter([b"fits", bytes(65_536), b"later"])


def many_sizes(seed: int) -> list[bytes]:
    """So many and so different that hundreds of runs go out in one system call."""
    sizes = [100, 200, 300, *random.Random(seed).choices(range(1, 1500), k=1200)]
    return noise(random.Random(seed).sample(sizes, len(sizes)), seed)


@pytest.mark.parametrize("order", ["free", "strict"])
def test_hundreds_of_runs_arrive_byte_for_byte_in_a_few_system_calls(order: Order) -> None:
    datagrams = many_sizes(3)
    with Listener() as listener, UdpLink.open("127.0.0.1", listener.port, order=order) as link:
        assert len(link.arrange(datagrams)) > MAX_BATCHES
        link.send(datagrams)
        assert link.stats.datagrams == len(datagrams)
        assert link.stats.payload_bytes == sum(map(len, datagrams))
        assert link.stats.calls < 10
        listener.wait_for(len(datagrams))
    assert sorted(listener.datagrams) == sorted(datagrams)
    assert order == "free" or listener.datagrams == datagrams


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 150))
def test_a_datagram_that_is_refused_among_many_stops_what_follows_and_nothing_else(place: int) -> None:
    datagrams = noise(random.Random(4).choices(range(1, 300), k=150), 4)
    datagrams.insert(place, bytes(65_536))
    with Listener() as listener, UdpLink.open("127.0.0.1", listener.port, order="strict") as link:
        with pytest.raises(UnsentError, match="does not fit the MTU") as caught:
            link.send(datagrams)
        listener.wait_for(place)
        assert listener.settled(0.01) == datagrams[:place]
        assert list(caught.value.unsent) == datagrams[place:]
        assert link.stats.datagrams == place


def test_answers_that_nobody_listens_to_many_runs_are_counted_and_no_datagram_is_lost_for_them() -> None:
    gone = Receiver(socket.AF_INET, "127.0.0.1")
    gone.socket.close()
    datagrams = many_sizes(5)
    with UdpLink.open("127.0.0.1", gone.port) as link:
        link.send(datagrams)
        assert link.stats.datagrams == len(datagrams)
        assert link.stats.refused > 0


class SteppedClock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 50.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Faulty(socket.socket):
    """A real socket whose calls fail as `faults` says, in turn: an errno, or 0 for a call that works."""

    faults: Iterator[int] = iter(())
    segments_fail_with = 0

    def send(self, *arguments: Any) -> int:
        self._fail(next(self.faults, 0))
        return super().send(*arguments)

    def sendmsg(self, *arguments: Any) -> int:
        self._fail(self.segments_fail_with or next(self.faults, 0))
        return super().sendmsg(*arguments)

    @staticmethod
    def _fail(code: int) -> None:
        if code:
            raise OSError(code, os.strerror(code))


def faulty_link(receiver: Receiver, *faults: int, segments_fail_with: int = 0) -> tuple[UdpLink, SteppedClock]:
    opened = Faulty(socket.AF_INET, socket.SOCK_DGRAM)
    opened.connect((receiver.address, receiver.port))
    opened.faults = iter(faults)
    opened.segments_fail_with = segments_fail_with
    clock = SteppedClock()
    target = resolve_target(receiver.address, receiver.port)
    return UdpLink(opened, target, None, order="free", gso=True, clock=clock), clock


@pytest.mark.parametrize(
    "code",
    [errno.ENOBUFS, errno.EAGAIN, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EPERM, errno.ENODEV],
)
def test_a_link_that_is_full_or_away_for_a_while_costs_time_and_no_datagram(receiver: Receiver, code: int) -> None:
    link, clock = faulty_link(receiver, code, code, 0, code)
    datagrams = noise([100, 200, 300, 300, 300])
    with link:
        link.send(datagrams)
    assert Counter(receiver.all()) == Counter(datagrams)
    assert link.stats.retries == 3
    assert 0 < clock.seconds - 50 < 0.1


@pytest.mark.parametrize(
    ("code", "word"), [(errno.ENOBUFS, "buffer"), (errno.ENETDOWN, "down"), (errno.EPERM, "permitted")]
)
def test_a_link_that_stays_away_ends_the_work_and_says_what_was_not_sent(
    receiver: Receiver, code: int, word: str
) -> None:
    datagrams = noise([700, 600, 500, 400, 400])
    link, clock = faulty_link(receiver, 0, *[code] * 100_000)
    with link, pytest.raises(UnsentError) as caught:
        link.send(datagrams)
    assert isinstance(caught.value, LinkError)
    assert f"127.0.0.1:{receiver.port}" in str(caught.value)
    assert word in str(caught.value)
    assert "30 seconds" in str(caught.value)
    assert 30 <= clock.seconds - 50 < 31
    arrived = receiver.all()
    assert arrived
    assert Counter(arrived) + Counter(caught.value.unsent) == Counter(datagrams)
    assert link.stats.datagrams == len(arrived)


@pytest.mark.parametrize("code", [errno.EIO, errno.EINVAL, errno.ENOPROTOOPT, errno.EOPNOTSUPP])
def test_a_kernel_or_nic_without_segmentation_gets_one_datagram_at_a_time(receiver: Receiver, code: int) -> None:
    link, _ = faulty_link(receiver, segments_fail_with=code)
    datagrams = noise([300] * 100)
    with link:
        link.send(datagrams)
        assert not link._gso
        link.send(datagrams)
    assert Counter(receiver.all()) == Counter(datagrams * 2)
    assert link.stats.calls == 200


def test_an_unknown_refusal_ends_the_work_at_once(receiver: Receiver) -> None:
    link, clock = faulty_link(receiver, errno.EBADF)
    with link, pytest.raises(UnsentError, match="refused a datagram"):
        link.send([b"one"])
    assert clock.seconds == 50


def test_a_run_can_be_sent_in_parts(receiver: Receiver) -> None:
    with UdpLink.open("127.0.0.1", receiver.port) as link:
        (run,) = link.arrange(noise([100] * 10))
        link.send_batch(GsoBatch(run.size, run.datagrams[:3]))
        link.send_batch(GsoBatch(run.size, run.datagrams[3:]))
    assert receiver.all() == run.datagrams


def test_nothing_to_send_is_no_call(receiver: Receiver) -> None:
    with UdpLink.open("127.0.0.1", receiver.port) as link:
        link.send([])
        assert link.stats.calls == 0


@pytest.mark.parametrize(("family", "address"), LOOPBACKS, ids=["IPv4", "IPv6"])
def test_time_to_live_and_code_point_are_on_every_datagram(family: socket.AddressFamily, address: str) -> None:
    receiver = Receiver(family, address)
    if family == socket.AF_INET:
        level, ask = socket.IPPROTO_IP, (socket.IP_RECVTOS, IP_RECVTTL)
    else:
        level, ask = socket.IPPROTO_IPV6, (socket.IPV6_RECVTCLASS, socket.IPV6_RECVHOPLIMIT)
    for option in ask:
        receiver.socket.setsockopt(level, option, 1)
    with UdpLink.open(address, receiver.port, ttl=7, dscp=46) as link:
        link.send([b"marked"])
    _, control, _, _ = receiver.socket.recvmsg(100, 200)
    receiver.socket.close()
    assert sorted(content[0] for _, _, content in control) == [7, 46 << 2]


def test_the_source_address_and_the_interface_are_used(receiver: Receiver) -> None:
    with UdpLink.open("127.0.0.1", receiver.port, nic="lo", source_address="127.0.0.9") as link:
        link.send([b"from nine"])
    assert receiver.socket.recvfrom(100)[1][0] == "127.0.0.9"


@pytest.mark.parametrize(("address", "header_bytes"), [("127.0.0.1", 28), ("::1", 48)])
@pytest.mark.parametrize("nic", ["", "lo"])
def test_the_payload_size_follows_the_mtu(address: str, header_bytes: int, nic: str) -> None:
    with UdpLink.open(address, 9, nic=nic) as link:
        assert link.header_bytes == header_bytes
        assert link.mtu_payload_size() == MAX_PAYLOAD_SIZE, "loopback has an MTU of 65536"


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"source_address": "192.0.2.1"}, "no route to 127.0.0.1:9 from 192.0.2.1"),
        ({"nic": "nowhere0"}, "'nowhere0' does not exist"),
        ({"source_address": "::1"}, "cannot be resolved"),
    ],
)
def test_a_link_that_cannot_be_opened_says_why(keywords: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        UdpLink.open("127.0.0.1", 9, nic=keywords.get("nic", ""), source_address=keywords.get("source_address", ""))
    assert says in str(caught.value)


def test_the_marks_of_the_settings_are_those_of_the_link_that_a_resend_opens(receiver: Receiver) -> None:
    options: dict[str, str | None] = {
        "targetIP": receiver.address, "targetPort": str(receiver.port), "bootstrapServers": "kafka:9092",
        "sourceAddress": "127.0.0.7", "dscp": "AF21", "ttl": "9",
    }  # fmt: skip
    receiver.socket.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    receiver.socket.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
    values = resolve(RESEND, file=None, environment={}, options=options).values
    with open_link(LinkSettings.of(values), Shutdown(), order="grouped") as link:
        link.send([b"marked"])
    _, control, _, sender = receiver.socket.recvmsg(100, 200)
    assert sorted(content[0] for _, _, content in control) == [9, 18 << 2]
    assert sender[0] == "127.0.0.7"
