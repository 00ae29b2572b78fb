"""The result of a reconciler: children to write and to delete, status, events, and the requeue time.

Must not know how a plan is executed. A plan is the difference between the desired and the observed state; an empty plan
means that they are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Manifest = Mapping[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True)
class Ref:
    """An object to delete, in the namespace of the reconciled resource, with its children (foreground deletion)."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    """Delete only the object with this UID; empty for any object with the name."""


class EventType(StrEnum):
    """The type of a Kubernetes event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the reconciled resource."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions, in this order: `stop`, `create`, `apply`, `delete`, `status`, `events`.

    The order is crash-safe: objects are written before the status that refers to them. Pods that must not run are
    stopped before any write that the API server may reject.
    """

    stop: tuple[Ref, ...] = ()
    """Jobs and pods that must not run, to delete first. A failed deletion does not prevent the next one."""
    create: tuple[Manifest, ...] = ()
    """Objects to create. An existing object with the name is an error (Secrets, which the operator cannot read)."""
    apply: tuple[Manifest, ...] = ()
    """Objects to write by server-side apply, in this order. An object with the name and another owner is an error."""
    delete: tuple[Ref, ...] = ()
    """Objects to delete. A missing object is not an error."""
    status: Mapping[str, Any] | None = None
    """The complete new status; ``None`` if the current status is up to date."""
    events: tuple[Event, ...] = ()
    requeue_after_seconds: float | None = None
    """When to reconcile again without an event; ``None`` to wait for an event or the periodic resync."""
