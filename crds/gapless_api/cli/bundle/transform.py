"""``gapless bundle merge``, ``subtract`` and ``split``; must not know the algebra of bundles."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_api.base.quantities import quantity
from gapless_api.cli.bundle.parts import FILE, OUTPUT, read_all, warn_unsigned, write_portion

if TYPE_CHECKING:
    from gapless_api.bundle.algebra import Portion

_MAX_PIECES = 9999


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("files", metavar="A B…", nargs=-1, required=True, type=click.Path(path_type=Path))
def merge(out: Path, files: tuple[Path, ...]) -> None:
    """Merge the bundles A, B… into the bundle OUT.

    \b
      gapless bundle merge all.json north.json south.json

    All must be of the same type. For type first, the lowest offset of each partition is kept. A range that is inferred
    in one bundle and recorded in another is no longer inferred.
    """  # noqa: D301 -- click's own paragraph mark
    from gapless_api.bundle.algebra import merge_bundles  # noqa: PLC0415 -- not needed for --help

    bundles = read_all(files)
    portion = merge_bundles(bundles)
    metadata = write_portion(out, portion, bundles, {"command": "gapless bundle merge"})
    click.echo(
        f"Wrote {out} (id {metadata.id}, {metadata.missing} missing in {quantity(len(portion.results), 'partition')})."
    )
    warn_unsigned(bundles)


@click.command()
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
@OUTPUT
def subtract(first: Path, second: Path, output: Path | None) -> None:
    """Write a bundle with the offsets that A lists and B does not.

    \b
      gapless bundle subtract all.json done.json --output rest.json

    For example, what remains after B was resent. Both must be of type all.
    """  # noqa: D301
    from gapless_api.bundle.algebra import subtract_bundle  # noqa: PLC0415

    bundles = {str(first): read_all((first,))[str(first)]}
    other = read_all((second,))[str(second)]
    portion = subtract_bundle(bundles[str(first)], other, names=(str(first), str(second)))
    metadata = write_portion(output, portion, bundles, {"command": "gapless bundle subtract"})
    if output is not None:
        click.echo(f"Wrote {output} (id {metadata.id}, {metadata.missing} missing).")
    warn_unsigned(bundles)


@click.command()
@FILE
@click.option(
    "--into", required=True, type=click.Path(path_type=Path), help="Folder for the pieces; must be new or empty."
)
@click.option("--by", type=click.Choice(["topic", "partition"]), help="Separate pieces for each topic or partition.")
@click.option("--most-events", type=click.IntRange(1), metavar="N", help="Maximum missing events in a piece.")
@click.option("--most-ranges", type=click.IntRange(1), metavar="N", help="Maximum ranges in a piece.")
@click.option("--most-bytes", type=click.IntRange(1), metavar="N", help="Maximum size of a piece in bytes.")
@click.option("--inferred", is_flag=True, help="Separate pieces for inferred ranges, after the others.")
def split(  # noqa: PLR0913 -- the ways to split
    file: Path,
    into: Path,
    *,
    by: str | None,
    most_events: int | None,
    most_ranges: int | None,
    most_bytes: int | None,
    inferred: bool,
) -> None:
    """Split the bundle FILE into smaller bundles that together list the same offsets.

    \b
      gapless bundle split all.json --into pieces --by topic
      gapless bundle split all.json --into pieces --most-events 100000
      gapless bundle split all.json --into pieces --inferred

    The pieces are pieces/0001.json and so on, sorted by topic, partition and offset. The folder is created with all of
    them or not at all. Partitions without missing offsets are in no piece.
    """  # noqa: D301
    from gapless_api.bundle.algebra import Limits, split_bundle  # noqa: PLC0415

    if not (by or most_events or most_ranges or most_bytes or inferred):
        raise click.UsageError(
            "no way to split is given: use --by, --most-events, --most-ranges, --most-bytes or --inferred",
            click.get_current_context(),
        )
    bundles = read_all((file,))
    limits = Limits(most_events, most_ranges, most_bytes)
    lines = []
    try:
        if into.exists() and (not into.is_dir() or any(into.iterdir())):
            raise ConfigurationError(f"The folder {into} is not empty; give a new one for the pieces.")
        with tempfile.TemporaryDirectory(prefix=f".{into.name}.", dir=into.resolve().parent) as folder:
            staging = Path(folder) / "pieces"
            staging.mkdir()
            for number, piece in enumerate(
                split_bundle(bundles[str(file)], limits, by=by, inferred_apart=inferred), start=1
            ):
                if number > _MAX_PIECES:
                    raise ConfigurationError(
                        f"The bundle {file} would have more than {_MAX_PIECES:,} pieces; use larger limits."
                    )
                source = {"command": "gapless bundle split", "piece": str(number)}
                metadata = write_portion(staging / f"{number:04}.json", piece, bundles, source)
                lines.append(f"{into / f'{number:04}.json'}  {metadata.missing:>12}  {_extent(piece)}")
            if not lines:
                raise ConfigurationError(f"The bundle {file} lists no missing offsets, so there is nothing to split.")
            staging.replace(into)
    except OSError as error:
        raise LocalStorageError(
            f"The pieces cannot be written to {into} ({error.strerror}); free some space or give another folder."
        ) from error
    click.echo("\n".join(lines))
    click.echo(f"Wrote {quantity(len(lines), 'piece')} with {bundles[str(file)].missing} missing.")
    warn_unsigned(bundles)


def _extent(piece: Portion) -> str:
    """Return the first and the last offset of a piece, and its number of inferred offsets."""
    first, last = piece.results[0], piece.results[-1]
    start = f"{first.topic}/{first.partition} {first.ranges.first_offset}"
    end = f"{last.topic}/{last.partition} {last.ranges.last_offset}"
    inferred = sum(entry.ranges.count for entry in piece.inferred)
    return f"{start} … {end}" + (f"  ({inferred} inferred)" if inferred else "")
