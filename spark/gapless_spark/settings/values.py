"""Owns how the values of settings of the jobs are read from text; must not know which settings there are."""

from __future__ import annotations

import re
from pathlib import Path

from gapless_archive.store.object_store import ObjectAddress


def file_or_object(text: str) -> Path | ObjectAddress:
    """Read where a bundle goes: a file, or s3://bucket/key."""
    return ObjectAddress.parse(text) if text.startswith("s3://") else Path(text)


def state_place(text: str) -> Path | ObjectAddress:
    """Read where a state is kept: a folder, or s3://bucket/prefix, for which other programs also write s3a://."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme in {"s3", "s3a"}:
        return ObjectAddress.parse(f"s3://{rest.rstrip('/')}")
    return Path(text)


def words(text: str) -> tuple[str, ...]:
    """Split a list at its commas."""
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not found:
        raise ValueError("one or several words, separated by commas")
    return found


def topic_ids(text: str) -> tuple[tuple[str, str], ...]:
    """Read topics with their ids."""
    found = [(topic, topic_id) for topic, _, topic_id in (word.rpartition(":") for word in words(text))]
    if not all(topic and topic_id for topic, topic_id in found):
        raise ValueError("a topic and its ID with a colon between, such as transfer:vJdzA4Q-QhyXGS0vI5_Q6g")
    return tuple(found)


def files(text: str) -> tuple[Path, ...]:
    """Split a list of files at its commas."""
    return tuple(Path(word) for word in words(text))


def memory(text: str) -> str:
    """Read an amount of memory as Java writes it."""
    number, unit = text[:-1], text[-1:].lower()
    if unit not in {"m", "g"} or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise ValueError("a number with m or g behind it, such as 2g")
    return number + unit


def master(text: str) -> str:
    """Read where Spark shall run."""
    if re.fullmatch(r"local(\[(\*|[1-9][0-9]*)\])?|yarn|(spark|k8s)://\S+", text) is None:
        raise ValueError("local, local[N], local[*], spark://…, k8s://… or yarn")
    return text
