"""An existing object with the name of our child is not changed if it belongs to another owner, who is named."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_api.v1alpha1.resend import Resend
from gapless_operator.common.children import owned_manifest
from gapless_operator.shell.api.errors import RefusedError
from gapless_operator.shell.api.ownership import check_ours


def a_resend(uid: str) -> Resend:
    metadata = {"name": "repeat", "namespace": "north", "uid": uid}
    offsets = {"topic": "transfer", "partition": 0, "from": 0, "to": 9}
    spec = {"diodeRef": {"name": "hall"}, "kafkaRef": {"name": "up"}, "offsets": offsets}
    return Resend.from_resource({"metadata": metadata, "spec": spec})


def settings_of(resend: Resend) -> Any:
    return owned_manifest(
        resend, {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}, name="repeat-send", role="send"
    )


OURS = settings_of(a_resend("11111111-a"))


def test_our_own_objects_are_accepted_with_any_content() -> None:
    there = {**OURS, "data": {"resend.properties": "altered"}}
    check_ours(there, OURS)


@pytest.mark.parametrize(
    ("there", "owner"),
    [
        (settings_of(a_resend("22222222-b")), "the Resend repeat (uid 22222222-b)"),
        ({"metadata": {"ownerReferences": [{"kind": "Deployment", "name": "web"}]}}, "the Deployment web"),
        (
            {
                "metadata": {
                    "ownerReferences": [{"kind": "A", "name": "a"}, {"kind": "B", "name": "b", "controller": True}]
                }
            },
            "the B b",
        ),
        ({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}, "Helm"),
        ({"metadata": {"managedFields": [{"manager": "kubectl-create"}]}}, "the field manager kubectl-create"),
        ({"metadata": {}}, "another client"),
    ],
)
def test_an_object_of_another_owner_is_refused_with_its_name(there: Any, owner: str) -> None:
    with pytest.raises(RefusedError) as refused:
        check_ours(there, OURS)
    assert str(refused.value) == (
        f"The ConfigMap north/repeat-send exists and belongs to {owner}, not to this Resend repeat; it was not "
        f"changed. Delete or rename it, so that Gapless can create its own."
    )


@pytest.mark.parametrize("label", ["gapless.dev/uid", "gapless.dev/role", "gapless.dev/kind", "gapless.dev/name"])
def test_each_identifying_label_counts(label: str) -> None:
    labels = {key: value for key, value in OURS["metadata"]["labels"].items() if key != label}
    with pytest.raises(RefusedError):
        check_ours({"metadata": {"labels": labels}}, OURS)
