"""The evaluation of a run's counts: the loss, its place, and the safe rate; must not know how it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gapless_sender.link_test.counting import RunCount, StepCount

CONFIDENCE_95 = 3.0
"""If none of n probes was lost, the loss is below 3 in n with 95 % confidence (the rule of three)."""
_WHOLE_FROM = 10.0


class StepResult(NamedTuple):
    """The result of one step. If nothing of a step arrived, `sent` is unknown."""

    number: int
    asked_per_second: float
    sent: int | None
    sent_is_reported: bool
    """Whether the sender reported `sent`; otherwise it is the planned number, or the number certainly sent."""
    received: int
    socket_drops: int
    damaged: int
    duplicates: int
    disordered: int
    farthest: int
    per_second: float
    """Datagrams per second, as reached by the sender."""
    wire_bytes: int
    goodput_bits_per_second: float | None
    """Payload bits of distinct probes, in the time from the first to the last."""
    code_points: tuple[int, ...]
    times_to_live: tuple[int, ...]

    @property
    def missing(self) -> int | None:
        """Probes of which no intact copy arrived."""
        return None if self.sent is None else max(self.sent - self.received, 0)

    @property
    def lost(self) -> int | None:
        """Probes that the link lost: missing ones that were neither dropped by the socket nor damaged."""
        return None if self.missing is None else max(self.missing - self.socket_drops - self.damaged, 0)

    @property
    def bits_per_second(self) -> float:
        """The rate that the sender reached, in bits on the wire."""
        return self.per_second * self.wire_bytes * 8

    def is_clean(self, accepted_loss: float) -> bool:
        """Return whether at most the share `accepted_loss` is missing, and the sender reported how many it sent."""
        return (
            self.missing is not None
            and self.sent_is_reported
            and self.missing <= accepted_loss * max(self.sent or 0, 1)
        )


class Advice(NamedTuple):
    """The rate to configure."""

    safe: StepResult | None
    """The fastest step that was clean, like all below it."""
    bits_per_second: int
    datagrams_per_second: float
    payload_bytes: int
    sentences: tuple[str, ...]
    """The basis of the advice, and what to do."""
    is_limit_known: bool = False
    """Whether a faster step than the safe one was not clean."""

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
    """Return the results of all steps of `run`, up to the last one of which something arrived."""
    return [_result(run, number) for number in range(1, run.latest_step + 1)]


def _result(run: RunCount, number: int) -> StepResult:
    step = run.steps.get(number)
    wire_bytes = run.payload_bytes + run.header_bytes
    if step is None:
        return StepResult(number, 0.0, None, False, 0, 0, 0, 0, 0, 0, 0.0, wire_bytes, None, (), ())
    sent = _sent(run, step)
    asked = step.step.asked_millihertz / 1000
    reached = asked if not step.reported_seconds else min(sent / step.reported_seconds, asked)
    seconds = (step.last_at or 0.0) - (step.first_at or 0.0)
    goodput = 8.0 * run.payload_bytes * (step.received - 1) / seconds if step.received > 1 and seconds > 0 else None
    return StepResult(
        number=number,
        asked_per_second=asked,
        sent=sent,
        sent_is_reported=step.reported_sent is not None,
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
    if step.reported_sent is not None:
        return step.reported_sent
    return step.step.probes if step.step.number < run.latest_step else step.highest + 1


def advice(
    steps: list[StepResult],
    *,
    payload_bytes: int,
    margin: float,
    accepted_loss: float = 0.0,
    is_cut_off: bool = False,
) -> Advice:
    """Recommend the fastest step that lost nothing, like all slower ones, minus `margin` (0.2 is 20 %).

    `is_cut_off` means that nothing more of the run arrived: neither further steps nor its end.
    """
    safe: StepResult | None = None
    failed: StepResult | None = None
    for step in steps:
        if not step.is_clean(accepted_loss):
            failed = step
            break
        safe = step
    if safe is None:
        return Advice(None, 0, 0, payload_bytes, tuple(_without_safe_step(failed, steps, accepted_loss)))
    bits = max(int(safe.bits_per_second * (1 - margin)), 1)
    datagrams = _rounded_down(safe.per_second * (1 - margin))
    lost = "nothing" if not safe.missing else f"{safe.missing:,}"
    reached = f"{safe.per_second:,.0f}/s ({safe.bits_per_second / 1e6:,.2f} Mbit/s)"
    sentences = [
        f"Step {safe.number} lost {lost} of {safe.sent:,} datagrams at {reached}, and no slower step was worse."
    ]
    if not safe.missing and safe.sent:
        sentences.append(
            f"With 95 % confidence the loss is below {CONFIDENCE_95 / safe.sent:.2g}; a longer step tightens the bound."
        )
    if failed is None and is_cut_off:
        sentences.append(
            f"Nothing arrived after step {safe.number}, not even the end of the run: the link may have lost all of the "
            f"next step. Compare with what was sent."
        )
    elif failed is None:
        sentences.append("No step was too fast, so the limit is unknown: test higher rates if you need them.")
    else:
        sentences.append(_failure(failed))
    sentences.append(
        f"With a margin of {margin:.0%}, all senders over the link together may use {bits} bit/s and "
        f"{datagrams:.12g} datagrams/s; subtract the peak rate of the live stream."
    )
    return Advice(safe, bits, datagrams, payload_bytes, tuple(sentences), is_limit_known=failed is not None)


def _rounded_down(per_second: float) -> float:
    """Round down to an integer, or to thousandths below ten: 0 would mean no limit."""
    return int(per_second) if per_second >= _WHOLE_FROM else max(int(per_second * 1000) / 1000, 0.001)


def _failure(step: StepResult) -> str:
    """Return why a step is not clean."""
    if step.missing is None:
        return f"Nothing arrived of step {step.number}."
    if not step.sent_is_reported:
        return f"The number of datagrams sent in step {step.number} is unknown: the end of the step did not arrive."
    if not step.lost and not step.damaged:
        return (
            f"Step {step.number} was too fast for this machine, not for the link: its socket dropped "
            f"{step.socket_drops:,} datagrams; raise net.core.rmem_max, or receive on a faster machine."
        )
    return (
        f"Step {step.number} lost {step.lost:,} of {step.sent:,} datagrams on the link, with {step.damaged:,} damaged, "
        f"at {step.per_second:,.0f}/s."
    )


def _without_safe_step(failed: StepResult | None, steps: list[StepResult], accepted_loss: float) -> list[str]:
    if failed is None:
        return ["Nothing arrived."]
    sentences = ["No step is safe.", _failure(failed)]
    known = [step for step in steps if step.sent and step.lost]
    rates = [(step.lost or 0) / (step.sent or 1) for step in known]
    if len(rates) > 1 and len(rates) == len(steps) and max(rates) < 3 * min(rates):
        sentences.append(
            "The loss hardly depends on the rate: look for another cause (cable, transceiver, the diode itself), or "
            f"accept it with --accept-loss {max(*rates, accepted_loss):.2g} and send several copies."
        )
    elif failed.lost or failed.missing is None:
        sentences.append("Test lower rates.")
    return sentences
