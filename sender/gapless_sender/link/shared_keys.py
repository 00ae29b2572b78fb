"""The event keys that senders of one machine replace together: one of them announces, all others follow.

Must not know how a key encrypts, the rules of timing (`key_schedule`), nor how the file is locked (`key_file`). A
sender has a shared lock on the file while it sends a batch. The sender that finds a new key due waits for an exclusive
lock, announces the key, and releases the lock, so that the others continue with it. If it ends meanwhile, another
sender announces.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gapless_sender.base.lazy_log import log
from gapless_sender.link.session_keys import AnnouncedKeys
from gapless_sender.wire.encryption import KEY_BYTES, KeyExchange, SessionKey
from gapless_sender.wire.key_file import CHECK_BYTES, SALT_BYTES, KeyFile, KeyRecord
from gapless_sender.wire.key_schedule import KeyDuty, KeyTimings

if TYPE_CHECKING:
    from gapless_sender.link.udp_link import UdpLink
    from gapless_sender.pace.pacing import Clock

_POLL_SECONDS = 0.02
_WARN_SECONDS = 30.0
"""A batch takes some seconds at most; a sender that waits longer logs a warning."""


def derive_key(secret: bytes, salt: bytes) -> bytes:
    """Derive the event key of `salt` (HKDF-SHA256, RFC 5869); it reveals neither another key nor the secret."""
    return HKDF(hashes.SHA256(), KEY_BYTES, salt, b"gapless event key").derive(secret)


def secret_fingerprint(secret: bytes) -> bytes:
    """Return a value that distinguishes secrets and reveals nothing else of them."""
    return HKDF(hashes.SHA256(), CHECK_BYTES, None, b"gapless key rotation file").derive(secret)


class SharedKeys(AnnouncedKeys):
    """Keys that are derived from a secret that several senders share."""

    def __init__(  # noqa: PLR0913 -- one for each setting
        self,
        exchange: KeyExchange,
        link: UdpLink,
        *,
        payload_size: int,
        timings: KeyTimings,
        every_seconds: float,
        clock: Clock,
        secret: SessionKey,
        path: Path,
        senders: int = 1,
    ) -> None:
        """Join the senders that use the key rotation file `path`.

        Args:
            exchange: as for `AnnouncedKeys`, like the next five.
            link: to the receiver.
            payload_size: of a datagram.
            timings: of announcements.
            every_seconds: how long a key is used.
            clock: for sleeps that can be interrupted.
            secret: what the senders share; it is never announced itself.
            path: of the file.
            senders: how many programs encrypt with one key.

        Raises:
            ConfigurationError: the file is not a key rotation file, or its senders have another secret.
            LocalStorageError: it cannot be used.
        """
        super().__init__(
            exchange, link, payload_size=payload_size, timings=timings, every_seconds=every_seconds, clock=clock
        )
        self._secret = secret.key
        self._senders = senders
        self._salt = b""
        self._announced: tuple[bytes, list[bytes]] = b"", []
        """The salt that this sender announced last, and the packets of its key."""
        self._file = KeyFile(path, secret_fingerprint(self._secret))

    @property
    def duty(self) -> KeyDuty:
        """What to do before the next batch; `ROTATE` also means to follow the key of another sender."""
        record = self._file.read()
        if self._key is None or not record.is_announced or record.salt != self._salt:
            return KeyDuty.ROTATE
        self._schedule.announced(record.announced_at)
        self._schedule.in_use(record.in_use_since)
        return self._schedule.due(self._clock.now(), exhausted=self._key.exhausted_among(self._senders))

    def current(self) -> SessionKey:
        """Return the key for the next batch, which the receiver has until `release`."""
        while not self._file.try_share():
            self._clock.sleep(_POLL_SECONDS)
        return super().current()

    def release(self) -> None:
        """Let others replace the key: this sender has sent its batch."""
        self._file.release()

    def replacement(self) -> Iterator[float]:
        """Follow another sender to the next key, or announce one, like `AnnouncedKeys.replacement`.

        At the end this sender has a shared lock on the file, as after `current`.
        """
        self._make_due()
        self._file.release()
        since = self._clock.now()
        while True:
            if self._can_follow(self._file.read()):
                if self._file.try_share():
                    if self._can_follow(record := self._file.read()):
                        self._follow(record)
                        return
                    self._file.release()
            elif self._file.try_own():
                try:
                    if not self._can_follow(record := self._file.read()):
                        yield from self._announce(record)
                finally:  # Also after a request to stop: another sender announces then.
                    self._file.release()
                continue
            if self._clock.now() - since > _WARN_SECONDS:
                log("warning", "the next key waits for another sender of this resend to finish its batch")
                since = self._clock.now()
            yield _POLL_SECONDS

    def _make_due(self) -> None:
        """Make the next key due for all senders, when this one has exhausted the current key."""
        record = self._file.read()
        if record.is_announced and record.salt == self._salt:
            self._file.write(replace(record, in_use_since=-math.inf))

    def _can_follow(self, record: KeyRecord) -> bool:
        return record.is_announced and record.salt != self._salt

    def _follow(self, record: KeyRecord) -> None:
        if self._key is not None:
            self._key.destroy()
        self._salt = record.salt
        self._key = SessionKey(derive_key(self._secret, record.salt))
        salt, packets = self._announced
        self._packets = packets if salt == record.salt else self._exchange.packets(self._key, self._payload_size)

    def _announce(self, before: KeyRecord) -> Iterator[float]:
        """Announce a new key, which this sender then follows like all others."""
        now = self._clock.now()
        # A time in the future is from before a restart of the machine, which resets its clock.
        self._schedule.announced(before.announced_at if before.announced_at <= now else -math.inf)
        record = KeyRecord(secrets.token_bytes(SALT_BYTES), announced_at=before.announced_at)
        self._file.write(record)
        key = SessionKey(derive_key(self._secret, record.salt))
        packets = self._exchange.packets(key, self._payload_size)
        key.destroy()
        self._announced = record.salt, packets
        first = True
        for step in self._schedule.rotation(now, drains=any(before.salt)):
            yield step.wait_seconds
            if step.send:
                self._link.send(packets)
                self.announced += first
                first = False
                record = replace(record, announced_at=self._clock.now())
                self._file.write(record)
        self._file.write(replace(record, is_announced=True, in_use_since=self._clock.now()))

    def reannounce(self) -> None:
        """Send the datagrams of the current key again, on behalf of all senders."""
        self._file.write(replace(self._file.read(), announced_at=self._clock.now()))
        super().reannounce()
