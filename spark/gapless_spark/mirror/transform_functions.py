"""The functions that the SQL of a mirror may call, each with what bounds the size of its result.

All are deterministic, read nothing but their arguments, and need time and memory in proportion to the record. The page
docs/reference/transform-functions.md is made from this list. Must not know Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Growth(Enum):
    """How large a result can become."""

    SMALL = "a number, a truth value, a time or a hash"
    LARGEST = "as large as the largest argument"
    SUM = "as large as all arguments together"
    JOINED = "as large as all arguments together, with a separator between all elements"
    FIRST = "as large as the first argument"
    DOUBLE = "twice as large as the first argument"
    PADDED = "as long as the second argument says"
    REPLACED = "as large as the replacements make it"
    MAPPED = "as large as its lambda makes it"


@dataclass(frozen=True, slots=True)
class Function:
    """The rules for the calls of a function."""

    group: str
    growth: Growth
    min_arguments: int
    max_arguments: int
    constants: frozenset[int] = frozenset()
    """The arguments, counted from 0, that must be literals."""
    regex: int | None = None
    """The argument that is a regular expression."""
    takes_lambda: bool = False
    """Whether the second argument is a lambda."""


MAX_PADDING = 10_000
"""The longest text that lpad and rpad may make."""
_MANY = 100

_TABLE = (
    ("concat", Function("Text and bytes", Growth.SUM, 1, _MANY)),
    ("concat_ws", Function("Text and bytes", Growth.JOINED, 1, 20, frozenset({0}))),
    ("lower lcase upper ucase initcap reverse", Function("Text and bytes", Growth.FIRST, 1, 1)),
    ("trim ltrim rtrim", Function("Text and bytes", Growth.FIRST, 1, 1)),
    ("btrim", Function("Text and bytes", Growth.FIRST, 1, 2, frozenset({1}))),
    ("substr substring", Function("Text and bytes", Growth.FIRST, 2, 3)),
    ("left right", Function("Text and bytes", Growth.FIRST, 2, 2)),
    ("substring_index split_part", Function("Text and bytes", Growth.FIRST, 3, 3, frozenset({1, 2}))),
    ("translate", Function("Text and bytes", Growth.FIRST, 3, 3, frozenset({1, 2}))),
    ("mask", Function("Text and bytes", Growth.FIRST, 1, 5, frozenset({1, 2, 3, 4}))),
    ("lpad rpad", Function("Text and bytes", Growth.PADDED, 2, 3, frozenset({1, 2}))),
    ("replace", Function("Text and bytes", Growth.REPLACED, 2, 3, frozenset({1, 2}))),
    (
        "length char_length character_length octet_length bit_length ascii",
        Function("Text and bytes", Growth.SMALL, 1, 1),
    ),
    ("startswith endswith", Function("Text and bytes", Growth.SMALL, 2, 2)),
    ("contains instr", Function("Text and bytes", Growth.SMALL, 2, 2, frozenset({1}))),
    ("locate position", Function("Text and bytes", Growth.SMALL, 2, 3, frozenset({0}))),
    ("regexp_like rlike regexp", Function("Regular expressions", Growth.SMALL, 2, 2, frozenset({1}), 1)),
    ("regexp_count", Function("Regular expressions", Growth.SMALL, 2, 2, frozenset({1}), 1)),
    ("regexp_extract", Function("Regular expressions", Growth.FIRST, 2, 3, frozenset({1, 2}), 1)),
    ("regexp_replace", Function("Regular expressions", Growth.REPLACED, 3, 3, frozenset({1, 2}), 1)),
    ("encode", Function("Encodings and hashes", Growth.DOUBLE, 2, 2, frozenset({1}))),
    ("decode", Function("Encodings and hashes", Growth.DOUBLE, 2, 2, frozenset({1}))),
    ("hex base64", Function("Encodings and hashes", Growth.DOUBLE, 1, 1)),
    ("unhex unbase64", Function("Encodings and hashes", Growth.FIRST, 1, 1)),
    ("md5 sha sha1 crc32", Function("Encodings and hashes", Growth.SMALL, 1, 1)),
    ("sha2", Function("Encodings and hashes", Growth.SMALL, 2, 2, frozenset({1}))),
    ("hash xxhash64", Function("Encodings and hashes", Growth.SMALL, 1, 20)),
    ("get_json_object", Function("Encodings and hashes", Growth.DOUBLE, 2, 2, frozenset({1}))),
    ("coalesce greatest least", Function("Choices and NULL", Growth.LARGEST, 1, _MANY)),
    ("if nvl2", Function("Choices and NULL", Growth.LARGEST, 3, 3)),
    ("ifnull nvl nullif", Function("Choices and NULL", Growth.LARGEST, 2, 2)),
    ("isnull isnotnull", Function("Choices and NULL", Growth.SMALL, 1, 1)),
    ("between", Function("Choices and NULL", Growth.SMALL, 3, 3)),
    ("abs sign ceil ceiling floor", Function("Numbers and conversions", Growth.SMALL, 1, 1)),
    ("mod pmod", Function("Numbers and conversions", Growth.SMALL, 2, 2)),
    ("int bigint double boolean", Function("Numbers and conversions", Growth.SMALL, 1, 1)),
    ("string binary", Function("Numbers and conversions", Growth.FIRST, 1, 1)),
    ("year month day hour minute second dayofweek dayofyear", Function("Times", Growth.SMALL, 1, 1)),
    ("unix_millis unix_micros unix_seconds", Function("Times", Growth.SMALL, 1, 1)),
    ("timestamp_millis timestamp_micros timestamp_seconds", Function("Times", Growth.SMALL, 1, 1)),
    ("date_format", Function("Times", Growth.SMALL, 2, 2, frozenset({1}))),
    ("date_trunc", Function("Times", Growth.SMALL, 2, 2, frozenset({0}))),
    ("filter", Function("Headers", Growth.FIRST, 2, 2, takes_lambda=True)),
    ("transform", Function("Headers", Growth.MAPPED, 2, 2, takes_lambda=True)),
    ("exists forall", Function("Headers", Growth.SMALL, 2, 2, takes_lambda=True)),
    ("size cardinality array_size", Function("Headers", Growth.SMALL, 1, 1)),
    ("element_at try_element_at get", Function("Headers", Growth.FIRST, 2, 2)),
    ("array_contains", Function("Headers", Growth.SMALL, 2, 2)),
    ("array", Function("Headers", Growth.SUM, 0, 50)),
    ("array_append array_prepend", Function("Headers", Growth.SUM, 2, 2)),
    ("named_struct", Function("Headers", Growth.SUM, 2, 4, frozenset({0, 2}))),
)

FUNCTIONS = {name: function for names, function in _TABLE for name in names.split()}
"""By name, in lower case."""
