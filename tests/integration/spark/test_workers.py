"""Owns the proof that Spark's Python workers start from what is installed, and without what no task uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_a_worker_imports_the_installed_pyspark_and_no_pandas(spark: None) -> None:  # noqa: ARG001 -- starts it
    def looked_at(_: Iterable[Any]) -> Iterator[Any]:
        import sys  # noqa: PLC0415 -- the function travels to the worker

        import pyarrow as pa  # noqa: PLC0415
        import pyspark as found  # noqa: PLC0415

        pa.array(["Arrow looks whether this is of pandas"])
        yield pa.RecordBatch.from_pydict({"place": [found.__file__], "pandas": ["pandas" in sys.modules]})

    session = SparkSession.getActiveSession()
    assert session is not None
    found = session.range(0, 1, 1, 1).mapInArrow(looked_at, "place string, pandas boolean").toArrow().to_pylist()
    assert found == [{"place": pyspark.__file__, "pandas": False}]
