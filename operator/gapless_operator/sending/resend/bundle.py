"""Owns what the operator itself checks in a Resend's bundle: is it one, which one, and does the window fit.

Must not know how the bundle gets into a pod. A bundle in a StorageLocation is out of the operator's reach; there a
plan Job reads it, unless the spec says its digest, which the sender then checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import BundleError, ConfigurationError
from gapless_api.bundle.reader import read_bundle_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_api.offsets.windows import PartitionWindow
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.resend_limits import TrustedKey
    from gapless_api.v1alpha1.resend_source import BundleSource, ConfigMapEntry


class BundleInspection(NamedTuple):
    """What matters of a bundle before anything is sent."""

    sha256: str
    id: str | None
    """``None`` for a bundle that another program made."""
    topics: frozenset[str]
    """With something missing in this cluster's partitions, as the wire names them."""


def is_inspected(resend: Resend) -> bool:
    """Whether the status says which bundle it is; with another `force` that is forgotten."""
    return resend.status.bundle_sha256 is not None and resend.status.force == resend.spec.force


def entry_needed(resend: Resend) -> ConfigMapEntry | None:
    """The ConfigMap entry that has to be read before the Resend can be evaluate; ``None`` for none."""
    bundle = resend.spec.bundle
    return None if bundle is None or is_inspected(resend) else bundle.config_map


def inspect_bundle(
    content: bytes,
    *,
    name: str,
    window: PartitionWindow,
    expected_sha256: str | None,
    trusted: Sequence[TrustedKey] = (),
) -> BundleInspection:
    """Read a bundle, plain or gzipped, and make sure that it can be sent.

    Args:
        content: of the bundle.
        name: what messages call it.
        window: which downstream partitions are this cluster's.
        expected_sha256: the digest that the spec names, if it does.
        trusted: keys of which one must have signed it; none for any bundle.

    Raises:
        BundleError: it is no bundle, altered, not the one that is named, or signed by nobody who is trusted.
        ConfigurationError: an entry belongs to no partition of this cluster.
    """
    bundle = read_bundle_text(content, name=name)
    sha256 = bundle.sha256
    check_digest(sha256, expected_sha256, name=name)
    if trusted:
        from gapless_api.bundle.signature import check_trusted  # noqa: PLC0415 -- cryptography is slow to import

        check_trusted(bundle.metadata, {key.name: key.encoded for key in trusted}, bundle=name)
    ours = [entry for entry in bundle.results if window.handles(entry.partition)]
    for entry in ours:
        window.to_upstream(entry.partition)
    topics = frozenset(entry.topic for entry in ours if len(entry.ranges))
    return BundleInspection(sha256, bundle.metadata.id if bundle.metadata is not None else None, topics)


def check_digest(found: str, expected: str | None, *, name: str) -> None:
    """Make sure that a bundle is the one that is named.

    Raises:
        BundleError: it is another one; both digests are in the message.
    """
    if expected is not None and found != expected:
        raise BundleError(
            f"The bundle {name} has the digest {found} and spec.bundle.sha256 is {expected}; carry the bundle that is "
            f"meant, or correct the digest in a new Resend."
        )


def check_selection(resend: Resend, window: PartitionWindow) -> None:
    """Make sure that offsets or a time range belong to a partition of this cluster.

    Raises:
        ConfigurationError: they do not; partition and window are in the message.
    """
    chosen = resend.spec.offsets or resend.spec.time_range
    if chosen is None or chosen.partition is None:
        return
    window.to_upstream(chosen.partition)
    if not window.handles(chosen.partition):
        raise ConfigurationError(
            f"Downstream partition {chosen.partition} is outside the partition window {window} of this cluster; give a "
            f"partition of the window, or create the Resend where that partition comes from."
        )


def bundle_name(source: BundleSource) -> str:
    """What messages call a bundle."""
    if source.config_map is not None:
        return f"{source.config_map.key} of ConfigMap {source.config_map.name}"
    if source.storage_ref is not None:
        return f"{source.path} of StorageLocation {source.storage_ref.name}"
    return "spec.bundle.inline"
