"""Owns how the peer's receiver opens a joined message: key exchange, decryption, gunzip. Must not know sockets.

There is ONE symmetric key for all senders, and it takes a moment to be installed.
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
    """The event is lost; the text goes to the log and to the internal topic."""


class ReceiverCrashError(RuntimeError):
    """The peer's receiver ends here."""


class Event(NamedTuple):
    """A message as it will be written."""

    event_id: str
    value: bytes


def sort_of(kind: int) -> int:
    """Reduce type and flags to what the peer takes them for: every flagged type but clear text counts as encrypted."""
    if kind < GZIP_FLAG:
        return kind
    return CLEARTEXT if kind & CLEARTEXT == CLEARTEXT else ENCRYPTED


class Opener:
    """Keeps the one key and opens messages with it.

    Args:
        private_keys: glob of PEM PKCS#8 files, read anew at every key exchange; None: none.
        key_delay_seconds: how long a new key takes to be installed while other workers go on with the old one.
        least_key_interval_seconds: a key exchange that follows the last one sooner is ignored.
        most_decompressed_bytes: larger events are dropped.
    """

    def __init__(
        self,
        private_keys: str | None = None,
        *,
        key_delay_seconds: float = 0.005,
        least_key_interval_seconds: float = 1.0,
        most_decompressed_bytes: int = 256 << 20,
    ) -> None:
        self._private_keys = private_keys
        self._key_delay_seconds = key_delay_seconds
        self._least_key_interval_seconds = least_key_interval_seconds
        self._most_decompressed_bytes = most_decompressed_bytes
        self._cipher: AESGCM | None = None
        self._coming: list[tuple[float, AESGCM]] = []
        self._last_exchange_seconds: float | None = None
        self.keys_installed = 0
        self.keys_ignored = 0

    def open(self, message: Message, now_seconds: float) -> Event:
        """Make the event of a clear or encrypted message.

        Raises:
            UnreadableEventError: it cannot be decrypted or decompressed.
        """
        body = message.body
        if sort_of(message.kind) != CLEARTEXT:
            body = self._decrypt(body, now_seconds)
        if message.kind & GZIP_FLAG:
            body = self._gunzip(body)
        return Event(message.event_id, body)

    def exchange(self, body: bytes, now_seconds: float) -> None:
        """Take a key exchange.

        Raises:
            UnreadableEventError: no private key opens it.
            ReceiverCrashError: a private key file is of the old PKCS#1 form.
        """
        last = self._last_exchange_seconds
        if last is not None and now_seconds - last < self._least_key_interval_seconds:
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
                self._coming.append((now_seconds + self._key_delay_seconds, AESGCM(opened[len(_GUARD) :])))
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
        while self._coming and self._coming[0][0] <= now_seconds:
            self._cipher = self._coming.pop(0)[1]
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
        most = self._most_decompressed_bytes
        unpacked = b""
        left = body
        try:
            while left:  # gzip members may follow one another
                unpacker = zlib.decompressobj(wbits=31)
                unpacked += unpacker.decompress(left, most + 1 - len(unpacked))
                if len(unpacked) > most:
                    raise UnreadableEventError(f"decompressed size exceeds maximum {most}")
                if not unpacker.eof:
                    raise UnreadableEventError("unexpected EOF")
                left = unpacker.unused_data
        except zlib.error as error:
            raise UnreadableEventError(f"gzip: {error}") from None
        return unpacked
