"""Owns the reading of certificates, private keys and passwords from files; must not know what they are used for.

What is secret comes from files only and goes into no message: an error names the file, never its content.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_PRIVATE_KEY_BEGINS = re.compile(rb"-----BEGIN (?P<label>(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY)-----")
_ENCRYPTED_PKCS8 = b"ENCRYPTED PRIVATE KEY"
_MAX_FILE_BYTES = 4 * 1024 * 1024
"""The certificates of all public authorities together have a quarter of a megabyte."""
_MAX_KEY_BYTES = 32 * 1024
"""A key of RSA with 16,384 bits, more than which OpenSSL does not use, has 13 KB as PEM."""


def read_file(path: Path, *, setting: str) -> bytes:
    """Read the file that `setting` names.

    Raises:
        ConfigurationError: it is missing, may not be read, or is larger than any such file.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"The file {path} of {setting} cannot be read ({error.strerror}); give the path of a file that this user "
            f"may read."
        ) from None
    if len(content) > _MAX_FILE_BYTES:
        raise ConfigurationError(
            f"The file {path} of {setting} is larger than {_MAX_FILE_BYTES} bytes; give the path of the right file."
        )
    return content


def read_password(path: Path, *, setting: str) -> bytes:
    """Read a password: the file's content without white space around it.

    Raises:
        ConfigurationError: the file cannot be read or is empty.
    """
    password = read_file(path, setting=setting).strip()
    if not password:
        raise ConfigurationError(f"The file {path} of {setting} is empty; write the password into it.")
    return password


def read_certificates(path: Path, *, setting: str) -> list[x509.Certificate]:
    """Read all PEM certificates of a file, in its order; there is at least one.

    Raises:
        ConfigurationError: the file cannot be read or holds no valid certificate.
    """
    pem = read_file(path, setting=setting)
    try:
        return x509.load_pem_x509_certificates(pem)
    except (ValueError, x509.InvalidVersion):
        raise ConfigurationError(
            f"The file {path} of {setting} holds no valid PEM certificate; give one that begins with "
            f"-----BEGIN CERTIFICATE-----."
        ) from None


def read_private_key(
    path: Path, *, setting: str, password_file: Path | None = None, password_setting: str | None = None
) -> PrivateKeyTypes:
    """Read the first PEM private key of a file: PKCS#8, PKCS#1 or SEC 1, in the clear or encrypted.

    Encrypted keys are understood in both forms: PKCS#8 (PBES2) and the legacy one (``Proc-Type: 4,ENCRYPTED``). A
    password for a key that needs none is not used.

    Args:
        path: the key's file.
        setting: the name of the setting that gave `path`, for messages.
        password_file: the file whose trimmed content is the password, or ``None``.
        password_setting: the name of the setting that gives `password_file`, for messages; ``None`` if there is none.

    Raises:
        ConfigurationError: a file cannot be read, there is no key in it, the password is wrong or missing.
    """
    content = read_file(path, setting=setting)
    password = None if password_file is None else read_password(password_file, setting=password_setting or setting)
    found = _private_key_block(content)
    if found is None:
        raise ConfigurationError(
            f"The file {path} of {setting} holds no PEM private key; give one with a line "
            f"-----BEGIN … PRIVATE KEY-----."
        )
    label, block = found
    encrypted = label == _ENCRYPTED_PKCS8 or b"Proc-Type: 4,ENCRYPTED" in block
    if encrypted and password is None:
        cure = f"give the file with the password as {password_setting}" if password_setting else "decrypt it first"
        raise ConfigurationError(
            f"The private key {path} of {setting} is encrypted and there is no password for it; {cure}."
        )
    try:
        if b"DEK-Info: AES-192-CBC" in block:
            raise UnsupportedAlgorithm("AES-192")  # noqa: TRY301 -- cryptography would call the password wrong
        return load_pem_private_key(block, password if encrypted else None)
    except UnsupportedAlgorithm:
        reason = "uses an algorithm that is not supported; convert it with openssl pkcs8 -topk8"
    except (ValueError, TypeError, InternalError):  # The last one for parameters that only OpenSSL looks at.
        reason = (
            f"cannot be decrypted with the password in {password_file}; the password is wrong or the key is damaged"
            if encrypted
            else "is damaged; give a PEM private key as openssl genpkey writes it"
        )
    raise ConfigurationError(f"The private key {path} of {setting} {reason}.")


def _private_key_block(content: bytes) -> tuple[bytes, bytes] | None:
    """The label and the text of the first private key; ``None`` when there is none, or one of absurd size."""
    begins = _PRIVATE_KEY_BEGINS.search(content)
    if begins is None:
        return None
    ends = b"-----END %b-----" % begins["label"]
    place = content.find(ends, begins.end(), begins.start() + _MAX_KEY_BYTES)
    return None if place < 0 else (begins["label"], content[begins.start() : place] + ends + b"\n")


def pkcs8_pem(key: PrivateKeyTypes) -> bytes:
    """Write `key` as an unencrypted PKCS#8 PEM, the one form that every Kafka client reads. The result is secret."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def belongs_to(certificate: x509.Certificate, key: PrivateKeyTypes) -> bool:
    """Whether `certificate` was issued for `key`."""
    spki = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return certificate.public_key().public_bytes(*spki) == key.public_key().public_bytes(*spki)
