"""Owns the command ``gapless windows``; must not know what makes windows disjoint, nor what their files look like.

See `windows` for the one and `window_files` for the other.
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
    """Check which partitions belong to which upstream cluster."""


@windows.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> None:
    """Make sure that no two clusters that share one downstream cluster claim the same partition.

    Each FILE is YAML or JSON, and one of three things. A list of windows, windows: [{cluster: north, start: 0, count:
    6}, …]: a cluster's partition 0 is partition START downstream; COUNT partitions are its own, 0 means all from START
    on. Or the values of one install of the Helm chart: their clusterName must have a window, and the lists in several
    values files of one fleet must say the same. Or a folder, of which every such file counts. All are checked together.
    Ends with 0 when they are right and with 2 when they are not.
    """
    from gapless_api.offsets.window_files import EXAMPLE, read_window_files  # noqa: PLC0415 -- only this command reads YAML

    found = read_window_files(files)
    fleet = _fleet(found)
    if not fleet:
        raise ConfigurationError(f"No list of windows is in {', '.join(map(str, files))}; {EXAMPLE}.")
    check_disjoint(fleet)
    senders = _senders(found, fleet)
    width = max(len("cluster"), *(len(cluster) for cluster in fleet))
    click.echo(f"{'cluster':<{width}}  downstream partitions")
    for cluster, window in sorted(fleet.items(), key=lambda item: item[1].start):
        installed = f"  {senders[cluster].path}" if cluster in senders else ""
        click.echo(f"{cluster:<{width}}  {window}{installed}")


def _fleet(found: list[WindowFile]) -> dict[str, PartitionWindow]:
    """Put the lists together: plain lists add up, values files each repeat the list."""
    plain = [file for file in found if not file.is_values and file.windows is not None]
    fleets = [file for file in found if file.is_values and file.windows is not None]
    fleet: dict[str, PartitionWindow] = {}
    for file in plain:
        for cluster, window in (file.windows or {}).items():
            if cluster in fleet:
                raise ConfigurationError(
                    f"The cluster {cluster} in {file.path} has a window already; give it only one."
                )
            fleet[cluster] = window
    origin = ", ".join(str(file.path) for file in plain)
    if not plain and fleets:
        fleet, origin = dict(fleets[0].windows or {}), str(fleets[0].path)
    for file in fleets:
        if file.windows != fleet:
            raise ConfigurationError(
                f"The windows in {file.path} and in {origin} differ ({_difference(file.windows or {}, fleet)}); every "
                f"cluster of a fleet must be installed with the same list: keep it in one shared file."
            )
    return fleet


def _difference(one: dict[str, PartitionWindow], other: dict[str, PartitionWindow]) -> str:
    """Say for which clusters two lists differ, at most three of them."""
    differing = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    shown = [f"{name}: {one.get(name, 'no window')} and {other.get(name, 'no window')}" for name in differing[:3]]
    return "; ".join(shown + ([f"and {len(differing) - 3} more"] if len(differing) > 3 else []))


def _senders(found: list[WindowFile], fleet: dict[str, PartitionWindow]) -> dict[str, WindowFile]:
    """Find the values file of each sending cluster; every one must have a window, and one file only."""
    senders: dict[str, WindowFile] = {}
    for file in found:
        if not file.is_upstream:
            continue
        if file.cluster is None:
            raise ConfigurationError(
                f"The values {file.path} install a sending cluster without a name; give it a clusterName, one of "
                f"{_names(fleet)}."
            )
        if file.cluster not in fleet:
            raise ConfigurationError(
                f"The clusterName {file.cluster} in {file.path} has no window; add one to the list, or give one of the "
                f"names that it has: {_names(fleet)}."
            )
        if file.cluster in senders:
            raise ConfigurationError(
                f"The values {senders[file.cluster].path} and {file.path} both are the sending cluster {file.cluster}; "
                f"events of two clusters in one window cannot be told apart: give each its own clusterName and window."
            )
        senders[file.cluster] = file
    return senders


def _names(fleet: dict[str, PartitionWindow]) -> str:
    names = sorted(fleet)
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
