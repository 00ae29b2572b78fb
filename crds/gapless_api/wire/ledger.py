"""The ledger of a Diode, which records completed work, as ConfigMaps and as exported files.

Must not know where they are stored, or when two resends are the same work (`gapless_api.v1alpha1.identity`).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from gapless_api.codec.canonical import moment_of
from gapless_api.wire.form import Form, Offset, WireError, parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """Completed work, so that it is not sent again by accident."""

    identity: str
    """Digest of the work: selection, bundle, window and filter."""
    resend: str
    """Name of the Resend."""
    resend_uid: str
    """The UID of the Resend, which identifies it among objects of the same name."""
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
        """Entries with the same key are for the same completion."""
        return self.resend_uid, self.force, self.identity

    @property
    def month(self) -> str:
        """The month of `finished_at`, like 2026-11."""
        return self.finished_at[:7]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Completed work of one Diode in one month, split into parts if there is a lot."""

    diode: str
    month: str
    """Like 2026-11."""
    part: int
    """1 for the first."""
    entries: tuple[LedgerEntry, ...]
    """In the order of completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiodeLedger:
    """All completed work of one Diode."""

    diode: str
    entries: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerExport:
    """The file that ``gapless ledger export`` writes."""

    ledgers: tuple[DiodeLedger, ...]


LEDGER = Form("ledger", "gaplessLedger", 1, Ledger)
LEDGER_EXPORT = Form("exported ledger", "gaplessLedgerExport", 1, LedgerExport)


def ledger_text(ledger: Ledger) -> str:
    """Format a part of a ledger with one entry per line, for readable diffs."""
    members = LEDGER.to_json(ledger)
    entries = members.pop("entries")
    head = json.dumps(members, separators=(",", ":"))[:-1]
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    return f'{head},"entries":[\n{lines}\n]}}\n'


def read_ledger(text: str) -> Ledger:
    """Parse a text of `ledger_text`.

    Raises:
        WireError: it is anything else.
    """
    ledger = LEDGER.from_json(parse_json(text))
    _check(ledger.entries)
    return ledger


def read_export(text: str) -> LedgerExport:
    """Parse an exported ledger.

    Raises:
        WireError: it is anything else.
    """
    export = LEDGER_EXPORT.from_json(parse_json(text))
    for ledger in export.ledgers:
        _check(ledger.entries)
    return export


def _check(entries: Iterable[LedgerEntry]) -> None:
    for number, entry in enumerate(entries):
        if moment_of(entry.finished_at) is None:
            raise WireError(
                f"finishedAt of entry {number} of the ledger is {entry.finished_at!r}, which is not a valid time"
            )
