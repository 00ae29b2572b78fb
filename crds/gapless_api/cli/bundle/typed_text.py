"""Owns ``gapless bundle text``; must not know what the lines mean, nor how a code is drawn."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapless_api.base.errors import BundleError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_api.bundle.form import Bundle

_USUAL_LINES, _USUAL_CODES = 60, 12
_MAX_TYPED_BYTES = 16 * 1024 * 1024


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--read", "reads", is_flag=True, help="FILE (- for the keyboard) holds typed lines; write their bundle.")
@click.option("--output", type=click.Path(path_type=Path), help="With --read: file for the bundle. [default: stdout]")
@click.option("--qr", is_flag=True, help="Print QR codes, which a scanner types (extra gapless-api[qr]).")
@click.option(
    "--most-lines",
    type=click.IntRange(1),
    help=f"Maximum number of lines, or of codes with --qr. [default: {_USUAL_LINES}, or {_USUAL_CODES} codes]",
)
def text(file: Path, *, reads: bool, output: Path | None, qr: bool, most_lines: int | None) -> None:
    """Print the bundle FILE as few short lines that a person types on the sending side, where no file may cross.

    Each line ends with a check word, so that a typing error is noticed: the line is named and nothing is written.

    \b
      gapless bundle text bundle.json                               here: print the lines
      gapless bundle text --read - --output bundle.json             there: type them, then Ctrl-D
      gapless resend up.properties --resend-file-name=bundle.json   there: send

    Windows, source and signature do not travel with the lines, so the digest of the typed bundle is another one.
    """  # noqa: D301 -- click's own paragraph mark
    if reads:
        if qr or most_lines:
            raise click.UsageError(
                "--qr and --most-lines are for printing, not for --read", click.get_current_context()
            )
        _read(file, output)
        return
    if output is not None:
        raise click.UsageError("--output is for --read; lines go to standard output", click.get_current_context())
    from gapless_api.bundle.qr_codes import draw_code, pack_lines  # noqa: PLC0415
    from gapless_api.bundle.reader import read_bundle  # noqa: PLC0415 -- not needed for --help
    from gapless_api.bundle.typed_lines import typed_lines  # noqa: PLC0415

    found = read_bundle(file)
    lines = typed_lines(found)
    if not qr:
        listed = _bounded(lines, most_lines or _USUAL_LINES, "lines")
        click.echo("\n".join([*_instructions(found), *listed]))
        return
    codes = _bounded(pack_lines(lines), most_lines or _USUAL_CODES, "QR codes")
    click.echo("\n".join(_instructions(found)))
    for number, code in enumerate(codes, start=1):
        click.echo(f"\nCode {number} of {len(codes)}\n{draw_code(code)}")


def _bounded(texts: Iterable[str], most: int, what: str) -> list[str]:
    found = list(islice(texts, most + 1))
    if len(found) > most:
        raise ConfigurationError(
            f"The bundle needs more than {most} {what}; split it with gapless bundle split --most-ranges, scan again "
            f"with --limit=first, which needs one range for each partition, or allow more with --most-lines."
        )
    return found


def _instructions(found: Bundle) -> list[str]:
    named = f" of the bundle {found.metadata.id}" if found.metadata is not None else ""
    return [
        f"# {found.missing} missing{named}. Type on the sending side, but no line that begins with #:",
        "#   gapless bundle text --read - --output bundle.json",
    ]


def _read(file: Path, output: Path | None) -> None:
    from gapless_api.bundle.typed_lines import read_typed  # noqa: PLC0415
    from gapless_api.bundle.writer import write_bundle  # noqa: PLC0415

    portion = read_typed(_typed(file))
    source = {"command": "gapless bundle text --read"}
    metadata = write_bundle(
        output, portion.kind, portion.results, created=datetime.now(UTC), source=source, inferred=portion.inferred
    )
    if output is not None:
        click.echo(
            f"Wrote {output} (id {metadata.id}, {metadata.missing} missing in {len(portion.results)} partitions)."
        )


def _typed(file: Path) -> str:
    try:
        if str(file) == "-":
            content = sys.stdin.buffer.read(_MAX_TYPED_BYTES)
        else:
            with file.open("rb") as stream:
                content = stream.read(_MAX_TYPED_BYTES)
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BundleError(f"The typed lines in {file} cannot be read ({reason}); type them into a text file.") from None
