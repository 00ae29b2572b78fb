"""Owns the report of ``gapless mirror groups --json``; must not know how positions are translated."""

from dataclasses import dataclass
from typing import Literal

from gapless_api.wire.form import Form, Offset, PartitionNumber

GroupReason = Literal[
    "ActiveMembers", "AheadOfMirror", "BehindMap", "NotBackwards", "TopicRecreated", "NotConfirmed", "NoGroup"
]
MoveState = Literal["planned", "moved", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """A position that can be translated."""

    group: str
    topic: str
    """Of the source."""
    target: str
    """The topic that it is copied to."""
    partition: PartitionNumber
    source_offset: Offset
    """Where the group continues in the source."""
    target_offset: Offset
    """Where it continues in the target, at exactly the same record."""
    state: MoveState
    """`unchanged` when the group is there already, `planned` when nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFinding:
    """A position that was not translated, or a group."""

    group: str
    topic: str | None
    """Of the source; null when it is about the group."""
    partition: PartitionNumber | None
    reason: GroupReason
    message: str
    """A sentence."""

    @property
    def is_problem(self) -> bool:
        """Whether the group would continue at another record; one that was active at the target does not."""
        return self.reason != "NotBackwards"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsReport:
    """Positions of consumer groups at the target of a mirror."""

    name: str
    """Of the mirror."""
    groups: tuple[str, ...]
    """Those that were looked at."""
    moves: tuple[GroupMove, ...]
    findings: tuple[GroupFinding, ...]


GROUPS_REPORT = Form("report of consumer groups", "gaplessMirrorGroups", 1, GroupsReport)
