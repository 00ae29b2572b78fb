"""Two Resends are the same work exactly when the same events would go over the link in the same form."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic.alias_generators import to_snake

from gapless_api.v1alpha1.common import PartitionWindow
from gapless_api.v1alpha1.identity import resend_identity
from gapless_api.v1alpha1.resend import MUTABLE_FIELDS, Resend

WINDOW = PartitionWindow(start=0, count=100)
DIGEST = "b8dfe5b70838ebafcfadc1fd58edf4304d33dacb91ccb48afce6bd3c201a3182"
OFFSETS = {"topic": "transfer", "partition": 0, "from": 5, "to": 9}
TIMES = {"topic": "transfer", "from": "2026-11-20T01:30:00Z", "to": "2026-11-20T02:15:00Z"}
FILTER = {"rules": ["deny:secret", "allow:."]}


def identity(*, digest: str | None = None, window: PartitionWindow = WINDOW, name: str = "a", **spec: Any) -> str:
    chosen = {} if {"bundle", "timeRange"} & set(spec) else {"offsets": OFFSETS}
    whole = {"diodeRef": {"name": "hall"}, "kafkaRef": {"name": "kafka"}, **chosen, **spec}
    read = Resend.from_resource({"metadata": {"name": name, "namespace": "senders"}, "spec": whole})
    return resend_identity(read.spec, window=window, bundle_sha256=digest)


PLAIN = identity()


def test_the_form_of_the_identity_never_changes_because_ledgers_remember_it() -> None:
    assert PLAIN == "55204cb606f1e151b71fdb7998faf9ae93aa6ded8f1797deb57ef5e083b1aa58"
    assert (
        identity(timeRange=TIMES, unavailable="Fill", inputFilter=FILTER)
        == "f86e036d06ee9cbe53f66f20750b68ae46322120c3d8a9bb270edf08529b2b87"
    )
    assert (
        identity(bundle={"configMap": {"name": "night"}}, digest=DIGEST)
        == "2436c8d8667d7f04cd6f482445b61824ae03b16d05333f440371c99390e5c4db"
    )


@pytest.mark.parametrize(
    "how",
    [
        {"name": "b"},
        {"eps": 5.5},
        {"copies": 3},
        {"priority": 7},
        {"suspend": True},
        {"mode": "Plan"},
        {"force": "again"},
        {"parallelism": 8},
        {"backoffLimit": 0},
        {"ttlSecondsAfterFinished": 1},
        {"activeDeadlineSeconds": 1},
        {"compressWhenLengthExceeds": 100},
        {"kafkaRef": {"name": "other"}},
        {"partitionWindow": {"start": 0, "count": 100}},
        {"unavailable": "Report"},
        {"clientId": "a", "groupId": "b", "stallTimeoutSeconds": 5, "logLevel": "Debug"},
        {"generateNewSymmetricKeyEverySeconds": 60},
        {"isolationLevel": "ReadUncommitted", "maxFragments": 4096},
    ],
    ids=str,
)
def test_send_settings_do_not_change_the_identity(how: dict[str, Any]) -> None:
    assert identity(**how) == PLAIN


@pytest.mark.parametrize(
    "what",
    [
        {"offsets": {**OFFSETS, "topic": "other"}},
        {"offsets": {**OFFSETS, "partition": 1}},
        {"offsets": {**OFFSETS, "from": 6}},
        {"offsets": {**OFFSETS, "to": 10}},
        {"timeRange": TIMES},
        {"timeRange": {**TIMES, "from": "2026-11-20T01:30:00.001Z"}},
        {"timeRange": {key: TIMES[key] for key in ("topic", "from")}},
        {"timeRange": {**TIMES, "partition": 0}},
        {"diodeRef": {"name": "vault"}},
        {"window": PartitionWindow(start=0, count=50)},
        {"partitionWindow": {"start": 1, "count": 100}},
        {"offsets": {key: OFFSETS[key] for key in ("topic", "partition", "from")}},
        {"timeFilter": {"from": TIMES["from"]}},
        {"isolationLevel": "ReadCommitted"},
        {"maxFragments": 4095},
        {"unavailable": "Fill"},
        {"unavailable": "Fill", "fill": ["NonExistent", "Expired"]},
        {"inputFilter": FILTER},
        {"inputFilter": {"rules": FILTER["rules"][::-1]}},
        {"inputFilter": {**FILTER, "defaultAction": "Deny"}},
        {"bundle": {"configMap": {"name": "night"}}, "digest": DIGEST},
        {"bundle": {"configMap": {"name": "night"}}, "digest": DIGEST[::-1]},
    ],
    ids=str,
)
def test_the_selection_changes_the_identity(what: dict[str, Any]) -> None:
    others = [identity(**other) for other in ({}, {"unavailable": "Fill", "fill": ["TooLarge"]})]
    assert identity(**what) not in others


def test_the_same_bundle_in_another_location_is_the_same_work() -> None:
    places = (
        {"configMap": {"name": "night"}},
        {"inline": "{}"},
        {"storageRef": {"name": "bundles"}, "path": "night.json", "sha256": DIGEST},
    )
    assert len({identity(bundle=place, digest=DIGEST) for place in places}) == 1


def test_the_same_moment_in_another_time_zone_is_the_same_work() -> None:
    swedish = {**TIMES, "from": "2026-11-20T02:30:00+01:00"}
    assert identity(timeRange=swedish) == identity(timeRange=TIMES)


def test_the_reasons_to_fill_in_another_order_are_the_same_work() -> None:
    fills = (["Expired", "NonExistent"], ["NonExistent", "Expired"])
    assert len({identity(unavailable="Fill", fill=fill) for fill in fills}) == 1
    assert identity(unavailable="Fill") == identity(unavailable="Fill", fill=["NonExistent"])


def test_a_bundle_has_no_identity_before_its_digest_is_known() -> None:
    with pytest.raises(ValueError, match="digest"):
        identity(bundle={"configMap": {"name": "night"}, "sha256": DIGEST})


def test_each_time_of_a_filter_counts() -> None:
    filters = [
        {"from": TIMES["from"]},
        {"to": TIMES["from"]},
        {"to": TIMES["to"]},
        TIMES,
    ]
    chosen = [{name: text for name, text in times.items() if name != "topic"} for times in filters]
    assert len({PLAIN, *(identity(timeFilter=times) for times in chosen)}) == 5


def test_rules_in_a_config_map_have_no_identity_before_they_are_read() -> None:
    with pytest.raises(ValueError, match="filter rules"):
        identity(inputFilter={"rulesFrom": {"configMap": {"name": "site"}}})


def test_mutable_fields_are_not_part_of_the_identity() -> None:
    changes = {"mode": "Plan", "suspend": True, "eps": 1.0, "priority": 1, "force": "x", "retry": "x"}
    changes |= {"stallTimeoutSeconds": 5, "logLevel": "Debug", "backoffLimit": 9}
    changes |= {"activeDeadlineSeconds": 9, "ttlSecondsAfterFinished": 9}
    assert {to_snake(name) for name in changes} == MUTABLE_FIELDS
    assert all(identity(**{name: value}) == PLAIN for name, value in changes.items())
