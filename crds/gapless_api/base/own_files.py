"""The check that a command does not write to a file that it reads, or to one file for two purposes.

Must not know what the files are for, nor whether they can be written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from gapless_api.base.files import check_distinct

THE_SETTINGS = "the settings file itself"


def check_own_files(
    values: Mapping[str, Any], written: Collection[str], replaced: Mapping[str, str], settings_file: Path | None
) -> None:
    """Refuse settings of which one would overwrite the file of another.

    Args:
        values: the settings by name; those that are no paths are not looked at, such as objects in a store.
        written: the names of the settings whose files are written. All others are read.
        replaced: the names of settings that are read before another one is written, which may replace their file, with
            the name of that one.
        settings_file: the file that the settings come from, if any.

    Raises:
        ConfigurationError: two settings name the same file.
    """
    paths = {name: dict(_paths(name, value)) for name, value in values.items()}
    output = {name: path for setting in written for name, path in paths.get(setting, {}).items()}
    given = {
        name: path
        for setting, files in paths.items()
        if setting not in written and setting not in replaced
        for name, path in files.items()
    }
    if settings_file is not None:
        given[THE_SETTINGS] = settings_file
    check_distinct(output, given)
    for setting, by in replaced.items():
        check_distinct({name: path for name, path in output.items() if name != by}, paths.get(setting, {}))


def _paths(setting: str, value: Any) -> Iterator[tuple[str, Path]]:
    """Yield the files of a setting, with a number for further ones."""
    for number, path in enumerate(value if type(value) is tuple else (value,), 1):
        if isinstance(path, Path):
            yield f"{setting} ({number})" if number > 1 else setting, path
