"""Owns what an exception out of Spark means to a user: an error of ours in a task, of this machine, or a defect."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from gapless_spark.runtime.session import failure_of_machine
from gapless_spark.runtime.task_reading import failure_of_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless_spark.runtime.session import Engine


@contextlib.contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Turn what Spark raises in the block into what it means, while its Java still runs.

    Raises:
        GaplessError: a task or this machine failed in a way that has a sentence.
        RuntimeError: anything else.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 -- empty topics need no Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)  # fetched from Java
        meant = failure_of_task(text) or failure_of_machine(text, engine)
        if meant is None:
            raise RuntimeError(f"Spark failed: {text}") from None
        _log().debug("spark", error=text)
        raise meant from None


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
