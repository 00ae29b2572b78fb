"""How a Resend selects events: by bundle, offsets or time range; must not know how they are sent."""

from typing import Annotated, ClassVar

from pydantic import Field

from gapless_api.v1alpha1.common import (
    Name,
    Offset,
    Partition,
    Reference,
    SecretEntry,
    Sha256,
    WireTopic,
    no_dot_segments,
)
from gapless_api.v1alpha1.model import ApiModel, Rule, Time

MAX_INLINE_BUNDLE_LENGTH = 262144
"""Characters. kubectl apply stores a copy of the object in an annotation, which is limited to this size."""


class ConfigMapEntry(ApiModel):
    """An entry of a ConfigMap in the same namespace."""

    name: Name
    """Name of the ConfigMap."""
    key: SecretEntry = "bundle.json"
    """Entry of the ConfigMap, in data or binaryData. It may be compressed (gzip)."""


class BundleSource(ApiModel):
    """Location of the bundle to send."""

    RULES: ClassVar = (
        Rule(
            "[has(self.inline), has(self.configMap), has(self.storageRef)].filter(present, present).size() == 1",
            "give exactly one location of the bundle: inline, configMap or storageRef",
            lambda bundle: (
                sum(part is not None for part in (bundle.inline, bundle.config_map, bundle.storage_ref)) == 1
            ),
        ),
        Rule(
            "has(self.storageRef) == has(self.path)",
            "storageRef and path belong together: give both or neither",
            lambda bundle: (bundle.storage_ref is None) == (bundle.path is None),
            "path",
        ),
        no_dot_segments("path"),
    )

    inline: Annotated[str, Field(min_length=2, max_length=MAX_INLINE_BUNDLE_LENGTH)] | None = None
    """The bundle itself, as JSON text written by a scan; at most 256 KiB. With kubectl apply the limit is lower,
    because it stores a second copy in an annotation unless --server-side is set."""
    config_map: ConfigMapEntry | None = None
    """The ConfigMap with the bundle. Create it with kubectl create configmap NAME --from-file=bundle.json."""
    storage_ref: Reference | None = None
    """The StorageLocation with the bundle. Requires path."""
    path: (
        Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[-_.a-zA-Z0-9=]+(/[-_.a-zA-Z0-9=]+)*$")] | None
    ) = None
    """Path of the bundle in the StorageLocation. The bundle may be compressed (gzip)."""
    sha256: Sha256 | None = None
    """Expected digest of the bundle, as in the status of the GapScan and the output of gapless bundle show. A bundle
    with another digest is refused."""


class Offsets(ApiModel):
    """A range of offsets of one partition."""

    RULES: ClassVar = (
        Rule(
            "!has(self.to) || self.from <= self.to",
            "from is greater than to: write the lower offset as from; both are inclusive",
            lambda offsets: offsets.to is None or offsets.from_ <= offsets.to,
            "from",
        ),
    )

    topic: WireTopic
    """Topic as the receiving side names it."""
    partition: Partition
    """Partition as the receiving side numbers it."""
    from_: Annotated[Offset, Field(alias="from")]
    """First offset to send, inclusive. Behind the end of the partition it is NotYetWritten."""
    to: Offset | None = None
    """Last offset to send, inclusive. Defaults to the last offset at the time when the Resend first starts; later
    records are not sent."""


class TimeRange(ApiModel):
    """The events of a time range, by Kafka timestamp."""

    RULES: ClassVar = (
        Rule(
            "!has(self.to) || self.from <= self.to",
            "from is after to: write the earlier time as from; both are inclusive",
            lambda time_range: time_range.to is None or time_range.from_ <= time_range.to,
            "from",
        ),
    )

    topic: WireTopic
    """Topic as the receiving side names it."""
    partition: Partition | None = None
    """Partition as the receiving side numbers it. Defaults to all partitions of the Diode's window."""
    from_: Annotated[Time, Field(alias="from")]
    """Earliest Kafka timestamp to send, inclusive, such as 2026-11-20T10:00:00Z."""
    to: Time | None = None
    """Latest Kafka timestamp to send, inclusive. Defaults to all records that exist when the Resend first starts."""


class TimeFilter(ApiModel):
    """Limits a bundle or offsets to a time range. Events outside of it are skipped and are not part of the plan."""

    RULES: ClassVar = (
        Rule(
            "has(self.from) || has(self.to)",
            "a timeFilter without from and to has no effect: give at least one of them, or delete timeFilter",
            lambda time_filter: time_filter.from_ is not None or time_filter.to is not None,
        ),
        Rule(
            "!has(self.from) || !has(self.to) || self.from <= self.to",
            "from is after to: write the earlier time as from; both are inclusive",
            lambda time_filter: (
                time_filter.from_ is None or time_filter.to is None or time_filter.from_ <= time_filter.to
            ),
            "from",
        ),
    )

    from_: Annotated[Time | None, Field(alias="from")] = None
    """Earliest Kafka timestamp to send, inclusive, such as 2026-11-20T10:00:00Z. Defaults to no limit."""
    to: Time | None = None
    """Latest Kafka timestamp to send, inclusive. Defaults to no limit."""
