"""The page of ``gapless cluster status``: one line for each object, and what it says. Pure.

It reads objects as dictionaries, so that the page also shows what an operator of another release has written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.quantities import duration_text

if TYPE_CHECKING:
    Body = Mapping[str, Any]

_HEADINGS = ("NAMESPACE", "OBJECT", "STATE", "SINCE", "WHAT")
_MOST_LETTERS = 160
"""Of a message; the whole one is in the object."""


@dataclass(frozen=True, slots=True)
class Line:
    """What one object says about itself."""

    namespace: str
    kind: str
    name: str
    state: str
    """The reason of the condition Stalled, if that is true, or else of Ready; empty before the operator has seen it."""
    since: str | None
    """Time of the last change of that condition."""
    is_stalled: bool
    """Whether progress requires a manual change."""
    what: str
    """Figures in words."""
    message: str
    """Of the condition."""

    def to_json(self) -> dict[str, object]:
        """Return its fields by their names in JSON."""
        fields = asdict(self)
        return {"stalled": fields.pop("is_stalled"), **fields}


def line_of(body: Body) -> Line:
    """Return the line of an object."""
    metadata, status = body["metadata"], body.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    stalled = (conditions.get("Stalled") or {}).get("status") == "True"
    shown = conditions["Stalled"] if stalled else conditions.get("Ready") or conditions.get("Healthy") or {}
    words = _FIGURES[body["kind"]](body.get("spec") or {}, status) if body["kind"] in _FIGURES else []
    return Line(
        namespace=metadata.get("namespace", ""),
        kind=body["kind"],
        name=metadata["name"],
        state=shown.get("reason", ""),
        since=shown.get("lastTransitionTime"),
        is_stalled=stalled,
        what=", ".join(word for word in words if word),
        message=shown.get("message", ""),
    )


class FoundPlan(NamedTuple):
    """What a Resend says about its plan."""

    plan: Mapping[str, Any] | None
    """Its status.plan, if that is of the present spec."""
    message: str
    """What the operator says about the Resend."""
    is_final: bool
    """Whether waiting changes nothing: there is a plan, or it needs a change by a person."""


def plan_of(body: Body) -> FoundPlan:
    """Return what a Resend says about its plan."""
    line, status = line_of(body), body.get("status") or {}
    current = status.get("observedGeneration") == body["metadata"].get("generation")
    sends = (body.get("spec") or {}).get("mode") != "Plan"
    is_planned = current and (sends or line.state == "Planned")
    plan = status.get("plan") if is_planned else None
    return FoundPlan(plan, line.message, is_final=plan is not None or (current and line.is_stalled))


def plan_text(plan: Mapping[str, Any]) -> str:
    """Return the figures of a status.plan, one in each line."""
    seconds, datagrams, size = (plan.get(name) for name in ("estimatedSeconds", "datagrams", "bytes"))
    traffic = "not known"
    if datagrams is not None and size is not None:
        traffic = f"about {datagrams:,} datagrams, {size / 1e6:,.1f} MB"
    rows = {
        "events": f"{plan['events']:,} in {plan.get('ranges', 0):,} ranges",
        "unavailable": f"{plan.get('unavailable', 0):,}",
        "traffic": traffic,
        "duration": "not known" if seconds is None else f"about {duration_text(seconds)}",
    }
    for name, heading in (("oldestEvent", "oldest event"), ("expiresFrom", "expires from")):
        if name in plan:
            rows[heading] = plan[name]
    return "".join(f"{name + ':':<14}{value}\n" for name, value in rows.items())


def page(lines: Sequence[Line], suspended: Mapping[str, str | None], now: datetime) -> str:
    """Return the text of the page.

    Args:
        lines: in the order of the page.
        suspended: the value of gapless.dev/suspend by namespace, for those that are stopped; ``None`` for one that
            could not be read.
        now: time that ages are counted from.
    """
    texts = [
        f"Namespace {name} is stopped: gapless.dev/suspend={value}."
        if value is not None
        else f"Whether the namespace {name} is stopped is unknown: this account may not read it."
        for name, value in sorted(suspended.items())
    ]
    if not lines:
        return "\n".join([*texts, "There are no objects of Gapless.", ""])
    rows = [_HEADINGS, *(_row(line, now) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        texts.append("  ".join([*cells, row[-1]]).rstrip())
    troubled = [line for line in lines if line.is_stalled]
    texts += ["", *(f"{line.kind}/{line.name} in {line.namespace}: {line.message}" for line in troubled)]
    texts.append(f"{len(lines):,} objects, {len(troubled):,} of them need a change by a person.")
    return "\n".join([*texts, ""])


def _row(line: Line, now: datetime) -> tuple[str, ...]:
    said = line.what
    if not line.is_stalled and line.message:
        shown = line.message if len(line.message) <= _MOST_LETTERS else f"{line.message[:_MOST_LETTERS]}…"
        said = f"{said}; {shown}" if said else shown
    state = f"!{line.state}" if line.is_stalled else line.state or "new"
    return (line.namespace, f"{line.kind}/{line.name}", state, _age(line.since, now), said)


def _age(moment: str | None, now: datetime) -> str:
    """Return how long ago a moment was, in its largest unit; empty without one."""
    try:
        seconds = int((now - datetime.fromisoformat(moment or "")).total_seconds())
    except (ValueError, TypeError):
        return ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{max(seconds, 0)}s"


def _count(number: Any, what: str) -> str:
    """Return a number with what it counts; empty for none."""
    return f"{number:,} {what}" if isinstance(number, int) else ""


def _missing(_: Body, status: Body) -> Iterable[str]:
    missing, oldest = status.get("missingEvents"), status.get("oldestGapSince")
    yield _count(missing, "events are missing")
    yield f"the oldest since {oldest}" if missing and oldest else ""
    lost = status.get("lost") or {}
    yield f"lost between {lost['after']} and {lost['before']}" if missing and {"after", "before"} <= lost.keys() else ""
    yield f"last scan {status['lastScanTime']}" if "lastScanTime" in status else "not scanned yet"


def _sent(spec: Body, status: Body) -> Iterable[str]:
    progress = status.get("progress") or {}
    if "planned" in progress:
        yield f"{progress.get('sent', 0):,} of {progress['planned']:,} events sent"
    yield _count(progress.get("unavailable") or None, "unavailable")
    yield f"{progress['eventsPerSecond']:,.0f}/s" if progress.get("eventsPerSecond") else ""
    yield f"ready in {progress['etaSeconds']:,.0f} s" if progress.get("etaSeconds") else ""
    yield f"over {(spec.get('diodeRef') or {}).get('name', '?')}"
    if spec.get("mode") == "Plan":
        yield "a plan: approve it to send"
        plan = status.get("plan") or {}
        yield f"its oldest event is of {plan['oldestEvent']}" if "oldestEvent" in plan else ""
        expires = plan.get("expiresFrom")
        yield f"Kafka may delete its first event from {expires} on" if expires else ""


def _diode(_: Body, status: Body) -> Iterable[str]:
    active = [each.get("name", "?") for each in status.get("active") or ()]
    yield f"sending {', '.join(active)}" if active else "nothing is being sent"
    yield _count(status.get("queued") or None, "Resends wait")


def _lag(_: Body, status: Body) -> Iterable[str]:
    yield _count(status.get("lagRecords"), "records behind")
    yield f"{status['lagSeconds']:,.0f} s behind" if status.get("lagSeconds") else ""
    yield _count(status.get("lostRecords") or None, "offsets lost or left out")
    yield f"as of {status['observedAt']}" if "observedAt" in status else ""


def _restored(_: Body, status: Body) -> Iterable[str]:
    progress = status.get("progress") or {}
    if "planned" in progress:
        yield f"{progress.get('restored', 0):,} of {progress['planned']:,} records restored"


def _checked(_: Body, status: Body) -> Iterable[str]:
    doctor = status.get("doctor") or {}
    yield _count(doctor.get("errors") or None, "errors")
    yield f"checked {doctor['checkedAt']}" if "checkedAt" in doctor else "not checked"


_FIGURES: dict[str, Callable[[Body, Body], Iterable[str]]] = {
    "GapScan": _missing,
    "Resend": _sent,
    "Diode": _diode,
    "Mirror": _lag,
    "Archive": _lag,
    "Restore": _restored,
    "KafkaConnection": _checked,
}
