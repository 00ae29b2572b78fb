"""How exceptions of Spark become errors for the user: a failed task, a problem of this machine, or a defect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gapless_spark.runtime.session import Engine, machine_failure
from gapless_spark.runtime.stops import check_stop
from gapless_spark.runtime.task_reading import decode_failure


@contextlib.contextmanager
def translate_spark_errors(engine: Engine) -> Iterator[None]:
    """Translate the exceptions that Spark raises in the block, while its JVM still runs.

    Args:
        engine: of the session.

    Raises:
        StoppedError: the command was stopped, which is why Spark failed.
        GaplessError: a task or this machine failed for a known reason.
        RuntimeError: anything else.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 -- not needed for empty topics
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError) as error:
        check_stop()
        text = str(error)  # fetched from the JVM
        failure = decode_failure(text) or machine_failure(text, engine)
        if failure is None:
            raise RuntimeError(f"Spark failed: {text}") from None
        _log().debug("spark", error=text)
        raise failure from None


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
