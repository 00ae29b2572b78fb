"""The check that no two settings of a resend name the same file, of which one would overwrite the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import is_same_file
from gapless_api.base.own_files import THE_SETTINGS
from gapless_sender.settings.resend import RESEND


def check_shard_files(values: Mapping[str, Any], settings_file: Path | None) -> None:
    """Refuse settings of which one would overwrite the file of another.

    Args:
        values: all settings, with this shard's own files.
        settings_file: the properties file that they come from, if any.

    Raises:
        ConfigurationError: with both names.
    """
    rules = values["inputFilterRules"]  # a file, or the rules themselves
    given = values if rules is None else {**values, "inputFilterRules": Path(rules)}
    RESEND.check_files(given, settings_file)
    if values["checkpoint"] is not None:
        files = {name: path for name, path in given.items() if isinstance(path, Path)}
        own = {} if settings_file is None else {THE_SETTINGS: settings_file}
        _check_reserved(values["checkpoint"], {**files, **own})


def _check_reserved(checkpoint: Path, others: Mapping[str, Path]) -> None:
    """Refuse the names of the lock file and the shard files of a checkpoint."""
    reserved = re.compile(re.escape(checkpoint.name) + r"\.(lock|shard-\d+)")
    for other, path in others.items():
        if reserved.fullmatch(path.name) and is_same_file(path.parent, checkpoint.parent):
            raise ConfigurationError(
                f"{other} is {path}, a name that the checkpoint {checkpoint} reserves; give another name."
            )
