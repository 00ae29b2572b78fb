"""Owns the account of a resend in numbers, which progress, report and plan share; must not know how one is kept."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Totals:
    """The account of a partition, of a shard, or of a whole resend."""

    planned: int = 0
    sent: int = 0
    filtered: int = 0
    filled: int = 0
    unavailable: int = 0
    remaining: int = 0
    outside_time_range: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*(getattr(self, name) + getattr(other, name) for name in Totals.__slots__))

    @property
    def done(self) -> int:
        """Events of the plan that are dealt with."""
        return self.sent + self.filtered + self.filled + self.unavailable

    @property
    def holds(self) -> bool:
        """Whether the equation holds."""
        return self.planned == self.done + self.remaining
