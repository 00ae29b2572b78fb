"""Owns how Spark's Python workers start: as `pyspark.daemon` starts them, and quickly. All are forked from here.

Spark runs it as ``python -m``, see `session`; nobody else does.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

from gapless_api.base.collector import collect_rarely


class _WithoutPandas(MetaPathFinder):
    """Arrow looks whether a list is one of pandas, and imports it for that: half a second. No task of ours uses it."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("tasks of gapless use no pandas", name=fullname)


def main() -> None:
    """Start workers until Spark ends."""
    # Spark's own copies of its modules come first, in zip files, which Python compiles anew each time: a second.
    sys.path.sort(key=lambda place: place.endswith(".zip"))
    sys.meta_path.insert(0, _WithoutPandas())
    collect_rarely()
    for name in ("pyarrow", "gapless_spark.runtime.task_reading"):
        import_module(name)  # once, and not in each worker
    daemon: Any = import_module("pyspark.daemon")
    daemon.manager()


if __name__ == "__main__":
    main()
