"""Owns how a file goes to an S3-compatible object store and comes from one; must not know what is in it.

Nothing but a proxy is taken from the environment: credentials come from files that the caller names, and without them
requests are not signed. The client (obstore) is optional and loaded only when a store is opened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol

from gapless_api.base.errors import ConfigurationError, LocalStorageError, StoreUnreachableError
from gapless_api.base.files import read_small
from gapless_api.base.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import ClientConfig

_CONNECT, _QUIET, _WHOLE = timedelta(seconds=10), timedelta(seconds=60), timedelta(hours=1)
"""Longest time to connect, between two answers, and for one request."""
_RETRIES, _RETRY = 3, timedelta(seconds=60)
_MOST_BYTES_AT_ONCE = 1024 * 1024
_DEFAULT_REGION = "us-east-1"
_EXAMPLE = "write s3://bucket/path/bundle.json"


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


@dataclass(frozen=True, slots=True)
class S3Access:
    """How a store is reached, and as whom."""

    endpoint_url: str = ""
    """Empty for the public cloud's own of the region."""
    region: str = _DEFAULT_REGION
    access_key_file: Path | None = None
    """``None``, and then for the secret key as well, for requests that are not signed."""
    secret_key_file: Path | None = None
    session_token_file: Path | None = None
    ca_file: Path | None = None
    """Certificates (PEM) to trust beside the system's."""


class ObjectStore(Protocol):
    """A bucket."""

    def get(self, key: str, into: IO[bytes]) -> None:
        """Write the content of an object to a stream.

        Raises:
            ConfigurationError: there is no such object, or we are not allowed to read it.
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

    def keys(self, prefix: str) -> list[str]:
        """The keys that begin with `prefix` and a slash. Raises like `get`."""

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
        client["root_certificate"] = _content(access.ca_file, "the store's CA certificates")
    options: dict[str, Any] = {"region": access.region, "disable_bulk_delete": True, **_credentials(access)}
    if access.endpoint_url:
        options |= {"endpoint": access.endpoint_url.rstrip("/"), "virtual_hosted_style_request": False}
    try:
        store = S3Store(
            bucket,
            client_options=client,
            retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRY},
            **options,
        )
    except Exception as error:  # noqa: BLE001 -- the client has no class for it
        raise ConfigurationError(
            f"The object store of s3://{bucket} cannot be used ({_reason(error)}); correct its settings."
        ) from None
    return _Bucket(bucket, access.endpoint_url, store)


def _credentials(access: S3Access) -> dict[str, Any]:
    if (access.access_key_file is None) != (access.secret_key_file is None):
        raise ConfigurationError(
            "Only one of access key and secret key is given for the object store; give the files of both, or neither "
            "for requests that are not signed."
        )
    if access.access_key_file is None or access.secret_key_file is None:
        return {"skip_signature": True}
    found = {
        "access_key_id": _credential(access.access_key_file, "access key"),
        "secret_access_key": _credential(access.secret_key_file, "secret key"),
    }
    if access.session_token_file is not None:
        found["session_token"] = _credential(access.session_token_file, "session token")
    return found


def _credential(path: Path, what: str) -> str:
    """Read one line of printable ASCII; anything else cannot stand in a request."""
    text = _content(path, what).decode("utf-8", "replace").strip()
    if not (text.isascii() and text.isprintable()):
        raise ConfigurationError(
            f"The file {path} with the {what} is not one line of plain text; put only the key there."
        )
    return text


def _content(path: Path, what: str) -> bytes:
    try:
        content = read_small(path)
    except OSError as error:
        raise ConfigurationError(
            f"The file {path} with the {what} cannot be read ({error.strerror}); give the path of a readable file."
        ) from None
    if not content.strip():
        raise ConfigurationError(f"The file {path} with the {what} is empty; put it there.")
    return content


class _Bucket:
    """A bucket by way of obstore, whose errors are told apart here."""

    def __init__(self, bucket: str, endpoint_url: str, store: Any) -> None:
        self._bucket = bucket
        self._where = f" at {endpoint_url}" if endpoint_url else ""
        self._store = store

    def get(self, key: str, into: IO[bytes]) -> None:
        import obstore  # noqa: PLC0415 -- optional

        try:
            for piece in obstore.get(self._store, key).stream(min_chunk_size=_MOST_BYTES_AT_ONCE):
                into.write(piece)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._refuse(key, error, "read")
            raise LocalStorageError(
                f"The object s3://{self._bucket}/{key} cannot be kept ({error.strerror or error}); make room or give "
                f"another place for it."
            ) from error
        except Exception as error:  # noqa: BLE001 -- see _refuse
            self._refuse(key, error, "read")

    def put(self, key: str, file: Path) -> None:
        import obstore  # noqa: PLC0415 -- optional

        try:
            obstore.put(self._store, key, file)
        except Exception as error:  # noqa: BLE001 -- see _refuse
            self._refuse(key, error, "written")

    def tag(self, key: str) -> str | None:
        import obstore  # noqa: PLC0415 -- optional

        try:
            return obstore.head(self._store, key)["e_tag"]
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 -- see _refuse
            self._refuse(key, error, "read")

    def replace(self, key: str, content: bytes, tag: str | None) -> bool:
        import obstore  # noqa: PLC0415 -- optional
        from obstore.exceptions import AlreadyExistsError, PreconditionError  # noqa: PLC0415

        try:
            obstore.put(self._store, key, content, mode="create" if tag is None else {"e_tag": tag})
        except (AlreadyExistsError, PreconditionError):
            return False
        except Exception as error:  # noqa: BLE001 -- see _refuse
            self._refuse(key, error, "written")
        return True

    def keys(self, prefix: str) -> list[str]:
        import obstore  # noqa: PLC0415 -- optional

        try:
            return sorted(found["path"] for page in obstore.list(self._store, f"{prefix}/") for found in page)
        except Exception as error:  # noqa: BLE001 -- see _refuse
            self._refuse(prefix, error, "listed")

    def delete(self, key: str) -> None:
        import obstore  # noqa: PLC0415 -- optional

        try:
            obstore.delete(self._store, key)
        except FileNotFoundError:
            return
        except Exception as error:  # noqa: BLE001 -- see _refuse
            self._refuse(key, error, "deleted")

    def _refuse(self, key: str, error: Exception, done: str) -> NoReturn:
        """Say what is wrong. The client has classes for few kinds of errors; the others are told by their text."""
        reason = _reason(error)
        status = re.search(r"non-2xx status code: (\d)", str(error))
        if status is not None and status[1] in "34":
            raise ConfigurationError(
                f"The object s3://{self._bucket}/{key}{self._where} cannot be {done} ({reason}); correct the address, "
                f"the credentials, or what they may do."
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


def _setting(name: str, text: str, **more: Any) -> Setting:
    return Setting(name, text, own=True, group="Object store", **more)


S3_SETTINGS: tuple[Setting, ...] = (
    _setting(
        "s3Endpoint",
        "Address of the S3-compatible store, such as https://store.example:9000.",
        aliases=("s3EndpointUrl",),
        metavar="URL",
        shown_default="the public cloud's",
    ),
    _setting(
        "s3Region", "Region of the store.", default=_DEFAULT_REGION, shown_default=_DEFAULT_REGION, metavar="REGION"
    ),
    _setting(
        "s3AccessKeyIdFile",
        "File with the access key. If absent, requests are not signed.",
        aliases=("s3AccessKeyFile",),
        parse=Path,
        metavar="FILE",
    ),
    _setting(
        "s3SecretAccessKeyFile",
        "File with the secret key.",
        aliases=("s3SecretKeyFile",),
        parse=Path,
        metavar="FILE",
    ),
    _setting("s3SessionTokenFile", "File with a session token.", parse=Path, metavar="FILE"),
    _setting("s3CaFile", "Certificates (PEM) to trust beside the system's.", parse=Path, metavar="FILE"),
)
"""The settings of a command that writes to a store."""


def access_from(values: Mapping[str, Any]) -> S3Access:
    """The access that a command's `S3_SETTINGS` describe."""
    return S3Access(
        endpoint_url=values["s3Endpoint"] or "",
        region=values["s3Region"],
        access_key_file=values["s3AccessKeyIdFile"],
        secret_key_file=values["s3SecretAccessKeyFile"],
        session_token_file=values["s3SessionTokenFile"],
        ca_file=values["s3CaFile"],
    )
