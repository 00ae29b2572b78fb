"""The lines of a checkpoint: the progress of each partition, and the identity of the resend; pure.

Must not know files, nor when they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_PARTITION, TopicPartition, is_topic
from gapless_sender.replay.account import BatchResult, PartitionAccount, checked_int

VERSION = 3
READABLE_VERSIONS = frozenset({1, 2, VERSION})
"""Version 1 had no topic IDs, and version 2 nothing from archives; the first start from such a file adds them."""
_MAX_RANGES = 50_000
"""In one line of a rewritten file."""

_MAX_SETTINGS = 20
"""In the identity of a resend, which has half as many."""


class Progress:
    """The accounts of all partitions, and the bounds of open ranges."""

    def __init__(self) -> None:
        self.accounts: dict[TopicPartition, PartitionAccount] = {}
        self.bounds: dict[TopicPartition, tuple[int, int]] = {}
        """First offset and end (exclusive) of what was requested without numbers, fixed at the first start."""
        self.topic_ids: dict[str, str] = {}
        """By Kafka's name of the topic."""
        self.complete = False

    def account(self, key: TopicPartition) -> PartitionAccount:
        """Return the account of one partition."""
        return self.accounts.setdefault(key, PartitionAccount())

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add one object of the file. Raises ValueError, KeyError or TypeError when it is invalid."""
        if "complete" in entry:
            self.complete = bool(entry["complete"])
        for topic, topic_id in dict(entry.get("topicIds", {})).items():
            self.topic_ids[str(topic)] = str(topic_id)
        for partition in entry["partitions"]:
            key = (_topic(partition["topic"]), checked_int(partition["partition"], MAX_PARTITION))
            if "bounds" in partition:
                first, end = partition["bounds"]
                self.bounds[key] = (checked_int(first), checked_int(end))
            if "cursor" in partition:
                self.account(key).apply(BatchResult.from_json(partition))

    def subset(self, keys: Iterable[TopicPartition]) -> Progress:
        """Return the progress of these partitions; the accounts are the same objects."""
        subset = Progress()
        subset.topic_ids |= self.topic_ids
        for key in keys:
            if key in self.accounts:
                subset.accounts[key] = self.accounts[key]
            if key in self.bounds:
                subset.bounds[key] = self.bounds[key]
        return subset

    def merge(self, other: Progress) -> None:
        """Take the account of every partition in which `other` has progressed further, and unknown bounds and IDs."""
        for key, account in other.accounts.items():
            mine = self.accounts.get(key)
            if mine is None or account.progress_key > mine.progress_key:
                self.accounts[key] = account
        self.bounds = other.bounds | self.bounds
        self.topic_ids = other.topic_ids | self.topic_ids

    def reopen(self) -> None:
        """Request again, in a new run, what was not yet written at the end of the last one.

        An open range of which nothing was written has no end yet: this run fixes it.
        """
        reopened = {key for key, account in self.accounts.items() if account.reopen()}
        self.complete &= not reopened
        for key, (first, end) in tuple(self.bounds.items()):
            had_nothing = first > end or (first == end and key in reopened)
            if had_nothing and self.account(key).cursor <= first:
                del self.bounds[key]

    def recheck(self) -> None:
        """Request again, in a new run, what an archive may have now."""
        for account in self.accounts.values():
            if account.recheck():
                self.complete = False

    def as_entries(self, identity: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Return the complete state as lines of a file, none of them long: there may be ten million ranges."""
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
            for result in account.as_results(_MAX_RANGES):
                yield {"partitions": [result_entry(key, result)]}


def read_lines(file: Path, lines: Iterator[bytes], identity: Mapping[str, Any]) -> Progress:
    """Read the `lines` of `file`. Raises ConfigurationError: it is not a checkpoint, or belongs to another resend."""
    progress = Progress()
    try:
        header = json.loads(next(lines, b""))
        version = checked_int(header["gaplessCheckpoint"])
        if version not in READABLE_VERSIONS:
            raise ConfigurationError(
                f"The checkpoint {file} has version {version}, and this program reads up to {VERSION}; continue with "
                f"the program that wrote it, or delete the file to start from the beginning."
            )
        theirs = _parse_identity(header["resend"])
        progress.add(header)
        for line in lines:
            if line.endswith(b"\n"):  # Else a crash has truncated it.
                progress.add(json.loads(line))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigurationError(
            f"The file {file} is not a checkpoint of gapless resend; give another path, or delete the file to start "
            f"from the beginning."
        ) from None
    ours = json.loads(json.dumps(identity))
    if theirs != ours:
        different = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
        shown = ", ".join(
            f"{_printable(name)} was {_short(theirs.get(name))} and is {_short(ours.get(name))}" for name in different
        )
        raise ConfigurationError(
            f"The checkpoint {file} belongs to another resend ({shown}); give the same settings as before, or another "
            f"checkpoint."
        )
    return progress


def _parse_identity(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > _MAX_SETTINGS:
        raise ValueError("no settings")
    return value


def _topic(value: Any) -> str:
    if not isinstance(value, str) or not is_topic(value):
        raise ValueError("no topic")
    return value


def _short(value: Any) -> str:
    if isinstance(value, str) and len(value) > 20:
        return f"{_printable(value[:12])}…"
    text = "not set" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _printable(text: str) -> str:
    return text[:60].encode("unicode_escape").decode("ascii") if not text.isprintable() else text[:60]


def result_entry(key: TopicPartition, result: BatchResult) -> dict[str, Any]:
    """Return the entry of a line for the batch of one partition."""
    return {"topic": key[0], "partition": key[1], **result.as_json()}


def encode_line(entry: Mapping[str, Any]) -> bytes:
    """Return the line for `entry`."""
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"
