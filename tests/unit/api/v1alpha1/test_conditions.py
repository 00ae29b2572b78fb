"""Conditions change as Kubernetes, Flux and Argo CD expect it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ERROR_OUTCOMES
from gapless_api.v1alpha1.conditions import Condition, ConditionType, condition, is_true, set_condition
from gapless_api.v1alpha1.kinds import KINDS
from gapless_api.v1alpha1.reason_meanings import MEANINGS
from gapless_api.v1alpha1.reasons import ARCHIVE, CONNECTION, DIODE, GAP_SCAN, MIRROR, RESEND, RESTORE, Reason
from gapless_api.v1alpha1.schema import root_schema

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
STATUSES = st.sampled_from([True, False, None])


def ready(
    *, status: bool | None, generation: int = 1, now: datetime = NOON, message: str = ""
) -> tuple[Condition, ...]:
    return set_condition((), ConditionType.READY, status, Reason.SENDING, message, generation=generation, now=now)


@pytest.mark.parametrize(("status", "word"), [(True, "True"), (False, "False"), (None, "Unknown")])
def test_a_condition_has_three_statuses(*, status: bool | None, word: str) -> None:
    (said,) = ready(status=status)
    assert said.status == word
    assert is_true((said,), ConditionType.READY) == (status is True)


@given(before=STATUSES, after=STATUSES, generation=st.integers(1, 5), message=st.text(max_size=5))
def test_the_transition_time_changes_only_with_the_status(
    *, before: bool | None, after: bool | None, generation: int, message: str
) -> None:
    later = NOON + timedelta(hours=1)
    (said,) = set_condition(
        ready(status=before), ConditionType.READY, after, Reason.SENT, message, generation=generation, now=later
    )
    assert said.last_transition_time == (NOON if before == after else later)
    assert (said.reason, said.message, said.observed_generation) == ("Sent", message, generation)


def test_other_conditions_are_unchanged_and_all_are_sorted() -> None:
    said = ready(status=False)
    for kind in (ConditionType.STALLED, ConditionType.ACCEPTED):
        said = set_condition(said, kind, True, Reason.BAD_BUNDLE, generation=2, now=NOON)
    assert [one.type for one in said] == ["Accepted", "Ready", "Stalled"]
    assert condition(said, ConditionType.READY) == ready(status=False)[0]
    assert condition(said, ConditionType.SUCCEEDED) is None


def test_a_condition_is_serialized_as_kubernetes_json() -> None:
    assert ready(status=None, message="Soon.")[0].to_dict() == {
        "type": "Ready",
        "status": "Unknown",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-11-20T12:00:00Z",
        "reason": "Sending",
        "message": "Soon.",
    }


def test_every_reason_has_a_meaning_and_a_kind() -> None:
    assert set(MEANINGS) == set(Reason)
    for meaning in MEANINGS.values():
        assert set(meaning.kinds) <= {ARCHIVE, CONNECTION, DIODE, GAP_SCAN, MIRROR, RESEND, RESTORE}
        assert meaning.kinds
        assert meaning.meaning.endswith(".")
        assert meaning.action == "" or meaning.action.endswith(".")


def test_reasons_are_camel_case_words() -> None:
    assert all(reason.isalpha() and reason[0].isupper() for reason in Reason)


def test_every_error_of_gapless_has_its_reason_in_the_table() -> None:
    assert {outcome.condition_reason for outcome in ERROR_OUTCOMES.values()} <= set(Reason)


def test_every_field_that_a_meaning_names_exists() -> None:
    schemas = [root_schema(kind) for kind in KINDS]
    tops = {name for schema in schemas for part in ("spec", "status") for name in _below(schema, part)}
    wrong = []
    for reason, meaning in MEANINGS.items():
        for path in re.findall(r"(?<![\w/.-])([a-z]\w*(?:\[\])?(?:\.[a-z]\w*(?:\[\])?)+)", " ".join(meaning[1:])):
            names = path.replace("[]", "").split(".")
            starts = [names] if names[0] in {"spec", "status"} else [["spec", *names], ["status", *names]]
            is_field = names[0] in {"spec", "status", *tops} and path != "retention.ms"  # a setting of Kafka
            if is_field and not any(_has(schema, start) for schema in schemas for start in starts):
                wrong.append((reason.value, path))
    assert wrong == []


def _below(schema: dict[str, Any], part: str) -> dict[str, Any]:
    return dict(schema["properties"].get(part, {}).get("properties", {}))


def _has(schema: dict[str, Any], names: list[str]) -> bool:
    for name in names:
        below = schema.get("items", schema).get("properties", {})
        if name not in below:
            return False
        schema = below[name]
    return True
