"""Owns the command group ``gapless bundle``; must not know what its subcommands do.

Subcommands that need more than files are in other packages, as entry points of the group ``gapless.bundle_commands``.
"""

import click

from gapless_api.cli.bundle.show import diff, show
from gapless_api.cli.bundle.sign import sign, verify
from gapless_api.cli.bundle.transform import merge, split, subtract
from gapless_api.cli.bundle.typed_text import text
from gapless_api.cli.installed_commands import installed_commands


@click.group(cls=installed_commands("gapless.bundle_commands"))
def bundle() -> None:
    """Show, compare, merge, split, sign, verify, fetch and type bundles."""


for _command in (show, diff, merge, subtract, split, text, sign, verify):
    bundle.add_command(_command)
