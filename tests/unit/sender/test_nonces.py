"""The proof that no nonce comes twice under one key, and that a key is replaced long before its nonces end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_sender.link.session_keys import AnnouncedKeys
from gapless_sender.settings.resend import RESEND
from gapless_sender.wire.encryption import MESSAGES_PER_KEY, KeyExchange, SessionKey
from gapless_sender.wire.key_schedule import KeyTimings
from gapless_sender.workers.channel import Exhausted, Go, Pause, Paused, pipe
from gapless_sender.workers.worker import SupervisorChannel

CERTIFICATE = Path(__file__).parents[1] / "vectors" / "test-cert.pem"
KEY = bytes(range(32))
_STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(("seal", "batch", "fork", "nearly full")), st.integers(0, 40)),
    max_size=40,
)


@given(_STEPS)
def test_whatever_the_shards_of_one_key_do_their_nonces_differ(steps: list[tuple[int, str, int]]) -> None:
    shards = [SessionKey(KEY, series=index) for index in range(4)]
    nonces: list[bytes] = []
    for shard, what, count in steps:
        key = shards[shard]
        if what == "fork":
            key.renew_nonces()
        elif what == "nearly full":
            key._messages = max(key._messages, key._counted_from + 2**32 - count)
        else:
            bodies = [b""] * (count if what == "batch" else 1)
            made = [body[:12] for body in key.seal_batch(bodies)]
            assert all(nonce[0] == shard for nonce in made), "disjoint by construction"
            nonces += made
    assert len(set(nonces)) == len(nonces)


@pytest.mark.parametrize("name", ["parallelism", "shardCount"])
def test_the_bound_on_equal_prefixes_holds_for_the_most_processes_there_can_be(name: str) -> None:
    setting = RESEND.by_name()[name]
    most = max(number for number in range(1, 1000) if _takes(setting.parse, number))
    assert most <= 256, "a shard's number is one byte of the nonce"
    assert most**2 / 2**65 < 1e-15, "processes of one resend draw 64 bits each"


def _takes(parse: Any, number: int) -> bool:
    try:
        return bool(parse(str(number)) == number)
    except ValueError:
        return False


@pytest.mark.parametrize("senders", [1, 2, 64])
def test_all_processes_together_stay_far_below_2_to_the_32_messages(senders: int) -> None:
    key = SessionKey(KEY)
    key._messages = -(-MESSAGES_PER_KEY // senders) - 1
    assert not key.exhausted_among(senders)
    key.seal_batch([b""])[0]
    assert key.exhausted_among(senders)
    assert senders * key.messages < 2**31


def test_a_key_that_programs_share_is_never_asked_to_be_replaced() -> None:
    key = SessionKey(KEY, series=3)
    key._messages = MESSAGES_PER_KEY * 3
    assert not key.exhausted_among(64)


class _Link:
    def __init__(self) -> None:
        self.sent = 0

    def send(self, datagrams: Sequence[bytes]) -> None:
        self.sent += len(datagrams)


class _Stopping:
    """A clock without waiting, which nobody stops."""

    seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def check(self) -> None:
        pass


def test_a_worker_that_has_encrypted_its_part_says_so_once_and_goes_on_with_the_key_that_it_is_given() -> None:
    (from_us, to_worker), (from_worker, to_us) = pipe(), pipe()
    keys = AnnouncedKeys(
        KeyExchange.load(CERTIFICATE),
        _Link(),  # type: ignore[arg-type]
        payload_size=1400,
        timings=KeyTimings(),
        every_seconds=0,
        clock=_Stopping(),
    )
    first = keys.current().key
    instructions = SupervisorChannel(from_us, to_us, _Stopping(), given_key=None, senders=2)  # type: ignore[arg-type]
    to_worker.send(Go(first))
    assert instructions.current().key == first
    instructions.current()._messages = MESSAGES_PER_KEY // 2
    assert {instructions.current().key for _ in range(3)} == {first}, "it goes on until it is told to pause"
    assert from_worker.receive() == [Exhausted()], "once, not again and again"
    old = instructions.current()
    second = keys.replace().key
    to_worker.send(Pause())
    to_worker.send(Go(second))
    assert instructions.current().key == second != first
    assert from_worker.receive() == [Paused()]
    assert keys.announced == 2
    with pytest.raises(ValueError, match="destroyed"):
        old.seal_batch([b""])[0]


def test_a_worker_that_waits_for_kafka_pauses_without_a_batch_of_its_own() -> None:
    (from_us, to_worker), (from_worker, to_us) = pipe(), pipe()
    instructions = SupervisorChannel(from_us, to_us, _Stopping(), given_key=None, senders=2)  # type: ignore[arg-type]
    to_worker.send(Go(KEY))
    instructions.wait_for_go()
    to_worker.send(Pause())
    instructions.process_messages()
    assert from_worker.receive() == [Paused()]


def test_a_key_that_programs_share_is_kept_whatever_the_supervisor_sends() -> None:
    (from_us, to_worker), (_, to_us) = pipe(), pipe()
    given = SessionKey(KEY, series=3)
    instructions = SupervisorChannel(from_us, to_us, _Stopping(), given_key=given, senders=2)  # type: ignore[arg-type]
    to_worker.send(Go(bytes(32)))
    assert instructions.current() is given
