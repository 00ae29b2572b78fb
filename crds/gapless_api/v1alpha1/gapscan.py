"""Owns the kind GapScan: what to look for on the receiving side, when, and what was found.

Must not know how a scan is run or what a bundle holds.
"""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import (
    Count,
    Cpu,
    Image,
    KafkaSource,
    KafkaTopic,
    Memory,
    Name,
    Offset,
    Partition,
    PartitionWindow,
    Rate,
    Reference,
    S3Location,
    Sha256,
    int32,
    stays_inside,
)
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import LIST_SET, ApiModel, EachOnce, Message, Moment, Rule, StatusModel
from gapless_api.v1alpha1.resend import FillReason
from gapless_api.v1alpha1.resource import Column, Resource

LONGEST_PARTITIONS = 100
"""Partitions in the status: those with the most missing events."""
LONGEST_MANIFEST = 262144
"""Characters of the rendered Resend manifest."""


def _cron_field(value: str) -> str:
    """The regular expression of one field, out of that of one value; RE2 and Python read it alike."""
    part = rf"(\*|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{part}(,{part})*"


CRON_PATTERN = " +".join(
    _cron_field(value)
    for value in (
        "[0-5]?[0-9]",
        "([01]?[0-9]|2[0-3])",
        "(0?[1-9]|[12][0-9]|3[01])",
        "(0?[1-9]|1[0-2]|[A-Za-z]{3})",
        "([0-7]|[A-Za-z]{3})",
    )
)
"""Minute, hour, day of the month, month, day of the week; the last two also as three letters."""
_CRON = re.compile(CRON_PATTERN)
_EXPECTATION = re.compile(r".+:[0-9]{1,10}:[0-9]{1,19}-[0-9]{1,19}")


Expectation = Annotated[str, Field(min_length=7, max_length=310)]
"""Offsets that should be there, as topic:partition:first-last."""


class GapTopic(ApiModel):
    """The topic that the gap detector writes."""

    topic: KafkaTopic
    """Name of the gaps topic."""


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
    """What should be there, each as topic:partition:first-last with the topic and partition as the events' keys name
    them. A partition that nothing is said about is expected from the lowest to the highest offset seen."""


class ScanSource(ApiModel):
    """What to look at."""

    RULES: ClassVar = (
        Rule(
            "has(self.gapTopic) != has(self.events)",
            "give exactly one source: gapTopic (what the gap detector found) or events (the received events)",
            lambda source: (source.gap_topic is None) != (source.events is None),
        ),
    )

    gap_topic: GapTopic | None = None
    """Reads what the gap detector found; fast, and it knows only what the detector reports."""
    events: Events | None = None
    """Reads the keys of all received events; slower, and exact."""


class Schedule(ApiModel):
    """When to scan."""

    RULES: ClassVar = (
        Rule(
            f"self.cron.matches('^{CRON_PATTERN}$')".replace("\\", "\\\\"),
            "write five fields: minute hour day-of-month month day-of-week, such as 0 3 * * * for 03:00 every night",
            lambda schedule: _CRON.fullmatch(schedule.cron) is not None,
            "cron",
        ),
    )

    cron: Annotated[str, Field(min_length=9, max_length=200)]
    """Five fields as in a crontab: minute, hour, day of the month, month, day of the week."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_+/-]+$")] = "UTC"
    """Time zone of the fields, such as Europe/Stockholm."""
    starting_deadline_seconds: Annotated[int, int32(10, 604800)] | None = None
    """How late a scan may begin when the operator was away at its time; a later one is left out. Without it the last
    missed scan is always made up for."""
    concurrency_policy: Literal["Forbid", "Replace"] = "Forbid"
    """What happens when it is time and the scan before is still running: Forbid leaves the new one out, Replace ends
    the old one. There is no Allow: two scans of the same topic would only compete for Kafka, and their results are the
    same."""


class HistoryLimits(ApiModel):
    """How many ended scans are kept, with their pods and logs."""

    successful: Annotated[int, int32(0, 100)] = 3
    """Scans that ended well."""
    failed: Annotated[int, int32(0, 100)] = 3
    """Scans that did not."""


class Driver(ApiModel):
    """What Spark's driver gets; with engine type Job it is all there is."""

    cores: Annotated[int, int32(1, 128)] = 1
    """Processor cores, which is how many tasks run at once."""
    cpu: Cpu | None = None
    """Processor time that is asked of the node, such as 500m; without it as much as there are cores."""
    memory: Memory = "1Gi"
    """Memory of the Java heap; the pod gets more, for what Spark needs beside it."""


class Executor(ApiModel):
    """What Spark's executors get; engine type Job has none."""

    instances: Annotated[int, int32(1, 1000)] = 1
    """How many executors."""
    cores: Annotated[int, int32(1, 128)] = 1
    """Processor cores of each, which is how many tasks it runs at once."""
    cpu: Cpu | None = None
    """Processor time that is asked of the node for each, such as 500m; without it as much as there are cores."""
    memory: Memory = "1Gi"
    """Memory of the Java heap of each."""


class Engine(ApiModel):
    """How Spark runs."""

    type: Literal["Auto", "Job", "SparkApplication"] = "Auto"
    """Job runs Spark in one pod; SparkApplication has executors and needs the Spark operator; Auto takes the second
    where its CRD is installed."""
    image: Image | None = None
    """Image with Spark and Gapless; without it the operator's default."""
    service_account_name: Name | None = None
    """Service account of the driver, which must be allowed to start executors; without it the operator's default.
    Engine type Job needs none."""
    driver: Driver = Driver()
    """What Spark's driver gets."""
    executor: Executor = Executor()
    """What Spark's executors get."""
    start_deadline_seconds: Annotated[int, int32(30, 86400)] = 600
    """How long it may take until the driver runs; then the scan is given up, for example because its image cannot be
    pulled."""
    run_deadline_seconds: Annotated[int, int32(30, 604800)] = 3600
    """How long the scan may run."""


class VolumeFolder(ApiModel):
    """A folder of a volume."""

    RULES: ClassVar = (stays_inside("folder"),)

    claim_name: Name
    """Name of the PersistentVolumeClaim, in the same namespace."""
    folder: Annotated[str, Field(max_length=512, pattern=r"^([-_.a-zA-Z0-9=]+(/[-_.a-zA-Z0-9=]+)*)?$")] = ""
    """Folder in the volume; without it the volume's root."""


class S3Folder(S3Location):
    """A place in an S3-compatible store."""

    prefix: Annotated[str, Field(max_length=512, pattern=r"^([-_.a-zA-Z0-9=]+(/[-_.a-zA-Z0-9=]+)*/?)?$")] = ""
    """What the names of the objects begin with."""


class Output(ApiModel):
    """Where the bundle goes."""

    RULES: ClassVar = (
        Rule(
            "(self.type == 'PersistentVolumeClaim') == has(self.persistentVolumeClaim)",
            "type PersistentVolumeClaim and the field persistentVolumeClaim belong together: give both or neither",
            lambda output: (output.type == "PersistentVolumeClaim") == (output.persistent_volume_claim is not None),
            "type",
        ),
        Rule(
            "(self.type == 'S3') == has(self.s3)",
            "type S3 and the field s3 belong together: give both or neither",
            lambda output: (output.type == "S3") == (output.s3 is not None),
            "type",
        ),
    )

    type: Literal["ConfigMap", "PersistentVolumeClaim", "S3"] = "ConfigMap"
    """ConfigMap takes bundles of up to about 900 KiB after compression, some 100,000 ranges; the others any."""
    persistent_volume_claim: VolumeFolder | None = None
    """The folder for type PersistentVolumeClaim."""
    s3: S3Folder | None = None
    """The place for type S3."""


class ResendTemplate(ApiModel):
    """What the rendered Resend manifest shall say; it is applied on the sending side."""

    diode_ref: Reference
    """The Diode on the sending side."""
    namespace: Name | None = None
    """Namespace of the Diode on the sending side; without it the manifest names none."""
    kafka: KafkaSource | None = None
    """Where Kafka is on the sending side; without it the manifest has a line to fill in."""
    mode: Literal["Plan", "Send"] = "Send"
    """Plan lets a person look at the plan on the sending side before anything is sent."""
    eps: Rate | None = None
    """Most events per second."""
    copies: Annotated[int, int32(1, 100)] | None = None
    """How often every datagram is sent."""
    parallelism: Annotated[int, int32(1, 64)] = 1
    """How many pods send."""
    partition_window: PartitionWindow | None = None
    """Overrides the Diode's window."""
    unavailable: Literal["Report", "Fill"] = "Report"
    """What to do about offsets that Kafka no longer has."""
    fill: Annotated[tuple[FillReason, ...], Field(max_length=3, json_schema_extra=LIST_SET), EachOnce] = ()
    """Reasons that unavailable Fill may close."""
    compress_when_length_exceeds: Annotated[int, int32(0, 2**31 - 1)] = 0
    """Values longer than this many bytes are sent compressed; 0 for never."""

    RULES: ClassVar = (
        Rule(
            "self.unavailable == 'Fill' || !has(self.fill) || size(self.fill) == 0",
            "fill says what unavailable: Fill may close: set unavailable to Fill, or delete fill",
            lambda template: template.unavailable == "Fill" or not template.fill,
            "fill",
        ),
    )


class GapScanSpec(ApiModel):
    """What to look for, when, and where the answer goes."""

    kafka: KafkaSource
    """Kafka on the receiving side."""
    source: ScanSource
    """What to look at."""
    limit: Literal["All", "First"] = "All"
    """All lists every missing range; First only the first one of each partition, from which a resend then sends
    everything."""
    schedule: Schedule | None = None
    """When to scan; without it once for every change of the spec."""
    suspend: bool = False
    """Whether to begin no scans. One that is running goes on."""
    history_limits: HistoryLimits = HistoryLimits()
    """How many ended scans are kept."""
    engine: Engine = Engine()
    """How Spark runs."""
    output: Output = Output()
    """Where the bundle goes."""
    resend: ResendTemplate | None = None
    """What the rendered Resend manifest shall say; without it none is rendered."""


class LastAttempt(StatusModel):
    """The scan that began last."""

    name: Name
    """Name of its Job or SparkApplication."""
    engine: Literal["Job", "SparkApplication"]
    """What it is."""
    generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """The generation of the spec that it looks for."""
    started: Moment | None = None
    """When it was created."""
    finished: Moment | None = None
    """When it ended."""
    outcome: Annotated[str, Field(max_length=64)] | None = None
    """How it ended: a reason of docs/reference/conditions.md."""
    message: Message | None = None
    """The same in a sentence."""


class PartitionFindings(StatusModel):
    """What is missing in one partition."""

    topic: Annotated[str, Field(max_length=249)]
    """Topic as the receiving side names it."""
    partition: Partition
    """Partition as the receiving side numbers it."""
    missing: Count
    """Missing events."""
    ranges: Count
    """Missing ranges."""
    first_missing: Offset | None = None
    """Lowest missing offset."""
    last_missing: Offset | None = None
    """Highest missing offset."""


class Change(StatusModel):
    """Difference to the scan before; negative numbers mean that less is missing."""

    events: Annotated[int, Field(json_schema_extra={"format": "int64"})]
    """Missing events now, less those before."""
    ranges: Annotated[int, Field(json_schema_extra={"format": "int64"})]
    """Missing ranges now, less those before."""


class BundleReference(StatusModel):
    """The bundle of the last scan that ended well."""

    id: Annotated[str, Field(max_length=128)]
    """Its id."""
    sha256: Sha256
    """Digest of its content, as gapless bundle show says it."""
    missing: Count
    """Missing events that it lists."""
    type: Literal["ConfigMap", "PersistentVolumeClaim", "S3"]
    """Where it is."""
    location: Annotated[str, Field(max_length=1024)]
    """Name of the ConfigMap, path in the volume, or s3://bucket/object."""
    key: Annotated[str, Field(max_length=253)] | None = None
    """Entry of the ConfigMap."""


class GapScanStatus(StatusModel):
    """What was found."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """The generation of the spec that the status is about."""
    conditions: Conditions = ()
    """Ready, Reconciling and Stalled, each with its reason."""
    last_schedule_time: Moment | None = None
    """The time of the schedule that was acted upon last."""
    next_schedule_time: Moment | None = None
    """When the next scan is due."""
    last_scan_time: Moment | None = None
    """When the last scan that ended well ended."""
    last_attempt: LastAttempt | None = None
    """The scan that began last."""
    missing_events: Count | None = None
    """Missing events in all partitions, by the last scan that ended well."""
    missing_ranges: Count | None = None
    """Missing ranges in all partitions."""
    partitions: Annotated[tuple[PartitionFindings, ...], Field(max_length=LONGEST_PARTITIONS)] = ()
    """The partitions with the most missing events, worst first; all are in the bundle."""
    change: Change | None = None
    """Difference to the scan before."""
    bundle: BundleReference | None = None
    """The bundle of the last scan that ended well."""
    resend_manifest: Annotated[str, Field(max_length=LONGEST_MANIFEST)] | None = None
    """The Resend to apply on the sending side, with the bundle inside while it is small. To write it to a file:
    kubectl get gapscan NAME -o jsonpath={.status.resendManifest}"""


class GapScan(Resource):
    """A question, asked once or on a schedule, on the receiving side: which events have not arrived?"""

    KIND: ClassVar = "GapScan"
    PLURAL: ClassVar = "gapscans"
    SHORT_NAMES: ClassVar = ("gscan",)
    COLUMNS: ClassVar = (
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the last scan ended well."),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Why, in one word."),
        Column("Missing", "integer", ".status.missingEvents", "Missing events."),
        Column("Ranges", "integer", ".status.missingRanges", "Missing ranges."),
        Column("Change", "integer", ".status.change.events", "Missing events compared with the scan before."),
        Column("Last scan", "date", ".status.lastScanTime", "When the last scan that ended well ended."),
        Column("Schedule", "string", ".spec.schedule.cron", "When scans are due.", wide=True),
        Column("Suspended", "boolean", ".spec.suspend", "Whether no scans begin.", wide=True),
        Column("Bundle", "string", ".status.bundle.location", "Where the bundle is.", wide=True),
        Column("Attempt", "string", ".status.lastAttempt.name", "The scan that began last.", wide=True),
        Column("Message", "string", '.status.conditions[?(@.type=="Ready")].message', "Why, in a sentence.", wide=True),
    )

    spec: GapScanSpec
    """What to look for, when, and where the answer goes."""
    status: GapScanStatus = GapScanStatus()
    """What was found."""
