"""Owns the kind GapScan: what to look for on the receiving side, when, and where the answer goes.

Must not know how a scan is run or what a bundle holds.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import (
    FORMER_STORAGE,
    KAFKA_BY_REFERENCE,
    FolderPath,
    Former,
    Name,
    PartitionWindow,
    Rate,
    Reference,
    SecretEntry,
    SecretKey,
    int32,
    stays_inside,
)
from gapless_api.v1alpha1.input_filter import InputFilter
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, EachOnce, Rule
from gapless_api.v1alpha1.resend import FillReason
from gapless_api.v1alpha1.resource import Column, Resource
from gapless_api.v1alpha1.scan_source import ScanSource
from gapless_api.v1alpha1.scan_status import GapScanStatus
from gapless_api.v1alpha1.schedule import Schedule
from gapless_api.v1alpha1.sender_options import SenderOptions
from gapless_api.v1alpha1.spark_options import SparkOptions


class HistoryLimits(ApiModel):
    """Number of ended scans to keep, with their pods and logs."""

    successful: Annotated[int, int32(0, 100)] = 3
    """Successful scans."""
    failed: Annotated[int, int32(0, 100)] = 3
    """Failed scans."""


class Engine(SparkOptions):
    """Where a scan runs, and what reads Kafka."""

    run_deadline_seconds: Annotated[int, int32(30, 604800)] = 3600
    """Maximum duration of the scan in seconds."""


class Output(ApiModel):
    """Where the bundle is stored."""

    RULES: ClassVar = (
        Rule(
            "!has(self.persistentVolumeClaim) && !has(self.s3) && (!has(self.type) || self.type == 'ConfigMap')",
            "volumes and stores are named by a StorageLocation of the platform team: write storageRef: {name: NAME} "
            "and folder in place of type, persistentVolumeClaim and s3",
            lambda output: (
                output.persistent_volume_claim is None and output.s3 is None and output.type in {None, "ConfigMap"}
            ),
            stored=f"has(oldSelf.value().type) || {FORMER_STORAGE}",
        ),
        Rule(
            "has(self.storageRef) || !has(self.folder) || self.folder == ''",
            "folder is a folder of a StorageLocation: name it in storageRef, or delete folder",
            lambda output: output.storage_ref is not None or not output.folder,
            "folder",
        ),
        stays_inside("folder"),
    )

    storage_ref: Reference | None = None
    """The StorageLocation that takes the bundles, of any size. Without it each goes into a ConfigMap, which takes
    bundles of up to about 900 KiB after compression, some 100,000 ranges."""
    folder: FolderPath = ""
    """Folder in the StorageLocation. Defaults to its root."""
    type: Annotated[str | None, Field(max_length=64, exclude=True)] = None
    """Removed: use storageRef."""
    persistent_volume_claim: Former = None
    """Removed: use storageRef and folder."""
    s3: Former = None
    """Removed: use storageRef and folder."""


class ResendTemplate(SenderOptions):
    """Template of the rendered Resend, which is applied on the sending side."""

    diode_ref: Reference
    """The Diode on the sending side."""
    namespace: Name | None = None
    """Namespace of the Diode on the sending side. If absent, the manifest names none."""
    kafka_ref: Reference | None = None
    """The KafkaConnection on the sending side. If absent, the manifest has a line to fill in."""
    mode: Literal["Plan", "Send"] = "Send"
    """Plan renders a Resend that sends nothing until its mode is changed to Send."""
    eps: Rate | None = None
    """Maximum events per second."""
    copies: Annotated[int, int32(1, 100)] | None = None
    """How many times each datagram is sent."""
    parallelism: Annotated[int, int32(1, 64)] = 1
    """Number of sender pods."""
    partition_window: PartitionWindow | None = None
    """Overrides the Diode's window."""
    unavailable: Literal["Report", "Fill"] = "Report"
    """What happens to offsets that Kafka no longer has."""
    fill: Annotated[tuple[FillReason, ...], Field(max_length=3, json_schema_extra=LIST_SET), EachOnce] = ()
    """Reasons that unavailable: Fill covers."""
    compress_when_length_exceeds: Annotated[int, int32(0, 2**31 - 1)] = 0
    """Values longer than this number of bytes are sent compressed. 0 disables compression."""
    input_filter: InputFilter | None = None
    """Withholds events by their content. A ConfigMap that it names is on the sending side."""
    kafka: Former = None
    """Removed: use kafkaRef."""

    RULES: ClassVar = (
        Rule(
            "!has(self.kafka)",
            "brokers are named by a KafkaConnection of the sending side: write kafkaRef: {name: NAME} in place of "
            "kafka",
            lambda template: template.kafka is None,
            stored="has(oldSelf.value().kafka)",
        ),
        Rule(
            "self.unavailable == 'Fill' || !has(self.fill) || size(self.fill) == 0",
            "fill says what unavailable: Fill may close: set unavailable to Fill, or delete fill",
            lambda template: template.unavailable == "Fill" or not template.fill,
            "fill",
        ),
    )


class SigningKeySecret(SecretKey):
    """The Secret with the Ed25519 private key (PEM, PKCS#8) that signs bundles."""

    key: SecretEntry = "signing.pem"
    """Entry of the Secret; openssl genpkey -algorithm ed25519 -out signing.pem makes the key."""


def _state_has_its_own_folder(spec: "GapScanSpec") -> bool:
    state = spec.source.events.state if spec.source.events is not None else None
    if state is None or state.storage_ref is None or spec.output.storage_ref is None:
        return True
    return (state.storage_ref.name, state.folder) != (spec.output.storage_ref.name, spec.output.folder)


_STATE, _OUTPUT = "self.source.events.state", "self.output"


class GapScanSpec(ApiModel):
    """What to scan, when, and where the result is stored."""

    RULES: ClassVar = (
        KAFKA_BY_REFERENCE,
        Rule(
            f"!(has(self.source.events) && has({_STATE}) && has({_STATE}.storageRef) && has({_STATE}.folder) && "
            f"has({_OUTPUT}.storageRef)) || {_STATE}.storageRef.name != {_OUTPUT}.storageRef.name || "
            f"{_STATE}.folder != (has({_OUTPUT}.folder) ? {_OUTPUT}.folder : '')",
            "source.events.state and output name the same folder: give the state a folder of its own",
            _state_has_its_own_folder,
            "source",
        ),
    )

    kafka_ref: Reference | None = None
    """The KafkaConnection of the receiving side, in the same namespace. Required."""
    kafka: Former = None
    """Removed: use kafkaRef."""
    source: ScanSource
    """What to scan."""
    limit: Literal["All", "First"] = "All"
    """All lists every missing range. First lists the first range of each partition; a Resend then sends everything from
    there on."""
    schedule: Schedule | None = None
    """When scans run. If absent, a scan runs once after each change of the spec."""
    suspend: bool = False
    """Whether to start no scans. A running scan continues."""
    history_limits: HistoryLimits = HistoryLimits()
    """Number of ended scans to keep."""
    engine: Engine = Engine()
    """Where a scan runs, and what reads Kafka."""
    output: Output = Output()
    """Where the bundle is stored."""
    signing_key_secret: SigningKeySecret | None = None
    """Signs the bundle; one of the Secrets that the platform team lists (the chart's scan.signingKeySecrets). Diodes
    with trustedKeys take only signed bundles."""
    resend: ResendTemplate | None = None
    """Template of the rendered Resend. If absent, none is rendered."""


class GapScan(Resource):
    """Finds events that have not arrived on the receiving side, once or on a schedule."""

    KIND: ClassVar = "GapScan"
    PLURAL: ClassVar = "gapscans"
    SHORT_NAMES: ClassVar = ("gscan",)
    COLUMNS: ClassVar = (
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the last scan ended well."),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Why, in one word."),
        Column("Missing", "integer", ".status.missingEvents", "Missing events."),
        Column("Change", "integer", ".status.change.events", "Missing events compared with the scan before."),
        Column(
            "Closed",
            "string",
            '.status.conditions[?(@.type=="GapsClosed")].status',
            "Whether all events of the previous bundle have arrived.",
        ),
        Column("Last scan", "date", ".status.lastScanTime", "When the last scan that ended well ended."),
        Column("Ranges", "integer", ".status.missingRanges", "Missing ranges.", wide=True),
        Column(
            "Unknown",
            "integer",
            ".status.unknownEvents",
            "Events that may have expired before an audit read them.",
            wide=True,
        ),
        Column("Inferred", "integer", ".status.inferredEvents", "Missing events that no record reported.", wide=True),
        Column("Oldest gap", "date", ".status.oldestGapSince", "Start of the oldest open gap.", wide=True),
        Column("Read by", "string", ".status.readBy", "What read Kafka, spark or local.", wide=True),
        Column("Percent", "integer", ".status.progress.percent", "How far the running scan has read.", wide=True),
        Column("Schedule", "string", ".spec.schedule.cron", "When scans are due.", wide=True),
        Column("Suspended", "boolean", ".spec.suspend", "Whether no scans begin.", wide=True),
        Column("Bundle", "string", ".status.bundle.location", "Where the bundle is.", wide=True),
        Column("Attempt", "string", ".status.lastAttempt.name", "The scan that began last.", wide=True),
        Column("Message", "string", '.status.conditions[?(@.type=="Ready")].message', "Why, in a sentence.", wide=True),
    )

    spec: GapScanSpec
    """What to scan, when, and where the result is stored."""
    status: GapScanStatus = GapScanStatus()
    """Observed state of the scans."""
