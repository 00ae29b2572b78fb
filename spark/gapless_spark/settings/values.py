"""How values of settings are parsed from text; must not know which settings there are."""

from __future__ import annotations

import re
from pathlib import Path

from gapless_archive.store.object_store import ObjectAddress


def file_or_object(text: str) -> Path | ObjectAddress:
    """Parse the place of a bundle: a file, or s3://bucket/key."""
    return ObjectAddress.parse(text) if text.startswith("s3://") else Path(text)


def state_place(text: str) -> Path | ObjectAddress:
    """Parse the place of a state: a folder, or s3://bucket/prefix; other programs also write s3a://."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme in {"s3", "s3a"}:
        return ObjectAddress.parse(f"s3://{rest.rstrip('/')}")
    return Path(text)


def words(text: str) -> tuple[str, ...]:
    """Split a list at its commas."""
    parsed = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not parsed:
        raise ValueError("one or several words, separated by commas")
    return parsed


def topic_ids(text: str) -> tuple[tuple[str, str], ...]:
    """Parse topics with their IDs."""
    pairs = [(topic, topic_id) for topic, _, topic_id in (word.rpartition(":") for word in words(text))]
    if not all(topic and topic_id for topic, topic_id in pairs):
        raise ValueError("a topic and its ID with a colon between, such as transfer:vJdzA4Q-QhyXGS0vI5_Q6g")
    return tuple(pairs)


def files(text: str) -> tuple[Path, ...]:
    """Split a list of files at its commas."""
    return tuple(Path(word) for word in words(text))


def memory(text: str) -> str:
    """Parse an amount of memory in Java's notation."""
    number, unit = text[:-1], text[-1:].lower()
    if unit not in {"m", "g"} or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise ValueError("a number followed by m or g, such as 2g")
    return number + unit


def master(text: str) -> str:
    """Parse the URL of Spark's master."""
    if re.fullmatch(r"local(\[(\*|[1-9][0-9]*)\])?|yarn|(spark|k8s)://\S+", text) is None:
        raise ValueError("local, local[N], local[*], spark://…, k8s://… or yarn")
    return text
