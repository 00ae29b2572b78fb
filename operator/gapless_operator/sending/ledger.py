"""Owns the Diode's ledger: which work was carried through, so that none is sent twice by accident.

It is kept in ConfigMaps, one or more for each month, which outlive the Diode and can be exported and restored. Every
write names the version that was read, so that two writers cannot lose each other's entries. Must not know what makes
two resends the same work; a Resend's status says it (`identity`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.codec.canonical import moment_text
from gapless_api.wire.form import WireError
from gapless_api.wire.ledger import Ledger, LedgerEntry, ledger_text, read_ledger
from gapless_operator.common.children import retained_manifest, stable_name
from gapless_operator.common.observed import LEDGER_ROLE, Meta
from gapless_operator.sending.queries import FINISHED, outcome_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gapless_api.v1alpha1.diode import Diode
    from gapless_api.v1alpha1.resend import Resend
    from gapless_operator.common.plan import Manifest

FILE = "ledger.json"
"""Entry of the ConfigMaps."""
LARGEST_PART_BYTES = 768 * 1024
"""Of the text in one ConfigMap. The API server takes 1 MiB for all of it."""
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
    """``None`` when it cannot be read."""
    problem: str = ""
    """Why it cannot be read."""

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """What it holds, as far as it can be read."""
        return self.ledger.entries if self.ledger is not None else ()

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> LedgerPart:
        """Read a ConfigMap with the role of a ledger."""
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
    """ConfigMaps to write so that the ledger has all entries that it should have."""

    create: tuple[Manifest, ...] = ()
    apply: tuple[Manifest, ...] = ()


def entry_of(resend: Resend) -> LedgerEntry | None:
    """What is recorded of a Resend that was carried through; ``None`` for any other."""
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


def entries_of(parts: Iterable[LedgerPart], diode: Diode | None) -> tuple[LedgerEntry, ...]:
    """All that is recorded, with what a version before kept in the Diode's status."""
    found = {entry.key: entry for entry in _in_status(diode)} | {e.key: e for part in parts for e in part.entries}
    return _sort(found.values())


def keys_of(parts: Iterable[LedgerPart]) -> set[tuple[str, str | None, str]]:
    """The keys of all entries in `parts`."""
    return {entry.key for part in parts for entry in part.entries}


def same_work(entries: Iterable[LedgerEntry], *, identity: str, force: str | None) -> LedgerEntry | None:
    """The last time that this work was carried through with this `force`; ``None`` for never."""
    found = [entry for entry in entries if entry.identity == identity and entry.force == force]
    return max(found, key=lambda entry: entry.finished_at, default=None)


def writes_for(
    entries: Iterable[LedgerEntry],
    parts: Sequence[LedgerPart],
    *,
    namespace: str,
    diode_name: str,
    diode: Diode | None,
) -> LedgerWrites:
    """The ConfigMaps to write so that the ledger has `entries`; none when it has them.

    A part that is full, or that cannot be read, is left as it is, and the next number begins.

    Args:
        entries: to record.
        parts: the ledger as it was read.
        namespace: of the Diode.
        diode_name: whose ledger it is.
        diode: the Diode, if it is there.
    """
    known = keys_of(parts)
    missing = {entry.key: entry for entry in entries if entry.key not in known}
    taken = {part.meta.name for part in parts}
    create: list[Manifest] = []
    apply: list[Manifest] = []
    for month in sorted({entry.month for entry in missing.values()}):
        left = [entry for entry in missing.values() if entry.month == month]
        mine = [part for part in parts if part.ledger is not None and part.ledger.month == month]
        last = max(mine, key=lambda part: part.ledger.part if part.ledger else 0, default=None)
        if last is not None and last.ledger is not None:
            fitting, left = _fitting(last.size, left)
            if fitting:
                longer = replace(last.ledger, entries=_sort([*last.entries, *fitting]))
                apply.append(_manifest(longer, namespace=namespace, diode=diode, version=last.version))
        number = last.ledger.part if last is not None and last.ledger is not None else 0
        while left:
            number += 1
            if part_name(diode_name, month, number) in taken:
                continue
            fitting, left = _fitting(0, left)
            ledger = Ledger(diode=diode_name, month=month, part=number, entries=_sort(fitting))
            # Without its owner, which is applied later: what was created with one could not be freed of it by applying.
            create.append(_manifest(ledger, namespace=namespace, diode=None, version=""))
    return LedgerWrites(tuple(create), tuple(apply))


def kept_with(diode: Diode, parts: Iterable[LedgerPart]) -> LedgerWrites:
    """What the Diode itself has to write: entries of its status, and whether the ledger goes when the Diode goes."""
    found = list(parts)
    metadata = diode.metadata
    moved = writes_for(_in_status(diode), found, namespace=metadata.namespace, diode_name=metadata.name, diode=diode)
    owner = metadata.uid if diode.spec.deletion_policy == "Delete" else ""
    written = {manifest["metadata"]["name"] for manifest in moved.apply}
    again = [
        _manifest(part.ledger, namespace=metadata.namespace, diode=diode, version=part.version)
        for part in found
        if part.ledger is not None and part.meta.owner_uid != owner and part.meta.name not in written
    ]
    return LedgerWrites(moved.create, (*moved.apply, *again))


def has_moved(diode: Diode, parts: Iterable[LedgerPart]) -> bool:
    """Whether the ConfigMaps have all that a version before kept in the Diode's status."""
    known = keys_of(parts)
    return all(entry.key in known for entry in _in_status(diode))


def part_name(diode_name: str, month: str, number: int) -> str:
    """Name of a ConfigMap of a ledger: ``gapless-ledger-<diode>-<yyyy-mm>``, and ``-2``, … where a month is split."""
    suffix = month if number == 1 else f"{month}-{number}"
    return stable_name(f"gapless-ledger-{diode_name}", suffix, max_length=_MAX_NAME_LENGTH)


def _fitting(size: int, entries: list[LedgerEntry]) -> tuple[list[LedgerEntry], list[LedgerEntry]]:
    """As many entries as a part of `size` bytes takes, at least one for an empty part, and the others."""
    taken, total = 0, size
    for entry in entries:
        total += len(ledger_text(Ledger(diode="", month="", part=1, entries=(entry,))).encode())
        if total > LARGEST_PART_BYTES and (size or taken):
            break
        taken += 1
    return entries[:taken], entries[taken:]


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


def _in_status(diode: Diode | None) -> list[LedgerEntry]:
    """What a version before kept in the Diode's status."""
    return [
        LedgerEntry(
            identity=entry.identity,
            resend=entry.resend,
            resend_uid=entry.resend_uid,
            bundle_id=entry.bundle_id,
            force=entry.force,
            finished_at=moment_text(entry.finished_at),
            sent=entry.sent,
            filtered=entry.filtered,
            filled=entry.filled,
            unavailable=entry.unavailable,
        )
        for entry in (diode.status.ledger if diode is not None else ())
    ]
