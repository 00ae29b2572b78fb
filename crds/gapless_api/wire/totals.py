"""The totals of a resend, which progress, report and plan share; must not know how they are counted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a partition, a shard or a resend."""

    planned: int = 0
    """Planned events: sent + filtered + filled + unavailable + remaining."""
    sent: int = 0
    filtered: int = 0
    """Sent as empty events, because the input filter denies them."""
    filled: int = 0
    """Sent as empty events, because the original events are not available."""
    unavailable: int = 0
    """Cannot be sent."""
    remaining: int = 0
    """Not processed yet."""
    outside_time_range: int = 0
    """Checked, but not selected; not part of the plan."""

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(*(getattr(self, name) + getattr(other, name) for name in Totals.__slots__))

    @property
    def done(self) -> int:
        """Planned events that are processed."""
        return self.sent + self.filtered + self.filled + self.unavailable

    @property
    def handled(self) -> int:
        """Events for which the event or an empty event was sent."""
        return self.sent + self.filtered + self.filled

    @property
    def is_balanced(self) -> bool:
        """Whether the numbers add up to `planned`."""
        return self.planned == self.done + self.remaining
