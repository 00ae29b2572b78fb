"""Owns what a reconciler answers: children to write and to delete, status, events, when to look again.

Must not know how any of it is carried out.

A plan is the difference between what should be and what was observed: an empty one means that nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Manifest = Mapping[str, Any]
"""A Kubernetes object as JSON has it."""


@dataclass(frozen=True, slots=True)
class Ref:
    """An object to delete, in the namespace of the reconciled one; its own children go with it (in the foreground)."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    """Delete only the object with this uid; empty for whichever bears the name."""


class EventType(StrEnum):
    """How Kubernetes sorts events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the reconciled object, posted once."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in this order: `stop`, `create`, `apply`, `delete`, `status`, `events`.

    The order matters after a crash: what a status claims was written before it. What must not run is stopped before
    anything that the API server may refuse.
    """

    stop: tuple[Ref, ...] = ()
    """Jobs and pods that must not run, to delete before all else; one that cannot be deleted does not save the next."""
    create: tuple[Manifest, ...] = ()
    """Objects to create; one of the name that exists already is an error (Secrets, which we may not read)."""
    apply: tuple[Manifest, ...] = ()
    """Objects to write by server-side apply, in this order; one of the name that is not ours is an error."""
    delete: tuple[Ref, ...] = ()
    """Objects to delete; that one is gone already is success."""
    status: Mapping[str, Any] | None = None
    """The whole status that should be; ``None`` when the one that is there is right."""
    events: tuple[Event, ...] = ()
    requeue_after_seconds: float | None = None
    """When to look again although nothing may have happened; ``None`` to wait for an event or the backstop."""
