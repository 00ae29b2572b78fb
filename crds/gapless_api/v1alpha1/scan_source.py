"""Owns what a GapScan looks at: the gaps topic, or the received events with what should be there.

Must not know when a scan runs or what becomes of its answer.
"""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import (
    FORMER_STORAGE,
    FolderPath,
    Former,
    KafkaTopic,
    Name,
    Reference,
    SecretEntry,
    int32,
    stays_inside,
)
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, EachOnce, Rule

_EXPECTATION = re.compile(r".+:[0-9]{1,10}:[0-9]{1,19}-[0-9]{1,19}")
Expectation = Annotated[str, Field(min_length=7, max_length=310)]
"""Offsets that should be there, as topic:partition:first-last."""


NewGeneration = Annotated[str, Field(min_length=24, max_length=300, pattern=r"^.+:[A-Za-z0-9_-]{22}$")]
"""An upstream topic and its new topic ID, as topic:ID."""


class GapTopic(ApiModel):
    """The gaps topic, which the gap detector writes."""

    RULES: ClassVar = (
        Rule(
            "self.inferTails == 'BesideLosses' || self.infer",
            "inferTails says which ends of windows infer adds: set infer to true, or delete inferTails",
            lambda source: source.infer_tails == "BesideLosses" or source.infer,
            "inferTails",
        ),
    )

    topic: KafkaTopic
    """Name of the gaps topic."""
    infer: bool = False
    """Whether to add possible losses that no record reports: windows without a record between others, and ends of
    windows. It is listed, counted apart as status.inferredEvents, and some of it may have arrived."""
    infer_tails: Literal["BesideLosses", "All"] = "BesideLosses"
    """Of which windows infer adds the end: BesideLosses, where the next window begins with a loss; All that have a
    later window, which misses nothing between the first and the last window and sends nearly everything again."""
    skip_stale: bool = False
    """Whether to omit stale records, which the gap detector has forgotten and never updates."""
    detector_windows: Annotated[int, int32(1, 1_000_000)] = 5
    """Number of windows per partition that the gap detector remembers (its MAX_WINDOWS). Older ones are stale."""


class AuditState(ApiModel):
    """Where an audit stores its state, so that the next one reads only new records."""

    RULES: ClassVar = (
        Rule(
            "!has(self.persistentVolumeClaim) && !has(self.s3)",
            "volumes and stores are named by a StorageLocation of the platform team: write storageRef: {name: NAME} "
            "and folder in place of persistentVolumeClaim and s3",
            lambda state: state.persistent_volume_claim is None and state.s3 is None,
            stored=FORMER_STORAGE,
        ),
        Rule(
            "(has(self.storageRef) && has(self.folder)) || has(self.persistentVolumeClaim) || has(self.s3)",
            "say where the state is kept: storageRef, and a folder in it that nothing else uses",
            lambda state: state.storage_ref is not None and state.folder is not None,
        ),
        stays_inside("folder"),
    )

    storage_ref: Reference | None = None
    """The StorageLocation that keeps the state. When the output is in a store as well, it must be the same store.
    Required."""
    folder: Annotated[FolderPath, Field(min_length=1)] | None = None
    """Folder in the StorageLocation, of its own for each GapScan. Required."""
    persistent_volume_claim: Former = None
    """Removed: use storageRef and folder."""
    s3: Former = None
    """Removed: use storageRef and folder."""


class InventoryMap(ApiModel):
    """A ConfigMap with inventories of the sending side."""

    name: Name
    """Name of the ConfigMap, in the same namespace."""
    keys: Annotated[
        tuple[SecretEntry, ...], Field(min_length=1, max_length=64, json_schema_extra=LIST_SET), EachOnce
    ] = ("manifest.json",)
    """Entries of the ConfigMap, each an inventory; for each partition, the newest inventory counts."""


class PublicKeyMap(ApiModel):
    """A ConfigMap with a public key."""

    name: Name
    """Name of the ConfigMap, in the same namespace."""
    key: SecretEntry = "public.pem"
    """Entry of the ConfigMap: an Ed25519 public key (PEM)."""


class VerifyKey(ApiModel):
    """Public key with which inventories must be signed."""

    config_map: PublicKeyMap
    """The ConfigMap; kubectl create configmap NAME --from-file=public.pem makes one."""


class ExpectedInventory(ApiModel):
    """Inventories of the sending side (gapless inventory), which list what exists there."""

    RULES: ClassVar = (
        Rule(
            "has(self.configMap) || has(self.topic)",
            "say where the inventories are: in a configMap, in a topic (sent over the link), or in both",
            lambda manifest: manifest.config_map is not None or manifest.topic is not None,
        ),
    )

    config_map: InventoryMap | None = None
    """The ConfigMap; kubectl create configmap NAME --from-file=manifest.json makes one."""
    topic: KafkaTopic | None = None
    """Topic in which the receiver leaves status texts (its internalTopic), with inventories that came over the link."""
    expect_topics: Annotated[tuple[KafkaTopic, ...], Field(max_length=1000, json_schema_extra=LIST_SET), EachOnce] = ()
    """Topics of the inventories to expect, as ids name them. Defaults to all."""
    verify_key: VerifyKey | None = None
    """Public key with which inventories must be signed. If absent, unsigned inventories are accepted."""


class Events(ApiModel):
    """The received events themselves, whose keys are topic_partition_offset; no gap detector is needed."""

    RULES: ClassVar = (
        Rule(
            "!has(self.expect) || self.expect.all(one, one.matches('^.+:[0-9]{1,10}:[0-9]{1,19}-[0-9]{1,19}$'))",
            "write every expectation as topic:partition:first-last, such as transfer:0:0-999999",
            lambda events: all(_EXPECTATION.fullmatch(one) is not None for one in events.expect),
            "expect",
        ),
    )

    topics: Annotated[tuple[KafkaTopic, ...], Field(min_length=1, max_length=64, json_schema_extra=LIST_SET), EachOnce]
    """Topics with received events."""
    expect: Annotated[tuple[Expectation, ...], Field(max_length=1000, json_schema_extra=LIST_SET), EachOnce] = ()
    """The offsets to expect, each as topic:partition:first-last with the topic and partition of the events' keys. For a
    partition that is not listed, the lowest to the highest offset seen is expected."""
    manifest: ExpectedInventory | None = None
    """Inventories of the sending side, which list the expected offsets. expect adds to them."""
    include_unknown: bool = False
    """Whether the bundle also lists events that are unknown, because Kafka deleted records before an audit read them.
    Without it status.unknownEvents only counts them."""
    new_generations: Annotated[
        tuple[NewGeneration, ...], Field(max_length=64, json_schema_extra=LIST_SET), EachOnce
    ] = ()
    """Upstream topics that were deleted and recreated, each as topic:ID with the new topic ID from the message of the
    refused scan. What the state has read before then counts for the old topic."""
    state: AuditState | None = None
    """Stores what was read, so that the next scan reads only new records. If absent, every scan reads everything. One
    scan at a time uses it: the next one waits until the pod of the previous one is gone."""


class ScanSource(ApiModel):
    """What to scan."""

    RULES: ClassVar = (
        Rule(
            "has(self.gapTopic) != has(self.events)",
            "give exactly one source: gapTopic (what the gap detector found) or events (the received events)",
            lambda source: (source.gap_topic is None) != (source.events is None),
        ),
    )

    gap_topic: GapTopic | None = None
    """Reads the records of the gap detector. Fast, and limited to what the detector reports."""
    events: Events | None = None
    """Reads the keys of all received events. Slower, and exact."""
