"""The proof that reports of a comparison of version 1 are read, and that their signatures still hold."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.keys.signatures import signed_bytes, signer_from_file
from gapless_api.keys.trusted_keys import public_key_base64
from gapless_api.wire.copy_report import COPY_REPORT, check_copy_report, read_copy_report
from gapless_api.wire.form import WireError
from kit.signing import key_pair

_COPY = {"first": 0, "end": 3, "records": 3, "digest": "sha256:0", "ranges": []}
_COPY |= {"timestampTypes": {"createTime": 3, "logAppendTime": 0, "none": 0}}
_ADDRESS = {"kind": "kafka", "clusterId": "c", "region": "", "topic": "t", "topicId": "i", "partitions": 1}
VERSION_1: dict[str, Any] = {
    "gaplessCopyReport": 1,
    "created": "2026-11-20T10:00:00Z",
    "product": "1.0",
    "alignment": "order",
    "compared": ["key", "value", "timestamp"],
    "a": {"address": "kafka://a:1/t", **_ADDRESS},
    "b": {"address": "kafka://b:1/t", **_ADDRESS},
    "outcome": "different",
    "exitCode": 4,
    "message": "The copies differ.",
    "readBy": "local",
    "seconds": 1.25,
    "totals": {
        "recordsInA": 3, "recordsInB": 2, "equal": 2, "different": 0, "onlyInA": 1, "onlyInB": 0, "moved": 0,
        "offsetsNotCompared": 0,
    },
    "partitions": [
        {"partition": 0, "a": _COPY, "b": None, "equal": 2, "different": 0, "onlyInA": 1, "onlyInB": 0, "moved": 0}
    ],
    "differences": [
        {"partition": 0, "kind": "onlyInA", "parts": [], "records": 1, "a": {"first": 1, "last": 1}, "b": None}
    ],
    "differencesOmitted": 0,
    "notCompared": [],
    "signature": None,
}  # fmt: skip
"""As an earlier release wrote it."""


def test_version_1_is_read_as_a_report_that_knows_nothing_of_compaction() -> None:
    before = copy.deepcopy(VERSION_1)
    report = read_copy_report(VERSION_1)
    assert before == VERSION_1
    assert (report.totals.only_in_a, report.totals.compacted_in_a, report.totals.compacted_in_b) == (1, 0, 0)
    assert (report.partitions[0].compacted_in_b, report.compacted, report.compacted_omitted) == (0, (), 0)
    assert report.ignored == ("headers",)
    assert read_copy_report(COPY_REPORT.to_json(report)) == report


def test_a_signature_over_version_1_holds_and_an_altered_report_is_refused(tmp_path: Path) -> None:
    private, public = key_pair(tmp_path)
    signature = signer_from_file(private)(signed_bytes("gapless copy report", VERSION_1))
    written = json.loads(json.dumps({**VERSION_1, "signature": signature}))
    keys = {"ours": public_key_base64(public.read_text())}
    assert check_copy_report(written, keys, name="r.json") == "ours"
    with pytest.raises(ConfigurationError, match="was altered"):
        check_copy_report({**written, "exitCode": 0}, keys, name="r.json")
    # The members of version 2 are not covered by a signature over version 1.
    converted = COPY_REPORT.to_json(read_copy_report(written))
    with pytest.raises(ConfigurationError, match="was altered"):
        check_copy_report(converted, keys, name="r.json")


@pytest.mark.parametrize(
    "changed",
    [
        {"gaplessCopyReport": 3},
        {"gaplessCopyReport": 0},
        {"compacted": []},
        {"totals": {}},
        {"totals": 5},
        {"partitions": [None]},
        {"compared": None},
    ],
)
def test_anything_else_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        read_copy_report({**VERSION_1, **changed})
    with pytest.raises(WireError):
        read_copy_report(None)
