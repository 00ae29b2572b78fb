"""Owns which shard of a resend this program is, what shards must share, and where their files belong.

Must not know how partitions are shared out: see `plan`. Shards are programs that know nothing of each other, such as
the pods of an Indexed Job; processes that one program starts are `shards`' own affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.errors import ConfigurationError, LocalStorageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""What Kubernetes tells each pod of an Indexed Job."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` programs that do a resend together."""

    index: int = 0
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}-of-{self.count}"


UNSHARDED = Shard()
"""The one shard of a resend that is not shared out."""


class FileOrFolder(NamedTuple):
    """A path as it was given: with a slash at its end it is a folder, whether or not there is one."""

    path: Path
    is_folder: bool


def shard_of(count: int, index: int | None, environment: Mapping[str, str]) -> Shard:
    """The shard that this program is: the one with the given `index`, or the one that the environment names.

    Raises:
        ConfigurationError: nobody says which one, or there is no such one.
    """
    where = "The setting shardIndex"
    if index is None and count > 1:
        text = environment.get(INDEX_VARIABLE, "")
        if not (text.isascii() and text.isdigit()):
            raise ConfigurationError(
                f"The work is for {count} shards, and which one this is was not given; give shardIndex, 0 to "
                f"{count - 1}, or run as an Indexed Job, which sets {INDEX_VARIABLE}."
            )
        where, index = f"The variable {INDEX_VARIABLE}", int(text)
    if (index or 0) >= count:
        raise ConfigurationError(
            f"{where} is {index} and shardCount is {count}; give an index from 0 to {count - 1}, or the right count."
        )
    return Shard(index or 0, count)


def with_own_files(values: Mapping[str, Any], shard: Shard) -> dict[str, Any]:
    """The settings with this shard's own checkpoint and report in them.

    Raises:
        LocalStorageError: a folder for them cannot be made.
    """
    own = {"checkpoint": "resend.checkpoint", "report": "report.json"}
    return {
        **values,
        **{name: _own_file(values[name], shard, usual) for name, usual in own.items() if values[name] is not None},
    }


def _own_file(given: FileOrFolder, shard: Shard, usual: str) -> Path:
    path, is_folder = given
    if is_folder:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalStorageError(
                f"The folder {path} cannot be made ({error.strerror}); make it, or give another place."
            ) from error
    if is_folder or path.is_dir():
        path /= usual
    return path if shard.count == 1 else path.with_name(f"{path.stem}.{shard}{path.suffix}")
