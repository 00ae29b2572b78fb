"""The kind GapScan: what to scan on the receiving side, when, and where the result is stored.

Must not know how a scan runs or what a bundle contains.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import (
    FolderPath,
    Name,
    PartitionWindow,
    Rate,
    Reference,
    SecretEntry,
    SecretKey,
    TemplateName,
    int32,
    no_dot_segments,
)
from gapless_api.v1alpha1.input_filter import InputFilter
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, Rule, UniqueItems
from gapless_api.v1alpha1.resend import FillReason
from gapless_api.v1alpha1.resource import MESSAGE_COLUMN, REASON_COLUMN, Column, Resource
from gapless_api.v1alpha1.scan_source import ScanSource
from gapless_api.v1alpha1.scan_status import GapScanStatus
from gapless_api.v1alpha1.schedule import Schedule
from gapless_api.v1alpha1.sender_options import SenderOptions
from gapless_api.v1alpha1.spark_options import SparkOptions


class HistoryLimits(ApiModel):
    """Number of finished scans to keep, with their pods and logs."""

    successful: Annotated[int, int32(0, 100)] = 3
    """Number of successful scans to keep."""
    failed: Annotated[int, int32(0, 100)] = 3
    """Number of failed scans to keep."""


class Engine(SparkOptions):
    """How and where scans run."""

    run_deadline_seconds: Annotated[int, int32(30, 604800)] = 3600
    """Maximum duration of the scan in seconds."""


class Output(ApiModel):
    """Where the bundle is stored."""

    RULES: ClassVar = (
        Rule(
            "has(self.storageRef) || !has(self.folder) || self.folder == ''",
            "folder requires a StorageLocation: set storageRef, or delete folder",
            lambda output: output.storage_ref is not None or not output.folder,
            "folder",
        ),
        no_dot_segments("folder"),
    )

    storage_ref: Reference | None = None
    """The StorageLocation for bundles of any size. If absent, each bundle is stored in a ConfigMap, which holds up to
    about 900 KiB after compression, or 100,000 ranges."""
    folder: FolderPath = ""
    """Folder in the StorageLocation. Defaults to its root."""


class ResendTemplate(SenderOptions):
    """Template of the Resend in status.resendManifest, which is applied on the sending side."""

    diode_ref: Reference
    """The Diode on the sending side."""
    namespace: Name | None = None
    """Namespace of the Diode on the sending side. If absent, the manifest has no namespace."""
    kafka_ref: Reference | None = None
    """The KafkaConnection on the sending side. If absent, the manifest has a placeholder to fill in."""
    mode: Literal["Plan", "Send"] = "Send"
    """Plan renders a Resend that sends nothing until its mode is changed to Send."""
    eps: Rate | None = None
    """Maximum events per second."""
    copies: Annotated[int, int32(1, 100)] | None = None
    """Number of times that each datagram is sent."""
    parallelism: Annotated[int, int32(1, 64)] = 1
    """Number of sender pods."""
    partition_window: PartitionWindow | None = None
    """Overrides the partitionWindow of the Diode."""
    unavailable: Literal["Report", "Fill"] = "Report"
    """What happens to offsets that Kafka no longer has."""
    fill: Annotated[tuple[FillReason, ...], Field(max_length=3, json_schema_extra=LIST_SET), UniqueItems] = ()
    """Reasons for which unavailable: Fill sends empty events."""
    compress_when_length_exceeds: Annotated[int, int32(0, 2**31 - 1)] = 0
    """Values longer than this number of bytes are sent compressed. 0 disables compression."""
    input_filter: InputFilter | None = None
    """Filters events by their value. A ConfigMap that it names must exist on the sending side."""

    RULES: ClassVar = (
        Rule(
            "self.unavailable == 'Fill' || !has(self.fill) || size(self.fill) == 0",
            "fill requires unavailable: Fill: set unavailable to Fill, or delete fill",
            lambda template: template.unavailable == "Fill" or not template.fill,
            "fill",
        ),
    )


class SigningKeySecret(SecretKey):
    """The Secret with the Ed25519 private key (PEM, PKCS#8) that signs bundles."""

    key: SecretEntry = "signing.pem"
    """Entry of the Secret. Create the key with openssl genpkey -algorithm ed25519 -out signing.pem."""


def _has_separate_state_folder(spec: "GapScanSpec") -> bool:
    state = spec.source.events.state if spec.source.events is not None else None
    if state is None or state.storage_ref is None or spec.output.storage_ref is None:
        return True
    return (state.storage_ref.name, state.folder) != (spec.output.storage_ref.name, spec.output.folder)


_STATE, _OUTPUT = "self.source.events.state", "self.output"


class GapScanSpec(ApiModel):
    """What to scan, when, and where the result is stored."""

    RULES: ClassVar = (
        Rule(
            f"!(has(self.source.events) && has({_STATE}) && has({_STATE}.storageRef) && has({_STATE}.folder) && "
            f"has({_OUTPUT}.storageRef)) || {_STATE}.storageRef.name != {_OUTPUT}.storageRef.name || "
            f"{_STATE}.folder != (has({_OUTPUT}.folder) ? {_OUTPUT}.folder : '')",
            "source.events.state and output name the same folder: give the state a separate folder",
            _has_separate_state_folder,
            "source",
        ),
    )

    kafka_ref: Reference
    """The KafkaConnection of the receiving side, in the same namespace."""
    source: ScanSource
    """What to scan."""
    limit: Literal["All", "First"] = "All"
    """All lists every missing range. First lists only the first missing range of each partition; a Resend then sends
    everything from that offset."""
    schedule: Schedule | None = None
    """When scans run. If absent, a scan runs once after each change of the spec."""
    suspend: bool = False
    """Whether to start no scans. A running scan is stopped; it starts again when this is false."""
    history_limits: HistoryLimits = HistoryLimits()
    """Number of finished scans to keep."""
    engine: Engine = Engine()
    """How and where scans run."""
    pod_template: TemplateName | None = None
    """Name of what is added to the pods, such as labels and tolerations. It must be listed in the chart's podTemplates.
    Defaults to the chart's podTemplate."""
    output: Output = Output()
    """Where the bundle is stored."""
    signing_key_secret: SigningKeySecret | None = None
    """The Secret with the key that signs bundles. It must be listed in the chart's scan.signingKeySecrets. Diodes with
    trustedKeys accept only signed bundles."""
    resend: ResendTemplate | None = None
    """Template of the Resend in status.resendManifest. If absent, no manifest is rendered."""


class GapScan(Resource):
    """Finds events that have not arrived on the receiving side, once or on a schedule."""

    KIND: ClassVar = "GapScan"
    PLURAL: ClassVar = "gapscans"
    SHORT_NAMES: ClassVar = ("gscan",)
    COLUMNS: ClassVar = (
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the last scan succeeded."),
        REASON_COLUMN,
        Column("Missing", "integer", ".status.missingEvents", "Missing events."),
        Column("Change", "integer", ".status.change.events", "Missing events compared with the previous scan."),
        Column(
            "Closed",
            "string",
            '.status.conditions[?(@.type=="GapsClosed")].status',
            "Whether all events of the previous bundle have arrived.",
        ),
        Column("Last scan", "date", ".status.lastScanTime", "End of the last successful scan."),
        Column("Ranges", "integer", ".status.missingRanges", "Missing ranges.", wide=True),
        Column(
            "Unknown",
            "integer",
            ".status.unknownEvents",
            "Events that Kafka may have deleted before an audit read them.",
            wide=True,
        ),
        Column(
            "Inferred", "integer", ".status.inferredEvents", "Missing events that no gap record reported.", wide=True
        ),
        Column(
            "Untracked",
            "integer",
            ".status.staleEvents",
            "Events that the gap detector no longer tracks; they may have arrived.",
            wide=True,
        ),
        Column("Oldest gap", "date", ".status.oldestGapSince", "Start of the oldest open gap.", wide=True),
        Column("Read by", "string", ".status.readBy", "Reader of the last scan: spark or local.", wide=True),
        Column("Percent", "integer", ".status.progress.percent", "Progress of the running scan.", wide=True),
        Column("Schedule", "string", ".spec.schedule.cron", "Schedule in cron format.", wide=True),
        Column("Suspended", "boolean", ".spec.suspend", "Whether no scans are started.", wide=True),
        Column("Bundle", "string", ".status.bundle.location", "Location of the bundle.", wide=True),
        Column("Attempt", "string", ".status.lastAttempt.name", "Name of the latest scan.", wide=True),
        MESSAGE_COLUMN,
    )

    spec: GapScanSpec
    """What to scan, when, and where the result is stored."""
    status: GapScanStatus = GapScanStatus()
    """Observed state of the scans."""
