"""The budget that follows from the link profile of a Diode; must not know how a profile is measured."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.v1alpha1.link_rate import Budget
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.form import WireError
from gapless_api.wire.link_profile import LinkProfile, parse_link_profile

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode


class NoProfile(NamedTuple):
    """Why a Diode has no link profile to send by."""

    reason: Reason
    message: str


def profile_of(diode: Diode, content: bytes | None, problem: str) -> LinkProfile | NoProfile | None:
    """Return the link profile of a Diode, or why it cannot be used; ``None`` for a Diode without `profileRef`.

    Args:
        diode: any.
        content: of the ConfigMap entry that it names; ``None`` if there is none.
        problem: why the entry cannot be read; empty when it can, or does not exist.
    """
    entry = diode.spec.profile_ref
    if entry is None:
        return None
    where = f"the entry {entry.key} of ConfigMap {entry.name} in the namespace {diode.metadata.namespace}"
    advice = "write what gapless link receive --profile wrote"
    if content is None:
        message = problem or f"Diode {diode.metadata.name} needs {where}, which does not exist; {advice}."
        return NoProfile(Reason.LINK_PROFILE_NOT_FOUND, message)
    try:
        return parse_link_profile(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        why = "it is not UTF-8 text"
    except WireError as error:
        why = str(error)
    return NoProfile(Reason.BAD_CONFIGURATION, f"The link profile in {where} cannot be used: {why}; {advice}.")


def with_budget(diode: Diode, profile: LinkProfile | NoProfile | None, *, copies: int | None = None) -> Diode:
    """Return the Diode with the budget of its link profile.

    Args:
        diode: any.
        profile: of it; see `profile_of`.
        copies: of each datagram; ``None`` for those of the Diode.
    """
    if not isinstance(profile, LinkProfile):
        return diode
    budget = Budget(
        events_per_second=profile.events_per_second(copies or diode.spec.copies),
        bits_per_second=max(int(profile.bits_per_second), 1),
    )
    return diode.model_copy(update={"spec": diode.spec.model_copy(update={"budget": budget})})


def doubts_about(diode: Diode, profile: LinkProfile | NoProfile | None, now: datetime) -> str:
    """Return why the profile may not hold for the Diode, as a sentence that follows others; empty if it does."""
    if not isinstance(profile, LinkProfile):
        return ""
    spec = diode.spec
    doubts = list(profile.doubts(now=now, target=spec.target.host, payload_size=spec.payload_size))
    if profile.copies > spec.copies:
        doubts.append(f"the link lost some of the probes, and copies is {spec.copies}; set it to {profile.copies}")
    return f" The link profile may not hold: {'; '.join(doubts)}." if doubts else ""
