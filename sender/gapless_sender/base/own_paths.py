"""Owns the check that no two settings of a resend name the same file, of which one would overwrite the other.

Must not know what the files are for, nor whether they can be written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import check_distinct, is_same_file

_WRITTEN = ("report", "checkpoint", "logFileName", "paceFile", "budgetFile", "keyRotationFile")
_READ = (
    "resendFileName",
    "inputFilterRules",
    "rateFile",
    "linkProfile",
    "publicKeyFile",
    "sessionKeyFile",
    "verifyKey",
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
_THE_SETTINGS = "the settings file itself"


def check_paths(values: Mapping[str, Any], settings_file: Path | None) -> None:
    """Refuse settings of which one would overwrite the file of another.

    Args:
        values: all settings, with this shard's own files.
        settings_file: the properties file that they come from, if any.

    Raises:
        ConfigurationError: with both names.
    """
    read = {name: Path(values[name]) for name in _READ if values[name] is not None}
    if settings_file is not None:
        read[_THE_SETTINGS] = settings_file
    written = {name: Path(values[name]) for name in _WRITTEN if values[name] is not None}
    check_distinct(written, read)
    if values["checkpoint"] is not None:
        _check_reserved(values["checkpoint"], {**written, **read})


def _check_reserved(checkpoint: Path, others: Mapping[str, Path]) -> None:
    """Refuse the names of the lock file and the shard files of a checkpoint."""
    reserved = re.compile(re.escape(checkpoint.name) + r"\.(lock|shard-\d+)")
    for other, path in others.items():
        if reserved.fullmatch(path.name) and is_same_file(path.parent, checkpoint.parent):
            raise ConfigurationError(
                f"{other} is {path}, a name that the checkpoint {checkpoint} reserves; give another name."
            )
