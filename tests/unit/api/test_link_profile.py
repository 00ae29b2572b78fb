"""A link profile is read as it was written; anything else is refused in one sentence that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError, LocalStorageError
from gapless_api.wire.link_profile import (
    LINK_PROFILE,
    read_link_profile,
    write_link_profile,
)
from kit.story.messages import PROFILE


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    write_link_profile(file, PROFILE)
    assert read_link_profile(file) == PROFILE
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert read_link_profile(file) == PROFILE, "an editor may add a byte order mark"


def test_a_profile_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(LocalStorageError, match=r"The link profile .* cannot be written"):
        write_link_profile(tmp_path / "none" / "profile.json", PROFILE)
    (tmp_path / "profile.json").write_text("older")
    write_link_profile(tmp_path / "profile.json", PROFILE)
    assert [path.name for path in tmp_path.iterdir()] == ["profile.json"]


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    content = json.loads(json.dumps(LINK_PROFILE.to_json(PROFILE)))
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is not a link profile, or is truncated"),
        ("[]", "it is not a link profile"),
        ('{"type":"gapless-link-report","version":1}', "it is not a link profile"),
        (changed(dict)[:-20], "is truncated"),
        (changed(lambda it: it.update(gaplessLinkProfile=2)), "has version 2, and this program reads version 1"),
        (changed(lambda it: it.update(gaplessLinkProfile="1")), 'has version "1"'),
        (changed(lambda it: it.update(comment="x")), '"comment" is unknown'),
        (changed(lambda it: it.pop("copies")), "copies is missing"),
        (changed(lambda it: it.update(bitsPerSecond="fast")), "bitsPerSecond is"),
        (changed(lambda it: it.update(datagramsPerSecond=0)), "datagramsPerSecond is 0 and must be above 0"),
        (changed(lambda it: it.update(datagramsPerSecond=1001)), "1,001, above the measured 1,000"),
        (changed(lambda it: it.update(bitsPerSecond=2e7)), "bitsPerSecond is 20,000,000, above the measured"),
        (changed(lambda it: it.update(payloadSize=64)), "payloadSize is 64 and must be from 500 to 65459"),
        (changed(lambda it: it.update(headerBytes=20)), "headerBytes is 20"),
        (changed(lambda it: it.update(copies=0)), "copies is 0 and must be from 1 to 100"),
        (changed(lambda it: it["measurement"].update(missing=1)), "1 of 5,000 probes were missing"),
        (changed(lambda it: it.update(measuredAt="2026-11-20T10:00:00")), "measuredAt is"),
        (changed(lambda it: it.update(measuredAt="yesterday")), "measuredAt is"),
        (changed(lambda it: it.update(target="north")), "target is 'north' and must be an IP address"),
    ],
)
def test_what_is_no_profile_is_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "profile.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_link_profile(file)
    assert str(refused.value).startswith(f"The link profile {file} cannot be used: ")
    assert says in str(refused.value)
    assert str(refused.value).endswith("; give the file that gapless link receive --profile wrote.")


@pytest.mark.parametrize("make", ["missing", "folder", "bytes"])
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path, make: str) -> None:
    file = tmp_path / "profile.json"
    if make == "folder":
        file.mkdir()
    elif make == "bytes":
        file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"The link profile .*profile.json cannot be (read|used)"):
        read_link_profile(file)


@pytest.mark.parametrize(
    ("age", "target", "payload", "says"),
    [
        (timedelta(days=1), "10.0.0.2", 1400, ""),
        (timedelta(days=89), "north.example", 0, ""),
        (timedelta(days=91), "10.0.0.2", 1400, "91 days ago"),
        (timedelta(days=-2), "10.0.0.2", 1400, "in the future"),
        (timedelta(days=1), "10.0.0.3", 1400, "measured to 10.0.0.2, and this sender sends to 10.0.0.3"),
        (timedelta(days=1), "fd00::2", 1400, "measured over IPv4, and fd00::2 is an address of IPv6"),
        (timedelta(days=1), "10.0.0.2", 8000, "payloads of 1,400 bytes, and payloadSize is 8,000"),
    ],
)
def test_a_stale_or_foreign_profile_is_doubted(age: timedelta, target: str, payload: int, says: str) -> None:
    now = datetime.fromisoformat(PROFILE.measured_at) + age
    doubts = list(PROFILE.doubts(now=now, target=target, payload_size=payload))
    assert len(doubts) == bool(says)
    assert says in " ".join(doubts)


def test_copies_share_the_rate_of_datagrams() -> None:
    assert [PROFILE.events_per_second(copies) for copies in (1, 2, 3)] == [800.0, 400.0, 266.667]
