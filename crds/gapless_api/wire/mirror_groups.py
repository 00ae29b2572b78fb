"""The report of ``gapless mirror groups --json``; must not know how offsets are translated."""

from dataclasses import dataclass
from typing import Literal

from gapless_api.wire.form import Form, Offset, PartitionNumber

GroupReason = Literal[
    "ActiveMembers",
    "AheadOfMirror",
    "BehindMap",
    "ExpiredInTarget",
    "NotBackwards",
    "TopicRecreated",
    "SourceTruncated",
    "TargetDeleted",
    "TargetRecreated",
    "TargetTruncated",
    "TargetDiverged",
    "PositionUnreadable",
    "NotConfirmed",
    "NoGroup",
    "TransactionOpen",
    "GroupNotAllowed",
    "NotMirrored",
]
MoveState = Literal["planned", "moved", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """A group offset that can be translated."""

    group: str
    topic: str
    """Topic of the source."""
    target: str
    """Topic of the target."""
    partition: PartitionNumber
    source_offset: Offset
    """Where the group continues in the source."""
    target_offset: Offset
    """Where it continues in the target, at the same record."""
    metadata: str
    """The text that the consumer committed with the offset, which is carried over; Kafka Streams reads it."""
    state: MoveState
    """`unchanged`: the group already has this offset. `planned`: nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFinding:
    """A group, or one of its offsets, that was not translated."""

    group: str
    topic: str | None
    """Topic of the source; null for a finding about the group."""
    partition: PartitionNumber | None
    reason: GroupReason
    message: str
    """A sentence."""

    @property
    def is_problem(self) -> bool:
        """Whether the group would continue at another record; not so if it was already active at the target."""
        return self.reason != "NotBackwards"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsReport:
    """Translated offsets of consumer groups of a mirror."""

    name: str
    """Name of the mirror."""
    groups: tuple[str, ...]
    """Groups that were checked."""
    moves: tuple[GroupMove, ...]
    findings: tuple[GroupFinding, ...]


GROUPS_REPORT = Form("report of consumer groups", "gaplessMirrorGroups", 2, GroupsReport)
