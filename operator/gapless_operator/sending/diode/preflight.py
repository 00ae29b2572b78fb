"""Owns what the preflight check of a Diode's node means: which finding is which reason, and what to do about it.

Must not know how the node is checked, nor when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.diode import Preflight
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import ConditionUpdate

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.diode import Diode, DiodeSpec
    from gapless_operator.common.observed import ObservedPod

_IP_AND_UDP_BYTES, _IPV6_AND_UDP_BYTES = 28, 48
_LARGEST_MTU = 2**31
_PERMANENT = frozenset({"PERMANENT", "NOARP"})
"""States of a neighbour entry that need no answer from the other end."""


def found_by(pod: ObservedPod, diode: Diode, finished: datetime) -> Preflight | None:
    """Read what a preflight pod has found; ``None`` when its log does not say."""
    report = pod.output.preflight
    if report is None:
        return None
    neighbour = report.neighbour
    if not report.needs_neighbour:
        neighbour = neighbour or "NOARP"  # The kernel's own word for a station that needs no entry.
    return Preflight(
        node=pod.node,
        nic=diode.spec.nic,
        exists=report.exists,
        up=report.up,
        carrier=report.carrier,
        mtu=report.mtu if report.mtu is not None and report.mtu < _LARGEST_MTU else None,
        neighbour=neighbour.upper()[:32] if neighbour else None,
        generation=diode.metadata.generation,
        message=report.message or pod.output.error_message or None,
        checked_at=finished,
    )


def evaluate(found: Preflight, spec: DiodeSpec) -> ConditionUpdate:  # noqa: PLR0911 -- one for each finding
    """What the findings say about the link."""
    where = f"on node {found.node}" if found.node else "on the node"
    if not found.exists:
        return ConditionUpdate(
            False,
            Reason.NIC_MISSING,
            f"There is no network interface {spec.nic} {where}; correct spec.nic or spec.nodeSelector.",
        )
    if not found.up:
        return ConditionUpdate(
            False,
            Reason.NIC_DOWN,
            f"The network interface {spec.nic} {where} is down; run there: ip link set dev {spec.nic} up.",
        )
    if not found.carrier:
        return ConditionUpdate(
            False,
            Reason.NO_CARRIER,
            f"The network interface {spec.nic} {where} has no carrier; check the cable and the other end.",
        )
    overhead = _IPV6_AND_UDP_BYTES if ":" in spec.target.host else _IP_AND_UDP_BYTES
    if found.mtu is not None and spec.payload_size and spec.payload_size + overhead > found.mtu:
        return ConditionUpdate(
            False,
            Reason.PAYLOAD_TOO_LARGE,
            f"Datagrams of payloadSize {spec.payload_size} need an MTU of {spec.payload_size + overhead} and "
            f"{spec.nic} {where} has {found.mtu}; set payloadSize to {max(found.mtu - overhead, 0)} or 0, or raise the "
            f"MTU.",
        )
    if spec.require_static_neighbour and found.neighbour not in _PERMANENT:
        state = f"only a {found.neighbour} one" if found.neighbour else "none"
        return ConditionUpdate(
            False,
            Reason.NEIGHBOUR_MISSING,
            f"The target {spec.target.host} needs a permanent neighbour entry on {spec.nic} {where}, and there is "
            f"{state}; run there: ip neigh replace {spec.target.host} lladdr MAC nud permanent dev {spec.nic}.",
        )
    if found.message:
        return ConditionUpdate(False, Reason.PREFLIGHT_FAILED, found.message)
    return ConditionUpdate(True, Reason.LINK_READY, f"{spec.nic} {where} is ready to send to {spec.target.host}.")
