"""The command group ``gapless bundle``; must not know what its subcommands do.

Subcommands that need more than files are in other packages, as entry points of the group ``gapless.bundle_commands``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.files import check_distinct
from gapless_api.cli.bundle.parts import FILE, read_all
from gapless_api.cli.bundle.show import diff, show
from gapless_api.cli.bundle.transform import merge, split, subtract
from gapless_api.cli.bundle.typed_text import text
from gapless_api.cli.installed_commands import installed_commands
from gapless_api.cli.standard_input import STANDARD_INPUT, readable


@click.command()
@FILE
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Ed25519 private key (PEM, PKCS#8).")
@click.option("--output", type=click.Path(path_type=Path), help="Output file. [default: FILE]")
def sign(file: Path, key: Path, output: Path | None) -> None:
    """Validate the bundle FILE, and write it with a signature.

    \b
    To create a private key, and the public key for the other side:
      openssl genpkey -algorithm ed25519 -out key.pem
      openssl pkey -in key.pem -pubout -out public.pem
    """  # noqa: D301 -- click's own paragraph mark
    from gapless_api.bundle.writer import write_signed  # noqa: PLC0415 -- not needed for --help

    if output is None and str(file) == STANDARD_INPUT:
        raise ConfigurationError("A bundle from standard input (-) needs --output for the signed one.")
    check_distinct({"output": output or file}, {"key": key})
    metadata = write_signed(output or file, read_all((file,))[str(file)], created=datetime.now(UTC), signing_key=key)
    click.echo(f"Signed {output or file} (id {metadata.id}, {metadata.missing} missing).")


@click.command()
@FILE
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Ed25519 public key (PEM).")
def verify(file: Path, key: Path) -> None:
    """Verify the bundle FILE and its signature; the exit code is 2 if either is invalid."""
    from gapless_api.bundle.reader import read_bundle  # noqa: PLC0415 -- not needed for --help

    verified = read_bundle(readable(file), verification_key=key)
    assert verified.metadata is not None  # noqa: S101 -- for the type checker: only metadata has a signature
    click.echo(f"The signature of {file} is valid (id {verified.metadata.id}, {verified.metadata.missing} missing).")


@click.group(cls=installed_commands("gapless.bundle_commands"))
def bundle() -> None:
    """Show, compare, merge, split, sign, verify, fetch and type bundles."""


for _command in (show, diff, merge, subtract, split, text, sign, verify):
    bundle.add_command(_command)
