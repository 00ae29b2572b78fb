"""Which link profile follows from a finished run; must not know how a run is counted or a profile is written."""

from __future__ import annotations

from datetime import datetime
from importlib import metadata
from typing import TYPE_CHECKING

from gapless_api.wire.link_profile import PAYLOAD_BYTES, LinkProfile, ProfileMeasurement
from gapless_sender.link_test.listening import target_of
from gapless_sender.link_test.output import run_name

if TYPE_CHECKING:
    from gapless_sender.link_test.reception import FinishedRun

COPIES_WITH_LOSS = 2
"""Copies of each datagram for a link that loses some at any rate: its loss is then squared."""


def profile_of(  # noqa: PLR0913 -- everything that a measurement rests on
    run: FinishedRun, *, now: datetime, nic: str, port: int, margin: float, accepted_loss: float
) -> LinkProfile | str:
    """Return the profile that `run` supports, or why it supports none, as a clause.

    Args:
        run: the run.
        now: the time of its end.
        nic: the interface that was listened on; empty for all.
        port: the UDP port of the probes.
        margin: how far the rates of the profile are below the fastest clean step; 0.2 is 20 %.
        accepted_loss: the share of missing probes up to which a step was clean.
    """
    step, advice = run.advice.safe, run.advice
    if step is None or not step.sent:
        return "no step of it is safe"
    if run.payload_bytes not in PAYLOAD_BYTES:
        return (
            f"its payload of {run.payload_bytes} bytes is not that of events; give gapless link test a --payload-size "
            f"from {PAYLOAD_BYTES[0]} to {PAYLOAD_BYTES[-1]}"
        )
    return LinkProfile(
        measured_at=now.isoformat(timespec="seconds").replace("+00:00", "Z"),
        measured_by=f"gapless link receive {metadata.version('gapless-api')}",
        target=target_of(run.packet_info),
        receiver_nic=nic,
        port=port,
        payload_size=run.payload_bytes,
        header_bytes=run.header_bytes,
        copies=COPIES_WITH_LOSS if step.missing else 1,
        datagrams_per_second=min(advice.datagrams_per_second, step.per_second),
        bits_per_second=min(float(advice.bits_per_second), step.bits_per_second),
        measurement=ProfileMeasurement(
            run=run_name(run.run),
            step=step.number,
            probes=step.sent,
            missing=step.missing or 0,
            datagrams_per_second=step.per_second,
            bits_per_second=step.bits_per_second,
            margin=margin,
            accepted_loss=accepted_loss,
            is_limit_known=advice.is_limit_known,
        ),
    )
