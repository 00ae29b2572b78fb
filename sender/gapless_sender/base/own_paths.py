"""Owns that no two settings of a resend name one file, of which one would overwrite the other.

Must not know what the files are for, nor whether they can be written.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WRITTEN = ("report", "checkpoint", "logFileName", "paceFile", "budgetFile", "keyRotationFile")
_READ = (
    "resendFileName",
    "inputFilterRules",
    "rateFile",
    "publicKeyFile",
    "sessionKeyFile",
    "verifyKey",
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
_THE_SETTINGS = "the settings file itself"


def check_paths(values: Mapping[str, Any], settings_file: Path | None) -> None:
    """Refuse settings of which one would write into the file of another.

    Args:
        values: all settings, with this shard's own files in them.
        settings_file: the properties file that they come from, if there is one.

    Raises:
        ConfigurationError: with both names.
    """
    read = {name: values[name] for name in _READ if values[name] is not None}
    if settings_file is not None:
        read[_THE_SETTINGS] = settings_file
    written = [name for name in _WRITTEN if values[name] is not None]
    for index, name in enumerate(written):
        path = Path(values[name])
        others = {**{other: values[other] for other in written[index + 1 :]}, **read}
        for other, place in others.items():
            if _is_same(path, Path(place)):
                raise ConfigurationError(f"{name} and {other} are one file ({path}); give each its own.")
    if values["checkpoint"] is not None:
        _check_beside(values["checkpoint"], {**{name: values[name] for name in written}, **read})


def _check_beside(checkpoint: Path, others: Mapping[str, Any]) -> None:
    """Refuse what would be a file that a checkpoint has beside it."""
    beside = re.compile(re.escape(checkpoint.name) + r"\.(lock|shard-\d+)")
    for other, place in others.items():
        path = Path(place)
        if beside.fullmatch(path.name) and _is_same(path.parent, checkpoint.parent):
            raise ConfigurationError(
                f"{other} is {path}, which the checkpoint {checkpoint} needs for itself; give another name."
            )


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by name or, as links do, by what is there; devices and pipes are nobody's."""
    kinds = {kind for kind, _ in (*_identity(one), *_identity(other))}
    if kinds and not kinds <= {stat.S_IFREG, stat.S_IFDIR}:
        return False
    found = [identity for path in (one, other) for _, identity in _identity(path)]
    if len(found) == 2:
        return found[0] == found[1]
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:
        return False


def _identity(path: Path) -> Iterator[tuple[int, tuple[int, int]]]:
    """Kind, device and inode; nothing if nothing is there (a list of filter rules is no path at all)."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return
    yield stat.S_IFMT(found.st_mode), (found.st_dev, found.st_ino)
