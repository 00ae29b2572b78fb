"""The class archive that speeds up the start of Spark's JVM; must not know where it is used: see `session`.

``python -m gapless_spark.cli.startup`` makes it, once per installation; ``make startup-archive`` and the image run it.
It executes the plan of a scan without records, so that the JVM loads the classes that it will need.
"""

from __future__ import annotations

import os
import sys

from gapless_api.base.errors import GaplessError
from gapless_api.base.files import put_in_place
from gapless_spark.model.gap_windows import ScanOptions
from gapless_spark.runtime.arrow_tasks import map_in_arrow
from gapless_spark.runtime.session import Engine, session, startup_archive
from gapless_spark.scan.find_windows import findings_of_rows
from gapless_spark.scan.latest_records import LATEST, latest_rows


def make_archive() -> None:
    """Make the archive; an older one is replaced atomically.

    Raises:
        ConfigurationError: Spark does not support this Java.
        OSError: the folder of the archive is not writable.
    """
    archive = startup_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(f".{os.getpid()}.tmp")
    try:
        with session(Engine("gapless startup", archive_to=unfinished)) as spark:
            findings_of_rows(map_in_arrow(spark.range(0, 2, 1, 2), lambda _: latest_rows(()), LATEST), ScanOptions())
        put_in_place(unfinished, archive)
    finally:
        unfinished.unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        make_archive()
    except (GaplessError, OSError) as error:
        sys.exit(f"The class archive was not made; commands work without it, but start more slowly: {error}")
