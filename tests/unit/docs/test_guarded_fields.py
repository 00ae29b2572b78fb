"""Each field that a user may write is bounded by a rule that a test verifies, or chooses nothing of others."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "docs"))

from guarded_fields import Guard, fields, guards, unbounded  # noqa: E402 -- the page's module is beside the pages

GOLDEN = ROOT / "tests" / "cluster" / "chart" / "golden"


def test_every_field_is_bounded_or_chooses_nothing_of_others() -> None:
    listed = [field for guard in guards() for field in guard.fields] + sorted(unbounded())
    assert sorted(listed) == sorted(fields()), "list a new field in docs/guarded_fields.yaml, under its rule"


@pytest.mark.parametrize("guard", guards(), ids=lambda guard: guard.fields[0])
def test_every_rule_exists_and_is_tested(guard: Guard) -> None:
    rendered = "".join(file.read_text(encoding="utf-8") for file in GOLDEN.glob("*.yaml"))
    policies = set(re.findall(r"kind: ValidatingAdmissionPolicy\nmetadata:\n  name: gapless-(\S+)", rendered))
    assert guard.policy is None or guard.policy in policies
    tests = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    assert f"def {guard.test}(" in tests
