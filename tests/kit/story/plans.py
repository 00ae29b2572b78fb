"""Owns what tests ask of a plan; must not know which reconciler made it."""

from __future__ import annotations

from dataclasses import replace

from gapless_operator.common.plan import Plan


def is_empty(plan: Plan) -> bool:
    """Whether nothing has to be written: nothing is left to do."""
    return replace(plan, requeue_after_seconds=None) == Plan()
