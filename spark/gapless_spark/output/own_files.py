"""Owns the check that a job does not write to a file that it reads, or to one file for two purposes.

Must not know what the files are for, nor whether they can be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.base.files import check_distinct

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved

_WRITTEN = ("resendFileName", "report", "html", "logFileName")
_READ = (
    "expectFile",
    "expectInventory",
    "verifyKey",
    "signingKey",
    "resendReport",
    "against",
    "caFile",
    "certFile",
    "keyFile",
    "keyPasswordFile",
    "saslPasswordFile",
    "oauthClientSecretFile",
    "oauthCaFile",
    "oauthTokenFile",
    "kerberosKeytabFile",
    "s3AccessKeyIdFile",
    "s3SecretAccessKeyFile",
    "s3SessionTokenFile",
    "s3CaFile",
)
_OLDER = "compareWith"
"""Is read before the bundle is written, so the bundle may replace it."""


def check_files(settings: Resolved, **read: Any) -> None:
    """Refuse settings of which one would overwrite the file of another.

    Args:
        settings: of a scan, an audit or a verification; objects in a store are not checked.
        read: further files that are read, by their names in messages.

    Raises:
        ConfigurationError: two settings name the same file.
    """
    written, given = _files(settings.values, _WRITTEN), _files(settings.values, _READ)
    given |= {name: path for name, path in read.items() if isinstance(path, Path)}
    if settings.file is not None:
        given["the settings file itself"] = settings.file
    check_distinct(written, given)
    older = _files(settings.values, (_OLDER,))
    check_distinct({name: path for name, path in written.items() if name != "resendFileName"}, older)


def _files(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Path]:
    """Return the files of settings, with a number for further files of one setting."""
    files: dict[str, Path] = {}
    for name in names:
        value = values.get(name)
        for number, path in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(path, Path):
                files[f"{name} ({number + 1})" if number else name] = path
    return files
