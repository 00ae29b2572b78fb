"""The proof that each row of the page about files of other programs names its tests; test_docs looks for them."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "development" / "foreign-files.md"


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 5
    assert [row for row in rows if "`test_" not in row and "not read" not in row] == []
