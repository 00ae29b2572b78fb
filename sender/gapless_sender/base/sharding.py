"""Which shard of a resend this program is, and the names of its files.

Must not know how partitions are distributed: see `shares`. Shards are independent programs, such as the pods of an
Indexed Job; the processes that one program starts are `workers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gapless_api.base.errors import ConfigurationError, LocalStorageError

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""Set by Kubernetes in each pod of an Indexed Job."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` programs that do a resend together."""

    index: int = 0
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}-of-{self.count}"


UNSHARDED = Shard()
"""The only shard of an unsharded resend."""


class FileOrFolder(NamedTuple):
    """A path; with a slash at its end it is a folder, whether or not that exists."""

    path: Path
    is_folder: bool


def shard_of(count: int, index: int | None, environment: Mapping[str, str]) -> Shard:
    """Return the shard that this program is, by the given `index` or the environment.

    Raises:
        ConfigurationError: neither has the index, or it is out of range.
    """
    where = "The setting shardIndex"
    if index is None and count > 1:
        text = environment.get(INDEX_VARIABLE, "")
        if not (text.isascii() and text.isdigit()):
            raise ConfigurationError(
                f"shardCount is {count} and shardIndex is missing; give shardIndex, 0 to {count - 1}, or run as an "
                f"Indexed Job, which sets {INDEX_VARIABLE}."
            )
        where, index = f"The variable {INDEX_VARIABLE}", int(text)
    if (index or 0) >= count:
        raise ConfigurationError(
            f"{where} is {index} and shardCount is {count}; give an index from 0 to {count - 1}, or the right count."
        )
    return Shard(index or 0, count)


def with_own_files(values: Mapping[str, Any], shard: Shard) -> dict[str, Any]:
    """Return the settings with this shard's own checkpoint and report.

    Raises:
        LocalStorageError: a folder for them cannot be created.
    """
    own = {"checkpoint": "resend.checkpoint", "report": "report.json"}
    return {
        **values,
        **{name: _own_file(values[name], shard, default) for name, default in own.items() if values[name] is not None},
    }


def _own_file(given: FileOrFolder, shard: Shard, default_name: str) -> Path:
    path, is_folder = given
    if is_folder:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalStorageError(
                f"The folder {path} cannot be created ({error.strerror}); create it, or give another path."
            ) from error
    if is_folder or path.is_dir():
        path /= default_name
    return path if shard.count == 1 else path.with_name(f"{path.stem}.{shard}{path.suffix}")
