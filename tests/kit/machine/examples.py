"""How many examples a property is tried with: fewer in the fast tier, as many as the test says everywhere else."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FEWEST = 5
_SHARE = "GAPLESS_EXAMPLES"
"""Environment variable with the share of the examples, such as 0.2; all of them without it."""


def examples(number: int) -> int:
    """How many of `number` examples to try in this run."""
    return max(min(number, FEWEST), round(number * float(os.environ.get(_SHARE, "1"))))


def load_profile(name: str = "gapless", *suppressed: HealthCheck) -> None:
    """Load a profile with `examples` of Hypothesis's own number, in which an example may take as long as it needs."""
    settings.register_profile(
        name, deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow, *suppressed]
    )
    settings.load_profile(name)
