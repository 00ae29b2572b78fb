from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gapless_api.errors import ConfigurationError
from gapless_api.ids import MAX_OFFSET, MAX_PARTITION
from gapless_api.offsets import OffsetRanges
from gapless_spark.expectations import parse_expectations

if TYPE_CHECKING:
    from pathlib import Path


def test_several_expectations_for_one_partition_add_up() -> None:
    found = parse_expectations(["t_x:0:0-9", "t_x:0:20-29", "t.y:1:7-7"])
    assert found == {("t_x", 0): OffsetRanges([(0, 9), (20, 29)]), ("t.y", 1): OffsetRanges([(7, 7)])}


def test_the_largest_numbers_are_exact() -> None:
    found = parse_expectations([f"t:{MAX_PARTITION}:{2**53 + 1}-{MAX_OFFSET}"])
    assert list(found["t", MAX_PARTITION]) == [(2**53 + 1, MAX_OFFSET)]


def test_a_file_has_one_expectation_a_line(tmp_path: Path) -> None:
    file = tmp_path / "expected"
    file.write_bytes(b"\xef\xbb\xbf# what upstream said\r\n\r\ntransfer:0:0-99\r\n  transfer:1:5-9\n")
    assert parse_expectations(["transfer:0:100-100"], file) == {
        ("transfer", 0): OffsetRanges([(0, 100)]),
        ("transfer", 1): OffsetRanges([(5, 9)]),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t",
        "t:0",
        "t:0:5",
        "t:0:5-",
        "t:0:-5",
        "t:-1:0-5",
        ":0:0-5",
        "t:0:a-b",
        "t:00:0-5",
        f"t:0:0-{MAX_OFFSET + 1}",
    ],
)
def test_anything_else_is_refused_with_the_form_to_use(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not topic:partition:first-last; write for example"):
        parse_expectations([text])


def test_a_reversed_expectation_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'t:0:9-5' ends before it begins"):
        parse_expectations(["t:0:9-5"])


def test_a_bad_line_is_named_with_file_and_number(tmp_path: Path) -> None:
    file = tmp_path / "expected"
    file.write_text("t:0:0-9\nt;1;0-9\n")
    with pytest.raises(ConfigurationError, match=rf"in {file}, line 2 is not"):
        parse_expectations([], file)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"expectFile cannot be read \(No such file or directory\)"):
        parse_expectations([], tmp_path / "none")
