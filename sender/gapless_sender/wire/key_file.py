"""The file with which senders of one machine agree on their current event key: who may send, and who announces.

Must not know keys, packets, or how to wait. The file contains no secret: the key is derived from a random salt in it
and from the secret that the senders share. The kernel releases the locks of a killed sender. A sender has a shared lock
while it sends a batch, and an exclusive lock while it announces a key. Every sender locks a second file as long as it
runs; the first one, which finds it unlocked, resets what earlier senders left.
"""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from gapless_api.base.errors import ConfigurationError, LocalStorageError

SALT_BYTES, CHECK_BYTES = 16, 16
_MAGIC = b"GAPLKEY1"
_RECORD = struct.Struct(f">8s{CHECK_BYTES}s{SALT_BYTES}s?dd")


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The state of the current key. Times are seconds of the machine's monotonic clock."""

    salt: bytes = bytes(SALT_BYTES)
    is_announced: bool = False
    """Whether the receiver has the key; otherwise its announcement is in progress or was interrupted."""
    in_use_since: float = 0.0
    announced_at: float = 0.0
    """When its packets were last sent."""


class KeyFile:
    """The file, opened by one sender. A child process shares its locks after a fork."""

    def __init__(self, path: Path, check: bytes) -> None:
        """Open or create the file and join the senders that use it.

        Args:
            path: on a volume of this machine.
            check: fingerprint of the senders' shared secret.

        Raises:
            ConfigurationError: the file is not a key rotation file, or its senders share another secret.
            LocalStorageError: it cannot be created or locked there.
        """
        self.path = path
        self._check = check
        opened: list[int] = []
        try:
            for name in (path, path.with_name(f"{path.name}.lock")):
                opened.append(os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # noqa: PERF401 -- closed below
            self._descriptor, self._presence = opened
            self._join()
        except BaseException as error:
            for descriptor in opened:
                os.close(descriptor)
            if isinstance(error, OSError):
                raise LocalStorageError(
                    f"The key rotation file {path} cannot be used ({error.strerror}); give a file in a folder that all "
                    f"senders of this resend share and may write to."
                ) from error
            raise

    def _join(self) -> None:
        if self._try(self._presence, fcntl.LOCK_EX):
            content = os.pread(self._descriptor, _RECORD.size + 1, 0)
            is_known = len(content) == _RECORD.size and content.startswith(_MAGIC)
            if content and not is_known:
                raise ConfigurationError(
                    f"The file {self.path} is not a key rotation file; give another name, or delete it."
                )
            # The time is kept: the receiver ignores a key that arrives less than a second after the one before.
            self.write(KeyRecord(announced_at=_RECORD.unpack(content)[-1] if is_known else 0.0))
        fcntl.flock(self._presence, fcntl.LOCK_SH)
        self.read()

    def read(self) -> KeyRecord:
        """Return the state of the current key; it can change at any time unless this sender has a lock.

        Raises:
            ConfigurationError: the senders of this file share another secret.
        """
        content = os.pread(self._descriptor, _RECORD.size, 0)
        _, check, salt, is_announced, in_use_since, announced_at = _RECORD.unpack(content)
        if check != self._check:
            raise ConfigurationError(
                f"The key rotation file {self.path} is in use by senders with another sessionKeyFile; give all senders "
                f"of a resend the same sessionKeyFile, and each resend a key rotation file of its own."
            )
        return KeyRecord(salt, is_announced, in_use_since, announced_at)

    def write(self, record: KeyRecord) -> None:
        """Write the state. Only with the exclusive lock, or to record another announcement of the same key."""
        fields = (record.salt, record.is_announced, record.in_use_since, record.announced_at)
        os.pwrite(self._descriptor, _RECORD.pack(_MAGIC, self._check, *fields), 0)

    def try_share(self) -> bool:
        """Try to get the shared lock for sending; ``False`` while a sender announces a key."""
        return self._try(self._descriptor, fcntl.LOCK_SH)

    def try_own(self) -> bool:
        """Try to get the exclusive lock for announcing; ``False`` while another sender sends or announces."""
        return self._try(self._descriptor, fcntl.LOCK_EX)

    def release(self) -> None:
        """Release the lock."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @staticmethod
    def _try(descriptor: int, kind: int) -> bool:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
