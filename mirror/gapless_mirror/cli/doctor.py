"""The command ``gapless doctor``; must not know the checks."""

from __future__ import annotations

from pathlib import Path

import click

from gapless_api.cli.settings_command import command_with, resolve_settings, with_settings
from gapless_mirror.doctor.settings import DOCTOR, DoctorSettings


@click.command("doctor", cls=command_with(DOCTOR), context_settings={"max_content_width": 110})
@with_settings(DOCTOR)
def doctor(file: Path | None, **options: str | None) -> int:
    """Find problems of one Kafka cluster, or of the source and target of a mirror, without changing anything.

    Checks brokers, leaders and replicas, coordinators, ACLs, clocks, retention, message sizes, topic IDs, settings and
    certificates. Prints one page of findings: what is wrong, where, how severe it is, and what to do. A check that
    could not be made is a finding, too. FILE holds settings as key=value lines.

    \b
      gapless doctor --bootstrap-servers=kafka:9092
      gapless doctor --bootstrap-servers=a:9092 --target-bootstrap-servers=b:9092 --topics=orders --groups=billing
      gapless doctor --bootstrap-servers=kafka:9092 --report=doctor.json --remembered=doctor.json

    Ends with 0 when no error was found (there may be warnings), 2 bad configuration, 3 a cluster is unreachable,
    4 errors were found, 130/143 stopped by a signal.
    """  # noqa: D301 -- click's own paragraph mark
    settings = DoctorSettings.of(resolve_settings(DOCTOR, file, options).values)
    from gapless_mirror.doctor.command import run  # noqa: PLC0415 -- not needed for --help

    return run(settings)
