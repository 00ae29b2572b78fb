"""Owns what the counts of a run mean: loss, its place, and the safe rate; must not know how the counts came about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gapless_sender.link_test.counting import RunCount, StepCount

CONFIDENCE_95 = 3.0
"""Of n probes none was lost: then, with 95 % confidence, fewer than 3 in n are (the rule of three)."""


class StepResult(NamedTuple):
    """What became of one step. `sent` of a step of which nothing has arrived is unknown."""

    number: int
    asked_per_second: float
    sent: int | None
    sent_is_told: bool
    """Whether the sender said so; otherwise it is what the step was to have, or what has certainly been sent."""
    received: int
    socket_drops: int
    damaged: int
    duplicates: int
    disordered: int
    farthest: int
    per_second: float
    """Datagrams a second, as the sender reached it."""
    wire_bytes: int
    goodput_bits_per_second: float | None
    """Payload bits of different probes, in the time from the first to the last."""
    code_points: tuple[int, ...]
    times_to_live: tuple[int, ...]

    @property
    def missing(self) -> int | None:
        """Probes of which no good copy has come."""
        return None if self.sent is None else max(self.sent - self.received, 0)

    @property
    def lost(self) -> int | None:
        """Probes that the link lost: those that are missing without our socket or damage having to do with it."""
        return None if self.missing is None else max(self.missing - self.socket_drops - self.damaged, 0)

    @property
    def bits_per_second(self) -> float:
        """The rate that the sender reached, in bits on the wire."""
        return self.per_second * self.wire_bytes * 8

    def is_clean(self, accepted_loss: float) -> bool:
        """Whether no more than the share `accepted_loss` is missing, and the sender said how many there were."""
        return self.missing is not None and self.sent_is_told and self.missing <= accepted_loss * max(self.sent or 0, 1)


class Advice(NamedTuple):
    """The rate to write down."""

    safe: StepResult | None
    """The fastest step that was clean, like all below it."""
    bits_per_second: int
    datagrams_per_second: int
    payload_bytes: int
    sentences: tuple[str, ...]
    """What it is based on, and what to do."""

    def as_json(self) -> dict[str, Any]:
        """For reports."""
        return {
            "safeStep": None if self.safe is None else self.safe.number,
            "bitsPerSecond": self.bits_per_second or None,
            "eventsPerSecond": self.datagrams_per_second or None,
            "payloadSize": self.payload_bytes,
            "sentences": list(self.sentences),
        }


def results(run: RunCount) -> list[StepResult]:
    """Every step of `run` up to the last of which something has arrived."""
    return [_result(run, number) for number in range(1, run.latest_step + 1)]


def _result(run: RunCount, number: int) -> StepResult:
    step = run.steps.get(number)
    wire_bytes = run.payload_bytes + run.header_bytes
    if step is None:
        return StepResult(number, 0.0, None, False, 0, 0, 0, 0, 0, 0, 0.0, wire_bytes, None, (), ())
    sent = _sent(run, step)
    asked = step.step.asked_millihertz / 1000
    reached = asked if not step.told_seconds else min(sent / step.told_seconds, asked)
    seconds = (step.last_at or 0.0) - (step.first_at or 0.0)
    goodput = 8.0 * run.payload_bytes * (step.received - 1) / seconds if step.received > 1 and seconds > 0 else None
    return StepResult(
        number=number,
        asked_per_second=asked,
        sent=sent,
        sent_is_told=step.told_sent is not None,
        received=step.received,
        socket_drops=step.dropped,
        damaged=step.damaged,
        duplicates=step.duplicates,
        disordered=step.disordered,
        farthest=step.farthest,
        per_second=reached,
        wire_bytes=wire_bytes,
        goodput_bits_per_second=goodput,
        code_points=tuple(sorted(step.code_points)),
        times_to_live=tuple(sorted(step.times_to_live)),
    )


def _sent(run: RunCount, step: StepCount) -> int:
    if step.told_sent is not None:
        return step.told_sent
    return step.step.probes if step.step.number < run.latest_step else step.highest + 1


def advice(
    steps: list[StepResult],
    *,
    payload_bytes: int,
    margin: float,
    accepted_loss: float = 0.0,
    is_cut_off: bool = False,
) -> Advice:
    """The fastest step that lost nothing, like all slower ones, less `margin` (0.2 is 20 %).

    Of a run that `is_cut_off` nothing more arrived, neither the steps that were to follow nor its end.
    """
    safe: StepResult | None = None
    spoilt: StepResult | None = None
    for step in steps:
        if not step.is_clean(accepted_loss):
            spoilt = step
            break
        safe = step
    if safe is None:
        return Advice(None, 0, 0, payload_bytes, tuple(_without_safe_step(spoilt, steps, accepted_loss)))
    bits, datagrams = int(safe.bits_per_second * (1 - margin)), int(safe.per_second * (1 - margin))
    lost = "nothing" if not safe.missing else f"{safe.missing:,}"
    reached = f"{safe.per_second:,.0f}/s ({safe.bits_per_second / 1e6:,.2f} Mbit/s)"
    sentences = [
        f"Step {safe.number} lost {lost} of {safe.sent:,} datagrams at {reached}, and no slower step was worse."
    ]
    if not safe.missing and safe.sent:
        sentences.append(
            f"With 95 % confidence it loses fewer than {CONFIDENCE_95 / safe.sent:.2g} of all; a longer step says more."
        )
    if spoilt is None and is_cut_off:
        sentences.append(
            f"Nothing arrived after step {safe.number}, not even the end of the run: the link may have lost all of the "
            f"next step. Compare with what was sent."
        )
    elif spoilt is None:
        sentences.append("No step was too fast, so that the limit is unknown: test higher rates if you need them.")
    else:
        sentences.append(_why(spoilt))
    sentences.append(
        f"With a margin of {margin:.0%}, all that is sent over the link together may have {bits} bit/s and "
        f"{datagrams} datagrams/s; what the live stream takes at its busiest goes off that."
    )
    return Advice(safe, bits, datagrams, payload_bytes, tuple(sentences))


def _why(step: StepResult) -> str:
    """Why a step is not clean."""
    if step.missing is None:
        return f"Of step {step.number} nothing arrived."
    if not step.sent_is_told:
        return f"How many were sent in step {step.number} is unknown, because what says it did not arrive."
    if not step.lost and not step.damaged:
        return (
            f"Step {step.number} was too fast for this machine and not for the link: its socket was full "
            f"{step.socket_drops:,} times; raise net.core.rmem_max, or receive on a faster machine."
        )
    return (
        f"Step {step.number} lost {step.lost:,} of {step.sent:,} datagrams on the link, with {step.damaged:,} damaged, "
        f"at {step.per_second:,.0f}/s."
    )


def _without_safe_step(spoilt: StepResult | None, steps: list[StepResult], accepted_loss: float) -> list[str]:
    if spoilt is None:
        return ["Nothing arrived."]
    sentences = ["No step is safe.", _why(spoilt)]
    known = [step for step in steps if step.sent and step.lost]
    rates = [(step.lost or 0) / (step.sent or 1) for step in known]
    if len(rates) > 1 and len(rates) == len(steps) and max(rates) < 3 * min(rates):
        sentences.append(
            "The share that is lost hardly depends on the rate: look for another cause (cable, transceiver, the diode "
            f"itself), or accept it with --accept-loss {max(*rates, accepted_loss):.2g} and send several copies."
        )
    elif spoilt.lost or spoilt.missing is None:
        sentences.append("Test lower rates.")
    return sentences
