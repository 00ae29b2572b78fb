"""Owns which rates a link test tries, and for how long; must not know how they are reached.

A rate is in datagrams a second, or in bits a second on the wire above Ethernet, like ``bitsPerSecond`` of a resend.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_sender.link_test.form import MOST_PROBES, MOST_STEPS

LEAST_PROBES = 10
"""In one step; fewer say nothing about a rate."""
LEAST_PER_SECOND = 1.0
LONGEST_STEP_SECONDS = 3600.0
LONGEST_PAUSE_SECONDS = 20.0
"""A receiver waits longer than that, and longer than between two probes, before it gives a run up."""
HARMLESS_DATAGRAMS_PER_SECOND = 1_000.0
HARMLESS_BITS_PER_SECOND = 10e6
"""Up to both, a test begins without asking."""
DEFAULT_FROM, DEFAULT_TO, DEFAULT_STEPS = "500", "16000", 6


class Rate(NamedTuple):
    """A rate as somebody has written it."""

    number: float
    in_bits: bool

    def datagrams_per_second(self, wire_bytes: int) -> float:
        """The rate in datagrams that take `wire_bytes` bytes each, with UDP and IP headers."""
        return self.number / (8 * wire_bytes) if self.in_bits else self.number


class PlannedStep(NamedTuple):
    """One rate to be tried."""

    datagrams_per_second: float
    datagrams: int


class Plan(NamedTuple):
    """All rates to be tried, one after the other."""

    steps: tuple[PlannedStep, ...]
    wire_bytes: int
    """Of one datagram, with UDP and IP headers."""
    step_seconds: float
    pause_seconds: float

    @property
    def datagrams(self) -> int:
        """How many there are in all."""
        return sum(step.datagrams for step in self.steps)

    @property
    def seconds(self) -> float:
        """How long it takes if this machine reaches every rate."""
        return sum(step.datagrams / step.datagrams_per_second + self.pause_seconds for step in self.steps)

    @property
    def highest(self) -> float:
        """The highest rate, in datagrams a second."""
        return max(step.datagrams_per_second for step in self.steps)

    @property
    def is_harmless(self) -> bool:
        """Whether no step is so fast that somebody should be asked."""
        bits = self.highest * self.wire_bytes * 8
        return self.highest <= HARMLESS_DATAGRAMS_PER_SECOND and bits <= HARMLESS_BITS_PER_SECOND


def rate(text: str) -> Rate:
    """Read a rate, such as 5000, 5k, 20Mbit or 1.5Gbit.

    Raises:
        ValueError: with the end of the sentence "it must be …".
    """
    wanted = "datagrams per second such as 5000 or 5k, or bits per second such as 800kbit, 20Mbit or 1Gbit"
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kKmMgG]?)((?:bits?|bps)(?:/s)?)?", text.strip())
    if found is None:
        raise ValueError(wanted)
    number = float(found[1]) * {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}[found[2].lower()]
    if not 0 < number <= 1e12:
        raise ValueError(wanted)
    return Rate(number, found[3] is not None)


def between(first: Rate, last: Rate, steps: int) -> tuple[Rate, ...]:
    """`steps` rates from `first` to `last`, each by the same factor higher than the one before.

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
    """The plan to try `rates`.

    Raises:
        ConfigurationError: there are too many, or a step would have too few datagrams or too many.
    """
    if not 1 <= len(rates) <= MOST_STEPS:
        raise ConfigurationError(f"{len(rates)} rates are given; 1 to {MOST_STEPS} are possible.")
    steps = []
    for number, asked in enumerate(rates, 1):
        per_second = asked.datagrams_per_second(wire_bytes)
        if per_second < LEAST_PER_SECOND:
            raise ConfigurationError(
                f"Step {number} would send {per_second:.2g} datagrams of {wire_bytes} bytes per second, and 1 is the "
                f"least; raise the rate."
            )
        datagrams = round(per_second * step_seconds)
        if datagrams < LEAST_PROBES:
            raise ConfigurationError(
                f"Step {number} would have {datagrams} datagrams of {wire_bytes} bytes in {step_seconds:g} seconds, "
                f"and {LEAST_PROBES} are the least that say something; raise --duration or the rate."
            )
        if datagrams > MOST_PROBES:
            raise ConfigurationError(
                f"Step {number} would have {datagrams:,} datagrams and {MOST_PROBES:,} are the most; lower --duration "
                f"or the rate."
            )
        steps.append(PlannedStep(per_second, datagrams))
    if any(before >= after for before, after in pairwise(steps)):
        raise ConfigurationError("The rates do not rise; list them from the lowest to the highest.")
    return Plan(tuple(steps), wire_bytes, step_seconds, pause_seconds)
