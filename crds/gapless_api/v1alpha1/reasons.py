"""The reasons of all conditions, and the form of their descriptions.

Errors have the reasons of `gapless_api.base.errors`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Machine-readable reason of a condition."""

    # ------------------------------------------------------------------------------------- everywhere
    ACCEPTED = "Accepted"
    BAD_CONFIGURATION = "BadConfiguration"
    SUSPENDED = "Suspended"
    NOT_STALLED = "NotStalled"
    SETTLED = "Settled"
    POD_REJECTED = "PodRejected"
    POD_UNSCHEDULABLE = "PodUnschedulable"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    MOUNT_FAILED = "MountFailed"
    POD_SLOW = "PodSlow"
    PROGRESS_UNKNOWN = "ProgressUnknown"
    NODE_LOST = "NodeLost"
    SOURCE_UNREACHABLE = "SourceUnreachable"
    SOURCE_STALLED = "SourceStalled"
    STORE_UNREACHABLE = "StoreUnreachable"
    STORAGE_FAILED = "StorageFailed"
    STOPPED = "Stopped"
    KAFKA_CONNECTION_NOT_FOUND = "KafkaConnectionNotFound"
    STORAGE_LOCATION_NOT_FOUND = "StorageLocationNotFound"
    WRITE_REFUSED = "WriteRefused"
    DEFECT = "Defect"
    # ------------------------------------------------------------------------------------------ Diode
    PREFLIGHT_PENDING = "PreflightPending"
    PREFLIGHT_FAILED = "PreflightFailed"
    LINK_READY = "LinkReady"
    NIC_MISSING = "NicMissing"
    NIC_DOWN = "NicDown"
    NO_CARRIER = "NoCarrier"
    PAYLOAD_TOO_LARGE = "PayloadTooLarge"
    NEIGHBOUR_MISSING = "NeighbourMissing"
    WINDOW_OVERLAP = "WindowOverlap"
    SHARED_KEY_LANE = "SharedKeyLane"
    LINK_PROFILE_NOT_FOUND = "LinkProfileNotFound"
    # ---------------------------------------------------------------------------------------- GapScan
    SCHEDULED = "Scheduled"
    SCANNING = "Scanning"
    NEVER_SCANNED = "NeverScanned"
    GAPS_FOUND = "GapsFound"
    NOTHING_MISSING = "NothingMissing"
    NOTHING_TO_DO = "NothingToDo"
    UNKNOWN_EVENTS = "UnknownEvents"
    UNREADABLE_RECORDS = "UnreadableRecords"
    TOPIC_MISSING = "TopicMissing"
    ENGINE_UNAVAILABLE = "EngineUnavailable"
    NO_SPARK_OPERATOR = "NoSparkOperator"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    RUN_DEADLINE_EXCEEDED = "RunDeadlineExceeded"
    SCAN_FAILED = "ScanFailed"
    RESULT_TOO_LARGE = "ResultTooLarge"
    RESULT_UNREADABLE = "ResultUnreadable"
    ALL_CLOSED = "AllClosed"
    NOTHING_WAS_MISSING = "NothingWasMissing"
    STILL_MISSING = "StillMissing"
    NOT_ALL_LOOKED_AT = "NotAllLookedAt"
    NOTHING_TO_COMPARE_WITH = "NothingToCompareWith"
    NOT_COMPARABLE = "NotComparable"
    COMPARISON_FAILED = "ComparisonFailed"
    COMPACTED = "Compacted"
    NOT_COMPACTED = "NotCompacted"
    POLICY_UNKNOWN = "PolicyUnknown"
    NOT_A_GAP_TOPIC = "NotAGapTopic"
    # ----------------------------------------------------------------------------------------- Resend
    DIODE_NOT_FOUND = "DiodeNotFound"
    DIODE_INVALID = "DiodeInvalid"
    DIODE_SUSPENDED = "DiodeSuspended"
    DIODE_NOT_READY = "DiodeNotReady"
    BUNDLE_NOT_FOUND = "BundleNotFound"
    FILTER_RULES_NOT_FOUND = "FilterRulesNotFound"
    BAD_BUNDLE = "BadBundle"
    QUEUED = "Queued"
    KEY_LANE_BUSY = "KeyLaneBusy"
    PLANNING = "Planning"
    PLANNED = "Planned"
    STARTING = "Starting"
    SENDING = "Sending"
    RETRYING = "Retrying"
    SENT = "Sent"
    NOTHING_TO_SEND = "NothingToSend"
    ALREADY_SENT = "AlreadySent"
    LEDGER_UNREADABLE = "LedgerUnreadable"
    TOO_OLD = "TooOld"
    INCOMPLETE = "Incomplete"
    LOG_UNREADABLE = "LogUnreadable"
    REPORT_UNREADABLE = "ReportUnreadable"
    LINK_FAILED = "LinkFailed"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    ARCHIVE_NOT_FOUND = "ArchiveNotFound"
    # ---------------------------------------------------------------------------------------- Archive
    ARCHIVING = "Archiving"
    ARCHIVED = "Archived"
    NEVER_ARCHIVED = "NeverArchived"
    RETENTION_OVERTAKING = "RetentionOvertaking"
    RECORDS_LOST = "RecordsLost"
    TOPIC_RECREATED = "TopicRecreated"
    LOG_TRUNCATED = "LogTruncated"
    SOURCE_TRUNCATED = "SourceTruncated"
    TARGET_DELETED = "TargetDeleted"
    TARGET_RECREATED = "TargetRecreated"
    TARGET_TRUNCATED = "TargetTruncated"
    TARGET_DIVERGED = "TargetDiverged"
    NO_PROGRESS = "NoProgress"
    ARCHIVE_FAILED = "ArchiveFailed"
    COMPACTING = "Compacting"
    COMPACTION_DONE = "CompactionDone"
    COMPACTION_FAILED = "CompactionFailed"
    # ---------------------------------------------------------------------------------------- Restore
    RESTORING = "Restoring"
    FOLLOWING = "Following"
    WAITING_FOR_ARCHIVE = "WaitingForArchive"
    RESTORED = "Restored"
    NOTHING_TO_RESTORE = "NothingToRestore"
    RESTORE_FAILED = "RestoreFailed"
    # ----------------------------------------------------------------------------------------- Mirror
    MIRRORING = "Mirroring"
    NEVER_MIRRORED = "NeverMirrored"
    MIRROR_FAILED = "MirrorFailed"
    COORDINATOR_UNAVAILABLE = "CoordinatorUnavailable"
    LEADER_MISSING = "LeaderMissing"
    AUTHORIZATION_FAILED = "AuthorizationFailed"
    SOURCE_IDLE = "SourceIdle"
    TARGET_REFUSES = "TargetRefuses"
    RETENTION_OVERTOOK = "RetentionOvertook"
    POSITION_MISSING = "PositionMissing"
    POSITION_OUTDATED = "PositionOutdated"
    POSITION_UNREADABLE = "PositionUnreadable"
    COPY_FAILED = "CopyFailed"
    SOURCE_DAMAGED = "SourceDamaged"
    TRANSACTION_OPEN = "TransactionOpen"
    WORKER_STUCK = "WorkerStuck"
    # -------------------------------------------------------------------------------- KafkaConnection
    CHECKING = "Checking"
    NOT_CHECKED = "NotChecked"
    NOTHING_FOUND = "NothingFound"
    PROBLEMS_FOUND = "ProblemsFound"
    DOCTOR_FAILED = "DoctorFailed"


class Meaning(NamedTuple):
    """Description of a reason."""

    kinds: tuple[str, ...]
    """Kinds whose conditions can have the reason."""
    meaning: str
    action: str
    """Required action; empty if none is required."""


ARCHIVE, DIODE, GAP_SCAN, RESEND, RESTORE = "Archive", "Diode", "GapScan", "Resend", "Restore"
MIRROR, CONNECTION = "Mirror", "KafkaConnection"
ALL = (ARCHIVE, DIODE, GAP_SCAN, MIRROR, RESEND, RESTORE)
WITH_PODS = (*ALL, CONNECTION)
KAFKA_CLIENTS = (ARCHIVE, GAP_SCAN, MIRROR, RESEND, RESTORE)
STORE_CLIENTS = (ARCHIVE, GAP_SCAN, RESEND, RESTORE)
ON_SPARK = (ARCHIVE, GAP_SCAN, MIRROR, RESTORE)
CHECK_POD_EVENTS = "Check the events of the pod that the message names"
