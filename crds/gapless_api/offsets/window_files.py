"""Reading files with partition windows: plain lists, and values of the Helm chart.

Must not know when windows are disjoint, or who uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import read_small
from gapless_api.offsets.windows import PartitionWindow

EXAMPLE = "write windows: [{cluster: north, start: 0, count: 6}, …]"
_VALUES_KEYS = frozenset({"clusterName", "roles"})  # tell values of the chart from a plain list with a typo
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class WindowFile:
    """One file: a plain list of windows, or the values of one installation of the chart."""

    path: Path
    windows: dict[str, PartitionWindow] | None
    """The windows by cluster; ``None`` if the file has no list (values that get it from a shared file)."""
    is_values: bool = False
    is_upstream: bool = False
    """Whether the values are for a sending cluster, which needs a window."""
    cluster: str | None = None


_MERGE = "tag:yaml.org,2002:merge"
_MAX_MERGED_MEMBERS = 10_000


class _StrictLoader(yaml.SafeLoader):
    """Refuses duplicate keys, which a merge of two branches can leave behind and YAML parsers silently accept.

    ruamel.yaml refuses them too, but does not limit merges (``<<``), and would be a second library beside PyYAML.
    """

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self._flattened: dict[int, yaml.MappingNode] = {}
        self._merged_members = 0

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 -- as in PyYAML
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    raise _DoubleKeyError(key.value)
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge (``<<``) as PyYAML does, but each mapping only once, and up to a limit.

        Merges of merges in a small file can fill the memory, and circular merges do not end.
        """
        if id(node) in self._flattened:
            return
        self._flattened[id(node)] = node
        for key, merged in node.value:
            if key.tag == _MERGE:
                for mapping in merged.value if isinstance(merged, yaml.SequenceNode) else [merged]:
                    if isinstance(mapping, yaml.MappingNode):
                        self.flatten_mapping(mapping)
                        self._merged_members += len(mapping.value)
        if self._merged_members > _MAX_MERGED_MEMBERS:
            raise yaml.constructor.ConstructorError(None, None, "too large by merges", node.start_mark)
        super().flatten_mapping(node)


class _DoubleKeyError(Exception):
    """A duplicate key in a mapping."""


def read_window_files(paths: Iterable[Path]) -> list[WindowFile]:
    """Read all files; in a folder, all files at any depth that contain windows or values of the chart.

    Raises:
        ConfigurationError: a file cannot be read, is not YAML, or contains neither.
    """
    return [file for path in paths for file in (_read_folder(path) if path.is_dir() else [_read_file(path)])]


def _read_folder(folder: Path) -> Iterator[WindowFile]:
    """Read the files below `folder`; Kubernetes manifests and other YAML files are skipped."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix not in _SUFFIXES or hidden or not path.is_file():
            continue
        for content in _documents(path):
            if isinstance(content, dict) and "kind" not in content and ({"windows"} | _VALUES_KEYS) & content.keys():
                yield _interpret(path, content)


def _read_file(path: Path) -> WindowFile:
    documents = _documents(path)
    if len(documents) > 1:
        raise ConfigurationError(f"The file {path} has {len(documents)} YAML documents; it must have exactly one.")
    return _interpret(path, documents[0] if documents else None)


def _documents(path: Path) -> list[Any]:
    """Read the YAML documents of a file; JSON is YAML as well."""
    try:
        return list(yaml.load_all(read_small(path), Loader=_StrictLoader))
    except OSError as error:
        raise ConfigurationError(
            f"The file {path} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None
    except _DoubleKeyError as error:
        raise ConfigurationError(f"The key {error!s:.40} is duplicated in {path}; remove one of the two.") from None
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        # PyYAML raises the last three for tags that do not match their value: "!!int ''", "!!map [1]", "!!timestamp x".
        raise ConfigurationError(f"The file {path} is neither YAML nor JSON; {EXAMPLE}.") from None


def _interpret(path: Path, content: Any) -> WindowFile:
    if isinstance(content, dict) and _VALUES_KEYS & content.keys():
        return _values(path, content)
    if not isinstance(content, dict) or not content.get("windows"):
        raise ConfigurationError(f"The file {path} has no list of windows; {EXAMPLE}.")
    _refuse_unknown(content, {"windows"}, str(path))
    return WindowFile(path, _list(path, content["windows"]))


def _values(path: Path, content: dict[Any, Any]) -> WindowFile:
    """Check only the values that concern windows; the schema of the chart checks the others."""
    cluster = content.get("clusterName")
    if cluster is not None and not isinstance(cluster, str):
        raise ConfigurationError(f"The clusterName in {path} is not text; quote it.")
    roles = content.get("roles")
    if roles is None:
        upstream = bool(cluster)  # the roles are in another file; a file that names a cluster needs a window
    else:
        role = roles.get("upstream") if isinstance(roles, dict) else None
        upstream = isinstance(role, dict) and role.get("enabled") is True
    entries = content.get("windows")
    windows = _list(path, entries) if entries else None
    return WindowFile(path, windows, is_values=True, is_upstream=upstream, cluster=cluster or None)


def _list(path: Path, entries: Any) -> dict[str, PartitionWindow]:
    if not isinstance(entries, list):
        raise ConfigurationError(f"The file {path} has no list of windows; {EXAMPLE}.")
    windows: dict[str, PartitionWindow] = {}
    for index, entry in enumerate(entries):
        cluster, window = _window(entry, f"windows[{index}] of {path}")
        if cluster in windows:
            raise ConfigurationError(f"The cluster {cluster} in {path} already has a window; give it only one.")
        windows[cluster] = window
    return windows


def _window(entry: Any, place: str) -> tuple[str, PartitionWindow]:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"The entry {place} is not a window; {EXAMPLE}.")
    _refuse_unknown(entry, {"cluster", "start", "count"}, place)
    cluster = entry.get("cluster")
    if not isinstance(cluster, str) or not cluster:
        raise ConfigurationError(f"The entry {place} has no cluster; give its name.")
    for name in ("start", "count"):
        if type(entry.get(name)) is not int:
            raise ConfigurationError(f"The {name} of {place} ({cluster}) is not an integer; {EXAMPLE}.")
    return cluster, PartitionWindow(entry["start"], entry["count"])


def _refuse_unknown(members: dict[Any, Any], known: set[str], place: str) -> None:
    for name in members:
        if name not in known:
            raise ConfigurationError(
                f"The key {name!s:.40} in {place} is unknown; known are {', '.join(sorted(known))}."
            )
