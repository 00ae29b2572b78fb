"""The proof that shards can share one key: how it is read, announced, and that no nonce comes twice."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gapless_api.base.errors import ConfigurationError
from gapless_sender.link.session_keys import AnnouncedKeys
from gapless_sender.wire.encryption import MESSAGES_PER_KEY, KeyExchange, SessionKey
from gapless_sender.wire.key_schedule import KeyTimings

CERTIFICATE = Path(__file__).parents[1] / "vectors" / "test-cert.pem"
KEY = bytes(range(100, 132))


class Link:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[list[bytes]] = []

    def send(self, datagrams: Sequence[bytes]) -> None:
        self.sent.append(list(datagrams))


class Steps:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.mark.parametrize("content", [KEY, base64.b64encode(KEY), base64.b64encode(KEY) + b"\n"])
def test_the_key_is_read_as_it_is_or_as_base64(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    assert SessionKey.load(tmp_path / "key", series=0).key == KEY


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o602, 0o610])
def test_a_key_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "key").chmod(mode)
    with pytest.raises(ConfigurationError, match=f"is accessible to others .*mode {mode:04o}.*chmod 600"):
        SessionKey.load(tmp_path / "key", series=0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_key_of_another_user_may_be_read_by_the_group_as_kubernetes_mounts_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY)
    os.chown(tmp_path / "key", 65532, -1)
    (tmp_path / "key").chmod(0o440)
    assert SessionKey.load(tmp_path / "key", series=0).key == KEY
    (tmp_path / "key").chmod(0o444)
    with pytest.raises(ConfigurationError, match="is accessible to others"):
        SessionKey.load(tmp_path / "key", series=0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        KEY[:31],
        KEY + b"\n",
        base64.b64encode(KEY[:31]),
        b"?" * 44,
        b"!" + base64.b64encode(KEY),
        KEY.hex().encode(),
    ],
)
def test_a_file_without_a_key_is_refused_with_how_to_make_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ConfigurationError, match=r"openssl rand -out session\.key 32\)") as refused:
        SessionKey.load(tmp_path / "key", series=0)
    assert content.decode("latin-1").strip() not in str(refused.value) or not content.strip()
    with pytest.raises(ConfigurationError, match="none cannot be read"):
        SessionKey.load(tmp_path / "none", series=0)


def test_no_two_shards_can_ever_have_the_same_nonce() -> None:
    firsts = {SessionKey(KEY, series=index).seal_batch([b""])[0][0] for index in range(64)}
    assert firsts == set(range(64)), "the first byte is the shard's number, whatever chance does"


def test_starts_forks_and_full_counters_of_one_shard_draw_new_prefixes() -> None:
    program = (
        "import os, sys\n"
        "from gapless_sender.wire.encryption import SessionKey\n"
        "key = SessionKey(bytes(range(32)), series=5)\n"
        "nonces = [body[:12] for body in key.seal_batch([b''] * 50)]\n"
        "key._messages = 2**32 - 10\n"
        "nonces += [body[:12] for body in key.seal_batch([b''] * 50)]\n"
        "reader, writer = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.write(writer, b''.join(body[:12] for body in key.seal_batch([b''] * 50)))\n"
        "    os._exit(0)\n"
        "os.close(writer)\n"
        "nonces += [body[:12] for body in key.seal_batch([b''] * 50)]\n"
        "sys.stdout.buffer.write(b''.join(nonces) + open(reader, 'rb').read())\n"
    )
    written = b"".join(
        subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE).stdout for _ in range(3)
    )
    nonces = [written[start : start + 12] for start in range(0, len(written), 12)]
    assert len(nonces) == 3 * 200
    assert len(set(nonces)) == len(nonces)
    assert {nonce[0] for nonce in nonces} == {5}
    assert len({nonce[:8] for nonce in nonces}) == 3 * 3, "a start, a full counter, a fork"


def test_a_full_counter_begins_anew_and_every_message_can_be_read() -> None:
    key = SessionKey(KEY, series=1)
    key._messages = 2**32 - 1
    sealed = [key.seal_batch([b"last"])[0], *key.seal_batch([b"a", b"b"])]
    assert [AESGCM(KEY).decrypt(body[:12], body[12:], None) for body in sealed] == [b"last", b"a", b"b"]
    assert sealed[0][8:12] == b"\xff\xff\xff\xff"
    assert [body[8:12] for body in sealed[1:]] == [bytes(4), bytes(3) + b"\x01"]
    assert key.seal_batch([b"c"])[0][8:12] == bytes(3) + b"\x02"
    assert not key.exhausted


def test_each_shard_announces_the_same_key_and_never_replaces_it() -> None:
    exchange = KeyExchange.load(CERTIFICATE)
    link, clock = Link(), Steps()
    given = SessionKey(KEY, series=2)
    keys = AnnouncedKeys(
        exchange,
        link,  # type: ignore[arg-type]
        payload_size=1400,
        timings=KeyTimings(),
        every_seconds=0,
        clock=clock,
        given=given,
    )
    assert keys.current() is given
    assert len(link.sent) == 3
    assert len({tuple(packets) for packets in link.sent}) == 1
    given._messages = MESSAGES_PER_KEY + 1
    assert keys.current() is given
    clock.seconds += 61
    assert keys.current() is given
    assert len(link.sent) == 4, "announced again for a receiver that was restarted"
    assert keys.announced == 1
