"""``gapless bundle text``; must not know the format of the lines, or how QR codes are drawn."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapless_api.base.errors import BundleError, ConfigurationError
from gapless_api.base.quantities import quantity
from gapless_api.cli.bundle.parts import read_all

if TYPE_CHECKING:
    from gapless_api.bundle.form import Bundle

_DEFAULT_LINES, _DEFAULT_CODES = 60, 12
_MAX_TYPED_BYTES = 16 * 1024 * 1024


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--read", "reads", is_flag=True, help="Read typed lines from FILE (- for the keyboard), and write their bundle."
)
@click.option("--output", type=click.Path(path_type=Path), help="With --read: output file. [default: stdout]")
@click.option("--qr", is_flag=True, help="Print QR codes for a scanner that types them (extra qr).")
@click.option(
    "--most-lines",
    type=click.IntRange(1),
    help=f"Maximum number of lines, or of codes with --qr. [default: {_DEFAULT_LINES}, or {_DEFAULT_CODES} codes]",
)
def text(file: Path, *, reads: bool, output: Path | None, qr: bool, most_lines: int | None) -> None:
    """Print the bundle FILE as short lines to be typed on the sending side, where no file may cross.

    Each line ends with a check word, which detects typing errors: --read names the line and writes nothing.

    \b
      gapless bundle text bundle.json                               here: print the lines
      gapless bundle text --read - --output bundle.json             there: type them, then Ctrl-D
      gapless resend up.properties --resend-file-name=bundle.json   there: send

    The lines do not contain windows, source and signature, so the digest of the typed bundle is different.
    """  # noqa: D301 -- click's own paragraph mark
    if reads:
        if qr or most_lines:
            raise click.UsageError("--qr and --most-lines cannot be used with --read", click.get_current_context())
        _read(file, output)
        return
    if output is not None:
        raise click.UsageError(
            "--output requires --read; lines are printed to standard output", click.get_current_context()
        )
    from gapless_api.bundle.qr_codes import draw_code, pack_lines  # noqa: PLC0415
    from gapless_api.bundle.typed_lines import typed_lines  # noqa: PLC0415

    bundle = read_all((file,))[str(file)]
    lines = typed_lines(bundle)
    if not qr:
        printed = _bounded(lines, most_lines or _DEFAULT_LINES, "lines")
        click.echo("\n".join([*_instructions(bundle), *printed]))
        return
    codes = _bounded(pack_lines(lines), most_lines or _DEFAULT_CODES, "QR codes")
    click.echo("\n".join(_instructions(bundle)))
    for number, code in enumerate(codes, start=1):
        click.echo(f"\nCode {number} of {len(codes)}\n{draw_code(code)}")


def _bounded(texts: Iterable[str], limit: int, unit: str) -> list[str]:
    bounded = list(islice(texts, limit + 1))
    if len(bounded) > limit:
        raise ConfigurationError(
            f"The bundle needs more than {limit} {unit}; split it with gapless bundle split --most-ranges, scan again "
            f"with --limit=first, which needs one range for each partition, or increase --most-lines."
        )
    return bounded


def _instructions(bundle: Bundle) -> list[str]:
    name = f" of the bundle {bundle.metadata.id}" if bundle.metadata is not None else ""
    return [
        f"# {bundle.missing} missing{name}. Type this on the sending side, without the lines that begin with #:",
        "#   gapless bundle text --read - --output bundle.json",
    ]


def _read(file: Path, output: Path | None) -> None:
    from gapless_api.bundle.typed_lines import read_typed  # noqa: PLC0415
    from gapless_api.bundle.writer import write_bundle  # noqa: PLC0415

    portion = read_typed(_read_text(file))
    source = {"command": "gapless bundle text --read"}
    metadata = write_bundle(
        output, portion.kind, portion.results, created=datetime.now(UTC), source=source, inferred=portion.inferred
    )
    if output is not None:
        click.echo(
            f"Wrote {output} (id {metadata.id}, {metadata.missing} missing in "
            f"{quantity(len(portion.results), 'partition')})."
        )


def _read_text(file: Path) -> str:
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
