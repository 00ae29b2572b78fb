"""``gapless bundle show`` and ``diff``; must not know how bundles are validated or compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapless_api.base.files import check_distinct
from gapless_api.base.missing_code import EXIT_CODE, result_code
from gapless_api.base.quantities import quantity
from gapless_api.cli.bundle.parts import FILE, read_all
from gapless_api.cli.json_output import is_json, print_json, with_output
from gapless_api.cli.standard_input import STANDARD_INPUT

if TYPE_CHECKING:
    from gapless_api.bundle.algebra import PartitionDifference
    from gapless_api.bundle.form import Bundle
    from gapless_api.offsets.ranges import OffsetRanges

_MAX_NAMED = 5
"""The number of partitions that a message names; the others are counted."""
_MAX_RANGES = 1000
"""The number of ranges of a partition in JSON; the others are counted."""


_PAGE = "Also write an HTML page, which loads nothing: where events are missing, and what to do next."


@click.command()
@FILE
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of a table.")
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), metavar="PAGE", help=_PAGE)
@with_output
def show(file: Path, page: Path | None, *, as_json: bool) -> None:
    """Validate the bundle FILE, and show how many offsets are missing in each partition."""
    if page is not None:
        check_distinct({"html": page}, {"FILE": file})
    bundle = read_all((file,))[str(file)]
    shown = _summary(bundle)
    if page is not None:
        from gapless_api.page.pages import write_bundle_page  # noqa: PLC0415 -- few want a page

        write_bundle_page(bundle, "BUNDLE" if str(file) == STANDARD_INPUT else file.name, page)
    if is_json(as_json=as_json):
        print_json(shown, "partitions")
        return
    metadata = shown["gapless"]
    if metadata is None:
        click.echo("Created by another program: no ID, no digest, no signature.")
    else:
        click.echo(
            f"id       {metadata['id']}\ncreated  {metadata['created']}\nsha256   {metadata['sha256']} (checked)"
        )
        for name, text in metadata["source"].items():
            click.echo(f"source   {name}: {text}")
        click.echo(f"signed   {'yes, see gapless bundle verify' if 'signature' in metadata else 'no'}")
    scope = "the listed offsets" if shown["type"] == "all" else "everything from the first missing offset on"
    click.echo(f"type     {shown['type']} (resend {scope})")
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
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the ranges instead of a table.")
@click.option(*EXIT_CODE.options, "exit_code", is_flag=True, help="End with exit code 10 if the bundles differ.")
@with_output
def diff(first: Path, second: Path, *, as_json: bool, exit_code: bool) -> int:
    """Show the difference between the bundles A and B for each partition.

    \b
      gapless bundle diff monday.json tuesday.json

    Both must be of the same type. Offsets that only A lists are closed only if they were checked for B as well; use
    gapless verify to find out.

    Ends with 0, 2 for a bad bundle, and with --exit-code 10 if the bundles differ.
    """  # noqa: D301 -- click's own paragraph mark
    from gapless_api.bundle.algebra import diff_bundles  # noqa: PLC0415 -- not needed for --help

    old, new = read_all((first,))[str(first)], read_all((second,))[str(second)]
    differences = list(diff_bundles(old, new, names=(str(first), str(second))))
    differ = any(len(each.only_first) or len(each.only_second) for each in differences)
    code = result_code(is_missing=differ, is_requested=exit_code)
    if is_json(as_json=as_json):
        print_json({"partitions": [_difference(each) for each in differences]}, "partitions")
        return code
    rows = [
        (each.topic, each.partition, (each.only_first.count, each.only_second.count, each.both), _example(each))
        for each in differences
    ]
    width = max([len("topic"), *(len(row[0]) for row in rows)])
    click.echo(f"{'topic':<{width}}  partition      only A      only B        both  first of the difference")
    for topic, partition, counts, example in rows:
        numbers = f"{partition:>9}  " + "  ".join(f"{count:>10}" for count in counts)
        click.echo(f"{topic:<{width}}  {numbers}  {example}")
    sums = [sum(row[2][column] for row in rows) for column in range(3)]
    result = "The bundles differ" if differ else "The bundles list the same offsets"
    click.echo(
        f"\n{result}: {quantity(sums[0], 'offset')} only in A, {sums[1]} only in B, {sums[2]} in both, in "
        f"{quantity(len(rows), 'partition')}."
    )
    return code


def _example(difference: PartitionDifference) -> str:
    shown = [
        f"{name} {ranges[0].first}" + (f"-{ranges[0].last}" if ranges[0].size > 1 else "")
        for name, ranges in (("A", difference.only_first), ("B", difference.only_second))
        if len(ranges)
    ]
    return ", ".join(shown) or "none"


def _difference(difference: PartitionDifference) -> dict[str, Any]:
    return {
        "topic": difference.topic,
        "partition": difference.partition,
        "only_a": _ranges(difference.only_first),
        "only_b": _ranges(difference.only_second),
        "both": difference.both,
    }


def _ranges(ranges: OffsetRanges) -> dict[str, Any]:
    head = [list(offsets) for offsets in ranges.head(_MAX_RANGES)]
    return {"missing": ranges.count, "ranges": head, "ranges_omitted": len(ranges) - len(head)}


def _inferred(bundle: Bundle) -> dict[str, Any]:
    """Summarize the inferred ranges."""
    inferred = bundle.metadata.inferred if bundle.metadata is not None else ()
    partitions = [
        {
            "topic": entry.topic,
            "partition": entry.partition,
            "missing": entry.ranges.count,
            "ranges": len(entry.ranges),
        }
        for entry in inferred
    ]
    return {"missing": sum(entry.ranges.count for entry in inferred), "partitions": partitions}


def _summary(bundle: Bundle) -> dict[str, Any]:
    partitions = [
        {
            "topic": entry.topic,
            "partition": entry.partition,
            "missing": entry.ranges.count,
            "ranges": len(entry.ranges),
            "first": entry.ranges.first_offset if len(entry.ranges) else None,
            "last": entry.ranges.last_offset if len(entry.ranges) else None,
        }
        for entry in bundle.results
    ]
    return {
        "type": str(bundle.kind),
        "missing": bundle.missing,
        "ranges": sum(len(entry.ranges) for entry in bundle.results),
        "partitions": partitions,
        "inferred": _inferred(bundle),
        "repeated": bundle.repeated,
        "gapless": None if bundle.metadata is None else bundle.metadata.members(),
    }
