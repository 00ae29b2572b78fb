from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    text = resources.files("gapless_api").joinpath("schema", "bundle.schema.json").read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))


@pytest.mark.parametrize("kind", BundleKind)
def test_what_we_write_is_valid(tmp_path: Path, schema: Draft202012Validator, kind: BundleKind) -> None:
    entries = [
        PartitionGaps("ü-1", 2**31 - 1, 0, MAX_OFFSET, OffsetRanges([(0, 3), (MAX_OFFSET, MAX_OFFSET)])),
        PartitionGaps("t", 0, 0, 0, OffsetRanges()),
    ]
    path = tmp_path / "b"
    write_bundle(path, kind, entries, created=datetime.now(UTC), source={"topic": "gaps"})
    schema.validate(json.loads(path.read_text()))


def test_what_the_peer_writes_and_reads_is_valid(vectors: Path, schema: Draft202012Validator) -> None:
    names = [path for path in vectors.glob("bundle-*.json") if path.name != "bundle-in-gap-topic.json"]
    assert len(names) >= 6
    for path in names:
        schema.validate(json.loads(path.read_text()))


MARK = {
    "version": 1,
    "id": "a",
    "created": "2026-11-20T10:00:00Z",
    "source": {},
    "missing": 1,
    "sha256": "0" * 64,
}


def bundle(**changed: Any) -> dict[str, Any]:
    entry = {"topic": "t", "partition": 0, "gaps": [[5]]}
    entry = {name: value for name, value in {**entry, **changed}.items() if value is not ...}
    return {"type": "all", "results": [entry]}


@pytest.mark.parametrize(
    "wrong",
    [
        {}, [], {"type": "all"}, {"type": "some", "results": []}, {"results": bundle()["results"]},
        {"type": "all", "results": None},
        bundle(topic=...), bundle(partition=...), bundle(gaps=...), bundle(topic=""), bundle(topic="a\nb"),
        bundle(partition=-1), bundle(partition=2**31), bundle(partition="0"), bundle(partition=True),
        bundle(gaps=5), bundle(gaps=[5]), bundle(gaps=[[]]), bundle(gaps=[[1, 2, 3]]), bundle(gaps=[[-1]]),
        bundle(gaps=[[2**63]]), bundle(gaps=[["5"]]), bundle(gaps=[[1.5]]), bundle(window_max=2**63),
        *({**bundle(), "gapless": {k: v for k, v in MARK.items() if k != name}} for name in MARK),
        *({**bundle(), "gapless": {**MARK, name: wrong}} for name, wrong in [
            ("version", 2), ("created", "now"), ("source", {"a": 1}), ("missing", -1), ("sha256", "0"),
            ("signature", 1),
        ]),
    ],
)  # fmt: skip
def test_what_the_reader_refuses_by_form_is_not_valid(wrong: Any, schema: Draft202012Validator) -> None:
    with pytest.raises(ValidationError):
        schema.validate(wrong)


def test_the_base_of_the_wrong_ones_is_valid(schema: Draft202012Validator) -> None:
    schema.validate(bundle())
    schema.validate({**bundle(), "gapless": {**MARK, "signature": "AA=="}, "more": 1})
