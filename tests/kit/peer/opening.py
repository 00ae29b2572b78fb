"""How the peer's receiver decodes a reassembled message: key exchange, decryption, gunzip. Must not know sockets.

There is ONE symmetric key for all senders, and a new key takes effect with a delay.
"""

from __future__ import annotations

import glob
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if TYPE_CHECKING:
    from kit.peer.reassembly import Message

_GUARD = b"KEY_UPDATE#"
_NONCE = 12
_TAG = 16
_OAEP = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)

CLEARTEXT, ENCRYPTED, KEY_EXCHANGE, STATUS = 6, 0, 3, 2
GZIP_FLAG = 32


class UnreadableEventError(ValueError):
    """The event is lost; the receiver writes the text to its log and to the internal topic."""


class ReceiverCrashError(RuntimeError):
    """The peer's receiver would crash here."""


class Event(NamedTuple):
    """A message as the receiver writes it to Kafka."""

    event_id: str
    value: bytes


def base_type(kind: int) -> int:
    """Return the type that the peer derives from type and flags: every flagged type but clear text is encrypted."""
    if kind < GZIP_FLAG:
        return kind
    return CLEARTEXT if kind & CLEARTEXT == CLEARTEXT else ENCRYPTED


class Opener:
    """Decodes messages with the current symmetric key.

    Args:
        private_keys: glob of PEM PKCS#8 files, which are read again at every key exchange; None for no keys.
        key_delay_seconds: how long a new key takes to be installed, while the old one stays in use.
        min_key_interval_seconds: a key exchange that follows the last one sooner is ignored.
        max_decompressed_bytes: larger events are dropped.
    """

    def __init__(
        self,
        private_keys: str | None = None,
        *,
        key_delay_seconds: float = 0.005,
        min_key_interval_seconds: float = 1.0,
        max_decompressed_bytes: int = 256 << 20,
    ) -> None:
        self._private_keys = private_keys
        self._key_delay_seconds = key_delay_seconds
        self._min_key_interval_seconds = min_key_interval_seconds
        self._max_decompressed_bytes = max_decompressed_bytes
        self._cipher: AESGCM | None = None
        self._pending_keys: list[tuple[float, AESGCM]] = []
        self._last_exchange_seconds: float | None = None
        self.keys_installed = 0
        self.keys_ignored = 0

    def open(self, message: Message, now_seconds: float) -> Event:
        """Decode a clear-text or encrypted message.

        Raises:
            UnreadableEventError: it cannot be decrypted or decompressed.
        """
        body = message.body
        if base_type(message.kind) != CLEARTEXT:
            body = self._decrypt(body, now_seconds)
        if message.kind & GZIP_FLAG:
            body = self._gunzip(body)
        return Event(message.event_id, body)

    def exchange(self, body: bytes, now_seconds: float) -> None:
        """Process a key exchange.

        Raises:
            UnreadableEventError: no private key decrypts it.
            ReceiverCrashError: a private key file is in the old PKCS#1 format.
        """
        last = self._last_exchange_seconds
        if last is not None and now_seconds - last < self._min_key_interval_seconds:
            self.keys_ignored += 1
            return
        if not body.startswith(_GUARD):
            raise UnreadableEventError("key exchange without its guard")
        for key in self._read_private_keys():
            try:
                opened = key.decrypt(body[len(_GUARD) :], _OAEP)
            except ValueError:
                continue
            if opened.startswith(_GUARD):
                self._last_exchange_seconds = now_seconds
                self._pending_keys.append((now_seconds + self._key_delay_seconds, AESGCM(opened[len(_GUARD) :])))
                return
        raise UnreadableEventError("no private key opens the key exchange")

    def _read_private_keys(self) -> list[rsa.RSAPrivateKey]:
        keys = []
        for name in sorted(glob.glob(self._private_keys or "")):  # noqa: PTH207 - the setting is a glob with its folder
            pem = Path(name).read_bytes()
            if b"BEGIN RSA PRIVATE KEY" in pem:
                raise ReceiverCrashError(f"nil pointer dereference: {name} is PKCS#1")
            key = serialization.load_pem_private_key(pem, None)
            if isinstance(key, rsa.RSAPrivateKey):
                keys.append(key)
        return keys

    def _decrypt(self, body: bytes, now_seconds: float) -> bytes:
        while self._pending_keys and self._pending_keys[0][0] <= now_seconds:
            self._cipher = self._pending_keys.pop(0)[1]
            self.keys_installed += 1
        if self._cipher is None:
            raise UnreadableEventError("no key")
        if len(body) < _NONCE + _TAG:
            raise UnreadableEventError("ciphertext too short")
        try:
            return self._cipher.decrypt(body[:_NONCE], body[_NONCE:], None)
        except InvalidTag:
            raise UnreadableEventError("cipher: message authentication failed") from None

    def _gunzip(self, body: bytes) -> bytes:
        if not body:
            raise UnreadableEventError("empty payload")
        limit = self._max_decompressed_bytes
        unpacked = b""
        remaining = body
        try:
            while remaining:  # a body can have several gzip members
                unpacker = zlib.decompressobj(wbits=31)
                unpacked += unpacker.decompress(remaining, limit + 1 - len(unpacked))
                if len(unpacked) > limit:
                    raise UnreadableEventError(f"decompressed size exceeds maximum {limit}")
                if not unpacker.eof:
                    raise UnreadableEventError("unexpected EOF")
                remaining = unpacker.unused_data
        except zlib.error as error:
            raise UnreadableEventError(f"gzip: {error}") from None
        return unpacked
