"""Which rates a link test tries, and for how long; must not know how they are reached.

A rate is in datagrams per second, or in bits per second on the wire above Ethernet, like ``bitsPerSecond`` of a resend.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_sender.link_test.form import MAX_PROBES, MAX_STEPS

MIN_PROBES = 10
"""In one step; fewer are not enough to judge a rate."""
MIN_PER_SECOND = 1.0
MAX_STEP_SECONDS = 3600.0
MAX_PAUSE_SECONDS = 20.0
"""A receiver ends a silent run only after a longer time."""
HARMLESS_DATAGRAMS_PER_SECOND = 1_000.0
HARMLESS_BITS_PER_SECOND = 10e6
"""Up to both, a test needs no confirmation."""
DEFAULT_FROM, DEFAULT_TO, DEFAULT_STEPS = "500", "16000", 6


class Rate(NamedTuple):
    """A rate in the unit in which it was given."""

    number: float
    in_bits: bool

    def datagrams_per_second(self, wire_bytes: int) -> float:
        """Return the rate in datagrams of `wire_bytes` bytes each, with UDP and IP headers."""
        return self.number / (8 * wire_bytes) if self.in_bits else self.number


class PlannedStep(NamedTuple):
    """One rate to try."""

    datagrams_per_second: float
    datagrams: int


class Plan(NamedTuple):
    """All rates to try, one after the other."""

    steps: tuple[PlannedStep, ...]
    wire_bytes: int
    """Of one datagram, with UDP and IP headers."""
    step_seconds: float
    pause_seconds: float

    @property
    def datagrams(self) -> int:
        """The total number of datagrams."""
        return sum(step.datagrams for step in self.steps)

    @property
    def seconds(self) -> float:
        """The duration if this machine reaches every rate."""
        return sum(step.datagrams / step.datagrams_per_second + self.pause_seconds for step in self.steps)

    @property
    def highest(self) -> float:
        """The highest rate, in datagrams per second."""
        return max(step.datagrams_per_second for step in self.steps)

    @property
    def is_harmless(self) -> bool:
        """Whether no step is so fast that it needs a confirmation."""
        bits = self.highest * self.wire_bytes * 8
        return self.highest <= HARMLESS_DATAGRAMS_PER_SECOND and bits <= HARMLESS_BITS_PER_SECOND


def rate(text: str) -> Rate:
    """Parse a rate, such as 5000, 5k, 20Mbit or 1.5Gbit.

    Raises:
        ValueError: with the end of the sentence "it must be …".
    """
    expected = "datagrams per second such as 5000 or 5k, or bits per second such as 800kbit, 20Mbit or 1Gbit"
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kKmMgG]?)((?:bits?|bps)(?:/s)?)?", text.strip())
    if match is None:
        raise ValueError(expected)
    number = float(match[1]) * {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}[match[2].lower()]
    if not 0 < number <= 1e12:
        raise ValueError(expected)
    return Rate(number, match[3] is not None)


def between(first: Rate, last: Rate, steps: int) -> tuple[Rate, ...]:
    """Return `steps` rates from `first` to `last`, each higher than the one before by the same factor.

    Raises:
        ConfigurationError: they do not rise.
    """
    if first.in_bits != last.in_bits:
        raise ConfigurationError("--from and --to are in different units; give both, in datagrams or in bits.")
    if steps == 1 and first != last:
        raise ConfigurationError("One step cannot have two rates; give --steps 2 or more, or --rates with one rate.")
    if first.number > last.number or (first == last and steps > 1):
        raise ConfigurationError(
            "The rates do not rise; give a --from that is lower than --to, or list them (--rates)."
        )
    if steps == 1:
        return (first,)
    factor = (last.number / first.number) ** (1 / (steps - 1))
    inner = tuple(first._replace(number=first.number * factor**index) for index in range(1, steps - 1))
    return (first, *inner, last)


def planned(rates: tuple[Rate, ...], *, wire_bytes: int, step_seconds: float, pause_seconds: float) -> Plan:
    """Return the plan to try `rates`.

    Raises:
        ConfigurationError: there are too many, or a step would have too few datagrams or too many.
    """
    if not 1 <= len(rates) <= MAX_STEPS:
        raise ConfigurationError(f"{len(rates)} rates are given; 1 to {MAX_STEPS} are possible.")
    steps = []
    for number, asked in enumerate(rates, 1):
        per_second = asked.datagrams_per_second(wire_bytes)
        if per_second < MIN_PER_SECOND:
            raise ConfigurationError(
                f"Step {number} would send {per_second:.2g} datagrams of {wire_bytes} bytes per second, and the "
                f"minimum is 1; raise the rate."
            )
        datagrams = round(per_second * step_seconds)
        if datagrams < MIN_PROBES:
            raise ConfigurationError(
                f"Step {number} would have {datagrams} datagrams of {wire_bytes} bytes in {step_seconds:g} seconds, "
                f"and the minimum is {MIN_PROBES}; raise --duration or the rate."
            )
        if datagrams > MAX_PROBES:
            raise ConfigurationError(
                f"Step {number} would have {datagrams:,} datagrams, and the maximum is {MAX_PROBES:,}; lower "
                f"--duration or the rate."
            )
        steps.append(PlannedStep(per_second, datagrams))
    if any(before >= after for before, after in pairwise(steps)):
        raise ConfigurationError("The rates do not rise; list them from the lowest to the highest.")
    return Plan(tuple(steps), wire_bytes, step_seconds, pause_seconds)
