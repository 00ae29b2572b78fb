"""How many histories of a state machine are tried, and their seed.

In `make test` a few, the same in every run. In `make test-state` STATE_HISTORIES random ones; the seed is printed, and
STATE_SEED repeats it.
"""

from __future__ import annotations

import itertools
import os
import random
import sys

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

HISTORIES = int(os.environ.get("STATE_HISTORIES", "0"))
"""The number of random histories; 0 for the few that are the same in every run."""


def try_histories(machine: type[RuleBasedStateMachine], few: int) -> None:
    """Run histories of a machine; `few` where they are the same in every run."""
    phases = [Phase.generate, Phase.shrink] if os.environ.get("STATE_SHRINK") else [Phase.generate]
    seed = int(os.environ.get("STATE_SEED", random.randrange(1 << 32)))
    if HISTORIES:
        print(f"{machine.__name__}: {HISTORIES:,} histories, STATE_SEED={seed}", flush=True)
        machine = hypothesis.seed(seed)(_counted(machine))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=HISTORIES or few,
            stateful_step_count=12 if HISTORIES else 5,
            derandomize=not HISTORIES,
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )


def _counted(machine: type[RuleBasedStateMachine]) -> type[RuleBasedStateMachine]:
    """Let each history that no step has failed in print its number when it has ended."""
    numbers = itertools.count(1)

    class Counted(machine):  # type: ignore[misc, valid-type]
        def teardown(self) -> None:
            has_failed = sys.exception() is not None
            super().teardown()
            if not has_failed:
                print(f"{machine.__name__}: history {next(numbers):,} kept every record", flush=True)

    return Counted
