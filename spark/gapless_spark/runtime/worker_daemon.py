"""How Spark's Python workers start: like `pyspark.daemon`, but faster. All workers are forked from this process.

Only Spark runs this module, with ``python -m``; see `session`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from gapless_api.base.collector import collect_rarely


def main() -> None:
    """Start workers until Spark ends."""
    # Spark puts its own modules first, in zip files, which Python compiles each time: a second.
    sys.path.sort(key=lambda place: place.endswith(".zip"))
    collect_rarely()
    for name in ("pyarrow", "gapless_spark.runtime.task_reading"):
        import_module(name)  # once, instead of in each worker
    daemon: Any = import_module("pyspark.daemon")
    daemon.manager()


if __name__ == "__main__":
    main()
