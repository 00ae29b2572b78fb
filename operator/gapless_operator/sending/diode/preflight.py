"""The meaning of a preflight check of a Diode's node: the reason of each finding, and what to do about it.

Must not know how the node is checked, nor when.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.diode import Diode, DiodeSpec, Preflight
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import ConditionUpdate

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedPod

_IP_AND_UDP_BYTES, _IPV6_AND_UDP_BYTES = 28, 48
_LARGEST_MTU = 2**31
_PERMANENT = frozenset({"PERMANENT", "NOARP"})
"""States of a neighbour entry that need no reply from the other end."""


def read_preflight(pod: ObservedPod, diode: Diode, finished: datetime) -> Preflight | None:
    """Read the findings of a preflight pod; ``None`` when its log has none."""
    report = pod.output.preflight
    if report is None:
        return None
    neighbour = report.neighbour
    if not report.needs_neighbour:
        neighbour = neighbour or "NOARP"  # The kernel's state of a neighbour that needs no entry.
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


def evaluate(findings: Preflight, spec: DiodeSpec) -> ConditionUpdate:  # noqa: PLR0911 -- one for each finding
    """Return the state of the link that follows from the findings."""
    where = f"on node {findings.node}" if findings.node else "on the node"
    if not findings.exists:
        return ConditionUpdate(
            False,
            Reason.NIC_MISSING,
            f"There is no network interface {spec.nic} {where}; correct spec.nic or spec.nodeSelector.",
        )
    if not findings.up:
        return ConditionUpdate(
            False,
            Reason.NIC_DOWN,
            f"The network interface {spec.nic} {where} is down; run there: ip link set dev {spec.nic} up.",
        )
    if not findings.carrier:
        return ConditionUpdate(
            False,
            Reason.NO_CARRIER,
            f"The network interface {spec.nic} {where} has no carrier; check the cable and the other end.",
        )
    overhead = _IPV6_AND_UDP_BYTES if ":" in spec.target.host else _IP_AND_UDP_BYTES
    if findings.mtu is not None and spec.payload_size and spec.payload_size + overhead > findings.mtu:
        return ConditionUpdate(
            False,
            Reason.PAYLOAD_TOO_LARGE,
            f"Datagrams of payloadSize {spec.payload_size} need an MTU of {spec.payload_size + overhead}, but "
            f"{spec.nic} {where} has {findings.mtu}; set payloadSize to {max(findings.mtu - overhead, 0)} or 0, or "
            f"raise the MTU.",
        )
    if spec.require_static_neighbour and findings.neighbour not in _PERMANENT:
        state = f"only a {findings.neighbour} one" if findings.neighbour else "none"
        return ConditionUpdate(
            False,
            Reason.NEIGHBOUR_MISSING,
            f"The target {spec.target.host} needs a permanent neighbour entry on {spec.nic} {where}, but there is "
            f"{state}; run there: ip neigh replace {spec.target.host} lladdr MAC nud permanent dev {spec.nic}.",
        )
    if findings.message:
        return ConditionUpdate(False, Reason.PREFLIGHT_FAILED, findings.message)
    return ConditionUpdate(True, Reason.LINK_READY, f"{spec.nic} {where} is ready to send to {spec.target.host}.")
