"""Owns what makes two Resends the same work, so that a Diode's ledger can tell that it was done; must not know when.

Only what decides which events go over the link, and which of them empty, counts. Pace, copies, compression, priority,
pauses, names and the place where the same bundle lies do not.
"""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from gapless_api.v1alpha1.common import PartitionWindow
from gapless_api.v1alpha1.resend import ResendSpec
from gapless_api.v1alpha1.sender_options import MOST_FRAGMENTS

_VERSION = 1
"""Part of the digest: were the form changed under the same version, old ledgers would forget what was sent."""


def resend_identity(spec: ResendSpec, *, window: PartitionWindow, bundle_sha256: str | None = None) -> str:
    """Digest (SHA-256, hexadecimal) of the work that `spec` describes.

    Args:
        spec: of the Resend.
        window: of the Diode; the spec's own goes first.
        bundle_sha256: digest of the bundle's content as its reader computed it; the spec's own is only a claim.

    Raises:
        ValueError: the spec names a bundle and no digest is known, or filter rules that are not in it.
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
        **_unusual(spec),
    }
    text = json.dumps(work, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _unusual(spec: ResendSpec) -> dict[str, Any]:
    """What only some specs say; the digest of the others stays what it was before one could say it."""
    unusual: dict[str, Any] = {}
    if (times := spec.time_filter) is not None:
        unusual["timeFilter"] = [None if at is None else _milliseconds(at) for at in (times.from_, times.to)]
    if spec.isolation_level != "ReadUncommitted":
        unusual["isolationLevel"] = spec.isolation_level
    if (fallback := spec.fallback) is not None:
        # With an archive more events can go over the link than without, or with another one.
        places = (fallback.archive_ref, fallback.storage_ref)
        names = [None if place is None else place.name for place in places]
        unusual["fallback"] = [*names, fallback.folder, fallback.region]
    if spec.max_fragments != MOST_FRAGMENTS:
        unusual["maxFragments"] = spec.max_fragments
    return unusual


def _selection(spec: ResendSpec, bundle_sha256: str | None) -> list[Any]:
    if spec.offsets is not None:
        return ["offsets", spec.offsets.topic, spec.offsets.partition, spec.offsets.from_, spec.offsets.to]
    if spec.time_range is not None:
        chosen = spec.time_range
        until = None if chosen.to is None else _milliseconds(chosen.to)
        return ["timeRange", chosen.topic, chosen.partition, _milliseconds(chosen.from_), until]
    if bundle_sha256 is None:
        raise ValueError("a Resend of a bundle has no identity before the bundle's digest is known")
    return ["bundle", bundle_sha256]


def _milliseconds(moment: datetime) -> int:
    """The unit of Kafka's timestamps; finer fractions are cut off, as the sender does."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
