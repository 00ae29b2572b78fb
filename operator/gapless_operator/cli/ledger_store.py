"""Reading and extending the ledgers of a namespace from outside of the operator, with the user's permissions.

Must not know the command line. The operator may write at the same time: each write names the resourceVersion that was
read, and after a conflict everything is read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.base.errors import ConfigurationError, SourceUnreachableError
from gapless_api.v1alpha1.diode import Diode
from gapless_api.wire.ledger import DiodeLedger, LedgerExport
from gapless_operator.cli.connection import as_ours
from gapless_operator.common.observed import LEDGER_ROLE, ROLE_LABEL
from gapless_operator.sending.ledger import LedgerPart, entries_of, keys_of, writes_for
from gapless_operator.shell.api.errors import ApiError, ConflictError, RefusedError
from gapless_operator.shell.api.kinds import CONFIG_MAP, DIODE, Kind
from gapless_operator.shell.api.ownership import check_ours

if TYPE_CHECKING:
    from gapless_operator.common.plan import Manifest
    from gapless_operator.shell.api.client import ClusterApi

_MAX_TRIES = 10


class Imported(NamedTuple):
    """How many entries of a file were added, and how many existed."""

    added: int
    existing: int


class LedgerStore:
    """The ledgers of a namespace."""

    def __init__(self, api: ClusterApi, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def export(self, only: str | None) -> tuple[DiodeLedger, ...]:
        """Read all ledgers, or that of one Diode.

        Raises:
            SourceUnreachableError: the API server cannot be reached.
            ConfigurationError: it refuses the request, or a part is unreadable.
        """
        parts = self._parts()
        names = {part.ledger.diode for part in parts if part.ledger is not None}
        return tuple(
            DiodeLedger(diode=name, entries=entries_of(_of(parts, name)))
            for name in sorted(names if only is None else names & {only})
        )

    def extend(self, export: LedgerExport, only: str | None) -> Imported:
        """Add the missing entries; doing it again adds nothing.

        Raises:
            SourceUnreachableError: the API server cannot be reached, or there were too many conflicts.
            ConfigurationError: it refuses the request, a part is unreadable, or another object has its name.
        """
        added = existing = 0
        for ledger in export.ledgers:
            if only in {None, ledger.diode}:
                new = self._extend(ledger)
                added, existing = added + new, existing + len(ledger.entries) - new
        return Imported(added, existing)

    def _extend(self, ledger: DiodeLedger) -> int:
        missing: set[tuple[str, str | None, str]] | None = None
        keys = {entry.key for entry in ledger.entries}
        for _ in range(_MAX_TRIES):
            parts = _of(self._parts(), ledger.diode)
            missing = keys - keys_of(parts) if missing is None else missing
            diode = next((diode for diode in self._diodes() if diode.metadata.name == ledger.diode), None)
            writes = writes_for(ledger.entries, parts, namespace=self._namespace, diode_name=ledger.diode, diode=diode)
            if self._write(writes.create, writes.apply):
                return len(missing)
        raise SourceUnreachableError(
            f"The ledger of Diode {self._namespace}/{ledger.diode} was changed by another program {_MAX_TRIES} times; "
            f"run the command again to add the remaining entries."
        )

    def _write(self, create: tuple[Manifest, ...], apply: tuple[Manifest, ...]) -> bool:
        """Write everything; return ``False`` after a conflict, when everything has to be read again."""
        try:
            for manifest in create:
                self._api.create(manifest)
            for manifest in apply:
                self._api.apply(manifest)
        except ConflictError:
            for manifest in create:
                existing = self._api.get(CONFIG_MAP, self._namespace, manifest["metadata"]["name"])
                if existing is not None:
                    _check(existing, manifest)
            return False
        except ApiError as error:
            raise as_ours(error) from None
        return True

    def _parts(self) -> list[LedgerPart]:
        labelled = [
            body
            for body in self._list(CONFIG_MAP)
            if (body["metadata"].get("labels") or {}).get(ROLE_LABEL) == LEDGER_ROLE
        ]
        parts = [LedgerPart.of(body) for body in labelled]
        for part in parts:
            if part.problem:
                raise ConfigurationError(part.problem)
        return parts

    def _diodes(self) -> list[Diode]:
        diodes = []
        for body in self._list(DIODE):
            try:
                diodes.append(Diode.from_resource(body))
            except ConfigurationError:
                continue  # The parts of its ledger are read nevertheless.
        return diodes

    def _list(self, kind: Kind) -> list[dict[str, Any]]:
        try:
            return [body for page in self._api.pages(kind, self._namespace) for body in page.bodies]
        except ApiError as error:
            raise as_ours(error) from None


def _of(parts: list[LedgerPart], diode: str) -> list[LedgerPart]:
    return [part for part in parts if part.ledger is not None and part.ledger.diode == diode]


def _check(existing: Mapping[str, Any], manifest: Manifest) -> None:
    try:
        check_ours(existing, manifest)
    except RefusedError as error:
        raise as_ours(error) from None
