"""How columns in Spark's notation (``name type, …``) become an Arrow schema; must not know any of them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@cache
def arrow_schema(columns: str) -> pa.Schema:
    """Return the schema of `columns`, whose types are ``binary``, ``int``, ``long`` and ``string``."""
    import pyarrow as pa  # noqa: PLC0415 -- slow to import, and often not needed without Spark

    types = {"binary": pa.binary(), "int": pa.int32(), "long": pa.int64(), "string": pa.string()}
    return pa.schema([(name, types[kind]) for name, kind in (column.split() for column in columns.split(","))])
