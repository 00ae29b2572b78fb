"""Owns the report as a file: JSON, a partition a paragraph, written range by range, for there may be ten million.

Must not know how a report is made nor what its figures mean.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from gapless_api.errors import LocalStorageError
from gapless_api.files import written_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_RANGES_AT_ONCE = 10_000


def write_report(path: Path, report: dict[str, Any]) -> None:
    """Write `report`; if there is no room for it, it goes to standard error, so that it is not lost.

    Raises:
        LocalStorageError: the file cannot be written.
    """
    try:
        with written_whole(path, what="report") as stream:
            stream.writelines(part.encode() for part in report_text(report))
    except LocalStorageError:
        sys.stderr.writelines(report_text(report))
        sys.stderr.flush()
        raise


def report_text(report: dict[str, Any]) -> Iterator[str]:
    """The JSON of `report` in parts; the ranges of its partitions are any iterables of pairs."""
    rest = {name: value for name, value in report.items() if name != "partitions"}
    yield json.dumps(rest, indent=1).removesuffix("\n}")
    yield ',\n "partitions": ['
    between = "\n"
    for partition in report["partitions"]:
        figures = {name: value for name, value in partition.items() if name != "ranges"}
        yield f"{between}  {json.dumps(figures).removesuffix('}')}, "
        yield '"ranges": {'
        comma = ""
        for kind, ranges in partition["ranges"].items():
            yield f"{comma}\n   {json.dumps(kind)}: ["
            yield from _pairs(iter(ranges))
            yield "]"
            comma = ","
        yield "}}"
        between = ",\n"
    yield "]\n}\n"


def _pairs(ranges: Iterator[Any]) -> Iterator[str]:
    before = ""
    while some := [f"[{first},{last}]" for first, last in islice(ranges, _RANGES_AT_ONCE)]:
        yield before + ",".join(some)
        before = ","
