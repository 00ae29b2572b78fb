"""Reading certificates, private keys and passwords from files; must not know what they are used for.

Secrets are read from files only and never appear in messages: an error names the file, not its content.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
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
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_PRIVATE_KEY_BEGINS = re.compile(rb"-----BEGIN (?P<label>(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY)-----")
_ENCRYPTED_PKCS8 = b"ENCRYPTED PRIVATE KEY"
_MAX_FILE_BYTES = 4 * 1024 * 1024
"""All public CA certificates together take a quarter of a megabyte."""
_MAX_KEY_BYTES = 32 * 1024
"""An RSA key of 16,384 bits, the longest that OpenSSL uses, takes 13 KB as PEM."""


def read_file(path: Path, *, setting: str) -> bytes:
    """Read the file that `setting` names.

    Raises:
        ConfigurationError: the file is missing, not readable, or too large.
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
            f"The file {path} of {setting} is larger than {_MAX_FILE_BYTES:,} bytes; give the path of the right file."
        )
    return content


def read_password(path: Path, *, setting: str) -> bytes:
    """Read a password: the content of the file without a byte order mark and surrounding white space.

    Raises:
        ConfigurationError: the file cannot be read or is empty, or is not text in an encoding like UTF-8.
    """
    content = read_file(path, setting=setting).removeprefix(codecs.BOM_UTF8)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content:
        raise ConfigurationError(
            f"The file {path} of {setting} is UTF-16 text, as some editors and PowerShell write it, or has NUL bytes; "
            f"save the password as UTF-8."
        )
    password = content.strip()
    if not password:
        raise ConfigurationError(f"The file {path} of {setting} is empty; write the password into it.")
    return password


def read_certificates(path: Path, *, setting: str) -> list[x509.Certificate]:
    """Read all PEM certificates of a file, at least one, in the order of the file.

    Raises:
        ConfigurationError: the file cannot be read or contains no valid certificate.
    """
    pem = read_file(path, setting=setting)
    try:
        return x509.load_pem_x509_certificates(pem)
    except (ValueError, x509.InvalidVersion):
        raise ConfigurationError(
            f"The file {path} of {setting} contains no valid PEM certificate; give one that begins with "
            f"-----BEGIN CERTIFICATE-----."
        ) from None


def read_private_key(
    path: Path, *, setting: str, password_file: Path | None = None, password_setting: str | None = None
) -> PrivateKeyTypes:
    """Read the first PEM private key of a file: PKCS#8, PKCS#1 or SEC 1, encrypted or not.

    Both kinds of encryption are supported: PKCS#8 (PBES2) and the legacy one (``Proc-Type: 4,ENCRYPTED``). The password
    is ignored if the key is not encrypted.

    Args:
        path: the key file.
        setting: the name of the setting of `path`, for messages.
        password_file: the file with the password, or ``None``.
        password_setting: the name of the setting of `password_file`, for messages; ``None`` if there is none.

    Raises:
        ConfigurationError: a file cannot be read or contains no key, or the password is wrong or missing.
    """
    content = read_file(path, setting=setting)
    password = None if password_file is None else read_password(password_file, setting=password_setting or setting)
    key_block = _private_key_block(content)
    if key_block is None:
        raise ConfigurationError(
            f"The file {path} of {setting} contains no PEM private key; give one with a line "
            f"-----BEGIN … PRIVATE KEY-----."
        )
    label, block = key_block
    encrypted = label == _ENCRYPTED_PKCS8 or b"Proc-Type: 4,ENCRYPTED" in block
    if encrypted and password is None:
        cure = f"give the file with the password as {password_setting}" if password_setting else "decrypt it first"
        raise ConfigurationError(f"The private key {path} of {setting} is encrypted, and no password is set; {cure}.")
    try:
        if b"DEK-Info: AES-192-CBC" in block:
            raise UnsupportedAlgorithm("AES-192")  # noqa: TRY301 -- cryptography would call the password wrong
        return load_pem_private_key(block, password if encrypted else None)
    except UnsupportedAlgorithm:
        reason = "uses an algorithm that is not supported; convert it with openssl pkcs8 -topk8"
    except (ValueError, TypeError, InternalError):  # InternalError: parameters that only OpenSSL checks
        reason = (
            f"cannot be decrypted with the password in {password_file}; the password is wrong or the key is damaged"
            if encrypted
            else "is damaged; give a PEM private key as openssl genpkey writes it"
        )
    raise ConfigurationError(f"The private key {path} of {setting} {reason}.")


def _private_key_block(content: bytes) -> tuple[bytes, bytes] | None:
    """Return the label and the text of the first private key; ``None`` if there is none, or if it is too large."""
    begin = _PRIVATE_KEY_BEGINS.search(content)
    if begin is None:
        return None
    end_line = b"-----END %b-----" % begin["label"]
    end = content.find(end_line, begin.end(), begin.start() + _MAX_KEY_BYTES)
    return None if end < 0 else (begin["label"], content[begin.start() : end] + end_line + b"\n")


def pkcs8_pem(key: PrivateKeyTypes) -> bytes:
    """Encode `key` as unencrypted PKCS#8 PEM, which every Kafka client can read. The result is secret."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def belongs_to(certificate: x509.Certificate, key: PrivateKeyTypes) -> bool:
    """Whether `certificate` was issued for `key`."""
    spki = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return certificate.public_key().public_bytes(*spki) == key.public_key().public_bytes(*spki)
