"""An object that bears the name of a child of ours and is not that child is left alone, and its owner is named."""

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


def test_what_we_wrote_is_ours_whatever_its_content_is_by_now() -> None:
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
def test_an_object_of_somebody_else_is_refused_and_its_owner_is_named(there: Any, owner: str) -> None:
    with pytest.raises(RefusedError) as refused:
        check_ours(there, OURS)
    assert str(refused.value) == (
        f"The ConfigMap north/repeat-send exists and belongs to {owner}, not to this Resend repeat; it was left as it "
        f"is: delete or rename it, so that Gapless can create its own."
    )


@pytest.mark.parametrize("label", ["gapless.dev/uid", "gapless.dev/role", "gapless.dev/kind", "gapless.dev/name"])
def test_each_identifying_label_counts(label: str) -> None:
    labels = {key: value for key, value in OURS["metadata"]["labels"].items() if key != label}
    with pytest.raises(RefusedError):
        check_ours({"metadata": {"labels": labels}}, OURS)
