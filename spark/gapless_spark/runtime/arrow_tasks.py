"""How tasks in Python take batches of Arrow and give batches of Arrow; must not know what is in them.

``DataFrame.mapInArrow`` of PySpark 4 does the same, but requires pandas, which neither it nor a task uses: a quarter of
a second of CPU time for each command, and 100 MB of an installation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ArrowTask = Callable[[Iterable["pa.RecordBatch"]], Iterable["pa.RecordBatch"]]


def map_in_arrow(frame: DataFrame, task: ArrowTask, schema: str) -> DataFrame:
    """Return the rows of `schema` into which `task` turns the batches of each partition of `frame`."""
    from pyspark.sql.classic.dataframe import DataFrame as OfJava  # noqa: PLC0415 -- Spark may not be installed
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415
    from pyspark.util import PythonEvalType  # noqa: PLC0415

    function = UserDefinedFunction(task, schema, name="task", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = function(*(frame[name] for name in frame.columns))
    return OfJava(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)  # noqa: SLF001
