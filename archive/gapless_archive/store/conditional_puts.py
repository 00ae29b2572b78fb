"""Conditional puts to an object store: whether the store obeys their conditions, and which refusals are our own.

A store that ignores conditions lets two programs overwrite each other's objects, and both report success. So each store
is probed once per process, before the first conditional put. Must not know what is stored.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from typing import Literal, Protocol

from gapless_api.base.errors import ConfigurationError, GaplessError, StoppedError, StoreUnreachableError

Condition = Literal["If-None-Match", "If-Match"]
"""The header of a put that must not replace an object, or only the one with a known ETag."""

PROBES_FOLDER = "_probes"
"""The folder of the probes' objects. Its name cannot be a region, nor a file of an audit's state."""

_obeyed: set[tuple[str, Condition]] = set()
"""The stores that were probed in this process, and the conditions that they obey."""
_probing = threading.Lock()


class _Bucket(Protocol):
    def put_if(self, key: str, content: bytes, tag: str | None) -> bool: ...
    def content(self, key: str) -> bytes | None: ...
    def tag(self, key: str) -> str | None: ...
    def delete(self, key: str) -> None: ...


class ConditionalPuts:
    """The conditional puts of a program to one bucket."""

    def __init__(self, bucket: _Bucket, name: str, prefix: str) -> None:
        """`name` is for messages and identifies the store; probes are written below `prefix`."""
        self._bucket, self._name = bucket, name
        self._folder = f"{prefix}/{PROBES_FOLDER}".lstrip("/")

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        """Store `content`, which is unique, if the object's ETag is `tag`; ``None`` when it must not exist.

        Returns:
            Whether the object has this content. If the answer to a successful put was lost, the client's retry is
            refused, although the object is ours.

        Raises:
            ConfigurationError: the store ignores the condition, or permission is missing.
            StoreUnreachableError: the store does not answer; the object may have been stored.
        """
        self.check("If-None-Match" if tag is None else "If-Match")
        return self._bucket.put_if(key, content, tag) or self._bucket.content(key) == content

    def check(self, condition: Condition) -> None:
        """Check that the store obeys a condition; sends requests only once per process. Raises like `replace`."""
        probed = (self._name, condition)
        with _probing:
            if probed not in _obeyed:
                self._probe(condition)
                _obeyed.add(probed)

    def _probe(self, condition: Condition) -> None:
        """Try to replace an object of our own under a condition that is not met. Its name is that of no other probe."""
        token = secrets.token_hex(16)
        key = f"{self._folder}/{token}"
        try:
            self._try_to_replace(key, token, condition)
        except StoppedError:
            raise  # without another request to a store that may be silent
        except GaplessError:
            self._delete(key)
            raise
        self._delete(key)

    def _try_to_replace(self, key: str, token: str, condition: Condition) -> None:
        self._put_own(key, f"{token} 1\n".encode(), None)
        stale = None
        if condition == "If-Match":
            stale = self._bucket.tag(key)
            self._put_own(key, f"{token} 2\n".encode(), stale)
        if self._bucket.put_if(key, f"{token} 3\n".encode(), stale):
            raise ConfigurationError(
                f"The object store of {self._name} ignores {condition}: it replaced an object against the condition of "
                f"the put, so programs would overwrite each other's work; use a store with conditional puts."
            )

    def _delete(self, key: str) -> None:
        """Delete a probe, if this program has the permission. No reader takes notice of an object that remains."""
        with contextlib.suppress(ConfigurationError, StoreUnreachableError):
            self._bucket.delete(key)

    def _put_own(self, key: str, content: bytes, tag: str | None) -> None:
        if not self._bucket.put_if(key, content, tag) and self._bucket.content(key) != content:
            raise StoreUnreachableError(
                f"The object store of {self._name} refused a conditional put of {key} although its condition was met; "
                f"run this again, or use a store with conditional puts (If-None-Match, If-Match)."
            )
