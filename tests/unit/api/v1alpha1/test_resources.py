"""Resources are parsed completely, and an error is one sentence."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.diode import Diode, DiodeStatus
from gapless_api.v1alpha1.gapscan import GapScan
from gapless_api.v1alpha1.kinds import KINDS
from gapless_api.v1alpha1.model import MAX_MESSAGE_LENGTH
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.resend_status import Progress, ResendStatus, UnavailableRange
from gapless_api.v1alpha1.resource import metadata_of

EXAMPLES = [
    document
    for file in sorted((Path(__file__).parents[4] / "examples").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
]
METADATA = {
    "name": "night-20",
    "namespace": "gapless-sender",
    "uid": "0f6b7c1e",
    "generation": 3,
    "creationTimestamp": "2026-11-20T03:00:12Z",
    "managedFields": [{"manager": "kubectl"}],
}


def resend(**spec: Any) -> dict[str, Any]:
    whole = {"diodeRef": {"name": "hall"}, "kafkaRef": {"name": "kafka"}, **spec}
    return {"apiVersion": "gapless.dev/v1alpha1", "kind": "Resend", "metadata": METADATA, "spec": whole}


OFFSETS = {"topic": "transfer", "partition": 0, "from": 5, "to": MAX_OFFSET}


def test_the_largest_offset_survives_reading_and_writing() -> None:
    read = Resend.from_resource(resend(offsets=OFFSETS))
    assert read.spec.offsets is not None
    assert read.spec.offsets.to == 9223372036854775807
    assert read.spec.to_dict()["offsets"] == OFFSETS


def test_metadata_is_parsed_with_unknown_fields() -> None:
    metadata = Resend.from_resource(resend(offsets=OFFSETS)).metadata
    assert metadata.generation == 3
    assert metadata.creation_timestamp == datetime(2026, 11, 20, 3, 0, 12, tzinfo=UTC)
    assert not metadata.deleting
    assert metadata_of({"metadata": {**METADATA, "deletionTimestamp": "2026-11-20T04:00:00Z"}}).deleting


def test_framework_views_are_parsed_like_plain_dicts() -> None:
    body = resend(offsets=MappingProxyType(OFFSETS))
    assert Resend.from_resource(MappingProxyType(body)) == Resend.from_resource(resend(offsets=OFFSETS))


def test_times_are_parsed_as_strings_and_as_yaml_timestamps() -> None:
    quoted = yaml.safe_load("{topic: transfer, from: '2026-11-20T02:00:00+01:00'}")
    unquoted = yaml.safe_load("{topic: transfer, from: 2026-11-20T02:00:00+01:00}")
    assert Resend.from_resource(resend(timeRange=quoted)) == Resend.from_resource(resend(timeRange=unquoted))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"offsets": {**OFFSETS, "to": 4}},
            "spec.offsets: from is greater than to: write the lower offset as from; both are inclusive",
        ),
        (
            {"offsets": {**OFFSETS, "partition": "0"}},
            'spec.offsets.partition: "0" should be a valid integer; correct it',
        ),
        (
            {"offsets": OFFSETS, "inputFilter": {"rules": ["deny:a", ""]}},
            'spec.inputFilter.rules[1]: "" should have at least 6 characters; correct it',
        ),
        ({"offsets": OFFSETS, "kafkaRef": {}}, "spec.kafkaRef.name: the field is missing; add it"),
        (
            {"offsets": OFFSETS, "Parallelism": 2},
            "spec.Parallelism: there is no such field; delete it or correct its name (see kubectl explain)",
        ),
    ],
)
def test_an_error_is_one_sentence_that_names_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Resend.from_resource(resend(**change))
    assert str(caught.value) == f"Resend gapless-sender/night-20 cannot be used: {message}."


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(EXAMPLES), st.data())
def test_any_value_of_a_field_is_parsed_or_refused_without_a_crash(
    example: dict[str, Any], drawn: st.DataObject
) -> None:
    body = copy.deepcopy(example)
    inside: Any = body["spec"]
    while True:
        key = drawn.draw(st.sampled_from(list(inside) if isinstance(inside, dict) else range(len(inside))))
        if not isinstance(inside[key], dict | list) or not inside[key] or drawn.draw(st.booleans()):
            break
        inside = inside[key]
    inside[key] = drawn.draw(JSON)
    kind = next(kind for kind in KINDS if body["kind"] == kind.KIND)
    try:
        read = kind.from_resource(body)
    except ConfigurationError as error:
        assert str(error).endswith(".")  # noqa: PT017 -- both ends are fine
    else:
        assert kind.from_resource({**body, "spec": read.spec.to_dict()}) == read  # type: ignore[attr-defined]


@pytest.mark.parametrize("spec", [None, [], "text", 5])
@pytest.mark.parametrize("kind", [Diode, GapScan, Resend])
def test_an_invalid_spec_is_always_a_configuration_error(kind: type[Any], spec: object) -> None:
    with pytest.raises(ConfigurationError):
        kind.from_resource({"metadata": METADATA, "spec": spec})


def test_unknown_status_fields_of_a_newer_version_are_ignored() -> None:
    body = resend(offsets=OFFSETS) | {"status": {"attempt": 2, "novelty": 1, "progress": {"sent": 3, "novelty": 1}}}
    status = Resend.from_resource(body).status
    assert status.attempt == 2
    assert status.progress == Progress(sent=3)


def test_a_status_is_written_without_nulls_and_with_times_in_whole_seconds() -> None:
    status = ResendStatus(
        observed_generation=3,
        progress=Progress(planned=4, sent=1, updated_at=datetime(2026, 11, 20, 3, 0, 12, 345, tzinfo=UTC)),
        unavailable=(UnavailableRange(topic="transfer", partition=0, first=5, last=7, reason="Expired"),),
    )
    written = status.to_status()
    assert written["progress"]["updatedAt"] == "2026-11-20T03:00:12Z"
    assert "etaSeconds" not in written["progress"]
    assert "plan" not in written
    assert Resend.from_resource(resend(offsets=OFFSETS) | {"status": written}).status.to_status() == written


def test_a_long_message_is_truncated_so_that_the_status_can_be_written() -> None:
    diode = DiodeStatus.model_validate_json('{"preflight": {"message": "%s"}}' % ("x" * (MAX_MESSAGE_LENGTH + 1)))
    assert diode.preflight is not None
    assert diode.preflight.message is not None
    assert len(diode.preflight.message) == MAX_MESSAGE_LENGTH
    assert diode.preflight.message.endswith("…")
    again = diode.preflight.model_copy(update={"message": "y" * 100_000})
    assert again.message == "y" * (MAX_MESSAGE_LENGTH - 1) + "…"
    with pytest.raises(ValidationError, match="message"):
        again.model_copy(update={"message": 1})


def test_parsed_resources_are_immutable() -> None:
    read = Resend.from_resource(resend(offsets=OFFSETS))
    with pytest.raises(ValidationError, match="frozen"):
        read.spec.parallelism = 3  # type: ignore[misc]


def test_a_child_has_an_owner_reference_for_garbage_collection() -> None:
    assert Resend.from_resource(resend(offsets=OFFSETS)).owner_reference() == {
        "apiVersion": "gapless.dev/v1alpha1",
        "kind": "Resend",
        "name": "night-20",
        "uid": "0f6b7c1e",
        "controller": True,
    }


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        ({}, ()),
        ({"unavailable": "Fill"}, ("NonExistent",)),
        ({"unavailable": "Fill", "fill": ["TooLarge", "Expired"]}, ("Expired", "TooLarge")),
    ],
)
def test_only_requested_reasons_are_filled(spec: dict[str, Any], filled: tuple[str, ...]) -> None:
    assert Resend.from_resource(resend(offsets=OFFSETS, **spec)).spec.fillable == filled


@pytest.mark.parametrize(
    "cron", ["0 3 * * *", "*/15 * * * *", "0,30 8-18 * * 1-5", "59 23 31 12 7", "0 0 1 JAN,jul MON-FRI", "5  4 * * sun"]
)
def test_crontab_schedules_are_accepted(cron: str) -> None:
    body = {
        "metadata": METADATA,
        "spec": {
            "kafkaRef": {"name": "kafka"},
            "source": {"gapTopic": {"topic": "gaps"}},
            "schedule": {"cron": cron},
        },
    }
    assert GapScan.from_resource(body).spec.schedule is not None


@pytest.mark.parametrize(
    "cron", ["@daily", "0 24 * * *", "0 3 0 * *", "0 3 32 * *", "0 3 * 13 *", "0 3 * * 8", "0 3 * *", "*/0 * * * *"]
)
def test_impossible_schedules_are_refused(cron: str) -> None:
    body = {
        "metadata": METADATA,
        "spec": {
            "kafkaRef": {"name": "kafka"},
            "source": {"gapTopic": {"topic": "gaps"}},
            "schedule": {"cron": cron},
        },
    }
    with pytest.raises(ConfigurationError, match="schedule"):
        GapScan.from_resource(body)
