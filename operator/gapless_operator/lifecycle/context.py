"""What every kind knows when it is reconciled; must not know any kind, nor decide anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import NotFound

if TYPE_CHECKING:
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

ResourceT = TypeVar("ResourceT")
AccessT = TypeVar("AccessT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Generic[ResourceT, AccessT]):
    """The input of each step. A kind adds its attempts, and its schedules if it has any."""

    resource: ResourceT
    """With the status that was last written."""
    observed: WorkObserved
    now: datetime
    program: Program
    """What the pods are made of, unless the spec says otherwise."""
    access: AccessT | NotFound
    """The objects that the spec refers to, or which of them cannot be used."""

    @property
    def resolved(self) -> AccessT:
        """The objects that the spec refers to. Raises TypeError where a step should have looked before."""
        if isinstance(self.access, NotFound):
            raise TypeError(self.access)
        return self.access


def resolve(look_up: Callable[[], AccessT | NotFound]) -> AccessT | NotFound:
    """Return what `look_up` finds; a reference that is not valid is one that cannot be used."""
    try:
        return look_up()
    except ConfigurationError as error:
        return NotFound(Reason.BAD_CONFIGURATION, str(error))
