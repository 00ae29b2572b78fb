"""The encryption of bodies and the wrapping of session keys; must not know when a key is announced or rotated.

A body is ``nonce (12) || ciphertext || tag (16)``, AES-256-GCM without additional data. The key reaches the receiver
in a KEY_EXCHANGE packet: ``KEY_UPDATE#`` and one RSA-OAEP block (SHA-256, MGF1 with SHA-256, no label) of
``KEY_UPDATE#`` + key.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import stat
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_sender.wire.packets import KEY_ID, PacketType, packetize

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
OVERHEAD_BYTES = NONCE_BYTES + TAG_BYTES
"""What encryption adds to a body; an empty body becomes this long."""
MESSAGES_PER_KEY = 2**30
"""Messages after which a `SessionKey` must be replaced: a quarter of its 32-bit counter."""
_COUNTER_VALUES = 2**32
MIN_RSA_BITS = 2048
_OAEP = padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=None)

_live_keys: weakref.WeakSet[SessionKey] = weakref.WeakSet()


class SessionKey:
    """One AES-256 key and the nonces of one process under it.

    A nonce is an 8-byte prefix, random for each `SessionKey` and renewed after a fork, and a 4-byte counter. Within a
    process the counter makes nonces unique. Several processes that share a key differ in the prefix: for 1,000 of them
    the probability that any two are equal is 1000^2 / 2^65, one in 37 million million for each key.

    A key that independent programs share has a `series` for each of them, the first byte of the prefix, so that no two
    of them can be equal; only two starts of the same program could draw the same 7 bytes. Such a key cannot be
    replaced, so an exhausted counter starts again with a new prefix.
    """

    def __init__(self, key: bytes | bytearray, *, series: int | None = None) -> None:
        """Take an existing key, such as one of another process.

        Args:
            key: 32 bytes.
            series: 0 to 255, different for each program that shares the key; ``None`` for a key of this program alone.

        Raises:
            ValueError: `key` does not have 32 bytes.
        """
        if len(key) != KEY_BYTES:
            raise ValueError(f"an AES-256 key has {KEY_BYTES} bytes, not {len(key)}")
        self._key = bytearray(key)
        self._cipher: AESGCM | None = AESGCM(self._key)
        self._series = b"" if series is None else bytes((series,))
        self._messages = 0
        self._counted_from = 0
        self.renew_nonces()
        _live_keys.add(self)

    @classmethod
    def generate(cls) -> SessionKey:
        """Create a new random key."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def load(cls, path: Path, *, series: int) -> SessionKey:
        """Read a key that programs share, 32 bytes raw or as base64; `series` as for the constructor.

        Raises:
            ConfigurationError: the file cannot be read, can be read by others, or is not a key.
        """
        try:
            status = path.stat()
            content = read_small(path)
        except OSError as error:
            raise ConfigurationError(
                f"The sessionKeyFile {path} cannot be read ({error.strerror}); give the path of a readable file."
            ) from None
        # Kubernetes mounts files of root that the pod's group may read; a file of this user needs no group access.
        if status.st_mode & (0o077 if status.st_uid == os.geteuid() else 0o007):
            raise ConfigurationError(
                f"The sessionKeyFile {path} is accessible to others (mode {stat.S_IMODE(status.st_mode):04o}); "
                f"restrict it with: chmod 600 {path}, and use another key if others may have read it."
            )
        if len(content) != KEY_BYTES:
            try:
                content = base64.b64decode(content.strip(), validate=True)
            except ValueError:
                content = b""
        if len(content) != KEY_BYTES:
            raise ConfigurationError(
                f"The sessionKeyFile {path} is not a key of {KEY_BYTES} bytes, neither raw nor as base64; create one "
                f"with: (umask 077; openssl rand -out session.key {KEY_BYTES})."
            )
        return cls(content, series=series)

    @property
    def key(self) -> bytes:
        """A copy of the key, to wrap it or to pass it to another process; keep it no longer than needed."""
        if self._cipher is None:
            raise ValueError("the session key has been destroyed")
        return bytes(self._key)

    @property
    def messages(self) -> int:
        """How many messages this process has encrypted with the key."""
        return self._messages

    @property
    def exhausted(self) -> bool:
        """Whether the key must be replaced soon."""
        return self.exhausted_among(1)

    def exhausted_among(self, senders: int) -> bool:
        """Return whether the key must be replaced soon when `senders` processes each encrypt an equal share."""
        return not self._series and self._messages * senders >= MESSAGES_PER_KEY

    def renew_nonces(self) -> None:
        """Start a new nonce prefix, which no other process uses."""
        self._prefix = self._series + secrets.token_bytes(NONCE_BYTES - 4 - len(self._series))

    def seal_batch(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Encrypt many bodies, in order.

        Raises:
            ValueError: the key was destroyed, or all nonces were used.
        """
        if self._cipher is None:
            raise ValueError("the session key has been destroyed")
        first = self._messages - self._counted_from
        if first + len(bodies) > _COUNTER_VALUES:
            if not self._series:
                raise ValueError("the session key has used up its nonces and must be replaced")
            self.renew_nonces()
            self._counted_from, first = self._messages, 0
        self._messages += len(bodies)  # before use: if this batch is interrupted, no nonce is used twice
        encrypt = self._cipher.encrypt
        prefix = self._prefix
        sealed = []
        for counter, body in enumerate(bodies, start=first):
            nonce = prefix + counter.to_bytes(4, "big")
            sealed.append(nonce + encrypt(nonce, body, None))
        return sealed

    def destroy(self) -> None:
        """Overwrite the key as far as Python allows, and refuse further use.

        This object's bytes are set to zero, and OpenSSL's context, which has the key schedule, is released. Other
        copies (the random bytes, what `key` returned) are freed but not overwritten, nor is swapped memory.
        """
        self._key[:] = bytes(KEY_BYTES)
        self._cipher = None


def _renew_after_fork() -> None:
    for key in _live_keys:
        key.renew_nonces()


os.register_at_fork(after_in_child=_renew_after_fork)


@dataclass(frozen=True, slots=True)
class KeyExchange:
    """The receiver's public key, and how a session key is wrapped for it."""

    public_key: rsa.RSAPublicKey
    warning: str
    """Set when the certificate is expired or not yet valid. It is used anyway: the receiver has the private key and
    checks no date."""

    @classmethod
    def load(cls, certificate_path: Path, *, now: datetime | None = None) -> KeyExchange:
        """Read the RSA key of the first PEM block of a file, which must be an X.509 certificate.

        Args:
            certificate_path: the file.
            now: the time for which the certificate's dates are checked; ``None`` for the current time.

        Raises:
            ConfigurationError: the file cannot be read or has no such certificate.
        """
        certificate = _first_certificate(certificate_path)
        try:
            key = certificate.public_key()
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, rsa.RSAPublicKey):
            raise ConfigurationError(
                f"The certificate in publicKeyFile {certificate_path} has no RSA key, and the receiver can unwrap "
                f"session keys with RSA only; {_HOW_TO}."
            )
        if key.key_size < MIN_RSA_BITS:
            raise ConfigurationError(
                f"The certificate in publicKeyFile {certificate_path} has an RSA key of {key.key_size} bits, and the "
                f"minimum is {MIN_RSA_BITS}; {_HOW_TO}."
            )
        try:
            key.encrypt(KEY_ID + bytes(KEY_BYTES), _OAEP)
        except (ValueError, InternalError):
            raise ConfigurationError(
                f"The certificate in publicKeyFile {certificate_path} has an RSA key that cannot encrypt; {_HOW_TO}."
            ) from None
        return cls(key, _date_warning(certificate, certificate_path, now or datetime.now(UTC)))

    def packets(self, key: SessionKey, payload_size: int) -> list[bytes]:
        """Return the KEY_EXCHANGE datagrams that install `key` at the receiver.

        Wrapping is randomised, so send copies of the same datagrams: fragments of two wrappings must not be mixed.

        Raises:
            PacketError: `payload_size` is too small for any payload.
        """
        block = self.public_key.encrypt(KEY_ID + key.key, _OAEP)
        return packetize(PacketType.KEY_EXCHANGE, KEY_ID, KEY_ID + block, payload_size)


_HOW_TO = (
    "make a key and its certificate on the receiving side with: openssl req -x509 -newkey rsa:3072 -noenc -days 3650 "
    "-subj /CN=receiver -keyout private.pem -out certificate.pem"
)
_FROM_PRIVATE_KEY = (
    "make a certificate of the key on the receiving side with: openssl req -x509 -key private.pem -days 3650 "
    "-subj /CN=receiver -out certificate.pem"
)
_PEM_LABEL = re.compile(rb"^-----BEGIN ([A-Z0-9 ]+)-----", re.MULTILINE)


def _first_certificate(path: Path) -> x509.Certificate:
    try:
        content = read_small(path)
    except OSError as error:
        raise ConfigurationError(
            f"The certificate publicKeyFile {path} cannot be read ({error.strerror}); give the path of the receiver's "
            f"certificate, a PEM file."
        ) from None
    label = _PEM_LABEL.search(content)
    if label is None:
        raise ConfigurationError(f"publicKeyFile {path} is not a PEM file; give the receiver's certificate as PEM.")
    what = label[1].decode()
    if what.endswith("PUBLIC KEY"):
        raise ConfigurationError(
            f"publicKeyFile {path} contains a bare public key instead of an X.509 certificate; {_FROM_PRIVATE_KEY}."
        )
    if what.endswith("PRIVATE KEY"):
        raise ConfigurationError(
            f"publicKeyFile {path} contains a private key, which must stay on the receiving side; "
            f"{_FROM_PRIVATE_KEY}, and use that."
        )
    try:
        return x509.load_pem_x509_certificate(content[label.start() :])
    except (ValueError, x509.InvalidVersion) as error:
        raise ConfigurationError(
            f"publicKeyFile {path} begins with a PEM block {what} that is not a readable X.509 certificate "
            f"({str(error).rstrip('.')}); {_HOW_TO}."
        ) from None


def _date_warning(certificate: x509.Certificate, path: Path, now: datetime) -> str:
    if certificate.not_valid_after_utc < now:
        return f"The certificate {path} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; it is used anyway."
    if certificate.not_valid_before_utc > now:
        return (
            f"The certificate {path} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}; it is used "
            f"anyway."
        )
    return ""
