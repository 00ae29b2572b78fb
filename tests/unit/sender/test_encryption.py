"""The behaviour of session keys and of the certificate they are wrapped for."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_sender.wire.encryption import MESSAGES_PER_KEY, NONCE_BYTES, OVERHEAD_BYTES, KeyExchange, SessionKey
from gapless_sender.wire.packets import KEY_ID, PacketType
from kit.peer.strict_packets import Reassembler, parse_packet

VECTORS = Path(__file__).parents[1] / "vectors"
CERTIFICATE = VECTORS / "test-cert.pem"
KEY = bytes(range(32))


def unsealed(key: bytes, body: bytes) -> bytes:
    return AESGCM(key).decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], None)


def certificate_file(folder: Path, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, first_day: int = -1) -> Path:
    """A self-signed certificate that is valid for ten days from `first_day` days after now."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
    start = datetime.now(UTC) + timedelta(days=first_day)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + timedelta(days=10))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    file = folder / "certificate.pem"
    file.write_bytes(made)
    return file


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@given(st.lists(st.binary(max_size=3000), max_size=20))
def test_bodies_come_back_in_order(bodies: list[bytes]) -> None:
    key = SessionKey(KEY)
    sealed = key.seal_batch(bodies)
    assert [unsealed(KEY, body) for body in sealed] == bodies
    assert [len(body) for body in sealed] == [len(body) + OVERHEAD_BYTES for body in bodies]
    assert key.messages == len(bodies)


def test_an_empty_body_becomes_28_bytes() -> None:
    assert len(SessionKey.generate().seal_batch([b""])[0]) == 28


def test_no_nonce_comes_twice_within_a_process_or_across_processes_that_share_a_key() -> None:
    program = (
        "import os, sys\n"
        "from gapless_sender.wire.encryption import SessionKey\n"
        "key = SessionKey(bytes(range(32)))\n"
        "key.seal_batch([b''] * 10)\n"
        "children = []\n"
        "for _ in range(3):\n"
        "    reader, writer = os.pipe()\n"
        "    if os.fork() == 0:\n"
        "        os.write(writer, b''.join(body[:12] for body in key.seal_batch([b''] * 100)))\n"
        "        os._exit(0)\n"
        "    os.close(writer)\n"
        "    children.append(open(reader, 'rb').read())\n"
        "own = b''.join(body[:12] for body in key.seal_batch([b''] * 100))\n"
        "sys.stdout.buffer.write(own + b''.join(children))\n"
    )
    written = [
        subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE).stdout for _ in range(2)
    ]
    nonces = [part[start : start + 12] for part in written for start in range(0, len(part), 12)]
    assert len(nonces) == 2 * 4 * 100
    assert len(set(nonces)) == len(nonces)


def test_a_fork_draws_new_nonces_in_the_child_only() -> None:
    key = SessionKey(KEY)
    before = key.seal_batch([b""])[0][:8]
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Newer Pythons warn of forks beside threads.
        child = os.fork()
    if child == 0:
        os.write(writing, key.seal_batch([b""])[0][:8])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        theirs = stream.read()
    os.waitpid(child, 0)
    assert len(theirs) == 8
    assert theirs != before
    assert key.seal_batch([b""])[0][:8] == before


def test_a_batch_that_fails_midway_does_not_give_its_nonces_again() -> None:
    key = SessionKey(KEY)
    with pytest.raises(TypeError):
        key.seal_batch([b"first", None])  # type: ignore[list-item]
    assert key.messages == 2
    assert int.from_bytes(key.seal_batch([b"later"])[0][8:12], "big") == 2


def test_a_key_asks_to_be_replaced_long_before_its_counter_ends() -> None:
    key = SessionKey(KEY)
    key._messages = MESSAGES_PER_KEY - 1
    assert not key.exhausted
    key.seal_batch([b""])[0]
    assert key.exhausted
    assert MESSAGES_PER_KEY == 2**32 // 4


def test_a_key_without_nonces_left_seals_nothing() -> None:
    key = SessionKey(KEY)
    key._messages = 2**32 - 1
    with pytest.raises(ValueError, match="used up its nonces"):
        key.seal_batch([b"", b""])
    assert unsealed(KEY, key.seal_batch([b"the last"])[0]) == b"the last"
    with pytest.raises(ValueError, match="used up its nonces"):
        key.seal_batch([b""])[0]


def test_a_destroyed_key_is_overwritten_and_does_nothing_more() -> None:
    key = SessionKey(KEY)
    memory = key._key
    key.destroy()
    assert memory == bytes(32)
    for use in (lambda: key.seal_batch([b""])[0], lambda: key.key):
        with pytest.raises(ValueError, match="destroyed"):
            use()
    key.destroy()


def test_a_key_shows_itself_in_no_text() -> None:
    key = SessionKey(KEY)
    assert KEY.hex() not in repr(key)
    assert str(KEY) not in repr(key) + str(key)


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 16"):
        SessionKey(bytes(16))


@pytest.mark.parametrize(("payload_size", "packets"), [(1400, 1), (200, 2)])
def test_the_private_key_unwraps_what_the_key_packets_hold(payload_size: int, packets: int) -> None:
    made = KeyExchange.load(CERTIFICATE).packets(SessionKey(KEY), payload_size)
    assert len(made) == packets
    reassembler = Reassembler()
    *_, message = [reassembler.add(parse_packet(packet)) for packet in made]
    assert message is not None
    assert (message.packet_type, message.packet_id, len(message.body)) == (PacketType.KEY_EXCHANGE, KEY_ID, 267)
    private = load_pem_private_key((VECTORS / "test-private.pem").read_bytes(), None)
    assert isinstance(private, rsa.RSAPrivateKey)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    assert private.decrypt(message.body[len(KEY_ID) :], oaep) == KEY_ID + KEY


def test_a_certificate_with_text_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "certificate.pem"
    file.write_bytes(b"Certificate:\n    Data: ...\n" + CERTIFICATE.read_bytes())
    assert KeyExchange.load(file).public_key.key_size == 2048


@pytest.mark.parametrize(("first_day", "says"), [(-1, ""), (-30, "expired on"), (5, "not valid before")])
def test_a_certificate_outside_its_dates_is_used_with_a_warning(
    tmp_path: Path, rsa_key: rsa.RSAPrivateKey, first_day: int, says: str
) -> None:
    loaded = KeyExchange.load(certificate_file(tmp_path, rsa_key, first_day))
    assert loaded.public_key.public_numbers() == rsa_key.public_key().public_numbers()
    assert says in loaded.warning
    assert bool(says) == bool(loaded.warning)


def test_a_certificate_is_valid_from_its_first_to_its_last_moment() -> None:
    certificate = x509.load_pem_x509_certificate(CERTIFICATE.read_bytes())
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    moment = timedelta(seconds=1)
    said = [KeyExchange.load(CERTIFICATE, now=now).warning for now in (first - moment, first, last, last + moment)]
    assert "not valid before" in said[0]
    assert said[1:3] == ["", ""]
    assert "expired on" in said[3]


def test_an_rsa_key_with_which_nothing_can_be_encrypted_is_refused(tmp_path: Path, rsa_key: rsa.RSAPrivateKey) -> None:
    file = certificate_file(tmp_path, rsa_key)
    der = x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER)
    modulus = rsa_key.public_key().public_numbers().n.to_bytes(256, "big")
    even = modulus[:-1] + bytes([modulus[-1] & 0xFE])
    broken = base64.encodebytes(der.replace(modulus, even))
    file.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + broken + b"-----END CERTIFICATE-----\n")
    assert "that cannot encrypt" in refused(file)


def refused(file: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        KeyExchange.load(file)
    message = str(caught.value)
    assert str(file) in message
    assert message.endswith(".")
    assert "\n" not in message
    return message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "nowhere.pem")
    assert "directory" in refused(tmp_path)


def test_a_file_without_pem_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "noise.pem"
    file.write_bytes(os.urandom(500))
    assert "not a PEM file" in refused(file)


def test_a_bare_public_key_is_refused_with_the_command_that_helps(tmp_path: Path, rsa_key: rsa.RSAPrivateKey) -> None:
    file = tmp_path / "public.pem"
    for form in (PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1):
        file.write_bytes(rsa_key.public_key().public_bytes(Encoding.PEM, form))
        assert "bare public key" in refused(file)
        assert "openssl req -x509" in refused(file)


def test_the_first_block_counts_even_when_a_certificate_follows(tmp_path: Path, rsa_key: rsa.RSAPrivateKey) -> None:
    file = tmp_path / "both.pem"
    private = rsa_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(private + CERTIFICATE.read_bytes())
    assert "private key" in refused(file)


def test_a_broken_certificate_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "broken.pem"
    lines = CERTIFICATE.read_text().splitlines()
    file.write_text("\n".join([*lines[:3], lines[-1], ""]))
    assert "not a readable X.509 certificate" in refused(file)
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    assert "not a readable X.509 certificate" in refused(file)


def test_a_certificate_of_another_kind_of_key_is_refused(tmp_path: Path) -> None:
    assert "no RSA key" in refused(certificate_file(tmp_path, ec.generate_private_key(ec.SECP256R1())))


def test_a_small_rsa_key_is_refused(tmp_path: Path) -> None:
    small = rsa.generate_private_key(65537, 1024)  # noqa: S505 -- that is the point
    assert "1024 bits, and the minimum is 2048" in refused(certificate_file(tmp_path, small))
