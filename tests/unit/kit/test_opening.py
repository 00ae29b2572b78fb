from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kit.certificates import make_receiver_keys
from kit.peer.opening import Opener, ReceiverCrashError, UnreadableEventError
from kit.peer.reassembly import Message

OAEP = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)


class Sender:
    """A sender's half of the key exchange."""

    def __init__(self, certificate: Path) -> None:
        self._key = os.urandom(32)
        public = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
        assert isinstance(public, rsa.RSAPublicKey)
        self.exchange = b"KEY_UPDATE#" + public.encrypt(b"KEY_UPDATE#" + self._key, OAEP)

    def message(self, value: bytes, kind: int = 0) -> Message:
        nonce = os.urandom(12)
        return Message(kind, "t_0_1", nonce + AESGCM(self._key).encrypt(nonce, value, None))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_receiver_keys(folder, "receiver-old")
    make_receiver_keys(folder, "receiver-new")
    return folder


@pytest.fixture
def sender(folder: Path) -> Sender:
    return Sender(folder / "receiver-new.crt")


@pytest.fixture
def opener(folder: Path) -> Opener:
    return Opener(str(folder / "*.key"), key_delay_seconds=0.01)


def test_every_private_key_is_tried_and_events_open_after_the_exchange(opener: Opener, sender: Sender) -> None:
    opener.exchange(sender.exchange, 100)
    assert opener.open(sender.message(b"hello"), 100.02).value == b"hello"
    assert opener.open(sender.message(gzip.compress(b"packed"), kind=32), 100.02).value == b"packed"
    assert opener.open(sender.message(b""), 100.02).value == b""


def test_events_too_close_behind_the_key_are_lost(opener: Opener, sender: Sender, folder: Path) -> None:
    opener.exchange(sender.exchange, 100)
    with pytest.raises(UnreadableEventError, match="no key"):
        opener.open(sender.message(b"early"), 100.005)
    second = Sender(folder / "receiver-new.crt")
    assert opener.open(sender.message(b"x"), 101).value == b"x"
    opener.exchange(second.exchange, 102)
    with pytest.raises(UnreadableEventError, match="authentication failed"):
        opener.open(second.message(b"early"), 102.005)


def test_a_second_sender_replaces_the_key_of_the_first(opener: Opener, sender: Sender, folder: Path) -> None:
    second = Sender(folder / "receiver-old.crt")
    opener.exchange(sender.exchange, 100)
    opener.exchange(second.exchange, 102)
    assert opener.open(second.message(b"mine"), 103).value == b"mine"
    with pytest.raises(UnreadableEventError, match="authentication failed"):
        opener.open(sender.message(b"lost"), 103)


def test_a_key_within_a_second_of_the_last_is_ignored(opener: Opener, sender: Sender, folder: Path) -> None:
    second = Sender(folder / "receiver-old.crt")
    opener.exchange(sender.exchange, 100)
    opener.exchange(second.exchange, 100.9)
    assert opener.keys_ignored == 1
    assert opener.open(sender.message(b"still mine"), 102).value == b"still mine"
    assert opener.keys_installed == 1


def test_a_pkcs1_key_file_ends_the_receiver_at_the_next_exchange(sender: Sender, tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    (tmp_path / "old.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    with pytest.raises(ReceiverCrashError):
        Opener(str(tmp_path / "*.key")).exchange(sender.exchange, 0)


def test_a_key_for_someone_else_is_refused(folder: Path, tmp_path: Path) -> None:
    stranger = Sender(make_receiver_keys(tmp_path).certificate)
    with pytest.raises(UnreadableEventError, match="no private key"):
        Opener(str(folder / "*.key")).exchange(stranger.exchange, 0)


def test_too_short_a_ciphertext_is_lost(opener: Opener, sender: Sender) -> None:
    opener.exchange(sender.exchange, 0)
    with pytest.raises(UnreadableEventError, match="ciphertext too short"):
        opener.open(Message(0, "t_0_1", b""), 1)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "empty payload"),
        (b"not gzip", "gzip"),
        (gzip.compress(b"cut", mtime=0)[:-3], "unexpected EOF"),
        (gzip.compress(bytes(1001), mtime=0), "decompressed size exceeds maximum 1000"),
    ],
)
def test_bad_gzip_is_lost(body: bytes, text: str) -> None:
    with pytest.raises(UnreadableEventError, match=text):
        Opener(max_decompressed_bytes=1000).open(Message(38, "t_0_1", body), 0)


def test_gzip_up_to_the_maximum_and_in_several_members_is_read() -> None:
    body = gzip.compress(bytes(500)) + gzip.compress(bytes(500))
    assert Opener(max_decompressed_bytes=1000).open(Message(38, "t_0_1", body), 0).value == bytes(1000)
