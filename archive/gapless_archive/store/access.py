"""The endpoint, credentials and object options of an S3-compatible store, and the settings for them.

Credentials are read from files that the caller names, never from the environment. Must not send requests.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.base.settings import Setting

_DEFAULT_REGION = "us-east-1"
_MAX_TAGS = 10
_KEY_LIFETIME = timedelta(seconds=330)
"""How long the client may use keys with a session token; it requests new ones five minutes earlier."""


@dataclass(frozen=True, slots=True)
class S3Access:
    """Endpoint, credentials and object options of a store."""

    endpoint_url: str = ""
    """Empty for the public cloud's endpoint of the region."""
    region: str = _DEFAULT_REGION
    access_key_file: Path | None = None
    """``None`` for unsigned requests; the secret key must then be ``None``, too."""
    secret_key_file: Path | None = None
    session_token_file: Path | None = None
    ca_file: Path | None = None
    """Certificates (PEM) to trust in addition to the system's."""
    storage_class: str = ""
    """Of new objects; empty for the bucket's default."""
    encryption: str = ""
    """Of new objects by the store: ``AES256`` or ``aws:kms``; empty for the bucket's default."""
    kms_key_id: str = ""
    """The key for ``aws:kms``; empty for the store's default."""
    tags: tuple[tuple[str, str], ...] = ()
    """Of new objects."""


def client_credentials(access: S3Access) -> dict[str, Any]:
    """Return the client's options with the keys, or with a function that returns them. Raises ConfigurationError."""
    if access.session_token_file is not None and access.access_key_file is not None:
        return {"credential_provider": _key_provider(access)}
    return _read_keys(access)


def _read_keys(access: S3Access) -> dict[str, Any]:
    """Read the keys from their files, named as in the client's options. Raises ConfigurationError."""
    if (access.access_key_file is None) != (access.secret_key_file is None):
        raise ConfigurationError(
            "Only one of access key and secret key is given for the object store; give the files of both, or neither "
            "for unsigned requests."
        )
    if access.access_key_file is None or access.secret_key_file is None:
        return {"skip_signature": True}
    keys = {
        "access_key_id": _credential(access.access_key_file, "access key"),
        "secret_access_key": _credential(access.secret_key_file, "secret key"),
    }
    if access.session_token_file is not None:
        keys["session_token"] = _credential(access.session_token_file, "session token")
    return keys


def _key_provider(access: S3Access) -> Callable[[], dict[str, Any]]:
    """Return a function that reads keys with a session token, which the client calls twice a minute.

    The keys are short-lived: their files are replaced, as Kubernetes does with a Secret in a volume. Meanwhile the
    previous keys stay in use. Raises ConfigurationError when the keys cannot be read now.
    """
    current = _read_keys(access)

    def keys() -> dict[str, Any]:
        nonlocal current
        with contextlib.suppress(ConfigurationError):
            current = _read_keys(access)
        return {
            "access_key_id": current["access_key_id"],
            "secret_access_key": current["secret_access_key"],
            "token": current["session_token"],
            "expires_at": datetime.now(UTC) + _KEY_LIFETIME,
        }

    return keys


def _credential(path: Path, what: str) -> str:
    """Read one line of printable ASCII, as required in a request header."""
    text = read_access_file(path, what).decode("utf-8", "replace").strip()
    if not (text.isascii() and text.isprintable()):
        raise ConfigurationError(
            f"The file {path} with the {what} is not one line of plain text; write only the key to it."
        )
    return text


def read_access_file(path: Path, what: str) -> bytes:
    """Read a file with a credential or certificates. Raises ConfigurationError."""
    try:
        content = read_small(path)
    except OSError as error:
        raise ConfigurationError(
            f"The file {path} with the {what} cannot be read ({error.strerror}); give the path of a readable file."
        ) from None
    if not content.strip():
        raise ConfigurationError(f"The file {path} with the {what} is empty; write it to the file.")
    return content


def _setting(name: str, text: str, **more: Any) -> Setting:
    return Setting(name, text, group="Object store", **more)


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
    _setting("s3CaFile", "Certificates (PEM) to trust in addition to the system's.", parse=Path, metavar="FILE"),
)
"""The settings of a command that reads or writes objects of a store."""


def _tags(text: str) -> tuple[tuple[str, str], ...]:
    tags = []
    for tag in filter(None, text.split(",")):
        name, _, value = tag.partition("=")
        tags.append((name, value))
    if len(tags) > _MAX_TAGS or any(re.fullmatch(r"[-\w .:/+@]{1,128}", name) is None for name, _ in tags):
        raise ValueError(f"at most {_MAX_TAGS} tags, as NAME=VALUE,NAME=VALUE")
    return tuple(tags)


def _encryption(text: str) -> str:
    if text not in {"", "AES256", "aws:kms"}:
        raise ValueError("AES256 or aws:kms")
    return text


S3_WRITING_SETTINGS: tuple[Setting, ...] = (
    _setting("s3StorageClass", "Storage class of new objects, such as STANDARD_IA.", metavar="CLASS"),
    _setting(
        "s3ServerSideEncryption",
        "Encryption of new objects by the store: AES256 or aws:kms.",
        parse=_encryption,
        metavar="METHOD",
    ),
    _setting("s3KmsKeyId", "Key of the store for aws:kms.", metavar="ID"),
    _setting("s3Tags", "Tags of new objects.", parse=_tags, metavar="NAME=VALUE,..."),
)
"""Additional settings of a command that writes an archive to a store."""


def access_from(values: Mapping[str, Any]) -> S3Access:
    """Build the access from a command's `S3_SETTINGS`."""
    return S3Access(
        endpoint_url=values["s3Endpoint"] or "",
        region=values["s3Region"],
        access_key_file=values["s3AccessKeyIdFile"],
        secret_key_file=values["s3SecretAccessKeyFile"],
        session_token_file=values["s3SessionTokenFile"],
        ca_file=values["s3CaFile"],
        storage_class=values.get("s3StorageClass") or "",
        encryption=values.get("s3ServerSideEncryption") or "",
        kms_key_id=values.get("s3KmsKeyId") or "",
        tags=values.get("s3Tags") or (),
    )


def check_endpoint(url: str) -> None:
    """Reject a loopback, link-local or metadata-service address of a store. Raises ConfigurationError."""
    from urllib.parse import urlsplit  # noqa: PLC0415 -- not needed for --help

    from gapless_api.base.local_addresses import refuse_local  # noqa: PLC0415

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return  # open_store reports an invalid URL
    if host:
        refuse_local([(host, port)], what="The store")
