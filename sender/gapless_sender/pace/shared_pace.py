"""The pace of a resend, created from its settings: its own, that of the link, and how both change while it runs.

Must not know how a pace is kept, nor what is sent. All processes of a resend share its state: one follows the rate
file, and its changes apply to all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from gapless_api.base.errors import ConfigurationError
from gapless_sender.base.lazy_log import log
from gapless_sender.pace.pace_state import PaceState
from gapless_sender.pace.pacing import Clock, Pace, Paces
from gapless_sender.pace.rate_file import RateFollower

if TYPE_CHECKING:
    from gapless_sender.base.sharding import Shard
    from gapless_sender.settings.pace import PaceSettings


class SharedPace:
    """The limits of everything that a resend sends."""

    def __init__(
        self, settings: PaceSettings, clock: Clock, *, own: PaceState, link: PaceState | None, part: int
    ) -> None:
        """Create the pace; see `of`, which opens the states.

        Args:
            settings: with the rates of the rate file.
            clock: for sleeps that can be interrupted.
            own: the state of the resend's own pace.
            link: that of all resends over the link together.
            part: the number of programs that each take an equal part of the resend's own pace.
        """
        self._given = self._rates = settings
        self._part = part
        self._follower: RateFollower | None = None
        if settings.rate_file is not None:
            clock = self._follower = RateFollower(settings.rate_file, clock, self._change)
            self._follower.listen()
        self._own = Pace(0, 0, clock=clock, state=own)
        self._link = None if link is None else Pace(0, 0, clock=clock, state=link)
        self.pace: Pace | Paces = self._own if self._link is None else Paces(self._own, self._link)
        self._set()

    @classmethod
    def of(cls, settings: PaceSettings, clock: Clock, shard: Shard, *, processes: int = 1) -> Self:
        """Create the pace of a resend with `processes` processes. Raises ConfigurationError or LocalStorageError."""
        file = settings.shared_file
        unshared = PaceState.shared if processes > 1 else PaceState
        own = PaceState.in_file(file) if file is not None else unshared()
        budget = settings.budget_file if settings.has_link_budget else None
        link = None if budget is None else PaceState.in_file(budget)
        return cls(settings, clock, own=own, link=link, part=shard.count if file is None else 1)

    def follow(self) -> None:
        """Apply new rates if the rate file has any."""
        if self._follower is not None:
            self._follower.follow()

    def leave_to_parent(self) -> None:
        """Stop following the rate file: the parent process changes the shared state."""
        if self._follower is not None:
            self._follower.stop()

    def _change(self, found: Mapping[str, float]) -> None:
        changed = self._given.with_rates(found)
        if changed == self._rates:
            return
        if self._link is None and changed.has_link_budget:
            raise ConfigurationError(
                "The rate file sets a budget, but the resend was started without one; start it again with budgetFile "
                "and a budget."
            )
        self._rates = changed
        self._set()
        log("info", "the rates have changed", **changed.rates)

    def _set(self) -> None:
        rates = self._rates
        self._own.set_rates(rates.events_per_second / self._part, rates.bits_per_second / self._part)
        if self._link is not None:
            self._link.set_rates(rates.budget_events_per_second, rates.budget_bits_per_second)
