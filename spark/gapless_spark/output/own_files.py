"""Owns that no file which a job writes is one that it reads, or writes for something else.

Must not know what the files are for, nor whether they can be written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.base.files import check_distinct

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    "s3AccessKeyIdFile",
    "s3SecretAccessKeyFile",
    "s3SessionTokenFile",
    "s3CaFile",
)
_OLDER = "compareWith"
"""Is read before the bundle is written, which may take its place."""


def check_files(settings: Resolved, **read: Any) -> None:
    """Refuse settings of which one would write into the file of another.

    Args:
        settings: of a scan, an audit or a verification; what is no file, such as an object of a store, does not matter.
        read: further files that are read, by what messages call them.

    Raises:
        ConfigurationError: with both names.
    """
    written, given = _files(settings.values, _WRITTEN), _files(settings.values, _READ)
    given |= {name: path for name, path in read.items() if isinstance(path, Path)}
    if settings.file is not None:
        given["the settings file itself"] = settings.file
    check_distinct(written, given)
    older = _files(settings.values, (_OLDER,))
    check_distinct({name: path for name, path in written.items() if name != "resendFileName"}, older)


def _files(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Path]:
    """The files that settings name; of several of one setting each for itself."""
    found: dict[str, Path] = {}
    for name in names:
        value = values.get(name)
        for number, path in enumerate(value if isinstance(value, tuple) else (value,)):
            if isinstance(path, Path):
                found[f"{name} ({number + 1})" if number else name] = path
    return found
