"""The mapping from errors of Kafka clients to stall reasons. Pure.

Errors without a row here are classified by `gapless_kafka.access.errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.wire.mirror_progress import StallReason
from gapless_kafka.access.errors import DENIED, EXPIRED, LOGIN, NO_TOPIC, UNREACHABLE, fault_of
from gapless_mirror.lanes.hanging_transaction import HANGING_TRANSACTION
from gapless_mirror.lanes.unexpected import COPY_FAILED

if TYPE_CHECKING:
    from gapless_mirror.watch.facts import Side

_ROWS = {
    StallReason.TRANSACTION_OPEN: HANGING_TRANSACTION,
    StallReason.COPY_FAILED: COPY_FAILED,
    StallReason.COORDINATOR_UNAVAILABLE: (
        "CONCURRENT_TRANSACTIONS COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE INVALID_TRANSACTION_TIMEOUT "
        "NOT_COORDINATOR _WAIT_COORD"
    ),
    StallReason.TARGET_REFUSES: (
        "INVALID_MSG INVALID_MSG_SIZE INVALID_RECORD INVALID_REQUIRED_ACKS INVALID_TIMESTAMP KAFKA_STORAGE_ERROR "
        "MSG_SIZE_TOO_LARGE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND POLICY_VIOLATION "
        "RECORD_LIST_TOO_LARGE THROTTLING_QUOTA_EXCEEDED UNSUPPORTED_COMPRESSION_TYPE UNSUPPORTED_FOR_MESSAGE_FORMAT"
    ),
    StallReason.LEADER_MISSING: (
        "BROKER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE FENCED_LEADER_EPOCH LEADER_NOT_AVAILABLE "
        "NOT_LEADER_FOR_PARTITION OFFSET_NOT_AVAILABLE REPLICA_NOT_AVAILABLE UNKNOWN_LEADER_EPOCH"
    ),
}
_BY_NAME = {name: reason for reason, names in _ROWS.items() for name in names.split()}


def reason_of(side: Side, name: str) -> StallReason:
    """Return the stall reason for an error.

    Args:
        side: the cluster that the client talks to.
        name: of the error in librdkafka.
    """
    meaning = fault_of(name)
    if meaning in {DENIED, LOGIN} or "AUTHORIZATION_FAILED" in name:
        return StallReason.AUTHORIZATION_FAILED
    known = _BY_NAME.get(name)
    if known is not None and (known is not StallReason.TARGET_REFUSES or side == "target"):
        return known
    if meaning is EXPIRED and side == "source":
        return StallReason.RETENTION_OVERTOOK
    if meaning is NO_TOPIC:
        return StallReason.TARGET_REFUSES if side == "target" else StallReason.LEADER_MISSING
    if meaning is UNREACHABLE:
        # The snapshot of the target shows unreachable leaders; otherwise it is the transaction coordinator.
        return StallReason.COORDINATOR_UNAVAILABLE if side == "target" else StallReason.LEADER_MISSING
    return StallReason.WORKER_STUCK
