"""Owns what one part of a reconciler decides: conditions, fields of the status, objects, when to reconcile again.

Must not know any kind. A reconciler is a straight line of parts, each given the context and returning a result, or
nothing if it does not apply; the first result becomes the plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from gapless_api.v1alpha1.conditions import ConditionType
    from gapless_operator.common.conditions import ConditionUpdate
    from gapless_operator.common.plan import Event, Manifest, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What is decided about a resource; the objects are those of a `Plan`."""

    conditions: Mapping[ConditionType, ConditionUpdate]
    """Those that change."""
    update: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the status that change, by their Python names."""
    stop: tuple[Ref, ...] = ()
    create: tuple[Manifest, ...] = ()
    apply: tuple[Manifest, ...] = ()
    delete: tuple[Ref, ...] = ()
    events: tuple[Event, ...] = ()
    """Besides those that follow from the conditions."""
    again_after: timedelta | None = None
    """When to reconcile again at the latest."""
