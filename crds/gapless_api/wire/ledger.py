"""Owns the ledger of a Diode: which work was carried through, in the ConfigMaps that keep it and in exported files.

Must not know where either lies, nor what makes two resends the same work (`gapless_api.v1alpha1.identity`).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from gapless_api.codec.canonical import moment_of
from gapless_api.wire.form import Form, Offset, WireError, parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """Work that was carried through, so that it is not sent again by accident."""

    identity: str
    """Digest of what was to be sent: selection, bundle, window and filter."""
    resend: str
    """Name of the Resend."""
    resend_uid: str
    """Which object of that name it was."""
    bundle_id: str | None
    force: str | None
    finished_at: str
    """Like 2026-11-20T10:00:00Z."""
    sent: Offset
    filtered: Offset
    filled: Offset
    unavailable: Offset

    @property
    def key(self) -> tuple[str, str | None, str]:
        """Two entries with the same key are about the same end."""
        return self.resend_uid, self.force, self.identity

    @property
    def month(self) -> str:
        """The month in which it ended, like 2026-11."""
        return self.finished_at[:7]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What was carried through over one Diode in one month, or a part of it where that is much."""

    diode: str
    month: str
    """Like 2026-11."""
    part: int
    """1 for the first."""
    entries: tuple[LedgerEntry, ...]
    """In the order in which they ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiodeLedger:
    """All that was carried through over one Diode."""

    diode: str
    entries: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerExport:
    """What ``gapless ledger export`` writes."""

    ledgers: tuple[DiodeLedger, ...]


LEDGER = Form("ledger", "gaplessLedger", 1, Ledger)
LEDGER_EXPORT = Form("exported ledger", "gaplessLedgerExport", 1, LedgerExport)


def ledger_text(ledger: Ledger) -> str:
    """Write a part of a ledger, an entry a line, so that a person can read what changed."""
    members = LEDGER.to_json(ledger)
    entries = members.pop("entries")
    head = json.dumps(members, separators=(",", ":"))[:-1]
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    return f'{head},"entries":[\n{lines}\n]}}\n'


def read_ledger(text: str) -> Ledger:
    """Read what `ledger_text` wrote.

    Raises:
        WireError: it is anything else.
    """
    found = LEDGER.from_json(parse_json(text))
    _check(found.entries)
    return found


def read_export(text: str) -> LedgerExport:
    """Read an exported ledger.

    Raises:
        WireError: it is none.
    """
    found = LEDGER_EXPORT.from_json(parse_json(text))
    for ledger in found.ledgers:
        _check(ledger.entries)
    return found


def _check(entries: Iterable[LedgerEntry]) -> None:
    for number, entry in enumerate(entries):
        if moment_of(entry.finished_at) is None:
            raise WireError(f"entry {number} of the ledger ended at {entry.finished_at!r}, which is no time")
