"""Owns the file of ``history``: how the last scans or audits ended; must not know pages or how a job works."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small, write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_ENTRIES = 100
VERSION = 1
_MEMBERS = {"created": str, "command": str, "outcome": str, "missing": int, "partitions": int, "incomplete": int}


def read_history(path: Path) -> list[dict[str, Any]]:
    """Read the entries of `path`, oldest first; none when there is no such file.

    Raises:
        ConfigurationError: the file is no history; it is not overwritten then.
    """
    try:
        found = json.loads(read_small(path))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigurationError(
            f"The history {path} cannot be read ({error.strerror}); make it readable or give another file."
        ) from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("version") != VERSION or not _are_entries(found.get("entries")):
        raise ConfigurationError(f"The file {path} is no history of Gapless; give another file, or delete this one.")
    return [{name: entry[name] for name in _MEMBERS} for entry in found["entries"]][-MOST_ENTRIES:]


def _are_entries(entries: object) -> bool:
    return isinstance(entries, list) and all(
        isinstance(entry, dict)
        and all(type(entry.get(name)) is kind for name, kind in _MEMBERS.items())
        and all(entry[name] >= 0 for name, kind in _MEMBERS.items() if kind is int)
        for entry in entries
    )


def entry_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the history keeps of a report."""
    partitions = report["partitions"]
    return {
        "created": report["created"],
        "command": report["command"],
        "outcome": str(report["outcome"]),
        "missing": report["missing"],
        "partitions": len(partitions),
        "incomplete": sum(bool(partition["missing"]) for partition in partitions),
    }


def extended(earlier: list[dict[str, Any]], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The history with `report` at its end, bounded."""
    return [*earlier, entry_of(report)][-MOST_ENTRIES:]


def write_history(path: Path, entries: list[dict[str, Any]]) -> None:
    """Write `entries` to `path`, whole or not at all. Raises LocalStorageError."""
    content = json.dumps({"version": VERSION, "entries": entries}, indent=1, ensure_ascii=False)
    write_whole(path, content.encode() + b"\n", what="history")
