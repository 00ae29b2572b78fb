"""The command ``gapless inventory``: settings in, exit code out; must not know how anything is done."""

from __future__ import annotations

from inspect import cleandoc
from pathlib import Path

import click

from gapless_api.cli.settings_command import command_with, resolve_settings, with_settings
from gapless_sender.settings.inventory import INVENTORY


@click.command(cls=command_with(INVENTORY), context_settings={"max_content_width": 110})
@with_settings(INVENTORY)
def inventory(file: Path | None, **options: str | None) -> int:
    """List the offsets that exist on the sending side, so that an audit on the receiving side can find all gaps.

    The inventory is a small JSON file with the first and last offset of each partition, under the downstream names and
    numbers. With it, gapless audit --expect-inventory also finds losses at the very end of the stream and in silent
    partitions. Carry the file to the receiving side, or send it over the link with --target-ip. FILE contains settings
    as key=value lines; files of the peer's resend and upstream are accepted.

    \b
      gapless inventory --bootstrap-servers=kafka:9092 --topics=transfer --inventory=transfer.inventory.json
      gapless inventory upstream.properties --absent --signing-key=signing.pem --target-ip=10.0.0.2 --target-port=1234

    Exit codes: 0 done, 2 bad configuration or no such topic, 3 Kafka unreachable or stalled, 5 link failed, 130/143
    stopped by a signal.
    """  # noqa: D301 -- click's own paragraph mark
    found = resolve_settings(INVENTORY, file, options)
    from gapless_sender.inventory.command import run  # noqa: PLC0415 -- Kafka's client and the rest load only when needed

    return run(found)


manifest = command_with(INVENTORY)(
    "manifest",
    callback=inventory.callback,
    params=inventory.params,
    help=f"Old name of gapless inventory, accepted for one more release.\n\n{cleandoc(inventory.help or '')}",
    context_settings=inventory.context_settings,
)
