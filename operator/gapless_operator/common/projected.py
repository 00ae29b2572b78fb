"""Owns the sources of a projected volume: entries of ConfigMaps and Secrets as files. Must not know their meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Wanted = tuple[str, str, str]
"""Name of a Secret, of the file, and of the entry that becomes it."""


def config_map_source(name: str, entries: Mapping[str, str], *, optional: bool = False) -> dict[str, Any]:
    """The `entries` of a ConfigMap, each with the path of its file; the pod starts without one that is `optional`."""
    items = [{"key": entry, "path": path} for entry, path in entries.items()]
    return {"configMap": {"name": name, "items": items, **({"optional": True} if optional else {})}}


def secret_sources(wanted: Iterable[Wanted]) -> list[dict[str, Any]]:
    """One source for each Secret, with its files in the folder ``secrets``."""
    found: dict[str, dict[str, str]] = {}
    for secret, file, entry in wanted:
        found.setdefault(secret, {})[file] = entry
    return [
        {
            "secret": {
                "name": secret,
                "items": [{"key": entry, "path": f"secrets/{file}"} for file, entry in files.items()],
            }
        }
        for secret, files in found.items()
    ]
