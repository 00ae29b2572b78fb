"""Owns what the lines of a checkpoint say: how far each partition has come, and whose resend it is; pure.

Must not know files, nor when they are written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_PARTITION, TopicPartition, is_topic
from gapless_sender.replay.account import BatchResult, PartitionAccount, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

VERSION = 3
READABLE_VERSIONS = frozenset({1, 2, VERSION})
"""Version 1 had no topic ids, and version 2 nothing from archives; the first start that goes on from such a file adds
them."""
_MOST_RANGES = 50_000
"""Of a line that begins a file anew."""

_MOST_SETTINGS = 20
"""A resend is told from others by half as many."""


class Progress:
    """The accounts of all partitions, and the end that each open range was given at the first start."""

    def __init__(self) -> None:
        self.accounts: dict[TopicPartition, PartitionAccount] = {}
        self.bounds: dict[TopicPartition, tuple[int, int]] = {}
        """First offset and end (exclusive) of what was wanted without numbers, fixed at the first start."""
        self.topic_ids: dict[str, str] = {}
        """By Kafka's name of the topic: what tells it from a later one of the same name."""
        self.complete = False

    def account(self, key: TopicPartition) -> PartitionAccount:
        """The account of one partition."""
        return self.accounts.setdefault(key, PartitionAccount())

    def take(self, entry: Mapping[str, Any]) -> None:
        """Take in one object of the file. Raises ValueError, KeyError or TypeError when it is none."""
        if "complete" in entry:
            self.complete = bool(entry["complete"])
        for topic, found in dict(entry.get("topicIds", {})).items():
            self.topic_ids[str(topic)] = str(found)
        for part in entry["partitions"]:
            key = (_topic(part["topic"]), whole(part["partition"], MAX_PARTITION))
            if "bounds" in part:
                first, end = part["bounds"]
                self.bounds[key] = (whole(first), whole(end))
            if "cursor" in part:
                self.account(key).apply(BatchResult.from_json(part))

    def part(self, keys: Iterable[TopicPartition]) -> Progress:
        """What is known of these partitions; the accounts are the same objects."""
        part = Progress()
        part.topic_ids |= self.topic_ids
        for key in keys:
            if key in self.accounts:
                part.accounts[key] = self.accounts[key]
            if key in self.bounds:
                part.bounds[key] = self.bounds[key]
        return part

    def merge(self, other: Progress) -> None:
        """Take over every partition in which `other` has come further."""
        for key, account in other.accounts.items():
            mine = self.accounts.get(key)
            if mine is None or account.reached > mine.reached:
                self.accounts[key] = account
        for key, bounds in other.bounds.items():
            self.bounds.setdefault(key, bounds)
        for topic, found in other.topic_ids.items():
            self.topic_ids.setdefault(topic, found)

    def reopen(self) -> None:
        """Want again, in a new run, what was not yet written at the end of the last one."""
        for account in self.accounts.values():
            if account.reopen():
                self.complete = False

    def look_again(self) -> None:
        """Want again, in a new run, what an archive may have now."""
        for account in self.accounts.values():
            if account.look_again():
                self.complete = False

    def as_entries(self, identity: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The whole state as the lines of a file, of which none is long: there may be ten million ranges."""
        yield {
            "gaplessCheckpoint": VERSION,
            "resend": dict(identity),
            "complete": self.complete,
            "topicIds": self.topic_ids,
            "partitions": [
                {"topic": topic, "partition": partition, "bounds": list(bounds)}
                for (topic, partition), bounds in sorted(self.bounds.items())
            ],
        }
        for key, account in sorted(self.accounts.items()):
            for result in account.as_results(_MOST_RANGES):
                yield {"partitions": [result_entry(key, result)]}


def read_lines(file: Path, lines: Iterator[bytes], identity: Mapping[str, Any]) -> Progress:
    """Read the `lines` of `file`. Raises ConfigurationError: they are none of a checkpoint, or of another resend."""
    progress = Progress()
    try:
        header = json.loads(next(lines, b""))
        version = whole(header["gaplessCheckpoint"])
        if version not in READABLE_VERSIONS:
            raise ConfigurationError(
                f"The checkpoint {file} is of version {version} and this program knows {VERSION}; go on with the "
                f"program that wrote it, or delete the file to begin again."
            )
        theirs = _identity_of(header["resend"])
        progress.take(header)
        for line in lines:
            if line.endswith(b"\n"):  # Else a crash has cut it.
                progress.take(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigurationError(
            f"The file {file} is no checkpoint of gapless resend; give another path, or delete the file to begin again."
        ) from None
    ours = json.loads(json.dumps(identity))
    if theirs != ours:
        different = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
        shown = ", ".join(
            f"{_printable(name)} was {_short(theirs.get(name))} and is {_short(ours.get(name))}" for name in different
        )
        raise ConfigurationError(
            f"The checkpoint {file} belongs to another resend ({shown}); give the same settings again, or another "
            f"checkpoint."
        )
    return progress


def _identity_of(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or len(found) > _MOST_SETTINGS:
        raise ValueError("no settings")
    return found


def _topic(found: Any) -> str:
    if not isinstance(found, str) or not is_topic(found):
        raise ValueError("no topic")
    return found


def _short(value: Any) -> str:
    if isinstance(value, str) and len(value) > 20:
        return f"{_printable(value[:12])}…"
    text = "not set" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _printable(text: str) -> str:
    return text[:60].encode("unicode_escape").decode("ascii") if not text.isprintable() else text[:60]


def result_entry(key: TopicPartition, result: BatchResult) -> dict[str, Any]:
    """What a line says of one partition's batch."""
    return {"topic": key[0], "partition": key[1], **result.as_json()}


def line_of(entry: Mapping[str, Any]) -> bytes:
    """The line that holds `entry`."""
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"
