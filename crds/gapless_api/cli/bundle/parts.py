"""Owns what several of the subcommands of ``gapless bundle`` share; must not know any of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.bundle.algebra import Portion
    from gapless_api.bundle.form import Bundle, BundleMetadata

FILE = click.argument("file", type=click.Path(path_type=Path))
OUTPUT = click.option("--output", type=click.Path(path_type=Path), help="File for the bundle. [default: stdout]")
_MAX_IDS = 20


def read_all(files: tuple[Path, ...]) -> dict[str, Bundle]:
    """Read the bundles `files`, by name. Raises BundleError."""
    from gapless_api.bundle.reader import read_bundle  # noqa: PLC0415 -- not needed for --help

    return {str(file): read_bundle(file) for file in files}


def write_portion(
    output: Path | None, portion: Portion, made_of: Mapping[str, Bundle], source: dict[str, str]
) -> BundleMetadata:
    """Write what was made of bundles as a bundle: as old as the latest of them, so that the same gives the same.

    Raises:
        LocalStorageError: the file cannot be written.
    """
    from gapless_api.bundle.form import MADE_OF_RECORDS  # noqa: PLC0415
    from gapless_api.bundle.reconciliation import is_made_of_records  # noqa: PLC0415
    from gapless_api.bundle.writer import write_bundle  # noqa: PLC0415

    recorded = MADE_OF_RECORDS if all(map(is_made_of_records, made_of.values())) else {}
    marks = [bundle.metadata for bundle in made_of.values() if bundle.metadata is not None]
    ids = [metadata.id for metadata in marks[:_MAX_IDS]] + (
        [f"and {len(marks) - _MAX_IDS} more"] if len(marks) > _MAX_IDS else []
    )
    return write_bundle(
        output,
        portion.kind,
        portion.results,
        created=max((metadata.created for metadata in marks), default=datetime.now(UTC)),
        source={**source, **recorded, **({"of": ", ".join(ids)} if ids else {})},
        inferred=portion.inferred,
    )


def warn_unsigned(made_of: Mapping[str, Bundle]) -> None:
    """Say on standard error that a signature does not pass on to what is made of a bundle."""
    signed = [
        name
        for name, bundle in made_of.items()
        if bundle.metadata is not None and bundle.metadata.signature is not None
    ]
    if signed:
        named = ", ".join(signed[:3]) + (f" and {len(signed) - 3} more" if len(signed) > 3 else "")
        click.echo(
            f"The signature of {named} does not cover what was made of it; sign the result with gapless bundle sign.",
            err=True,
        )


def amount(number: int, noun: str) -> str:
    """``1 range``, ``2 ranges``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
