"""Owns the command ``gapless bundle``, put together of its subcommands; must not know what any of them does."""

import click

from gapless_api.cli_bundle.by_hand import text
from gapless_api.cli_bundle.fetching import fetch
from gapless_api.cli_bundle.looking import diff, show
from gapless_api.cli_bundle.making import merge, split, subtract
from gapless_api.cli_bundle.signing import sign, verify


@click.group()
def bundle() -> None:
    """Look into bundles, compare, join and split them, sign and verify, fetch them, type them by hand."""


for _command in (show, diff, merge, subtract, split, text, sign, verify, fetch):
    bundle.add_command(_command)
