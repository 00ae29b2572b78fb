"""The output of a link test and its reception, for people and for programs; must not know how they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapless_sender.link_test.advice import Advice, StepResult
    from gapless_sender.link_test.reception import FinishedRun
    from gapless_sender.link_test.sending import SentStep
    from gapless_sender.link_test.steps import Plan

_REACHED = 0.95
"""A step below this part of its rate was limited by the sending machine."""
_SENT = (
    ("step", 4), ("asked/s", 11), ("sent", 11), ("seconds", 8), ("reached/s", 11), ("Mbit/s", 9), ("waits", 7),
)  # fmt: skip
_RECEIVED = (
    ("step", 4), ("sent/s", 10), ("Mbit/s", 9), ("sent", 11), ("received", 11), ("lost", 9), ("loss %", 8),
    ("own drops", 9), ("damaged", 7), ("twice", 7), ("disorder", 8), ("goodput", 9),
)  # fmt: skip


def run_name(number: int) -> str:
    """Return the number of a run for people."""
    return f"{number:016x}"


def sent_header() -> str:
    """Return the header of the sender's table."""
    return _line([name for name, _ in _SENT], _SENT)


def sent_row(step: SentStep) -> str:
    """Return one row of the sender's table."""
    cells = [
        str(step.number),
        f"{step.asked_per_second:,.1f}",
        f"{step.sent:,}",
        f"{step.seconds:,.2f}",
        f"{step.per_second:,.1f}",
        f"{step.bits_per_second / 1e6:,.3f}",
        f"{step.waits:,}",
    ]
    notes = []
    if step.per_second < _REACHED * step.asked_per_second:
        notes.append("this machine or its network did not reach the rate")
    if step.refused:
        notes.append(f"a host replied {step.refused:,} times that the target is unreachable")
    if step.interface_drops:
        notes.append(f"the interface dropped {step.interface_drops:,} datagrams of this program or of others")
    if step.interrupted:
        notes.append("the link was interrupted")
    return _line(cells, _SENT) + (f"  {'; '.join(notes)}" if notes else "")


def sent_json(run: int, step: SentStep) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "event": "step",
        "run": run_name(run),
        "step": step.number,
        "askedPerSecond": round(step.asked_per_second, 3),
        "planned": step.planned,
        "sent": step.sent,
        "leftInterface": step.left_interface,
        "seconds": round(step.seconds, 6),
        "perSecond": round(step.per_second, 3),
        "bitsPerSecond": round(step.bits_per_second),
        "waits": step.waits,
        "refused": step.refused,
        "interrupted": step.interrupted,
    }


def plan_text(plan: Plan, target: str) -> str:
    """Return the announcement of a test."""
    megabytes = plan.datagrams * plan.wire_bytes / 1e6
    megabits = plan.highest * plan.wire_bytes * 8 / 1e6
    return (
        f"This sends {plan.datagrams:,} datagrams ({megabytes:,.1f} MB) to {target} in about {plan.seconds:,.0f} "
        f"seconds, up to {plan.highest:,.0f}/s or {megabits:,.1f} Mbit/s. This loads the live link: other traffic on "
        f"it may be lost meanwhile."
    )


def plan_json(plan: Plan, run: int, target: str) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "event": "test",
        "run": run_name(run),
        "target": target,
        "steps": len(plan.steps),
        "datagrams": plan.datagrams,
        "wireBytes": plan.datagrams * plan.wire_bytes,
        "seconds": round(plan.seconds, 1),
        "highestPerSecond": round(plan.highest, 3),
        "highestBitsPerSecond": round(plan.highest * plan.wire_bytes * 8),
    }


def comparison_text(run: int, steps: Sequence[SentStep], port: int) -> str:
    """Return what to compare on the other side."""
    sent = ", ".join(f"{step.number}: {step.sent:,}" for step in steps)
    return (
        f"Compare with `gapless link receive --port {port}` on the other side, run {run_name(run)}: its columns “sent” "
        f"and “received” must show the same numbers ({sent}). The fastest step without loss, like all slower ones, is "
        f"safe; the other side shows which one it is, and which settings to use."
    )


def received_header() -> str:
    """Return the header of the receiver's table."""
    return _line([name for name, _ in _RECEIVED], _RECEIVED)


def received_row(step: StepResult) -> str:
    """Return one row of the receiver's table."""
    if step.sent is None:
        return f"{step.number:>4}  nothing arrived"
    goodput = step.goodput_bits_per_second
    cells = [
        str(step.number),
        f"{step.per_second:,.1f}",
        f"{step.bits_per_second / 1e6:,.3f}",
        f"{step.sent:,}{'' if step.sent_is_reported else '?'}",
        f"{step.received:,}",
        f"{step.lost:,}",
        f"{100 * (step.lost or 0) / max(step.sent, 1):.4f}",
        f"{step.socket_drops:,}",
        f"{step.damaged:,}",
        f"{step.duplicates:,}",
        f"{step.disordered:,}",
        "" if goodput is None else f"{goodput / 1e6:,.3f}",
    ]
    return _line(cells, _RECEIVED)


def received_json(step: StepResult) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "step": step.number,
        "askedPerSecond": round(step.asked_per_second, 3),
        "perSecond": round(step.per_second, 3),
        "bitsPerSecond": round(step.bits_per_second),
        "sent": step.sent,
        "sentIsTold": step.sent_is_reported,
        "received": step.received,
        "missing": step.missing,
        "lost": step.lost,
        "ownDrops": step.socket_drops,
        "damaged": step.damaged,
        "duplicates": step.duplicates,
        "disordered": step.disordered,
        "farthestDisorder": step.farthest,
        "goodputBitsPerSecond": None if step.goodput_bits_per_second is None else round(step.goodput_bits_per_second),
        "dscp": list(step.code_points),
        "ttl": list(step.times_to_live),
    }


def run_json(run: FinishedRun) -> dict[str, Any]:
    """Return a run for programs and for the report."""
    return {
        "run": run_name(run.run),
        "stepsAsked": run.steps_asked,
        "endIsTold": run.end_reported,
        "steps": [received_json(step) for step in run.results],
        "advice": run.advice.as_json(),
    }


def run_text(run: FinishedRun) -> str:
    """Return a run as a table, with the advice below."""
    lines = [f"Run {run_name(run.run)}:", received_header(), *(received_row(step) for step in run.results)]
    if not run.end_reported:
        lines.append("The end of the run did not arrive; “?” marks numbers that the sender has not reported.")
    code_points = {point for step in run.results for point in step.code_points}
    times_to_live = {ttl for step in run.results for ttl in step.times_to_live}
    if code_points:
        lines.append(f"Arrived with DSCP {_listed(code_points)} and TTL {_listed(times_to_live)}.")
    return "\n".join([*lines, *run.advice.sentences, *_settings(run.advice)])


def _settings(advice: Advice) -> list[str]:
    """Return the settings to use."""
    if advice.safe is None:
        return []
    bits, datagrams, payload = advice.bits_per_second, f"{advice.datagrams_per_second:.12g}", advice.payload_bytes
    budget = f"{{bitsPerSecond: {bits}, eventsPerSecond: {datagrams}}}"
    return [
        "Settings, before subtracting the live stream:",
        f"  gapless resend: --bits-per-second={bits} --eps={datagrams} --payload-size={payload}",
        f"  Diode:          spec: {{payloadSize: {payload}, budget: {budget}}}",
    ]


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _line(cells: Sequence[str], columns: Sequence[tuple[str, int]]) -> str:
    return "  ".join(cell.rjust(width) for cell, (_, width) in zip(cells, columns, strict=True))
