"""Owns the Diode's ledger: which resends were carried through, so that none is sent twice by accident.

Must not know what makes two resends the same work; a Resend's status says it (`identity`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.diode import LONGEST_LEDGER, LedgerEntry
from gapless_operator.resend.stage import FINISHED, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gapless_api.v1alpha1.resend import Resend


def recorded(ledger: Iterable[LedgerEntry], resends: Iterable[Resend], *, diode_name: str) -> tuple[LedgerEntry, ...]:
    """The ledger with every Resend in it that was carried through over the Diode, in the order of their ends.

    It is bounded. First go the oldest entries whose Resend is gone, then the oldest of all: what exists is wanted
    by somebody and may be deleted and created again; what is gone was most likely taken out of Git, too.

    Args:
        ledger: as it was.
        resends: all that exist.
        diode_name: whose ledger it is.
    """
    present = list(resends)
    entries = {(entry.resend_uid, entry.force, entry.identity): entry for entry in ledger}
    for resend in present:
        entry = _entry(resend) if resend.spec.diode_ref.name == diode_name else None
        if entry is not None:
            entries.setdefault((entry.resend_uid, entry.force, entry.identity), entry)
    existing = {resend.metadata.uid for resend in present}
    by_age = sorted(entries.values(), key=lambda entry: (entry.finished_at, entry.resend, entry.resend_uid))
    surplus = max(len(by_age) - LONGEST_LEDGER, 0)
    leaving = sorted(by_age, key=lambda entry: entry.resend_uid in existing)[:surplus]
    gone = {id(entry) for entry in leaving}
    return tuple(entry for entry in by_age if id(entry) not in gone)


def same_work(ledger: Iterable[LedgerEntry], *, identity: str, force: str | None) -> LedgerEntry | None:
    """The last time that this work was carried through with this `force`; ``None`` for never."""
    found = [entry for entry in ledger if entry.identity == identity and entry.force == force]
    return max(found, key=lambda entry: entry.finished_at, default=None)


def has_recorded(ledger: Iterable[LedgerEntry], *, uid: str, force: str | None, finished_at: datetime) -> bool:
    """Whether the ledger has had this very Resend, carried through with this `force` at that time.

    A full ledger that only knows of later ones has had it and forgotten it; to wait for it would be to wait for ever.
    """
    entries = list(ledger)
    if any(entry.resend_uid == uid and entry.force == force for entry in entries):
        return True
    return len(entries) >= LONGEST_LEDGER and all(entry.finished_at >= finished_at for entry in entries)


def _entry(resend: Resend) -> LedgerEntry | None:
    status = resend.status
    if verdict(status) not in FINISHED or status.identity is None or status.finished_at is None:
        return None
    progress = status.progress
    return LedgerEntry(
        identity=status.identity,
        resend=resend.metadata.name,
        resend_uid=resend.metadata.uid,
        bundle_id=status.bundle_id,
        force=status.force,
        finished_at=status.finished_at,
        sent=progress.sent if progress else 0,
        filtered=progress.filtered if progress else 0,
        filled=progress.filled if progress else 0,
        unavailable=progress.unavailable if progress else 0,
    )
