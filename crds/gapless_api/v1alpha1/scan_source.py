"""The sources of a GapScan: the gaps topic, or the received events with the expected offsets.

Must not know when a scan runs or what happens with its result.
"""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import (
    FolderPath,
    KafkaTopic,
    Name,
    Reference,
    SecretEntry,
    int32,
    no_dot_segments,
)
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, Rule, UniqueItems

_EXPECTATION = re.compile(r".+:[0-9]{1,10}:[0-9]{1,19}-[0-9]{1,19}")
Expectation = Annotated[str, Field(min_length=7, max_length=310)]
"""Expected offsets, as topic:partition:first-last."""


NewGeneration = Annotated[str, Field(min_length=24, max_length=300, pattern=r"^.+:[A-Za-z0-9_-]{22}$")]
"""An upstream topic and its new topic ID, as topic:ID."""


class GapTopic(ApiModel):
    """The gaps topic, which the gap detector writes."""

    RULES: ClassVar = (
        Rule(
            "self.inferTails == 'BesideLosses' || self.infer",
            "inferTails has no effect without infer: set infer to true, or delete inferTails",
            lambda source: source.infer_tails == "BesideLosses" or source.infer,
            "inferTails",
        ),
        Rule(
            "!self.includeStale || !self.skipStale",
            "includeStale and skipStale contradict each other: delete one of them",
            lambda source: not source.include_stale or not source.skip_stale,
            "skipStale",
        ),
    )

    topic: KafkaTopic
    """Name of the gaps topic."""
    infer: bool = False
    """Whether the bundle also lists possible losses that no gap record reports: windows without a record between
    others, and ends of windows. status.inferredEvents counts them; some of these events may have arrived."""
    infer_tails: Literal["BesideLosses", "All"] = "BesideLosses"
    """Windows of which infer adds the end. BesideLosses selects windows before a window that begins with a loss. All
    selects every window except the last; no loss between the first and the last window is missed, but nearly everything
    is sent again."""
    include_stale: bool = False
    """Whether the bundle also lists stale records, which the gap detector no longer updates: their events may have
    arrived since. status.staleEvents counts them. infer includes them as well, unless skipStale is true."""
    skip_stale: bool = False
    """Whether to omit stale records even with infer; without infer they are omitted unless includeStale is true."""
    detector_windows: Annotated[int, int32(1, 1_000_000)] = 5
    """Number of windows per partition that the gap detector updates (its MAX_WINDOWS). Records of older windows are
    stale."""


class AuditState(ApiModel):
    """Where an audit stores its state, so that the next one reads only new records."""

    RULES: ClassVar = (no_dot_segments("folder"),)

    storage_ref: Reference
    """The StorageLocation of the state. If the output is also in an S3-compatible store, it must be the same store."""
    folder: Annotated[FolderPath, Field(min_length=1)]
    """Folder in the StorageLocation. Each GapScan needs a separate folder."""


class InventoryMap(ApiModel):
    """A ConfigMap with inventories of the sending side."""

    name: Name
    """Name of the ConfigMap, in the same namespace."""
    keys: Annotated[
        tuple[SecretEntry, ...], Field(min_length=1, max_length=64, json_schema_extra=LIST_SET), UniqueItems
    ] = ("manifest.json",)
    """Entries of the ConfigMap, each with an inventory. For each partition, the newest inventory is used."""


class PublicKeyMap(ApiModel):
    """A ConfigMap with a public key."""

    name: Name
    """Name of the ConfigMap, in the same namespace."""
    key: SecretEntry = "public.pem"
    """Entry of the ConfigMap: an Ed25519 public key (PEM)."""


class VerifyKey(ApiModel):
    """Public key that verifies inventories."""

    config_map: PublicKeyMap
    """The ConfigMap with the key. Create it with kubectl create configmap NAME --from-file=public.pem."""


class ExpectedInventory(ApiModel):
    """Inventories of the sending side (gapless inventory), which list the offsets that exist there."""

    RULES: ClassVar = (
        Rule(
            "has(self.configMap) || has(self.topic)",
            "give the location of the inventories: configMap, topic (inventories sent over the link), or both",
            lambda manifest: manifest.config_map is not None or manifest.topic is not None,
        ),
    )

    config_map: InventoryMap | None = None
    """The ConfigMap with the inventories. Create it with kubectl create configmap NAME --from-file=manifest.json."""
    topic: KafkaTopic | None = None
    """Topic to which the receiver writes status messages (its internalTopic), including inventories sent over the
    link."""
    expect_topics: Annotated[
        tuple[KafkaTopic, ...], Field(max_length=1000, json_schema_extra=LIST_SET), UniqueItems
    ] = ()
    """Topics of the inventories to expect, as named in event IDs. Defaults to all topics."""
    verify_key: VerifyKey | None = None
    """Public key that verifies inventories. If absent, unsigned inventories are accepted."""


class Events(ApiModel):
    """The received events, whose keys are topic_partition_offset. No gap detector is needed."""

    RULES: ClassVar = (
        Rule(
            "!has(self.expect) || self.expect.all(one, one.matches('^.+:[0-9]{1,10}:[0-9]{1,19}-[0-9]{1,19}$'))",
            "write every expectation as topic:partition:first-last, such as transfer:0:0-999999",
            lambda events: all(_EXPECTATION.fullmatch(text) is not None for text in events.expect),
            "expect",
        ),
    )

    topics: Annotated[
        tuple[KafkaTopic, ...], Field(min_length=1, max_length=64, json_schema_extra=LIST_SET), UniqueItems
    ]
    """Topics with the received events."""
    expect: Annotated[tuple[Expectation, ...], Field(max_length=1000, json_schema_extra=LIST_SET), UniqueItems] = ()
    """Expected offsets, each as topic:partition:first-last with the topic and partition of the event keys. For a
    partition that is not listed, the range from the lowest to the highest received offset is expected."""
    manifest: ExpectedInventory | None = None
    """Inventories of the sending side, which list the expected offsets. expect adds more."""
    include_unknown: bool = False
    """Whether the bundle also lists unknown events, whose records Kafka may have deleted before an audit read them. If
    false, status.unknownEvents only counts them."""
    new_generations: Annotated[
        tuple[NewGeneration, ...], Field(max_length=64, json_schema_extra=LIST_SET), UniqueItems
    ] = ()
    """Upstream topics that were deleted and recreated, each as topic:ID with the new topic ID from the message of the
    refused scan. The offsets in the state then belong to the old topic."""
    state: AuditState | None = None
    """Location of the audit state, with which the next scan reads only new records. If absent, every scan reads all
    records. Only one scan at a time uses the state; the next one waits until the pod of the previous one is gone."""


class ScanSource(ApiModel):
    """What to scan."""

    RULES: ClassVar = (
        Rule(
            "has(self.gapTopic) != has(self.events)",
            "give exactly one source: gapTopic (records of the gap detector) or events (received events)",
            lambda source: (source.gap_topic is None) != (source.events is None),
        ),
    )

    gap_topic: GapTopic | None = None
    """Reads the records of the gap detector. Fast, but limited to losses that the detector reports."""
    events: Events | None = None
    """Reads the keys of all received events. Slower, but exact."""
