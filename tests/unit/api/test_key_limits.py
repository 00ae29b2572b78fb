"""The proof that no file of keys takes long to refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.keys.pem_files import read_certificates, read_password, read_private_key


def _read(folder: Path, content: bytes) -> object:
    (folder / "key.pem").write_bytes(content)
    (folder / "password").write_bytes(b"secret")
    return read_private_key(folder / "key.pem", setting="keyFile", password_file=folder / "password")


def test_a_file_of_many_beginnings_or_white_space_is_refused(tmp_path: Path) -> None:
    begins = b"-----BEGIN PRIVATE KEY-----\n"
    with pytest.raises(ConfigurationError, match="contains no PEM private key"):
        _read(tmp_path, begins * 100_000)
    spaces = b"-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-256-CBC,%b%b-x-----END RSA PRIVATE KEY-----\n"
    with pytest.raises(ConfigurationError, match="is damaged"):
        _read(tmp_path, spaces % (b"0" * 32, b" " * 30_000))


def test_no_file_of_keys_is_read_without_end(tmp_path: Path) -> None:
    (tmp_path / "endless").symlink_to("/dev/zero")
    with pytest.raises(ConfigurationError, match="larger than"):
        read_password(tmp_path / "endless", setting="keyPasswordFile")
    with pytest.raises(ConfigurationError, match="larger than"):
        read_certificates(tmp_path / "endless", setting="certFile")
