"""The number of Hypothesis examples: fewer in the fast tier, else the number of the test."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_MIN_EXAMPLES = 5
_SHARE = "GAPLESS_EXAMPLES"
"""Environment variable with the fraction of the examples, such as 0.2; all of them if it is not set."""


def examples(number: int) -> int:
    """Return how many of `number` examples to run."""
    return max(min(number, _MIN_EXAMPLES), round(number * float(os.environ.get(_SHARE, "1"))))


def load_profile(name: str = "gapless", *suppressed: HealthCheck) -> None:
    """Load a profile with `examples` of Hypothesis's default number, and no deadline for an example."""
    settings.register_profile(
        name, deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow, *suppressed]
    )
    settings.load_profile(name)
