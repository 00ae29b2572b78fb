"""Owns how a Resend names its events: a bundle, offsets, or a time range; must not know how they are sent."""

from typing import Annotated, ClassVar

from pydantic import Field

from gapless_api.v1alpha1.common import (
    FORMER_STORAGE,
    Former,
    Name,
    Offset,
    Partition,
    Reference,
    SecretEntry,
    Sha256,
    WireTopic,
    stays_inside,
)
from gapless_api.v1alpha1.model import ApiModel, Rule, Time

LONGEST_INLINE_BUNDLE = 262144
"""Characters. kubectl apply keeps a copy of the object in an annotation, which may not be larger than this."""


class ConfigMapEntry(ApiModel):
    """An entry of a ConfigMap in the same namespace."""

    name: Name
    """Name of the ConfigMap."""
    key: SecretEntry = "bundle.json"
    """Entry of the ConfigMap, in data or in binaryData; it may be compressed (gzip)."""


class BundleSource(ApiModel):
    """Location of the bundle to send."""

    RULES: ClassVar = (
        Rule(
            "!has(self.persistentVolumeClaim) && !has(self.s3)",
            "volumes and stores are named by a StorageLocation of the platform team: write storageRef: {name: NAME} "
            "and path in place of persistentVolumeClaim and s3",
            lambda bundle: bundle.persistent_volume_claim is None and bundle.s3 is None,
            stored=FORMER_STORAGE,
        ),
        Rule(
            "[has(self.inline), has(self.configMap), has(self.storageRef)].filter(given, given).size() == 1 || "
            "has(self.persistentVolumeClaim) || has(self.s3)",
            "say where the bundle is, exactly once: inline, configMap or storageRef",
            lambda bundle: (
                sum(place is not None for place in (bundle.inline, bundle.config_map, bundle.storage_ref)) == 1
            ),
        ),
        Rule(
            "has(self.storageRef) == has(self.path)",
            "storageRef and path belong together: give both or neither",
            lambda bundle: (bundle.storage_ref is None) == (bundle.path is None),
            "path",
        ),
        stays_inside("path"),
    )

    inline: Annotated[str, Field(min_length=2, max_length=LONGEST_INLINE_BUNDLE)] | None = None
    """The bundle itself, as the JSON text that a scan writes; at most 256 KiB, and less with kubectl apply, which
    keeps a second copy in an annotation unless it is called with --server-side."""
    config_map: ConfigMapEntry | None = None
    """The bundle is in a ConfigMap; kubectl create configmap NAME --from-file=bundle.json makes one."""
    storage_ref: Reference | None = None
    """The bundle is in this StorageLocation, at path."""
    path: (
        Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[-_.a-zA-Z0-9=]+(/[-_.a-zA-Z0-9=]+)*$")] | None
    ) = None
    """Path of the bundle in the StorageLocation; it may be compressed (gzip)."""
    sha256: Sha256 | None = None
    """Expected digest of the bundle, as in the GapScan's status and the output of gapless bundle show; any other is
    refused."""
    persistent_volume_claim: Former = None
    """Removed: use storageRef and path."""
    s3: Former = None
    """Removed: use storageRef and path."""


class Offsets(ApiModel):
    """A range of offsets of one partition."""

    RULES: ClassVar = (
        Rule(
            "!has(self.to) || self.from <= self.to",
            "from is after to: write the lower offset as from; both are inclusive",
            lambda offsets: offsets.to is None or offsets.from_ <= offsets.to,
            "from",
        ),
    )

    topic: WireTopic
    """Topic as the receiving side names it."""
    partition: Partition
    """Partition as the receiving side numbers it."""
    from_: Annotated[Offset, Field(alias="from")]
    """First offset to send, inclusive."""
    to: Offset | None = None
    """Last offset to send, inclusive. Defaults to the last one that exists when the resend first starts; later records
    are not sent."""


class TimeRange(ApiModel):
    """A range of Kafka timestamps."""

    RULES: ClassVar = (
        Rule(
            "!has(self.to) || self.from <= self.to",
            "from is after to: write the older time as from; both are inclusive",
            lambda time_range: time_range.to is None or time_range.from_ <= time_range.to,
            "from",
        ),
    )

    topic: WireTopic
    """Topic as the receiving side names it."""
    partition: Partition | None = None
    """Partition as the receiving side numbers it. Defaults to all partitions of the Diode's window."""
    from_: Annotated[Time, Field(alias="from")]
    """Oldest Kafka timestamp to send, inclusive, such as 2026-11-20T10:00:00Z."""
    to: Time | None = None
    """Newest Kafka timestamp to send, inclusive. Defaults to everything that exists when the Resend first starts."""


class TimeFilter(ApiModel):
    """Limits a bundle or offsets to a time range. Other events are skipped and are not part of the plan."""

    RULES: ClassVar = (
        Rule(
            "has(self.from) || has(self.to)",
            "a timeFilter without from and to filters nothing: give at least one of them, or delete timeFilter",
            lambda time_filter: time_filter.from_ is not None or time_filter.to is not None,
        ),
        Rule(
            "!has(self.from) || !has(self.to) || self.from <= self.to",
            "from is after to: write the older time as from; both are inclusive",
            lambda times: times.from_ is None or times.to is None or times.from_ <= times.to,
            "from",
        ),
    )

    from_: Annotated[Time | None, Field(alias="from")] = None
    """Oldest Kafka timestamp to send, inclusive, such as 2026-11-20T10:00:00Z. Defaults to no limit."""
    to: Time | None = None
    """Newest Kafka timestamp to send, inclusive. Defaults to no limit."""
