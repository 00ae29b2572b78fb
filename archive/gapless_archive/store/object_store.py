"""Owns how a file goes to an S3-compatible object store and comes from one; must not know what is in it.

Nothing but a proxy is taken from the environment: credentials come from files that the caller names, and without them
requests are not signed. The client (obstore) is optional and loaded only when a store is opened.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from gapless_api.base.errors import ConfigurationError, GaplessError, LocalStorageError, StoreUnreachableError
from gapless_archive.store.access import content_of, credentials_of
from gapless_archive.store.interruptible import Answer, answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from obstore.store import ClientConfig

    from gapless_archive.store.access import S3Access

_CONNECT, _QUIET, _WHOLE = timedelta(seconds=10), timedelta(seconds=60), timedelta(hours=1)
"""Longest time to connect, between two answers, and for one request."""
_RETRIES, _RETRY = 4, timedelta(seconds=60)
"""How often a request is repeated, and for how long at most: a store that asks to slow down is given some seconds."""
_FIRST_PAUSE, _LONGEST_PAUSE, _PAUSE_FACTOR = timedelta(seconds=0.2), timedelta(seconds=15), 3
_MOST_BYTES_AT_ONCE = 1024 * 1024
_LEAST_PART, _MOST_PARTS = 5 * 1024 * 1024, 10_000
"""A store takes larger objects in parts: none but the last smaller, and no more of them."""
_COALESCED = 4 * 1024
"""Ranges of an object that are less far apart are read in one request."""
_EXAMPLE = "write s3://bucket/path/bundle.json"
_PASSING = re.compile(r"non-2xx status code: (408|429)\b|<Code>NoSuchUpload<")
"""Client errors that pass: a request came too slowly, there were too many of them, or the answer that an object is
complete was lost."""


class MissingObjectError(ConfigurationError):
    """A file that must be there is not."""


@dataclass(frozen=True, slots=True)
class ObjectAddress:
    """Where an object is: ``s3://bucket/key``."""

    bucket: str
    key: str

    @classmethod
    def parse(cls, text: str) -> ObjectAddress:
        """Read an address. Raises ValueError with the end of the sentence "it must be …"."""
        found = re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.+)", text)
        if found is None:
            raise ValueError(f"the address of an object; {_EXAMPLE}")
        if any(part in {"", ".", ".."} for part in found[2].split("/")):
            raise ValueError(f"an address without empty parts, . and .. in its path; {_EXAMPLE}")
        return cls(found[1], found[2])

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


class StoredObject(NamedTuple):
    """What a list says about an object."""

    key: str
    bytes: int
    modified: float
    """When it was written, in seconds since 1970."""


class ObjectStore(Protocol):
    """A bucket."""

    def get(self, key: str, into: IO[bytes]) -> None:
        """Write the content of an object to a stream.

        Raises:
            MissingObjectError: there is no such object.
            ConfigurationError: we are not allowed to read it.
            StoreUnreachableError: the store does not answer.
        """

    def put(self, key: str, file: Path) -> None:
        """Keep the content of a file as an object, completely or not at all.

        Raises:
            ConfigurationError: there is no such bucket, or we are not allowed to write there.
            StoreUnreachableError: the store does not answer.
        """

    def tag(self, key: str) -> str | None:
        """What changes whenever the object does; ``None`` when there is no such object. Raises like `get`."""

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        """Keep `content` as an object unless another has changed it meanwhile; say whether it is kept.

        Raises like `put`.

        Args:
            key: of the object.
            content: all of it.
            tag: of the object that is replaced; ``None`` when there must be none.
        """

    def ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of an object, each by where it begins and its length, in bytes. Raises like `get`."""

    def size(self, key: str) -> int | None:
        """How many bytes an object has; ``None`` when there is no such object. Raises like `get`."""

    def keys(self, prefix: str) -> list[str]:
        """The keys that begin with `prefix` and a slash; all, if it is empty. Raises like `get`."""

    def objects(self, prefix: str) -> list[StoredObject]:
        """What `keys` gives, with size and age. Raises like `get`."""

    def children(self, prefix: str) -> list[str]:
        """The next parts of the keys that `keys` gives. Raises like `get`."""

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there does not matter. Raises like `put`."""


def open_store(bucket: str, access: S3Access) -> ObjectStore:
    """Open a bucket; nothing is sent yet.

    Raises:
        ConfigurationError: the client is not installed, or a file of `access` cannot be used.
    """
    try:
        from obstore.store import S3Store  # noqa: PLC0415 -- optional
    except ImportError:
        raise ConfigurationError(
            "Object stores need the package obstore; install it with: pip install 'gapless-archive[s3]'."
        ) from None
    if access.endpoint_url and re.fullmatch(r"https?://[^/\s]+(/\S*)?", access.endpoint_url) is None:
        raise ConfigurationError(
            f"The endpoint {access.endpoint_url!r} is no URL; write one such as https://store.example:9000."
        )
    client: ClientConfig = {"connect_timeout": _CONNECT, "read_timeout": _QUIET, "timeout": _WHOLE}
    if access.endpoint_url.startswith("http://"):
        client["allow_http"] = True
    if access.ca_file is not None:
        client["root_certificate"] = content_of(access.ca_file, "the store's CA certificates")
    options: dict[str, Any] = {
        "region": access.region,
        "disable_bulk_delete": True,
        **credentials_of(access),
        **_encryption(access),
    }
    if access.endpoint_url:
        options |= {"endpoint": access.endpoint_url.rstrip("/"), "virtual_hosted_style_request": False}
    try:
        store = S3Store(
            bucket,
            client_options=client,
            retry_config={
                "max_retries": _RETRIES,
                "retry_timeout": _RETRY,
                "backoff": {"init_backoff": _FIRST_PAUSE, "max_backoff": _LONGEST_PAUSE, "base": _PAUSE_FACTOR},
            },
            **options,
        )
    except Exception as error:  # noqa: BLE001 -- the client has no class for it
        raise ConfigurationError(
            f"The object store of s3://{bucket} cannot be used ({_reason(error)}); correct its settings."
        ) from None
    return _Bucket(bucket, access.endpoint_url, store, _put_options(access))


def part_bytes(size: int) -> int:
    """How large the parts of an object are, for a store that takes so many and no more."""
    return max(_LEAST_PART, -(-size // _MOST_PARTS))


def _encryption(access: S3Access) -> dict[str, str]:
    found = {"server_side_encryption": access.encryption, "sse_kms_key_id": access.kms_key_id}
    return {name: value for name, value in found.items() if value}


def _put_options(access: S3Access) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if access.storage_class:
        found["attributes"] = {"Storage-Class": access.storage_class}
    if access.tags:
        found["tags"] = dict(access.tags)
    return found


class _Bucket:
    """A bucket by way of obstore, whose errors are told apart here."""

    def __init__(self, bucket: str, endpoint_url: str, store: Any, written: Mapping[str, Any]) -> None:
        self._put_options = written
        self._bucket = bucket
        self._where = f" at {endpoint_url}" if endpoint_url else ""
        self._store = store

    def get(self, key: str, into: IO[bytes]) -> None:
        import obstore  # noqa: PLC0415 -- optional

        def get() -> None:
            for piece in obstore.get(self._store, key).stream(min_chunk_size=_MOST_BYTES_AT_ONCE):
                _keep(piece)

        def _keep(piece: Any) -> None:
            try:
                into.write(piece)
            except OSError as error:
                raise LocalStorageError(
                    f"The object s3://{self._bucket}/{key} cannot be kept ({error.strerror or error}); make room or "
                    f"give another place for it."
                ) from error

        self._ask(key, "read", get)

    def put(self, key: str, file: Path) -> None:
        import obstore  # noqa: PLC0415 -- optional

        # One part after the other: one that was still on its way when an upload is given up would stay in the store.
        options = {"chunk_size": part_bytes(file.stat().st_size), "max_concurrency": 1, **self._put_options}
        self._ask(key, "written", lambda: obstore.put(self._store, key, file, **options))

    def ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        import obstore  # noqa: PLC0415 -- optional

        starts, lengths = [start for start, _ in spans], [length for _, length in spans]
        found = self._ask(
            key,
            "read",
            lambda: obstore.get_ranges(self._store, key, starts=starts, lengths=lengths, coalesce=_COALESCED),
        )
        return [bytes(part) for part in found]

    def tag(self, key: str) -> str | None:
        found = self._head(key)
        return None if found is None else found["e_tag"]

    def size(self, key: str) -> int | None:
        found = self._head(key)
        return None if found is None else int(found["size"])

    def _head(self, key: str) -> Any:
        import obstore  # noqa: PLC0415 -- optional

        def head() -> Any:
            try:
                return obstore.head(self._store, key)
            except FileNotFoundError:
                return None

        return self._ask(key, "read", head)

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        import obstore  # noqa: PLC0415 -- optional
        from obstore.exceptions import AlreadyExistsError, PreconditionError  # noqa: PLC0415

        mode: Any = "create" if tag is None else {"e_tag": tag}

        def replace() -> bool:
            try:
                obstore.put(self._store, key, content, mode=mode, **self._put_options)
            except (AlreadyExistsError, PreconditionError):
                return False
            return True

        return self._ask(key, "written", replace)

    def keys(self, prefix: str) -> list[str]:
        return [one.key for one in self.objects(prefix)]

    def objects(self, prefix: str) -> list[StoredObject]:
        import obstore  # noqa: PLC0415 -- optional

        pages = self._ask(prefix, "listed", lambda: [*obstore.list(self._store, f"{prefix}/" if prefix else None)])
        return sorted(
            StoredObject(found["path"], found["size"], found["last_modified"].timestamp())
            for page in pages
            for found in page
        )

    def children(self, prefix: str) -> list[str]:
        import obstore  # noqa: PLC0415 -- optional

        found = self._ask(prefix, "listed", lambda: obstore.list_with_delimiter(self._store, prefix or None))
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        return sorted({path.rstrip("/").rpartition("/")[2] for path in paths})

    def delete(self, key: str) -> None:
        import obstore  # noqa: PLC0415 -- optional

        with contextlib.suppress(MissingObjectError):
            self._ask(key, "deleted", lambda: obstore.delete(self._store, key))

    def _ask(self, key: str, done: str, ask: Callable[[], Answer]) -> Answer:
        try:
            return answer_of(ask)
        except GaplessError:
            raise  # of this machine's disk, or of a signal
        except Exception as error:  # noqa: BLE001 -- see _refuse
            self._refuse(key, error, done)

    def _refuse(self, key: str, error: Exception, done: str) -> NoReturn:
        """Say what is wrong. The client has classes for few kinds of errors; the others are told by their text."""
        reason = _reason(error)
        text = str(error)
        # Of an upload that broke off, the client tells how its removal failed, and not why it broke off.
        is_removal = done == "written" and "performing DELETE" in text
        if re.search(r"non-2xx status code: [34]", text) and not _PASSING.search(text) and not is_removal:
            kind = MissingObjectError if isinstance(error, FileNotFoundError) else ConfigurationError
            raise kind(
                f"The object s3://{self._bucket}/{key}{self._where} cannot be {done} ({reason}); correct the address, "
                f"the credentials, or what they may do."
            ) from None
        if "non-2xx status code: 501" in text:
            raise ConfigurationError(
                f"The object store of s3://{self._bucket}{self._where} does not implement something ({reason}); leave "
                f"out tags, storage class and encryption, or use one with conditional puts (If-None-Match)."
            ) from None
        raise StoreUnreachableError(
            f"The object store of s3://{self._bucket}{self._where} cannot be reached or does not answer ({reason}); "
            f"check its address, its certificate and the network, and run this again."
        ) from None


_REASONS = (
    (r"<Code>(\w+)</Code>", "{}"),
    (r"non-2xx status code: (\d+[^:\n]*)", "{}"),
    (r"InvalidCertificate\(\s*(\w+)", "its certificate is not trusted: {}"),
    (r'(?:message|error): "([^"]+)"', "{}"),
    (r"source: (TimedOut|Elapsed)", "no answer in time"),
    (r"error: (Invalid\w+|Corrupt\w+)", "no TLS there: {}"),
    (r"HTTP error: ([^\n]+)", "{}"),
)
"""Where the client's text has the few words that a person needs, the most telling first."""


def _reason(error: Exception) -> str:
    text = str(error)
    for pattern, words in _REASONS:
        found = re.search(pattern, text)
        if found is not None:
            return words.format(found[1].strip()[:120])
    return text.partition("\n")[0][:120] or type(error).__name__
