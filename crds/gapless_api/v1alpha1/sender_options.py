"""Owns how a sender reads and what it refuses, as both a Resend and a GapScan's template for one may say it.

Must not know which events are meant, nor what the sender calls these settings.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import int32
from gapless_api.v1alpha1.model import ApiModel

MOST_FRAGMENTS = 4096
"""What the usual receiver joins, and the sender's default."""
STALL_SECONDS = 60
"""The sender's default."""

ClientName = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[-._:/a-zA-Z0-9]+$")]
"""A client id or a group id."""


class SenderOptions(ApiModel):
    """Settings of senders that concern Kafka, the receiver or the log."""

    client_id: ClientName | None = None
    """Client id by which Kafka's quotas and logs see the senders. Defaults to gapless-resend."""
    group_id: ClientName | None = None
    """Consumer group by which Kafka's access rules see the senders; no offset is committed. Defaults to
    gapless-resend."""
    isolation_level: Literal["ReadUncommitted", "ReadCommitted"] = "ReadUncommitted"
    """Which records of transactions are sent. The live sender reads uncommitted ones, so ReadCommitted reports records
    of aborted transactions as NonExistent."""
    stall_timeout_seconds: Annotated[int, int32(1, 86400)] = STALL_SECONDS
    """Seconds without a record from Kafka after which an attempt ends. Progress is kept for the next attempt."""
    max_fragments: Annotated[int, int32(1, 65535)] = MOST_FRAGMENTS
    """Events that need more datagrams than this are not sent but reported as TooLarge, because the receiver would drop
    them."""
    generate_new_symmetric_key_every_seconds: Annotated[int, int32(0, 31536000)] | None = None
    """Seconds after which a new event key replaces the one in use, in all pods at once. 0 keeps one key. Defaults to
    the Diode's encryption.generateNewSymmetricKeyEverySeconds."""
    log_level: Literal["Trace", "Debug", "Info", "Warn", "Error", "Fatal"] = "Info"
    """Minimum log level of the pods. Progress and report are written at every level."""
