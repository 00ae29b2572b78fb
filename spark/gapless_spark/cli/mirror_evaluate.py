"""The command ``gapless mirror evaluate``; must not know how SQL is evaluated."""

from __future__ import annotations

from pathlib import Path

import click

from gapless_api.cli.settings_command import command_with, resolve_settings, with_settings
from gapless_spark.settings.evaluate import EVALUATE


@click.command(cls=command_with(EVALUATE), context_settings={"max_content_width": 110})
@with_settings(EVALUATE)
def evaluate(file: Path | None, **options: str | None) -> int:
    """Evaluate the SQL of a mirror for its workers, in a process that has no access to Kafka and no passwords.

    Workers send the statement and their records, and get the results, if gapless mirror has the same
    --transform-socket; otherwise it evaluates its SQL itself. On Kubernetes this command is a container in each pod of
    a Mirror with a transform. FILE may be that of gapless mirror.

    \b
      gapless mirror evaluate --transform-socket=/run/gapless/sql.sock

    Ends with 2 bad configuration, no Java or no PySpark, Java has ended, or the socket cannot be created, 130/143
    stopped by a signal.
    """  # noqa: D301 -- click's own paragraph mark
    settings = resolve_settings(EVALUATE, file, options)
    from gapless_spark.mirror.evaluate_command import run  # noqa: PLC0415 -- Spark loads only when needed

    return run(settings)
