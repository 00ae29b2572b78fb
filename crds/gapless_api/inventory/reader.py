"""Reading and validating an inventory; must not know what it is used for.

An inventory decides which losses can be detected, so nothing in it is guessed: invalid content is refused. Unknown keys
are skipped, and a later `version` is refused.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.codec.canonical import moment_of
from gapless_api.codec.strict_json import StrictReading, read_stream
from gapless_api.inventory.epochs import MAX_EPOCH, EpochStart
from gapless_api.inventory.form import (
    KNOWN_VERSIONS,
    Inventory,
    InventoryMetadata,
    Isolation,
    PartitionOffsets,
    canonical_entries,
    inventory_sha256,
)
from gapless_api.inventory.writer import inventory_signed_bytes
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges

_MAKER = "give the file that gapless inventory wrote"
_ENTRY = frozenset({"absent", "first", "last", "partition", "topic"})
_ENTRY_TEXTS = frozenset({"topic", "topic_id"})
_NUMBERS = frozenset({"version", "events"})
_TEXTS = frozenset({"id", "created", "cluster", "isolation", "sha256", "signature"})


def read_inventory(path: Path, *, verification_key: Path | None = None) -> Inventory:
    """Read an inventory, plain or compressed with gzip.

    Args:
        path: the inventory.
        verification_key: an Ed25519 public key (PEM) with which it must be signed; ``None`` for any inventory.

    Raises:
        ConfigurationError: the file is missing, truncated, altered, not an inventory or not signed; or the key is
        invalid.
    """
    try:
        with path.open("rb") as stream:
            return _read(str(path), stream, verification_key)
    except OSError as error:
        raise ConfigurationError(
            f"The inventory {path} cannot be read ({error.strerror}); give the path of an existing file."
        ) from None


def read_inventory_text(text: bytes, *, name: str, verification_key: Path | None = None) -> Inventory:
    """Read an inventory from memory; `name` is its name in messages.

    Raises:
        ConfigurationError: as `read_inventory`.
    """
    return _read(name, io.BufferedReader(io.BytesIO(text)), verification_key)


def _read(name: str, stream: io.BufferedReader, verification_key: Path | None) -> Inventory:
    inventory = read_stream(_Reading, _Reading.inventory, name, stream)
    if verification_key is not None:
        _verify(inventory, verification_key, name)
    return inventory


def _verify(inventory: Inventory, key_file: Path, name: str) -> None:
    from gapless_api.keys.signatures import verifier_from_file  # noqa: PLC0415 -- cryptography is slow to import

    is_valid = verifier_from_file(key_file)
    signature = inventory.metadata.signature
    if signature is None:
        raise ConfigurationError(
            f"The inventory {name} is not signed; create it with --signing-key, or request a new one."
        )
    if not is_valid(signature, inventory_signed_bytes(inventory)):
        raise ConfigurationError(
            f"The signature of the inventory {name} does not match the public key {key_file}; the inventory was "
            f"altered or signed with another key: do not use it."
        )


class _Reading(StrictReading):
    """One reading of one inventory."""

    KIND = "inventory"
    REFUSAL = ConfigurationError

    def inventory(self) -> Inventory:
        entries, metadata = self._parsed(self._parse)
        if entries is None:
            self._refuse('is not an inventory: it has no list "manifest"', _MAKER)
        if metadata is None:
            self._refuse("has no metadata (the key gapless)", _MAKER)
        try:
            ordered = canonical_entries(entries)
        except ValueError as error:
            self._refuse(f"is contradictory: {error}", "create a new one")
        self._check(ordered, metadata)
        return Inventory(ordered, metadata)

    def _parse(self) -> tuple[list[PartitionOffsets] | None, InventoryMetadata | None]:
        entries: list[PartitionOffsets] | None = None
        metadata: InventoryMetadata | None = None
        if next(self._events)[0] != "start_map":
            self._refuse("is not an inventory: it is not a JSON object", _MAKER)
        for name in self._members(frozenset({"manifest", "gapless"})):
            if name == "manifest":
                entries = self._entries()
            else:
                metadata = self._metadata()
        self._end()
        return entries, metadata

    def _entries(self) -> list[PartitionOffsets]:
        self._where = "manifest"
        self._expect("start_array", "is not a list")
        entries: list[PartitionOffsets] = []
        for event, _ in self._events:
            if event == "end_array":
                break
            self._where = f"manifest[{len(entries)}]"
            if event != "start_map":
                self._refuse("is not an object")
            entries.append(self._entry())
        return entries

    def _entry(self) -> PartitionOffsets:
        where = self._where
        names: set[str] = set()
        texts, numbers, absent = dict[str, str](), {"partition": 0, "first": 0}, None
        last: int | None = None
        epochs: tuple[EpochStart, ...] | None = None
        for name in self._members(_ENTRY | _ENTRY_TEXTS | {"epochs"}):
            names.add(name)
            if name == "absent":
                absent = self._absent()
            elif name == "epochs":
                epochs = self._epochs()
            elif name in _ENTRY_TEXTS:
                texts[name] = self._text()
            elif name == "last":
                last = self._last()
            else:
                numbers[name] = self._integer(MAX_PARTITION if name == "partition" else MAX_OFFSET)
        self._where = where
        for name in sorted(_ENTRY - names):
            self._refuse(f"has no {name}")
        try:
            return PartitionOffsets(
                texts["topic"], numbers["partition"], numbers["first"], last, absent, texts.get("topic_id"), epochs
            )
        except ValueError as error:
            self._refuse(f"is invalid: {error}", "create a new one")

    def _absent(self) -> OffsetRanges | None:
        ranges = self._ranges()
        if ranges is None:
            return None
        if not ranges.ascending:
            self._refuse("lists ranges that do not ascend, or are adjacent", "create a new one")
        return ranges.build()

    def _epochs(self) -> tuple[EpochStart, ...]:
        self._expect("start_array", "is not a list")
        epochs: list[EpochStart] = []
        for event, _ in self._events:
            if event == "end_array":
                break
            if event != "start_array":
                self._refuse("is not a list of pairs")
            epochs.append(EpochStart(self._integer(MAX_EPOCH), self._integer(MAX_OFFSET)))
            self._expect("end_array", "is not a list of pairs")
        return tuple(epochs)

    def _last(self) -> int | None:
        event, number = self._scalar()
        if event == "null":
            return None
        if type(number) is not int or not 0 <= number <= MAX_OFFSET:
            self._refuse(f"is neither null nor an integer from 0 to {MAX_OFFSET}")
        return number

    def _metadata(self) -> InventoryMetadata:
        self._expect("start_map", "is not an object")
        texts: dict[str, str] = {}
        numbers: dict[str, int] = {}
        source: dict[str, str] | None = None
        for name in self._members(_NUMBERS | _TEXTS | {"source"}):
            if name in _NUMBERS:
                numbers[name] = self._integer(None)
            elif name == "source":
                source = self._source()
            else:
                texts[name] = self._text()
        self._where = "gapless"
        if "version" in numbers and numbers["version"] not in KNOWN_VERSIONS:
            known = f"{min(KNOWN_VERSIONS)} to {max(KNOWN_VERSIONS)}"
            self._refuse(f"has version {numbers['version']}, and this program reads {known}", "update it")
        for name in sorted((_NUMBERS | _TEXTS) - {"signature"} - {*numbers, *texts}):
            self._refuse(f"has no {name}")
        if source is None:
            self._refuse("has no source")
        created = moment_of(texts["created"])
        if created is None:
            self._refuse("has a creation time that is not like 2026-11-20T10:00:00Z")
        if texts["isolation"] not in set(Isolation):
            self._refuse(f"has an isolation that is not {' or '.join(Isolation)}")
        isolation = Isolation(texts["isolation"])
        return InventoryMetadata(
            numbers["version"],
            texts["id"],
            created,
            texts["cluster"],
            isolation,
            source,
            numbers["events"],
            texts["sha256"],
            texts.get("signature"),
        )

    def _check(self, entries: tuple[PartitionOffsets, ...], metadata: InventoryMetadata) -> None:
        self._where = ""
        sha256 = inventory_sha256(entries)
        if sha256 != metadata.sha256:
            self._refuse(f"was altered: the digest of its content is {sha256[:12]}… and not {metadata.sha256[:12]!r}…")
        events = sum(entry.event_count for entry in entries)
        if events != metadata.events:
            self._refuse(f"lists {events} events, but its metadata has {metadata.events}")
