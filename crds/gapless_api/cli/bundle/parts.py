"""What the subcommands of ``gapless bundle`` share; must not know any of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapless_api.cli.standard_input import readable

if TYPE_CHECKING:
    from gapless_api.bundle.algebra import Portion
    from gapless_api.bundle.form import Bundle, BundleMetadata

FILE = click.argument("file", type=click.Path(path_type=Path))
OUTPUT = click.option("--output", type=click.Path(path_type=Path), help="Output file. [default: stdout]")
_MAX_IDS = 20


def read_all(files: tuple[Path, ...]) -> dict[str, Bundle]:
    """Read the bundles in `files`, by file name; ``-`` is standard input. Raises BundleError and ConfigurationError."""
    from gapless_api.bundle.reader import read_bundle  # noqa: PLC0415 -- not needed for --help

    bundles = {str(file): read_bundle(readable(file)) for file in files}
    for name, bundle in bundles.items():
        if bundle.repeated:
            click.echo(f"{name}: {bundle.repeated_sentence}", err=True)
    return bundles


def write_portion(
    output: Path | None, portion: Portion, inputs: Mapping[str, Bundle], source: dict[str, str]
) -> BundleMetadata:
    """Write a bundle that was made from `inputs`, with the creation time of the latest, so that it is reproducible.

    Raises:
        ConfigurationError: the origin of an input is damaged, or has another version.
        LocalStorageError: the file cannot be written.
    """
    from gapless_api.base.errors import ConfigurationError  # noqa: PLC0415
    from gapless_api.bundle.form import MADE_OF_RECORDS  # noqa: PLC0415
    from gapless_api.bundle.reconciliation import is_made_of_records  # noqa: PLC0415
    from gapless_api.bundle.writer import write_bundle  # noqa: PLC0415
    from gapless_api.wire.bundle_origin import merge_origins  # noqa: PLC0415
    from gapless_api.wire.form import WireError  # noqa: PLC0415

    try:
        origin = merge_origins([{} if each.metadata is None else each.metadata.source for each in inputs.values()])
    except WireError as error:
        raise ConfigurationError(f"A bundle among {', '.join(inputs)} cannot be used: {error}.") from None
    recorded = MADE_OF_RECORDS if all(map(is_made_of_records, inputs.values())) else {}
    known = [bundle.metadata for bundle in inputs.values() if bundle.metadata is not None]
    ids = [metadata.id for metadata in known[:_MAX_IDS]]
    if len(known) > _MAX_IDS:
        ids.append(f"and {len(known) - _MAX_IDS} more")
    return write_bundle(
        output,
        portion.kind,
        portion.results,
        created=max((metadata.created for metadata in known), default=datetime.now(UTC)),
        source={**source, **recorded, **origin, **({"of": ", ".join(ids)} if ids else {})},
        inferred=portion.inferred,
    )


def warn_unsigned(inputs: Mapping[str, Bundle]) -> None:
    """Warn on standard error if inputs are signed, because the output is not."""
    signed = [
        name for name, bundle in inputs.items() if bundle.metadata is not None and bundle.metadata.signature is not None
    ]
    if signed:
        named = ", ".join(signed[:3]) + (f" and {len(signed) - 3} more" if len(signed) > 3 else "")
        click.echo(
            f"The signature of {named} does not cover the output; sign the output with gapless bundle sign.",
            err=True,
        )
