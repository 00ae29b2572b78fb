"""Owns what the reconcilers of Diode and Resend are shown of the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_operator.common.references import ReferencedObjects

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode
    from gapless_api.v1alpha1.resend import Resend
    from gapless_operator.common.observed import ObservedChild, ObservedClaim, ObservedJob, ObservedNode, ObservedPod
    from gapless_operator.sending.ledger import LedgerPart


@dataclass(frozen=True, slots=True, kw_only=True)
class DiodeObserved:
    """What a Diode's reconciler is shown."""

    other_diodes: tuple[Diode, ...] = ()
    """All others that the operator sees, in any namespace."""
    resends: tuple[Resend, ...] = ()
    """All of the Diode's namespace, over whichever Diode they go."""
    jobs: tuple[ObservedJob, ...] = ()
    """Of the Diode itself: preflights."""
    pods: tuple[ObservedPod, ...] = ()
    """Of those Jobs, with their logs."""
    volume_claims: tuple[ObservedClaim, ...] = ()
    """The one for checkpoints, if there is one of the name."""
    ledger: tuple[LedgerPart, ...] = ()
    """Of the Diode's name."""
    sender_pods: tuple[ObservedPod, ...] = ()
    """All pods that bear the Diode's name as `DIODE_LABEL`; their logs are not needed."""
    node: ObservedNode | None = None
    """The node that was checked last, if its state is known."""
    sender_jobs: tuple[ObservedJob, ...] = ()
    """All Jobs that bear it, whoever owns them: preflights, plans and resends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendObserved:
    """What a Resend's reconciler is shown."""

    diode: Diode | None = None
    """The one that it names, if there is one and it is valid."""
    diode_problem: str = ""
    """Why the one that it names cannot be used; empty when it is valid or not there."""
    other_diodes: tuple[Diode, ...] = ()
    """All others of the namespace: their resends may use the same receiver."""
    referenced: ReferencedObjects = field(default_factory=ReferencedObjects)
    """The Kafka and the storage that it names, as far as they are there."""
    jobs: tuple[ObservedJob, ...] = ()
    pods: tuple[ObservedPod, ...] = ()
    """Of those Jobs, with their logs."""
    config_maps: tuple[ObservedChild, ...] = ()
    ledger: tuple[LedgerPart, ...] = ()
    """Of the Diode that it names, whether that is there or not."""
    bundle_problem: str = ""
    """Why that entry cannot be read; empty when it can, or is not there."""
    bundle_entry: bytes | None = None
    """Content of the ConfigMap entry that `resend.bundle.entry_needed` names; ``None`` if there is no such entry."""
    filter_entry: bytes | None = None
    """Content of the filter rules that `resend.filter_rules.rules_needed` names, of the copy if there is one."""
    filter_problem: str = ""
    """Why it could not be read; empty when it could, or is not there."""
    fresh_key: bytes = b""
    """32 random bytes, new for each call; written into a Secret where one is needed, and nowhere else."""
    fresh_mark: str = ""
    """8 random hexadecimal digits, new for each call: part of the name of that Secret."""
