"""Requests to an S3-compatible object store; must not know the content of objects.

Only proxy settings are taken from the environment: credentials are read from files that the caller names, and without
them requests are not signed. The client (obstore) is optional and imported only when a store is opened.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from gapless_api.base.errors import ConfigurationError, GaplessError, LocalStorageError, StoreUnreachableError
from gapless_api.base.extras import not_installed
from gapless_api.base.system_certificates import trusted_certificates
from gapless_archive.store.access import S3Access, client_credentials, read_access_file
from gapless_archive.store.conditional_puts import Condition, ConditionalPuts
from gapless_archive.store.interruptible import Result, call_interruptibly

if TYPE_CHECKING:
    from obstore.store import ClientConfig


_TIMEOUTS: ClientConfig = {
    "connect_timeout": timedelta(seconds=10),
    "read_timeout": timedelta(seconds=60),
    "timeout": timedelta(hours=1),
}
_MAX_RETRIES, _RETRY_TIMEOUT = 4, timedelta(seconds=60)
"""The pauses between retries reach several seconds, for a store that requests to slow down."""
_FIRST_PAUSE, _LONGEST_PAUSE, _PAUSE_FACTOR = timedelta(seconds=0.2), timedelta(seconds=15), 3
_CHUNK_BYTES = 1024 * 1024
_MIN_PART_BYTES, _MAX_PARTS = 5 * 1024 * 1024, 10_000
"""Limits of a multipart upload; the last part may be smaller."""
_COALESCED_GAP_BYTES = 4 * 1024
"""Ranges of an object with a smaller gap between them are read in one request."""
_EXAMPLE = "write s3://bucket/path/bundle.json"
_TRANSIENT = re.compile(r"non-2xx status code: (408|429)\b|<Code>NoSuchUpload<")
"""Client errors that are transient: a request timeout, too many requests, or a lost response to the completion of a
multipart upload."""


class MissingObjectError(ConfigurationError):
    """A required object does not exist."""


@dataclass(frozen=True, slots=True)
class ObjectAddress:
    """The address of an object: ``s3://bucket/key``."""

    bucket: str
    key: str

    @classmethod
    def parse(cls, text: str) -> ObjectAddress:
        """Parse an address. Raises ValueError with the end of the sentence "it must be …"."""
        match = re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.+)", text)
        if match is None:
            raise ValueError(f"the address of an object; {_EXAMPLE}")
        if any(part in {"", ".", ".."} for part in match[2].split("/")):
            raise ValueError(f"an address without empty parts, . and .. in its path; {_EXAMPLE}")
        return cls(match[1], match[2])

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


class StoredObject(NamedTuple):
    """An entry of a list of objects."""

    key: str
    bytes: int
    modified: float
    """When the object was written, in seconds since 1970."""


class ObjectStore(Protocol):
    """A bucket."""

    def get(self, key: str, into: IO[bytes]) -> None:
        """Write the content of an object to a stream.

        Raises:
            MissingObjectError: there is no such object.
            ConfigurationError: permission to read it is missing.
            StoreUnreachableError: the store does not answer.
        """

    def put(self, key: str, file: Path) -> None:
        """Store the content of a file as an object, completely or not at all.

        Raises:
            ConfigurationError: the bucket does not exist, or permission to write is missing.
            StoreUnreachableError: the store does not answer.
        """

    def tag(self, key: str) -> str | None:
        """Return the ETag of an object; ``None`` when it does not exist. Raises like `get`."""

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        """Store `content`, which is unique, if the object's ETag is still `tag`; ``None`` when it must not exist.

        Returns:
            Whether the object has this content. Raises like `put`, and if the store ignores the condition.
        """

    def check_conditions(self, *conditions: Condition) -> None:
        """Check that the store obeys conditions of `replace`, once per process. Raises like `replace`."""

    def ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read ranges of an object, each given by start and length in bytes. Raises like `get`."""

    def size(self, key: str) -> int | None:
        """Return the size of an object in bytes; ``None`` when it does not exist. Raises like `get`."""

    def keys(self, prefix: str) -> list[str]:
        """List the keys that begin with `prefix` and a slash; all, if it is empty. Raises like `get`."""

    def objects(self, prefix: str) -> list[StoredObject]:
        """List the objects of `keys`, with size and age. Raises like `get`."""

    def children(self, prefix: str) -> list[str]:
        """List the next path components of `keys`. Raises like `get`."""

    def delete(self, key: str) -> None:
        """Delete an object if it exists. Raises like `put`."""


def open_store(bucket: str, access: S3Access, prefix: str = "") -> ObjectStore:
    """Open a bucket, without sending a request. Conditional puts are probed below `prefix`.

    Raises:
        ConfigurationError: the client is not installed, or a file of `access` is unusable.
    """
    try:
        from obstore.store import S3Store  # noqa: PLC0415 -- optional
    except ImportError:
        raise not_installed("obstore") from None
    if access.endpoint_url and re.fullmatch(r"https?://[^/\s]+(/\S*)?", access.endpoint_url) is None:
        raise ConfigurationError(
            f"The endpoint {access.endpoint_url!r} is not a URL; write one such as https://store.example:9000."
        )
    client: ClientConfig = {**_TIMEOUTS}
    trusted = access.ca_file
    if access.endpoint_url.startswith("http://"):
        client["allow_http"] = True
    else:
        trusted = trusted_certificates(access.ca_file)
    if trusted is not None:
        client["root_certificate"] = read_access_file(trusted, "the store's CA certificates")
    encryption = {"server_side_encryption": access.encryption, "sse_kms_key_id": access.kms_key_id}
    options: dict[str, Any] = {
        "region": access.region,
        "disable_bulk_delete": True,
        **client_credentials(access),
        **{name: value for name, value in encryption.items() if value},
    }
    if access.endpoint_url:
        options |= {"endpoint": access.endpoint_url.rstrip("/"), "virtual_hosted_style_request": False}
    try:
        store = S3Store(
            bucket,
            client_options=client,
            retry_config={
                "max_retries": _MAX_RETRIES,
                "retry_timeout": _RETRY_TIMEOUT,
                "backoff": {"init_backoff": _FIRST_PAUSE, "max_backoff": _LONGEST_PAUSE, "base": _PAUSE_FACTOR},
            },
            **options,
        )
    except Exception as error:  # noqa: BLE001 -- the client has no class for these errors
        raise ConfigurationError(
            f"The object store of s3://{bucket} cannot be used ({_reason(error)}); correct its settings."
        ) from None
    return _Bucket(bucket, access.endpoint_url, store, _put_options(access), prefix)


def part_bytes(size: int) -> int:
    """Return the part size for uploading `size` bytes within the limits of a multipart upload."""
    return max(_MIN_PART_BYTES, -(-size // _MAX_PARTS))


def _put_options(access: S3Access) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if access.storage_class:
        options["attributes"] = {"Storage-Class": access.storage_class}
    if access.tags:
        options["tags"] = dict(access.tags)
    return options


class _Bucket:
    """A bucket, accessed with obstore, whose errors are classified here."""

    def __init__(self, bucket: str, endpoint_url: str, store: Any, put_options: Mapping[str, Any], prefix: str) -> None:
        self._put_options = put_options
        self._bucket = bucket
        self._where = f" at {endpoint_url}" if endpoint_url else ""
        self._store = store
        self._conditional_puts = ConditionalPuts(self, f"s3://{bucket}{self._where}", prefix)

    def get(self, key: str, into: IO[bytes]) -> None:
        import obstore  # noqa: PLC0415 -- optional

        def get() -> None:
            for chunk in obstore.get(self._store, key).stream(min_chunk_size=_CHUNK_BYTES):
                write(chunk)

        def write(chunk: Any) -> None:
            try:
                into.write(chunk)
            except OSError as error:
                raise LocalStorageError(
                    f"The object s3://{self._bucket}/{key} cannot be written to disk ({error.strerror or error}); free "
                    f"disk space, or choose another location."
                ) from error

        self._request(key, "read", get)

    def put(self, key: str, file: Path) -> None:
        import obstore  # noqa: PLC0415 -- optional

        # One part at a time: a part in flight when an upload is aborted would stay in the store.
        options = {"chunk_size": part_bytes(file.stat().st_size), "max_concurrency": 1, **self._put_options}
        self._request(key, "written", lambda: obstore.put(self._store, key, file, **options))

    def ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        import obstore  # noqa: PLC0415 -- optional

        starts, lengths = [start for start, _ in spans], [length for _, length in spans]
        contents = self._request(
            key,
            "read",
            lambda: obstore.get_ranges(self._store, key, starts=starts, lengths=lengths, coalesce=_COALESCED_GAP_BYTES),
        )
        return [bytes(content) for content in contents]

    def tag(self, key: str) -> str | None:
        metadata = self._head(key)
        return None if metadata is None else metadata["e_tag"]

    def size(self, key: str) -> int | None:
        metadata = self._head(key)
        return None if metadata is None else int(metadata["size"])

    def _head(self, key: str) -> Any:
        import obstore  # noqa: PLC0415 -- optional

        def head() -> Any:
            try:
                return obstore.head(self._store, key)
            except FileNotFoundError:
                return None

        return self._request(key, "read", head)

    def content(self, key: str) -> bytes | None:
        content = io.BytesIO()
        try:
            self.get(key, content)
        except MissingObjectError:
            return None
        return content.getvalue()

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        return self._conditional_puts.replace(key, content, tag)

    def check_conditions(self, *conditions: Condition) -> None:
        for condition in conditions:
            self._conditional_puts.check(condition)

    def put_if(self, key: str, content: bytes, tag: str | None) -> bool:
        """Store an object if its ETag is `tag`; return whether the client's last try was accepted."""
        import obstore  # noqa: PLC0415 -- optional
        from obstore.exceptions import AlreadyExistsError, PreconditionError  # noqa: PLC0415

        mode: Any = "create" if tag is None else {"e_tag": tag}

        def put() -> bool:
            try:
                obstore.put(self._store, key, content, mode=mode, **self._put_options)
            except (AlreadyExistsError, PreconditionError):
                return False
            return True

        return self._request(key, "written", put)

    def keys(self, prefix: str) -> list[str]:
        return [stored.key for stored in self.objects(prefix)]

    def objects(self, prefix: str) -> list[StoredObject]:
        import obstore  # noqa: PLC0415 -- optional

        pages = self._request(prefix, "listed", lambda: [*obstore.list(self._store, f"{prefix}/" if prefix else None)])
        return sorted(
            StoredObject(entry["path"], entry["size"], entry["last_modified"].timestamp())
            for page in pages
            for entry in page
        )

    def children(self, prefix: str) -> list[str]:
        import obstore  # noqa: PLC0415 -- optional

        listing = self._request(prefix, "listed", lambda: obstore.list_with_delimiter(self._store, prefix or None))
        paths = [*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])]
        return sorted({path.rstrip("/").rpartition("/")[2] for path in paths})

    def delete(self, key: str) -> None:
        import obstore  # noqa: PLC0415 -- optional

        with contextlib.suppress(MissingObjectError):
            self._request(key, "deleted", lambda: obstore.delete(self._store, key))

    def _request(self, key: str, action: str, call: Callable[[], Result]) -> Result:
        """Send a request; `action` completes the sentence "The object cannot be …"."""
        try:
            return call_interruptibly(call)
        except GaplessError:
            raise  # from the local disk or a signal handler
        except Exception as error:  # noqa: BLE001 -- see _raise
            self._raise(key, error, action)

    def _raise(self, key: str, error: Exception, action: str) -> NoReturn:
        """Classify an error. The client has classes for few errors; the others are recognized by their text."""
        reason = _reason(error)
        text = str(error)
        # When an upload fails, the client may report why aborting it failed, and not why the upload failed.
        is_abort = action == "written" and "performing DELETE" in text
        if re.search(r"non-2xx status code: [34]", text) and not _TRANSIENT.search(text) and not is_abort:
            kind = MissingObjectError if isinstance(error, FileNotFoundError) else ConfigurationError
            raise kind(
                f"The object s3://{self._bucket}/{key}{self._where} cannot be {action} ({reason}); correct the "
                f"address, the credentials, or their permissions."
            ) from None
        if "non-2xx status code: 501" in text:
            raise ConfigurationError(
                f"The object store of s3://{self._bucket}{self._where} does not implement a feature ({reason}); omit "
                f"tags, storage class and encryption, or use a store with conditional puts (If-None-Match)."
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
"""Patterns of the relevant words in the client's long error texts, the most specific first."""


def _reason(error: Exception) -> str:
    text = str(error)
    for pattern, words in _REASONS:
        match = re.search(pattern, text)
        if match is not None:
            return words.format(match[1].strip()[:120])
    return text.partition("\n")[0][:120] or type(error).__name__
