"""What the reconcilers of Diode and Resend see of the cluster."""

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
    """What a Diode's reconciler sees."""

    other_diodes: tuple[Diode, ...] = ()
    """All others that the operator watches, in any namespace."""
    resends: tuple[Resend, ...] = ()
    """All in the Diode's namespace, whichever Diode they use."""
    jobs: tuple[ObservedJob, ...] = ()
    """Of the Diode itself: preflights."""
    pods: tuple[ObservedPod, ...] = ()
    """Of those Jobs, with their logs."""
    volume_claims: tuple[ObservedClaim, ...] = ()
    """The claim for checkpoints, if it exists."""
    ledger: tuple[LedgerPart, ...] = ()
    """All parts that have the Diode's name."""
    sender_pods: tuple[ObservedPod, ...] = ()
    """All pods with the Diode's name as `DIODE_LABEL`; their logs are not needed."""
    node: ObservedNode | None = None
    """The node that was checked last, if its state is known."""
    sender_jobs: tuple[ObservedJob, ...] = ()
    """All Jobs with that label, whoever owns them: preflights, plans and resends."""
    profile_entry: bytes | None = None
    """Content of the ConfigMap entry of `profileRef`; ``None`` if it does not exist."""
    profile_problem: str = ""
    """Why that entry cannot be read; empty when it can, or does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendObserved:
    """What a Resend's reconciler sees."""

    diode: Diode | None = None
    """The one that it names, if it exists and is valid."""
    diode_problem: str = ""
    """Why the one that it names is invalid; empty when it is valid or does not exist."""
    other_diodes: tuple[Diode, ...] = ()
    """All others in the namespace: their resends may use the same receiver."""
    referenced: ReferencedObjects = field(default_factory=ReferencedObjects)
    """The Kafka and the storage that it names, as far as they exist."""
    jobs: tuple[ObservedJob, ...] = ()
    pods: tuple[ObservedPod, ...] = ()
    """Of those Jobs, with their logs."""
    config_maps: tuple[ObservedChild, ...] = ()
    ledger: tuple[LedgerPart, ...] = ()
    """Of the Diode that it names, whether that exists or not."""
    bundle_entry: bytes | None = None
    """Content of the ConfigMap entry of `resend.bundle.required_bundle_entry`; ``None`` if it does not exist."""
    bundle_problem: str = ""
    """Why that entry cannot be read; empty when it can, or does not exist."""
    filter_entry: bytes | None = None
    """Content of the entry of `resend.filter_rules.required_rules_entry`, or of its copy if that exists."""
    filter_problem: str = ""
    """Why it cannot be read; empty when it can, or does not exist."""
    profile_entry: bytes | None = None
    """Content of the ConfigMap entry of the Diode's `profileRef`; ``None`` if it does not exist."""
    profile_problem: str = ""
    """Why that entry cannot be read; empty when it can, or does not exist."""
    fresh_key: bytes = b""
    """32 random bytes, new for each reconcile; written into a Secret where one is needed, and nowhere else."""
    fresh_mark: str = ""
    """8 random hexadecimal digits, new for each reconcile: part of the name of that Secret."""
