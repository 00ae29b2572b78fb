"""Owns which attempts and ConfigMaps of a GapScan are kept and which go; must not know why an attempt failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_operator.common.plan import Ref
from gapless_operator.engines.engine import Attempt, Phase
from gapless_operator.scanning.manifests import BUNDLE_ROLE, SETTINGS_ROLE, bundle_name, settings_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.observed import ObservedChild


def outdated(
    scan: GapScan,
    attempts: Sequence[Attempt],
    config_maps: Iterable[ObservedChild],
    *,
    keep: Iterable[str],
    ref: Callable[[Attempt], Ref],
) -> tuple[Ref, ...]:
    """What to delete: attempts beyond the history limits, those that were given up, and what belonged to them.

    Args:
        scan: whose attempts they are, with its limits.
        attempts: oldest first, all of which the status is done with.
        config_maps: of the GapScan.
        keep: names of attempts that are running.
        ref: what to delete to be rid of an attempt.
    """
    limits = scan.spec.history_limits
    succeeded = [attempt for attempt in attempts if attempt.phase is Phase.SUCCEEDED]
    failed = [attempt for attempt in attempts if attempt.phase is Phase.FAILED]
    kept = {*keep, *_newest(succeeded, limits.successful), *_newest(failed, limits.failed)}
    gone = [attempt for attempt in attempts if attempt.name not in kept and not attempt.meta.deleting]
    # The bundle that the status speaks of stays, however few attempts are kept.
    spoken_of = scan.status.bundle.location if scan.status.bundle is not None else ""
    needed = {spoken_of} | {name for attempt in kept for name in (settings_name(attempt), bundle_name(attempt))}
    loose = [
        child
        for child in config_maps
        if child.meta.role in {SETTINGS_ROLE, BUNDLE_ROLE} and child.meta.name not in needed and not child.meta.deleting
    ]
    return (
        *(ref(attempt) for attempt in gone),
        *(Ref("v1", "ConfigMap", child.meta.name, child.meta.uid) for child in loose),
    )


def _newest(attempts: Sequence[Attempt], count: int) -> list[str]:
    return [attempt.name for attempt in attempts[len(attempts) - min(count, len(attempts)) :]]
