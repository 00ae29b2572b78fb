"""A bundle from a store is on the disk completely, checked and synced, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any, cast

import click
import pytest

from gapless_api.base.errors import BundleError, LocalStorageError
from gapless_archive.bundles import fetch_bundle
from gapless_archive.cli import fetch as command
from gapless_archive.store.access import S3_SETTINGS
from gapless_archive.store.object_store import ObjectAddress, ObjectStore

BUNDLE = b'{"type":"all","results":[{"gaps":[[1,2]],"partition":0,"topic":"t","window_max":999,"window_min":0}]}'


class Store:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def get(self, _key: str, stream: IO[bytes]) -> None:
        stream.write(self.content)


def fetch(content: bytes, output: Path, sha256: str | None = None) -> Any:
    return fetch_bundle(
        cast("ObjectStore", Store(content)), ObjectAddress.parse("s3://bucket/k"), output, sha256=sha256
    )


def test_a_fetched_bundle_is_synced_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(handle: int) -> None:
        calls.append("folder" if os.fstat(handle).st_ino == tmp_path.stat().st_ino else "file")
        fsync(handle)

    def recorded_replace(old: Path, new: Path) -> None:
        calls.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    fetch(BUNDLE, tmp_path / "bundle.json")
    assert calls == ["file", "rename", "folder"]
    assert (tmp_path / "bundle.json").read_bytes() == BUNDLE


def test_a_bad_bundle_leaves_the_old_one_and_nothing_beside_it(tmp_path: Path) -> None:
    output = tmp_path / "bundle.json"
    fetch(BUNDLE, output)
    for content, sha256 in ((BUNDLE[:-3], None), (BUNDLE, "0" * 64)):
        with pytest.raises(BundleError):
            fetch(content, output, sha256)
    assert output.read_bytes() == BUNDLE
    assert [entry.name for entry in tmp_path.iterdir()] == ["bundle.json"]


def test_a_pipe_takes_no_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LocalStorageError, match="is not a regular file"):
        fetch(BUNDLE, tmp_path / "pipe")


def test_options_of_the_store_have_the_names_of_the_settings_and_accept_the_old_ones() -> None:
    settings = {option for setting in S3_SETTINGS for option in setting.options if option.startswith("--s3-")}
    stores = [option for option in command.params if option.opts[0].startswith("--s3-")]
    assert {option.opts[0] for option in stores} <= settings
    assert len(stores) == len(S3_SETTINGS)
    shown = command.get_help(click.Context(command))
    for option in stores:
        assert option.opts[0] in shown
        assert f"--{option.opts[0].removeprefix('--s3-')}" not in shown.replace(option.opts[0], "")
    accepted = {name for option in stores for name in option.opts}
    assert accepted >= {
        f"--{prefix}{name}"
        for prefix in ("", "s3-")
        for name in ("endpoint-url", "region", "access-key-file", "secret-key-file", "session-token-file", "ca-file")
    }
