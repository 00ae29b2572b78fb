"""The input of each step of a Resend's reconciler; must not know what a step decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from gapless_operator.common.children import running_children

if TYPE_CHECKING:
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
    """As it was last written, without what a change of the spec has invalidated."""
    observed: ResendObserved
    now: datetime
    """In whole seconds, as in a status."""
    program: Program
    """The sender image."""

    def running_objects(self) -> tuple[Ref, ...]:
        """Return all Jobs and pods of the Resend that have not ended."""
        return running_children(self.observed.jobs, self.observed.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidContext(Context):
    """The same for a Resend whose spec and references are valid."""

    diode: Diode
    sources: ResendSources
    is_identified: bool
    """Whether the identity of the work is known; otherwise a pod has to inspect the bundle first."""
