"""Owns the account of a resend in numbers, which progress, report and plan share; must not know how one is kept."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Totals:
    """The account of a partition, of a shard, or of a resend."""

    planned: int = 0
    """Planned events: sent + filtered + filled + unavailable + remaining."""
    sent: int = 0
    filtered: int = 0
    """Sent as empty events, because the input filter denies them."""
    filled: int = 0
    """Sent as empty events, because there is nothing else to send."""
    unavailable: int = 0
    """Cannot be sent."""
    remaining: int = 0
    """Not dealt with yet."""
    outside_time_range: int = 0
    """Checked and not selected; not part of the plan."""

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*(getattr(self, name) + getattr(other, name) for name in Totals.__slots__))

    @property
    def done(self) -> int:
        """Events of the plan that are dealt with."""
        return self.sent + self.filtered + self.filled + self.unavailable

    @property
    def handled(self) -> int:
        """Events for which something was sent, the event or an empty one."""
        return self.sent + self.filtered + self.filled

    @property
    def is_balanced(self) -> bool:
        """Whether the equation holds."""
        return self.planned == self.done + self.remaining
