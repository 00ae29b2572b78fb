"""The proof that files with positions of consumer groups are read exactly, or refused with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_spark.archiving.restore.groups import GroupOffset, read_group_offsets


def test_both_forms_of_the_tool_are_read(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text('orders,0,5\n\n"pay,ments",1,9223372036854775807\n', encoding="utf-8")
    assert read_group_offsets(file, "g") == [
        GroupOffset("g", "orders", 0, 5),
        GroupOffset("g", "pay,ments", 1, 2**63 - 1),
    ]
    file.write_text("one,orders,0,5\ntwo, orders, 0, 6\n", encoding="utf-8-sig")
    assert read_group_offsets(file, None) == [GroupOffset("one", "orders", 0, 5), GroupOffset("two", "orders", 0, 6)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"orders,0,5\n", r"Line 1 of .* names no consumer group; give it with --group-name"),
        (b"g,orders,0,5\ng,orders,x,5\n", "Line 2 of .* is not topic,partition,offset"),
        (b"g,orders,0,-1\n", "Line 1"),
        (b"g,orders,0,9223372036854775808\n", "Line 1"),
        (b"orders\n", "Line 1"),
        (b"a,b,c,1,2\n", "Line 1"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_anything_else_is_refused_with_the_line(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=sentence):
        read_group_offsets(file, None)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.csv of groupOffsets cannot be read"):
        read_group_offsets(tmp_path / "none.csv", None)
