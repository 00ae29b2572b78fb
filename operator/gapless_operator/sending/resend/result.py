"""Owns what the parts of a Resend's reconciler are given and what they answer; must not know what they decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from gapless_api.v1alpha1.conditions import ConditionType
    from gapless_api.v1alpha1.diode import Diode
    from gapless_api.v1alpha1.resend import Resend, ResendStatus
    from gapless_operator.common.conditions import Said
    from gapless_operator.common.plan import Manifest, Ref
    from gapless_operator.common.references import ResendSources
    from gapless_operator.common.settings import Program
    from gapless_operator.sending.observed import ResendObserved


@dataclass(frozen=True, slots=True)
class Situation:
    """All that is known when a Resend is judged."""

    resend: Resend
    status: ResendStatus
    """As it was written last, but for what a change of the spec has made void."""
    diode: Diode
    sources: ResendSources
    observed: ResendObserved
    now: datetime
    """In whole seconds, as statuses have it."""
    program: Program
    """The sender image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is said about a Resend and what is done about it."""

    said: Mapping[ConditionType, Said]
    update: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the status that change, by their Python names."""
    stop: tuple[Ref, ...] = ()
    """Jobs and pods that must not run."""
    create: tuple[Manifest, ...] = ()
    apply: tuple[Manifest, ...] = ()
    delete: tuple[Ref, ...] = ()
    again_after: timedelta | None = None
