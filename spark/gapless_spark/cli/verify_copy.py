"""The command ``gapless verify-copy``, from addresses and settings to a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapless_api.cli.settings_command import command_with, resolve_settings, with_settings
from gapless_spark.settings.verify_copy import VERIFY_COPY

if TYPE_CHECKING:
    from gapless_spark.archiving.verify_copy.addresses import CopyOfTopic


class _CopyAddress(click.ParamType[Any]):
    name = "COPY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from gapless_spark.archiving.verify_copy.addresses import parse_copy  # noqa: PLC0415 -- not needed for --help

        try:
            return parse_copy(str(value))
        except ValueError as error:
            self.fail(f"{value!r} must be {error}", param, ctx)


@click.command("verify-copy", cls=command_with(VERIFY_COPY), context_settings={"max_content_width": 110})
@click.argument("a", required=False, type=_CopyAddress())
@click.argument("b", required=False, type=_CopyAddress())
@with_settings(VERIFY_COPY)
def verify_copy(a: CopyOfTopic | None, b: CopyOfTopic | None, file: Path | None, **options: str | None) -> int:
    """Compare two copies of a topic record by record: key, value, headers, timestamp and order.

    A and B are each a topic in Kafka, kafka://HOST:PORT,HOST:PORT/TOPIC, or one in an archive, PLACE#TOPIC, where PLACE
    is a folder or s3://BUCKET/PREFIX. PLACE#REGION/TOPIC@ID names a region and a topic ID. FILE contains settings as
    key=value lines.

    \b
      gapless verify-copy kafka://kafka:9092/orders s3://bucket/archive#orders --report=evidence.json
      gapless verify-copy /archive#orders kafka://kafka:9092/restored --signing-key=key.pem --report=evidence.json
      gapless verify-copy --check-report=evidence.json --trusted-keys=site-a:MCowBQYDK2VwAyEA…

    Only committed records are compared. Offsets that one copy no longer holds, or does not hold yet, are listed with
    the reason. The report contains the differences, and digests for each range of records.

    Ends with 0 the copies are identical or there is nothing to compare (see the last line), 2 bad configuration, no
    such topic or a bad report, 3 Kafka or the store unreachable or stalled, 4 the copies differ or not everything could
    be compared, 130/143 stopped by a signal with nothing written.
    """  # noqa: D301
    settings = resolve_settings(VERIFY_COPY, file, options)
    from gapless_spark.archiving.verify_copy.command import check, run  # noqa: PLC0415
    from gapless_spark.settings.verify_copy import VerifyCopySettings  # noqa: PLC0415

    if a is None and VerifyCopySettings.of(settings.values).check_report is not None:
        return check(settings)
    if a is None or b is None:
        raise click.UsageError("A and B are missing; give two addresses, or --check-report=FILE.")
    return run(a, b, settings)
