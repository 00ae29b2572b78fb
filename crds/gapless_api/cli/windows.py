"""The command ``gapless windows``; must not know when windows are disjoint, or the format of their files.

See `offsets.windows` and `offsets.window_files`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.windows import PartitionWindow, check_disjoint

if TYPE_CHECKING:
    from gapless_api.offsets.window_files import WindowFile


@click.group()
def windows() -> None:
    """Check the partition windows of upstream clusters."""


@windows.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Check that partition windows do not overlap.

    These are the windows of clusters that share a downstream cluster. All FILEs are checked together. Each FILE is one
    of these:

    \b
      a list    YAML or JSON: windows: [{cluster: north, start: 0, count: 6}, …]
      values    Helm values of one cluster: its clusterName must have a window,
                and all values files must have the same list
      a folder  all lists and values files in it, at any depth

    Partition 0 of a cluster is partition START downstream. The cluster has COUNT partitions; 0 means all from START on.

    Exit codes: 0 if the windows are disjoint, else 2.
    """  # noqa: D301 -- click's own paragraph mark
    from gapless_api.offsets.window_files import EXAMPLE, read_window_files  # noqa: PLC0415 -- only this command reads YAML

    window_files = read_window_files(files)
    fleet = _fleet(window_files)
    if not fleet:
        raise ConfigurationError(f"There is no list of windows in {', '.join(map(str, files))}; {EXAMPLE}.")
    check_disjoint(fleet)
    senders = _senders(window_files, fleet)
    width = max(len("cluster"), *(len(cluster) for cluster in fleet))
    click.echo(f"{'cluster':<{width}}  downstream partitions")
    for cluster, window in sorted(fleet.items(), key=lambda item: item[1].start):
        values_file = f"  {senders[cluster].path}" if cluster in senders else ""
        click.echo(f"{cluster:<{width}}  {window}{values_file}")


def _fleet(window_files: list[WindowFile]) -> dict[str, PartitionWindow]:
    """Merge the plain lists, and check that the list in each values file is the same."""
    plain = [file for file in window_files if not file.is_values and file.windows is not None]
    fleets = [file for file in window_files if file.is_values and file.windows is not None]
    fleet: dict[str, PartitionWindow] = {}
    for file in plain:
        for cluster, window in (file.windows or {}).items():
            if cluster in fleet:
                raise ConfigurationError(
                    f"The cluster {cluster} in {file.path} already has a window; give it only one."
                )
            fleet[cluster] = window
    origin = ", ".join(str(file.path) for file in plain)
    if not plain and fleets:
        fleet, origin = dict(fleets[0].windows or {}), str(fleets[0].path)
    for file in fleets:
        if file.windows != fleet:
            raise ConfigurationError(
                f"The windows in {file.path} and in {origin} differ ({_difference(file.windows or {}, fleet)}); all "
                f"clusters of a fleet must be installed with the same list: keep it in one shared file."
            )
    return fleet


def _difference(windows: dict[str, PartitionWindow], other: dict[str, PartitionWindow]) -> str:
    """Describe the difference between two lists, for at most three clusters."""
    differing = sorted(name for name in windows.keys() | other.keys() if windows.get(name) != other.get(name))
    shown = [f"{name}: {windows.get(name, 'no window')} and {other.get(name, 'no window')}" for name in differing[:3]]
    return "; ".join(shown + ([f"and {len(differing) - 3} more"] if len(differing) > 3 else []))


def _senders(window_files: list[WindowFile], fleet: dict[str, PartitionWindow]) -> dict[str, WindowFile]:
    """Return the values file of each sending cluster; each must have a window, and only one file."""
    senders: dict[str, WindowFile] = {}
    for file in window_files:
        if not file.is_upstream:
            continue
        if file.cluster is None:
            raise ConfigurationError(
                f"The values {file.path} install a sending cluster without a clusterName; give it one of "
                f"{_names(fleet)}."
            )
        if file.cluster not in fleet:
            raise ConfigurationError(
                f"The clusterName {file.cluster} in {file.path} has no window; add one to the list, or use one of the "
                f"names in it: {_names(fleet)}."
            )
        if file.cluster in senders:
            raise ConfigurationError(
                f"The values {senders[file.cluster].path} and {file.path} both install the sending cluster "
                f"{file.cluster}; events of two clusters in one window would have the same IDs: give each "
                f"cluster its own clusterName and window."
            )
        senders[file.cluster] = file
    return senders


def _names(fleet: dict[str, PartitionWindow]) -> str:
    names = sorted(fleet)
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
