"""The settings of senders that a Resend and the Resend template of a GapScan share.

Must not know which events are sent, nor the names of these settings in the sender.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import int32
from gapless_api.v1alpha1.model import ApiModel

DEFAULT_MAX_FRAGMENTS = 4096
"""The limit of the air-gap receiver, and the default of the sender."""
STALL_SECONDS = 60
"""The default of the sender."""

ClientName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[-._:/a-zA-Z0-9]+$")]
"""A client ID or a group ID."""


class SenderOptions(ApiModel):
    """Settings of senders for Kafka, the receiver and the log."""

    client_id: ClientName | None = None
    """Client ID of the senders, for Kafka quotas and logs. Defaults to gapless-resend."""
    group_id: ClientName | None = None
    """Consumer group of the senders, for Kafka ACLs. No offsets are committed. Defaults to gapless-resend."""
    isolation_level: Literal["ReadUncommitted", "ReadCommitted"] = "ReadUncommitted"
    """Isolation level for reading transactional records. The live sender reads uncommitted records, so ReadCommitted
    reports records of aborted transactions as NonExistent."""
    stall_timeout_seconds: Annotated[int, int32(1, 86400)] = STALL_SECONDS
    """Maximum time in seconds without a record from Kafka, after which the attempt ends. Progress is kept for the next
    attempt."""
    max_fragments: Annotated[int, int32(1, 65535)] = DEFAULT_MAX_FRAGMENTS
    """Maximum number of datagrams for an event. Larger events are reported as TooLarge and not sent, because the
    receiver would drop them."""
    generate_new_symmetric_key_every_seconds: Annotated[int, int32(0, 31536000)] | None = None
    """Seconds after which all pods change to a new event key. 0 uses one key for each Resend. Defaults to the
    Diode's encryption.generateNewSymmetricKeyEverySeconds."""
    log_level: Literal["Trace", "Debug", "Info", "Warn", "Error", "Fatal"] = "Info"
    """Minimum log level of the pods. Progress and the report are written at every level."""
