"""Owns what the parts of a Resend's reconciler are given; must not know what they decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_operator.common.children import running_children

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.diode import Diode
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.resend_status import ResendStatus
    from gapless_operator.common.plan import Ref
    from gapless_operator.common.references import ResendSources
    from gapless_operator.common.settings import Program
    from gapless_operator.sending.observed import ResendObserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that is known when a Resend is reconciled."""

    resend: Resend
    status: ResendStatus
    """As it was written last, but for what a change of the spec has made void."""
    observed: ResendObserved
    now: datetime
    """In whole seconds, as statuses have it."""
    program: Program
    """The sender image."""

    def everything(self) -> tuple[Ref, ...]:
        """All Jobs and pods of the Resend that run."""
        return running_children(self.observed.jobs, self.observed.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidContext(Context):
    """What is known of a Resend that can be carried out."""

    diode: Diode
    sources: ResendSources
    is_known: bool
    """Whether it is known which work this is; otherwise a pod has to inspect the bundle first."""
