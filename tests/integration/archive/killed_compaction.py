"""A compaction that kills itself (SIGKILL) at a step: arguments PLACE STEP [ENDPOINT ACCESS SECRET]."""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from gapless_archive.catalog.chain import Chain
from gapless_archive.compaction.compactor import CompactionOptions, compact
from gapless_archive.compaction.local_runner import LocalRunner
from gapless_archive.compaction.plan import CompactionRules
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place
from unit.archive.archives import ID

STEPS = ("before-upload", "before-commit", "after-commit", "amid-deletion", "before-record", "never")
NOW = timedelta(0)
OPTIONS = CompactionOptions(
    rules=CompactionRules(min_segment_count=2, min_segment_bytes=0, min_segment_age=NOW), grace_period=NOW
)


class Killing:
    """A place where the program ends at a step."""

    def __init__(self, place: Any, step: str) -> None:
        self._place, self._step = place, step
        self._commits = self._deletions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)

    def put(self, key: str, file: Path) -> None:
        self._die("before-upload")
        self._place.put(key, file)

    def create(self, key: str, content: bytes) -> bool:
        self._die("before-commit")
        if self._deletions:
            self._die("before-record")
        made = bool(self._place.create(key, content))
        self._die("after-commit")
        return made

    def delete(self, key: str) -> None:
        self._deletions += 1
        if self._deletions == 3:
            self._die("amid-deletion")
        self._place.delete(key)

    def _die(self, step: str) -> None:
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


def access_of(endpoint: str, access_key_file: str, secret_key_file: str) -> S3Access:
    return S3Access(endpoint, access_key_file=Path(access_key_file), secret_key_file=Path(secret_key_file))


def main(place_text: str, step: str, *access: str) -> None:
    opened = open_place(parse_place(place_text), access_of(*access) if access else S3Access())
    place: Any = Killing(opened, step)
    compact([Chain(place, "r", "t", ID)], OPTIONS, lambda _: LocalRunner(lambda _: place))


if __name__ == "__main__":
    main(*sys.argv[1:])
