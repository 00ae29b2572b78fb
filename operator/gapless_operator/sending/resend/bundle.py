"""What the operator itself checks in a Resend's bundle: its format, its digest, its signature and its partitions.

Must not know how the bundle gets into a pod. The operator cannot reach a bundle in a StorageLocation: a plan Job reads
it, unless the spec has its digest, which the sender then checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import BundleError, ConfigurationError
from gapless_api.bundle.reader import read_bundle_text

if TYPE_CHECKING:
    from gapless_api.offsets.windows import PartitionWindow
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.resend_limits import TrustedKey
    from gapless_api.v1alpha1.resend_source import BundleSource, ConfigMapEntry


class BundleInspection(NamedTuple):
    """What has to be known of a bundle before anything is sent."""

    sha256: str
    id: str | None
    """``None`` for a bundle that another program made."""
    topics: frozenset[str]
    """Topics with missing events in this cluster's partitions, by their names on the wire."""


def is_inspected(resend: Resend) -> bool:
    """Whether the status identifies the bundle for the current `force`."""
    return resend.status.bundle_sha256 is not None and resend.status.force == resend.spec.force


def required_bundle_entry(resend: Resend) -> ConfigMapEntry | None:
    """Return the ConfigMap entry that has to be read before the Resend can be validated; ``None`` for none."""
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
    """Read a bundle, plain or gzipped, and check that it can be sent.

    Args:
        content: of the bundle.
        name: what messages call it.
        window: which downstream partitions are this cluster's.
        expected_sha256: the digest that the spec names, if it does.
        trusted: keys of which one must have signed it; none for any bundle.

    Raises:
        BundleError: it is not a bundle, was altered, has another digest, or is not signed with a trusted key.
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


def check_digest(actual: str, expected: str | None, *, name: str) -> None:
    """Check the digest of a bundle.

    Raises:
        BundleError: it differs from the expected one; the message contains both.
    """
    if expected is not None and actual != expected:
        raise BundleError(
            f"The bundle {name} has the digest {actual}, but spec.bundle.sha256 is {expected}; provide the bundle with "
            f"that digest, or correct the digest in a new Resend."
        )


def check_selection(resend: Resend, window: PartitionWindow) -> None:
    """Check that offsets or a time range belong to a partition of this cluster.

    Raises:
        ConfigurationError: they do not; the message contains partition and window.
    """
    chosen = resend.spec.offsets or resend.spec.time_range
    if chosen is None or chosen.partition is None:
        return
    window.to_upstream(chosen.partition)
    if not window.handles(chosen.partition):
        raise ConfigurationError(
            f"Downstream partition {chosen.partition} is outside the partition window {window} of this cluster; choose "
            f"a partition in the window, or create the Resend in the cluster that this partition comes from."
        )


def bundle_name(source: BundleSource) -> str:
    """Return how messages refer to a bundle."""
    if source.config_map is not None:
        return f"{source.config_map.key} of ConfigMap {source.config_map.name}"
    if source.storage_ref is not None:
        return f"{source.path} of StorageLocation {source.storage_ref.name}"
    return "spec.bundle.inline"
