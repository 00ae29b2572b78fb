"""The proof that Spark's Python workers start from what is installed, and without what no task uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from gapless_spark.runtime.arrow_tasks import map_in_arrow

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_a_worker_imports_the_installed_pyspark(spark: None) -> None:  # noqa: ARG001 -- starts it
    def looked_at(_: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 -- the function travels to the worker
        import pyspark as found  # noqa: PLC0415

        yield pa.RecordBatch.from_pydict({"place": [found.__file__]})

    session = SparkSession.getActiveSession()
    assert session is not None
    found = map_in_arrow(session.range(0, 1, 1, 1), looked_at, "place string").toArrow().to_pylist()
    assert found == [{"place": pyspark.__file__}]
