"""Owns ``gapless bundle show`` and ``diff``; must not know what makes a bundle good, nor how two are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapless_api.cli.bundle.parts import FILE, amount, read_all

if TYPE_CHECKING:
    from gapless_api.bundle.algebra import PartitionDifference
    from gapless_api.bundle.form import Bundle
    from gapless_api.offsets.ranges import OffsetRanges

_MAX_NAMED = 5
"""So many partitions are named in a sentence, the rest is counted."""
_MAX_RANGES = 1000
"""So many ranges of a partition are listed in JSON, the rest is counted."""


@click.command()
@FILE
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def show(file: Path, *, as_json: bool) -> None:
    """Check the bundle FILE and say how much is missing in each partition."""
    from gapless_api.bundle.reader import read_bundle  # noqa: PLC0415 -- not needed for --help

    shown = _summary(read_bundle(file))
    if as_json:
        click.echo(json.dumps(shown, ensure_ascii=False))
        return
    metadata = shown["gapless"]
    if metadata is None:
        click.echo("Created by another program: no id, no digest, no signature.")
    else:
        click.echo(
            f"id       {metadata['id']}\ncreated  {metadata['created']}\nsha256   {metadata['sha256']} (checked)"
        )
        for name, text in metadata["source"].items():
            click.echo(f"source   {name}: {text}")
        click.echo(f"signed   {'yes, see gapless bundle verify' if 'signature' in metadata else 'no'}")
    scope = "what is listed" if shown["type"] == "all" else "everything from the first missing offset on"
    click.echo(f"type     {shown['type']} (send {scope})")
    width = max([len("topic"), *(len(entry["topic"]) for entry in shown["partitions"])])
    click.echo(f"\n{'topic':<{width}}  partition     missing      ranges  first … last")
    for entry in shown["partitions"]:
        reach = f"{entry['first']} … {entry['last']}" if entry["ranges"] else "none"
        numbers = f"{entry['partition']:>9}  {entry['missing']:>10}  {entry['ranges']:>10}"
        click.echo(f"{entry['topic']:<{width}}  {numbers}  {reach}")
    click.echo(f"\n{shown['missing']} missing in {shown['ranges']} ranges of {len(shown['partitions'])} partitions.")
    if shown["inferred"]["missing"]:
        named = [f"{entry['topic']}/{entry['partition']}" for entry in shown["inferred"]["partitions"]]
        more = f" and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
        click.echo(
            f"{shown['inferred']['missing']} of them are inferred, without a record: "
            f"{', '.join(named[:_MAX_NAMED])}{more}."
        )


@click.command()
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object with the ranges instead of a table.")
def diff(first: Path, second: Path, *, as_json: bool) -> None:
    """Say what the bundle A lists and B does not, and the other way round, for each partition.

    \b
      gapless bundle diff monday.json tuesday.json

    Both must be of one type. What A lists alone has closed only if B looked there too: gapless verify knows.
    """  # noqa: D301 -- click's own paragraph mark
    from gapless_api.bundle.algebra import diff_bundles  # noqa: PLC0415 -- not needed for --help

    old, new = read_all((first,))[str(first)], read_all((second,))[str(second)]
    found = diff_bundles(old, new, names=(str(first), str(second)))
    if as_json:
        click.echo(json.dumps({"partitions": [_difference(each) for each in found]}, ensure_ascii=False))
        return
    rows = [
        (each.topic, each.partition, (each.only_first.count, each.only_second.count, each.both), _example(each))
        for each in found
    ]
    width = max([len("topic"), *(len(row[0]) for row in rows)])
    click.echo(f"{'topic':<{width}}  partition      only A      only B        both  first of the difference")
    for topic, partition, counts, example in rows:
        numbers = f"{partition:>9}  " + "  ".join(f"{count:>10}" for count in counts)
        click.echo(f"{topic:<{width}}  {numbers}  {example}")
    sums = [sum(row[2][column] for row in rows) for column in range(3)]
    verdict = "The bundles list the same" if not any(sums[:2]) else "The bundles differ"
    click.echo(
        f"\n{verdict}: {amount(sums[0], 'offset')} only in A, {sums[1]} only in B, {sums[2]} in both, in "
        f"{amount(len(rows), 'partition')}."
    )


def _example(found: PartitionDifference) -> str:
    shown = [
        f"{name} {ranges[0].first}" + (f"-{ranges[0].last}" if ranges[0].size > 1 else "")
        for name, ranges in (("A", found.only_first), ("B", found.only_second))
        if len(ranges)
    ]
    return ", ".join(shown) or "none"


def _difference(found: PartitionDifference) -> dict[str, Any]:
    return {
        "topic": found.topic,
        "partition": found.partition,
        "only_a": _listed(found.only_first),
        "only_b": _listed(found.only_second),
        "both": found.both,
    }


def _listed(ranges: OffsetRanges) -> dict[str, Any]:
    head = [list(found) for found in ranges.head(_MAX_RANGES)]
    return {"missing": ranges.count, "ranges": head, "ranges_omitted": len(ranges) - len(head)}


def _inferred(found: Bundle) -> dict[str, Any]:
    """The inferred part of it, and the partitions with such ranges."""
    listed = found.metadata.inferred if found.metadata is not None else ()
    partitions = [
        {
            "topic": entry.topic,
            "partition": entry.partition,
            "missing": entry.ranges.count,
            "ranges": len(entry.ranges),
        }
        for entry in listed
    ]
    return {"missing": sum(entry.ranges.count for entry in listed), "partitions": partitions}


def _summary(found: Bundle) -> dict[str, Any]:
    partitions = [
        {
            "topic": entry.topic,
            "partition": entry.partition,
            "missing": entry.ranges.count,
            "ranges": len(entry.ranges),
            "first": entry.ranges.first_offset if len(entry.ranges) else None,
            "last": entry.ranges.last_offset if len(entry.ranges) else None,
        }
        for entry in found.results
    ]
    return {
        "type": str(found.kind),
        "missing": found.missing,
        "ranges": sum(len(entry.ranges) for entry in found.results),
        "partitions": partitions,
        "inferred": _inferred(found),
        "gapless": None if found.metadata is None else found.metadata.members(),
    }
