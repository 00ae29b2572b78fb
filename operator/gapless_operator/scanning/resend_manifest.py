"""The Resend that a GapScan renders: one file to carry to the sending side and apply there.

Must not know how the bundle was found or where this text is stored. What only the sending side knows gets a
placeholder, so that its API server refuses the file until it is filled in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from gapless_api.base.quantities import quantity
from gapless_api.v1alpha1.resource import API_VERSION
from gapless_operator.common.children import stable_name

if TYPE_CHECKING:
    from gapless_api.bundle.form import BundleMetadata
    from gapless_api.v1alpha1.gapscan import GapScan, ResendTemplate
    from gapless_api.v1alpha1.scan_status import BundleReference

MAX_INLINE_BYTES = 100 * 1024
"""kubectl apply copies the object into an annotation of at most 256 KiB, and the status contains it once more."""
_FILL_IN = "FILL-IN"


def render(  # noqa: PLR0913 -- the parts of the file
    scan: GapScan,
    template: ResendTemplate,
    *,
    reference: BundleReference,
    metadata: BundleMetadata | None,
    text: bytes | None,
    location: str,
) -> str:
    """Render the Resend as YAML, with comments on how to use it.

    Args:
        scan: the GapScan, which has the `template`.
        template: for the spec of the Resend.
        reference: to the bundle, as in the status.
        metadata: of the bundle, if its text is available.
        text: the bundle, if it is available; it is inlined if it is small.
        location: where it is otherwise, for the comments.
    """
    name = stable_name(scan.metadata.name, reference.id)
    inline = text is not None and len(text) <= MAX_INLINE_BYTES
    when = "" if metadata is None else f" on {metadata.created:%Y-%m-%d at %H:%M} UTC"
    events = quantity(reference.missing, "event")
    notes = [
        f"Resends the {events} that GapScan {scan.key} found missing{when}.",
        "On the sending side: kubectl apply --server-side -f THIS-FILE",
    ]
    if not inline:
        notes.append(f"The bundle is too large to be inlined: carry {location} as well, then run")
        notes.append(f"kubectl create configmap {name} --from-file=bundle.json.gz=THAT-FILE")
        notes.append(
            "(larger than 1 MiB: put it into a StorageLocation there; write storageRef and path below instead)."
        )
    spec: dict[str, Any] = {"diodeRef": {"name": template.diode_ref.name}}
    if template.kafka_ref is None:
        notes.append("Write the name of the KafkaConnection of the sending side below.")
    spec["kafkaRef"] = {"name": _FILL_IN if template.kafka_ref is None else template.kafka_ref.name}
    bundle: dict[str, Any] = {"sha256": reference.sha256}
    if inline and text is not None:
        bundle["inline"] = _Text(text.decode("utf-8"))
    else:
        bundle["configMap"] = {"name": name, "key": "bundle.json.gz"}
    spec["bundle"] = bundle
    spec |= template.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        exclude_defaults=True,
        exclude={"diode_ref", "namespace", "kafka_ref"},
    )
    object_metadata = {"name": name} | ({"namespace": template.namespace} if template.namespace is not None else {})
    body = {"apiVersion": API_VERSION, "kind": "Resend", "metadata": object_metadata, "spec": spec}
    head = "".join(f"# {line}\n" for line in notes)
    return head + yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Text(str):
    """Text that is written as a literal block."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes `_Text` as a literal block."""


_Dumper.add_representer(
    _Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")
)
