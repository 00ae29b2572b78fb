"""The proof of what is said about addresses and credentials of object stores before anything is sent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError, StoreUnreachableError
from gapless_archive.store.access import S3Access
from gapless_archive.store.object_store import ObjectAddress, open_store, part_bytes


def test_an_address_is_a_bucket_and_a_key() -> None:
    address = ObjectAddress.parse("s3://gap-bundles/site/2026/bundle 1.json.gz")
    assert address == ObjectAddress("gap-bundles", "site/2026/bundle 1.json.gz")
    assert str(address) == "s3://gap-bundles/site/2026/bundle 1.json.gz"


@pytest.mark.parametrize(
    "text", ["", "s3://", "s3://b/k", "s3://bucket", "s3://bucket/", "http://bucket/key", "s3://Bucket/key"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"write s3://bucket/path/bundle\.json"):
        ObjectAddress.parse(text)


@pytest.mark.parametrize("key", ["a//b", "a/../b", "./a", "a/"])
def test_a_key_that_stores_read_differently_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="without empty parts"):
        ObjectAddress.parse(f"s3://bucket/{key}")


def test_credentials_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    good, empty = tmp_path / "good", tmp_path / "empty"
    good.write_text("key\n")
    empty.write_text("\n")
    for access, words in (
        (S3Access(access_key_file=good), "give the files of both, or neither"),
        (S3Access(secret_key_file=good), "give the files of both, or neither"),
        (S3Access(access_key_file=good, secret_key_file=tmp_path / "none"), "none with the secret key cannot be read"),
        (S3Access(access_key_file=empty, secret_key_file=good), "empty with the access key is empty"),
        (S3Access(endpoint_url="store.example"), "is not a URL"),
        (S3Access(endpoint_url="https://store.example", ca_file=good), "cannot be used"),
    ):
        with pytest.raises(ConfigurationError, match=words) as refused:
            open_store("bucket", access)
        assert str(refused.value).count("\n") == 0


def test_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.setenv(name, "from-the-environment")
    store = open_store("bucket", S3Access())
    assert "from-the-environment" not in repr(vars(store)["_store"].config)


def test_a_store_that_nobody_listens_at_is_one_sentence(tmp_path: Path) -> None:
    with (tmp_path / "into").open("wb") as into, pytest.raises(StoreUnreachableError) as refused:
        open_store("bucket", S3Access(endpoint_url="http://127.0.0.1:1")).get("key", into)
    assert "s3://bucket at http://127.0.0.1:1 cannot be reached or does not answer (Connection refused)" in str(
        refused.value
    )


def test_without_the_client_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ConfigurationError, match=r"the extra archive of gapless brings; pip install --no-index"):
        open_store("bucket", S3Access())


@pytest.mark.parametrize("size", [0, 1, 4 << 30, 5 * 10**9 + 1, 50_000 << 20, (50_000 << 20) + 1, 5 << 40])
def test_parts_are_few_enough_for_objects_of_any_size(size: int) -> None:
    part = part_bytes(size)
    assert 5 << 20 <= part <= 5 << 30
    assert -(-size // part) <= 10_000
