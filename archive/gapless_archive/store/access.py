"""Owns how a store is reached, as whom, and how a command's settings say so; must not know how a store is asked.

Credentials come from files that the caller names, never from the environment.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.base.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DEFAULT_REGION = "us-east-1"
_MOST_TAGS = 10
_VALID = timedelta(seconds=330)
"""For how long the client may use keys with a session token; it asks for others five minutes before."""


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
    storage_class: str = ""
    """Of what is written; empty for the bucket's own."""
    encryption: str = ""
    """What the store encrypts with what is written: ``AES256`` or ``aws:kms``; empty for the bucket's own."""
    kms_key_id: str = ""
    """The key for ``aws:kms``; empty for the store's own."""
    tags: tuple[tuple[str, str], ...] = ()
    """Of what is written."""


def credentials_of(access: S3Access) -> dict[str, Any]:
    """The client's options with the keys, or with what gives them. Raises ConfigurationError."""
    if access.session_token_file is not None and access.access_key_file is not None:
        return {"credential_provider": _renewed_keys(access)}
    return _keys(access)


def _keys(access: S3Access) -> dict[str, Any]:
    """The keys as the client names them, read from their files. Raises ConfigurationError."""
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


def _renewed_keys(access: S3Access) -> Callable[[], dict[str, Any]]:
    """What gives the client keys with a session token, which it asks for twice a minute.

    They are short-lived: who renews them writes the files again, as Kubernetes does with a Secret in a volume. Raises
    ConfigurationError when they cannot be used now; while files are replaced, the keys before stay in use.
    """
    known = _keys(access)

    def keys() -> dict[str, Any]:
        nonlocal known
        with contextlib.suppress(ConfigurationError):
            known = _keys(access)
        return {
            "access_key_id": known["access_key_id"],
            "secret_access_key": known["secret_access_key"],
            "token": known["session_token"],
            "expires_at": datetime.now(UTC) + _VALID,
        }

    return keys


def _credential(path: Path, what: str) -> str:
    """Read one line of printable ASCII; anything else cannot stand in a request."""
    text = content_of(path, what).decode("utf-8", "replace").strip()
    if not (text.isascii() and text.isprintable()):
        raise ConfigurationError(
            f"The file {path} with the {what} is not one line of plain text; put only the key there."
        )
    return text


def content_of(path: Path, what: str) -> bytes:
    """Read a file of an access. Raises ConfigurationError."""
    try:
        content = read_small(path)
    except OSError as error:
        raise ConfigurationError(
            f"The file {path} with the {what} cannot be read ({error.strerror}); give the path of a readable file."
        ) from None
    if not content.strip():
        raise ConfigurationError(f"The file {path} with the {what} is empty; put it there.")
    return content


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
"""The settings of a command that reads or writes one file of a store."""


def _tags(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for tag in filter(None, text.split(",")):
        name, _, value = tag.partition("=")
        found.append((name, value))
    if len(found) > _MOST_TAGS or any(re.fullmatch(r"[-\w .:/+@]{1,128}", name) is None for name, _ in found):
        raise ValueError(f"at most {_MOST_TAGS} tags, as NAME=VALUE,NAME=VALUE")
    return tuple(found)


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
"""Further settings of a command that keeps an archive in a store."""


def access_from(values: Mapping[str, Any]) -> S3Access:
    """The access that a command's `S3_SETTINGS` describe."""
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
    """Refuse a store at an address of the machine itself, its link or its cloud. Raises ConfigurationError."""
    from urllib.parse import urlsplit  # noqa: PLC0415 -- not needed for --help

    from gapless_api.base.local_addresses import refuse_local  # noqa: PLC0415

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return  # no URL, which opening the store tells
    if host:
        refuse_local([(host, port)], what="The store")
