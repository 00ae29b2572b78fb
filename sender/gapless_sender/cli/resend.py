"""The command ``gapless resend``: settings in, exit code out; must not know how anything is done."""

from __future__ import annotations

from pathlib import Path

import click

from gapless_api.cli.settings_command import command_with, resolve_settings, with_settings
from gapless_sender.settings.resend import RESEND


@click.command(cls=command_with(RESEND), context_settings={"max_content_width": 110})
@with_settings(RESEND)
def resend(file: Path | None, **options: str | None) -> int:
    """Send events from Kafka again over the one-way link, to close gaps on the receiving side.

    Select the events by a bundle (--resend-file-name), by offsets (--topic --partition --offset-from --offset-to) or by
    time (--topic --from --to, all partitions or one). FILE is the bundle, or has settings as key=value lines; files of
    the peer's resend and upstream are accepted. A rate is required: --link-profile, --eps, --bits-per-second, or
    --unlimited.

    \b
      gapless resend --bootstrap-servers=kafka:9092 --target-ip=10.0.0.2 --target-port=1234 \\
                     --resend-file-name=bundle.json --checkpoint=bundle.checkpoint --link-profile=link.json
      gapless resend upstream.properties --bundle=bundle.json --plan

    Exit codes: 0 all done or nothing to do, 2 bad configuration, 3 Kafka unreachable or stalled, 4 finished but some
    events are unavailable (the report lists them), 5 link failed, 130/143 stopped by a signal with progress saved.
    """  # noqa: D301 -- click's own paragraph mark
    found = resolve_settings(RESEND, file, options)
    from gapless_sender.workers.resend import run  # noqa: PLC0415 -- Kafka's client and the rest load only when needed

    return run(found)
