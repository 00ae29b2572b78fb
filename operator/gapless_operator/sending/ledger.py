"""The Diode's ledger: the work that was completed, so that none is sent twice by accident.

It is kept in ConfigMaps, one or more per month, which outlive the Diode and can be exported and restored. Every write
names the resourceVersion that was read, so that two writers cannot overwrite each other's entries. Must not know what
makes two resends the same work: that is the `identity` in a Resend's status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.codec.canonical import moment_text
from gapless_api.wire.form import WireError
from gapless_api.wire.ledger import Ledger, LedgerEntry, ledger_text, read_ledger
from gapless_operator.common.children import retained_manifest, stable_name
from gapless_operator.common.observed import LEDGER_ROLE, Meta
from gapless_operator.sending.queries import FINISHED, outcome_reason

if TYPE_CHECKING:
    from gapless_api.v1alpha1.diode import Diode
    from gapless_api.v1alpha1.resend import Resend
    from gapless_operator.common.plan import Manifest

FILE = "ledger.json"
"""Entry of the ConfigMaps."""
MAX_PART_BYTES = 768 * 1024
"""Of the text in one ConfigMap. The API server accepts 1 MiB for the whole object."""
_MAX_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPart:
    """A ConfigMap of a ledger."""

    meta: Meta
    version: str
    """The resourceVersion that was read."""
    size: int = 0
    """Of its text, in bytes."""
    ledger: Ledger | None = None
    """``None`` when it is unreadable."""
    problem: str = ""
    """Why it is unreadable; empty otherwise."""

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return its entries; none when it is unreadable."""
        return self.ledger.entries if self.ledger is not None else ()

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> LedgerPart:
        """Read a ConfigMap with the role `LEDGER_ROLE`."""
        meta, version = Meta.of(body), str(body["metadata"].get("resourceVersion", ""))
        text = str((body.get("data") or {}).get(FILE, ""))
        try:
            return cls(meta=meta, version=version, size=len(text.encode()), ledger=read_ledger(text))
        except WireError as error:
            problem = (
                f"The ConfigMap {meta.namespace}/{meta.name} cannot be read ({error}), so it is unknown what was "
                f"sent before; restore it from a backup, or delete it and set the Diode's spec.notBefore."
            )
            return cls(meta=meta, version=version, size=len(text.encode()), problem=problem)


class LedgerWrites(NamedTuple):
    """ConfigMaps to write, so that the ledger has all entries."""

    create: tuple[Manifest, ...] = ()
    apply: tuple[Manifest, ...] = ()


def entry_of(resend: Resend) -> LedgerEntry | None:
    """Return the ledger entry of a completed Resend; ``None`` for any other."""
    status = resend.status
    if outcome_reason(status) not in FINISHED or status.identity is None or status.finished_at is None:
        return None
    progress = status.progress
    return LedgerEntry(
        identity=status.identity,
        resend=resend.metadata.name,
        resend_uid=resend.metadata.uid,
        bundle_id=status.bundle_id,
        force=status.force,
        finished_at=moment_text(status.finished_at),
        sent=progress.sent if progress else 0,
        filtered=progress.filtered if progress else 0,
        filled=progress.filled if progress else 0,
        unavailable=progress.unavailable if progress else 0,
    )


def entries_of(parts: Iterable[LedgerPart]) -> tuple[LedgerEntry, ...]:
    """Return all entries."""
    return _sort({entry.key: entry for part in parts for entry in part.entries}.values())


def keys_of(parts: Iterable[LedgerPart]) -> set[tuple[str, str | None, str]]:
    """Return the keys of all entries in `parts`."""
    return {entry.key for part in parts for entry in part.entries}


def latest_entry(entries: Iterable[LedgerEntry], *, identity: str, force: str | None) -> LedgerEntry | None:
    """Return the latest entry for this work and this `force`; ``None`` when there is none."""
    matching = [entry for entry in entries if entry.identity == identity and entry.force == force]
    return max(matching, key=lambda entry: entry.finished_at, default=None)


def writes_for(
    entries: Iterable[LedgerEntry],
    parts: Sequence[LedgerPart],
    *,
    namespace: str,
    diode_name: str,
    diode: Diode | None,
) -> LedgerWrites:
    """Return the ConfigMaps to write so that the ledger contains `entries`; none when it does.

    A part that is full or unreadable is not changed; the next number is used.

    Args:
        entries: to record.
        parts: the ledger as it was read.
        namespace: of the Diode.
        diode_name: whose ledger it is.
        diode: the Diode, if it exists.
    """
    recorded = keys_of(parts)
    missing = {entry.key: entry for entry in entries if entry.key not in recorded}
    existing = {part.meta.name for part in parts}
    create: list[Manifest] = []
    apply: list[Manifest] = []
    for month in sorted({entry.month for entry in missing.values()}):
        remaining = [entry for entry in missing.values() if entry.month == month]
        of_month = [part for part in parts if part.ledger is not None and part.ledger.month == month]
        last = max(of_month, key=lambda part: part.ledger.part if part.ledger else 0, default=None)
        if last is not None and last.ledger is not None:
            fitting, remaining = _split_at_limit(last.size, remaining)
            if fitting:
                extended = replace(last.ledger, entries=_sort([*last.entries, *fitting]))
                apply.append(_manifest(extended, namespace=namespace, diode=diode, version=last.version))
        number = last.ledger.part if last is not None and last.ledger is not None else 0
        while remaining:
            number += 1
            if part_name(diode_name, month, number) in existing:
                continue
            fitting, remaining = _split_at_limit(0, remaining)
            ledger = Ledger(diode=diode_name, month=month, part=number, entries=_sort(fitting))
            # The owner is applied later: applying cannot remove an owner reference that was set by a create.
            create.append(_manifest(ledger, namespace=namespace, diode=None, version=""))
    return LedgerWrites(tuple(create), tuple(apply))


def owner_writes(diode: Diode, parts: Sequence[LedgerPart]) -> tuple[Manifest, ...]:
    """Return the parts that the Diode has to write again, because its deletionPolicy has changed."""
    owner = diode.metadata.uid if diode.spec.deletion_policy == "Delete" else ""
    return tuple(
        _manifest(part.ledger, namespace=diode.metadata.namespace, diode=diode, version=part.version)
        for part in parts
        if part.ledger is not None and part.meta.owner_uid != owner
    )


def part_name(diode_name: str, month: str, number: int) -> str:
    """Return the name of a part of a ledger: ``gapless-ledger-<diode>-<yyyy-mm>``, with ``-2``, … for more parts."""
    suffix = month if number == 1 else f"{month}-{number}"
    return stable_name(f"gapless-ledger-{diode_name}", suffix, max_length=_MAX_NAME_LENGTH)


def _split_at_limit(size: int, entries: list[LedgerEntry]) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
    """Split into the entries that fit into a part of `size` bytes, at least one for an empty part, and the others."""
    count, total = 0, size
    for entry in entries:
        total += len(ledger_text(Ledger(diode="", month="", part=1, entries=(entry,))).encode())
        if total > MAX_PART_BYTES and (size or count):
            break
        count += 1
    return entries[:count], entries[count:]


def _sort(entries: Iterable[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: (entry.finished_at, entry.resend, entry.resend_uid)))


def _manifest(ledger: Ledger, *, namespace: str, diode: Diode | None, version: str) -> Manifest:
    return retained_manifest(
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {FILE: ledger_text(ledger)}},
        name=part_name(ledger.diode, ledger.month, ledger.part),
        namespace=namespace,
        kind="Diode",
        owner_name=ledger.diode,
        role=LEDGER_ROLE,
        owner=diode if diode is not None and diode.spec.deletion_policy == "Delete" else None,
        version=version,
    )
