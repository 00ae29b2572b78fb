"""The identity of a Resend's work, by which a Diode's ledger recognizes work that was done before.

It covers only what decides which events are sent, and which of them are sent empty. Rate, copies, compression,
priority, pauses, names and the location of the bundle are not part of it.
"""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from gapless_api.v1alpha1.common import PartitionWindow
from gapless_api.v1alpha1.resend import ResendSpec
from gapless_api.v1alpha1.sender_options import DEFAULT_MAX_FRAGMENTS

_VERSION = 1
"""Part of the digest. A change of the form would make existing ledger entries unrecognizable."""


def resend_identity(spec: ResendSpec, *, window: PartitionWindow, bundle_sha256: str | None = None) -> str:
    """Return the digest (SHA-256, hexadecimal) of the work that `spec` describes.

    Args:
        spec: of the Resend.
        window: the Diode's window; the window of the spec overrides it.
        bundle_sha256: digest of the bundle's content as its reader computed it; the one in the spec is unverified.

    Raises:
        ValueError: the digest of the bundle is missing, or the filter rules are in a ConfigMap and were not read yet.
    """
    rules = spec.input_filter
    if rules is not None and rules.rules is None:
        raise ValueError("a Resend has no identity before its filter rules are known")
    window = spec.partition_window or window
    work = {
        "version": _VERSION,
        "diode": spec.diode_ref.name,
        "window": [window.start, window.count],
        "selection": _selection(spec, bundle_sha256),
        "filter": None if rules is None else [rules.default_action, *(rules.rules or ())],
        "fill": list(spec.fillable),
        **_non_default_fields(spec),
    }
    text = json.dumps(work, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _non_default_fields(spec: ResendSpec) -> dict[str, Any]:
    """Return fields that were added later, if set: without them, the digest is the same as before they existed."""
    fields: dict[str, Any] = {}
    if (times := spec.time_filter) is not None:
        fields["timeFilter"] = [None if at is None else _milliseconds(at) for at in (times.from_, times.to)]
    if spec.isolation_level != "ReadUncommitted":
        fields["isolationLevel"] = spec.isolation_level
    if (fallback := spec.fallback) is not None:
        # The archive decides which expired events can be sent.
        references = (fallback.archive_ref, fallback.storage_ref)
        names = [None if reference is None else reference.name for reference in references]
        fields["fallback"] = [*names, fallback.folder, fallback.region]
    if spec.max_fragments != DEFAULT_MAX_FRAGMENTS:
        fields["maxFragments"] = spec.max_fragments
    return fields


def _selection(spec: ResendSpec, bundle_sha256: str | None) -> list[Any]:
    if spec.offsets is not None:
        return ["offsets", spec.offsets.topic, spec.offsets.partition, spec.offsets.from_, spec.offsets.to]
    if spec.time_range is not None:
        times = spec.time_range
        until = None if times.to is None else _milliseconds(times.to)
        return ["timeRange", times.topic, times.partition, _milliseconds(times.from_), until]
    if bundle_sha256 is None:
        raise ValueError("a Resend of a bundle has no identity before the bundle's digest is known")
    return ["bundle", bundle_sha256]


def _milliseconds(moment: datetime) -> int:
    """Return a Kafka timestamp; fractions of a millisecond are truncated, as in the sender."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
