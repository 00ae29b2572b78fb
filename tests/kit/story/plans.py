"""Checks on an operator's plan; must not know which reconciler returned it."""

from __future__ import annotations

from dataclasses import replace

from gapless_operator.common.plan import Plan


def is_empty(plan: Plan) -> bool:
    """Whether the plan writes nothing; it may requeue."""
    return replace(plan, requeue_after_seconds=None) == Plan()
