"""Owns the proof that no nonce comes twice under one key, and that a key is replaced long before its nonces end."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.wire.totals import Totals
from gapless_sender.encryption import MESSAGES_PER_KEY, KeyExchange, SessionKey
from gapless_sender.key_schedule import KeyTimings
from gapless_sender.keys import AnnouncedKeys
from gapless_sender.settings import RESEND
from gapless_sender.shards import _attend, _FollowedKeys, _Shard

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@pytest.mark.parametrize("sharers", [1, 2, 64])
def test_all_processes_together_stay_far_below_2_to_the_32_messages(sharers: int) -> None:
    key = SessionKey(KEY)
    key._messages = -(-MESSAGES_PER_KEY // sharers) - 1
    assert not key.exhausted_among(sharers)
    key.seal(b"")
    assert key.exhausted_among(sharers)
    assert sharers * key.messages < 2**31


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

    asked = False
    seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def check(self) -> None:
        pass


class _Whole:
    class view:  # noqa: N801 -- an attribute
        @staticmethod
        def advanced(account: Any) -> None:
            assert account() == (Totals(), 0)


class _Pace:
    def follow(self) -> None:
        pass


class _Equipment:
    stopping = _Stopping()
    pace = _Pace()


class _Process:
    pid = None
    exitcode = 0

    def join(self) -> None:
        pass


def test_a_process_that_has_encrypted_its_part_gets_a_new_key_from_the_parent() -> None:
    ours, theirs = multiprocessing.Pipe()
    stopping = _Stopping()
    keys = AnnouncedKeys(
        KeyExchange.load(CERTIFICATE),
        _Link(),  # type: ignore[arg-type]
        payload_size=1400,
        timings=KeyTimings(),
        every_seconds=0,
        clock=stopping,
    )
    first = keys.current().key
    followed = _FollowedKeys(SessionKey(first), theirs, stopping, sharers=2)  # type: ignore[arg-type]
    assert followed.current().key == first
    followed._key._messages = MESSAGES_PER_KEY // 2
    running = [_Shard(_Process(), ours)]  # type: ignore[arg-type]
    parent = threading.Thread(target=_attend, args=(running, _Equipment(), _Whole(), keys))
    parent.start()
    try:
        seen = {followed.current().key}
        while keys.announced < 2 or followed.current().key == first:
            seen.add(followed.current().key)
            assert parent.is_alive()
        second = followed.current().key
    finally:
        theirs.close()
        parent.join(60)
    assert not parent.is_alive()
    assert second == keys._key.key != first  # type: ignore[union-attr]
    assert keys.announced == 2, "once, not again and again"
