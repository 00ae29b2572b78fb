"""The settings of the pace; must not know what they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gapless_api.base.quantities import boolean
from gapless_api.base.typed_settings import TypedSettings, declare, setting_of
from gapless_sender.settings.values import bit_rate, rate

_GROUP = "Pace"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceSettings(TypedSettings):
    """The rate limits; 0 means no limit."""

    link_profile: Path | None = declare(
        "linkProfile",
        "Link profile that gapless link receive --profile wrote: its rates, payload size and copies apply where eps, "
        "bitsPerSecond, payloadSize and copies are not set.",
        parse=Path,
        group=_GROUP,
    )
    unlimited: bool = declare(
        "unlimited",
        "Send without a rate limit, which may lose events and disturb the live stream. Without it, a rate or "
        "linkProfile is required.",
        parse=boolean,
        default=False,
        group=_GROUP,
    )
    events_per_second: float = declare(
        "eps",
        "Maximum events per second; fractions are allowed; 0 or less for no limit of events.",
        parse=rate,
        default=0.0,
        shown_default="no limit",
        metavar="EVENTS",
        group=_GROUP,
        peer=True,
    )
    bits_per_second: float = declare(
        "bitsPerSecond",
        "Maximum bits per second on the link, including headers and copies; the suffixes k, M and G are allowed.",
        parse=bit_rate,
        default=0.0,
        shown_default="no limit",
        metavar="BITS",
        aliases=("bps",),
        group=_GROUP,
    )
    rate_file: Path | None = declare(
        "rateFile",
        "Properties file with eps, bitsPerSecond, budgetEps, budgetBitsPerSecond or unlimited, which override the "
        "settings of these names. It is checked every second and at SIGHUP, and the rates change while the resend "
        "runs; an invalid file changes nothing then.",
        parse=Path,
        group=_GROUP,
    )
    pace_file: Path | None = declare(
        "paceFile",
        "File that the shards of one resend share (see shardCount), so that eps and bitsPerSecond limit all of them "
        "together; without it each shard takes an equal part.",
        parse=Path,
        writes=True,
        group=_GROUP,
    )
    budget_file: Path | None = declare(
        "budgetFile",
        "File that all senders of this machine share, so that budgetEps and budgetBitsPerSecond limit all of them "
        "together, in addition to each one's own pace; it is created if it is missing. Without these two settings, "
        "eps and bitsPerSecond limit all of them together.",
        parse=Path,
        writes=True,
        group=_GROUP,
    )
    budget_events_per_second: float = declare(
        "budgetEps",
        "Maximum events per second of all senders with the same budgetFile; 0 or less for no limit.",
        parse=rate,
        default=0.0,
        shown_default="no limit",
        metavar="EVENTS",
        group=_GROUP,
    )
    budget_bits_per_second: float = declare(
        "budgetBitsPerSecond",
        "Maximum bits per second of all senders with the same budgetFile, counted like bitsPerSecond.",
        parse=bit_rate,
        default=0.0,
        shown_default="no limit",
        metavar="BITS",
        group=_GROUP,
    )

    @property
    def has_link_budget(self) -> bool:
        """Whether the senders of this machine share a budget in addition to each one's own pace."""
        return bool(self.budget_events_per_second or self.budget_bits_per_second)

    @property
    def is_limited(self) -> bool:
        """Whether any rate is set."""
        return any(self.rates.values())

    @property
    def shared_file(self) -> Path | None:
        """The file in which eps and bitsPerSecond are shared with others; ``None`` for a pace of this resend alone."""
        return self.pace_file if self.pace_file is not None or self.has_link_budget else self.budget_file

    @property
    def rates(self) -> dict[str, float]:
        """The rates that a rate file may set, by the names of the settings."""
        return {
            "eps": self.events_per_second,
            "bitsPerSecond": self.bits_per_second,
            "budgetEps": self.budget_events_per_second,
            "budgetBitsPerSecond": self.budget_bits_per_second,
        }

    def with_rates(self, rates: Mapping[str, float]) -> PaceSettings:
        """Return a copy with `rates`, by the names of their settings."""
        changes: dict[str, Any] = {
            each.name: rates[setting_of(each).name] for each in fields(self) if setting_of(each).name in rates
        }
        return replace(self, **changes)


PACE = PaceSettings.declared()
