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

_VERSION = 1
"""Part of the digest: were the form changed under the same version, old ledgers would forget what was sent."""


def resend_identity(spec: ResendSpec, *, window: PartitionWindow, bundle_sha256: str | None = None) -> str:
    """Digest (SHA-256, hexadecimal) of the work that `spec` asks for.

    Args:
        spec: of the Resend.
        window: of the Diode; the spec's own goes first.
        bundle_sha256: digest of the bundle's content as its reader computed it; the spec's own is only a claim.

    Raises:
        ValueError: the spec names a bundle and no digest is known.
    """
    window = spec.partition_window or window
    work = {
        "version": _VERSION,
        "diode": spec.diode_ref.name,
        "window": [window.start, window.count],
        "selection": _selection(spec, bundle_sha256),
        "filter": None if spec.input_filter is None else [spec.input_filter.default_action, *spec.input_filter.rules],
        "fill": list(spec.fillable),
    }
    text = json.dumps(work, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


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
