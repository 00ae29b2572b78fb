"""Objects that many reconciles read are parsed once, and share what is the same in all of them."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.mirror import Mirror
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.resource import API_VERSION, Resource
from gapless_operator.shell.cache import models as module
from gapless_operator.shell.cache.models import Models
from gapless_operator.shell.cache.store import key_of

SPECS: dict[type[Resource], dict[str, Any]] = {
    Resend: {
        "diodeRef": {"name": "d"},
        "kafkaRef": {"name": "k"},
        "offsets": {"topic": "t", "partition": 0, "from": 1},
    },
    Mirror: {"sourceRef": {"name": "a"}, "targetRef": {"name": "b"}, "topics": ["t"]},
}


def body(kind: type[Resource], name: str = "a", version: int = 1, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": str(version), "generation": 1}
    return {"apiVersion": API_VERSION, "kind": kind.KIND, "metadata": metadata, "spec": {**SPECS[kind], **spec}}


@pytest.mark.parametrize(("kind", "is_kept"), [(Resend, True), (Mirror, False)])
def test_each_version_of_what_many_read_is_parsed_once(kind: type[Resource], *, is_kept: bool) -> None:
    models = Models()
    first = models.parsed(kind, body(kind))
    assert (models.parsed(kind, body(kind)) is first) == is_kept
    assert models.parsed(kind, body(kind)) == first
    newer = models.parsed(kind, body(kind, version=2, suspend=True))
    assert newer != first
    assert models.parsed(kind, body(kind)) == first
    assert (key_of(body(kind)) in models) == is_kept
    models.forget(key_of(body(kind)))
    assert key_of(body(kind)) not in models


def test_an_invalid_version_does_not_replace_a_valid_one() -> None:
    models = Models()
    first = models.parsed(Resend, body(Resend))
    with pytest.raises(ConfigurationError):
        models.parsed(Resend, body(Resend, version=2, mode="No"))
    assert models.parsed(Resend, body(Resend)) is first


def test_equal_field_sets_are_shared_and_a_changed_copy_has_its_own() -> None:
    models = Models()
    first, second = (models.parsed(Resend, body(Resend, name)) for name in ("a", "b"))
    third = models.parsed(Resend, body(Resend, "c", suspend=True))
    assert first.spec.model_fields_set is second.spec.model_fields_set
    assert first.spec.diode_ref.model_fields_set is third.spec.diode_ref.model_fields_set
    assert third.spec.model_fields_set == first.spec.model_fields_set | {"suspend"}
    changed = first.spec.model_copy(update={"force": "again"})
    assert "force" in changed.model_fields_set
    assert "force" not in second.spec.model_fields_set
    assert second == Resend.from_resource(body(Resend, "b"))


def test_what_users_write_does_not_let_the_kept_sets_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_FIELD_SETS", 6)
    models = Models()
    fields = {"suspend": True, "priority": 1, "eps": 5, "copies": 2}
    for count in range(len(fields) + 1):
        spec = dict(list(fields.items())[:count])
        parsed = models.parsed(Resend, body(Resend, f"r{count}", **spec))
        assert parsed == Resend.from_resource(body(Resend, f"r{count}", **spec))
        assert set(spec) <= parsed.spec.model_fields_set
    assert len(models._field_sets) == 6
