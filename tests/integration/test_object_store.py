"""The proof that bundles come from a real S3-compatible server, or are refused in one sentence."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.base.errors import ConfigurationError, StoreUnreachableError
from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.store.access import S3Access
from gapless_archive.store.object_store import open_store
from kit.object_store import ObjectStore
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.integration

BUCKET = "gap-bundles"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.make_bucket(BUCKET)
        yield running


@pytest.fixture
def access(store: ObjectStore, tmp_path: Path) -> S3Access:
    return access_to(store, tmp_path)


def access_to(store: ObjectStore, folder: Path) -> S3Access:
    (folder / "access").write_text(f"{store.ACCESS_KEY}\n")
    (folder / "secret").write_text(store.SECRET_KEY)
    return S3Access(store.endpoint, access_key_file=folder / "access", secret_key_file=folder / "secret")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    gaps = [PartitionGaps("t", number, 0, 10**6, OffsetRanges([(7, 9), (10**5, 10**5)])) for number in range(3)]
    path = tmp_path / "bundle.json"
    write_bundle(path, BundleKind.ALL, gaps, created=datetime(2026, 1, 1, tzinfo=UTC), source={})
    return path


def fetch(
    store: ObjectStore, folder: Path, key: str, *more: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    access_to(store, folder)
    command = [
        "bundle", "fetch", f"s3://{BUCKET}/{key}", f"--output={folder / 'fetched'}",
        f"--endpoint-url={store.endpoint}", f"--access-key-file={folder / 'access'}",
        f"--secret-key-file={folder / 'secret'}", *more,
    ]  # fmt: skip
    return GAPLESS.run(*command, env={**os.environ, **(environment or {})})


@pytest.mark.parametrize("key", ["bundle.json", "site a/2026-01-01/b=1+2%20.json", "ünï"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_bundle_comes_back_byte_for_byte(
    store: ObjectStore, access: S3Access, bundle: Path, tmp_path: Path, key: str, *, packed: bool
) -> None:
    if packed:
        bundle.write_bytes(gzip.compress(bundle.read_bytes()))
    open_store(BUCKET, access).put(key, bundle)
    digest = read_bundle(bundle).metadata
    assert digest is not None
    ended = fetch(store, tmp_path, key, f"--sha256={digest.sha256.upper()}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"Fetched {tmp_path / 'fetched'} (12 missing in 3 partitions).\n"
    assert (tmp_path / "fetched").read_bytes() == bundle.read_bytes()
    assert not any(path.name.startswith(".") for path in tmp_path.iterdir())


def test_an_object_of_many_parts_arrives_whole(store: ObjectStore, access: S3Access, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(random.Random(1).randbytes(40_000_000))
    bucket = open_store(BUCKET, access)
    bucket.put("large", large)
    with (tmp_path / "back").open("wb") as back:
        bucket.get("large", back)
    assert (tmp_path / "back").read_bytes() == large.read_bytes() == store.content(BUCKET, "large")


def test_without_credentials_requests_are_not_signed(bundle: Path, tmp_path: Path, store: ObjectStore) -> None:
    with ObjectStore(anonymous=True) as public:
        public.make_bucket(BUCKET)
        access = S3Access(public.endpoint)
        open_store(BUCKET, access).put("b", bundle)
        with (tmp_path / "back").open("wb") as back:
            open_store(BUCKET, access).get("b", back)
        assert (tmp_path / "back").read_bytes() == bundle.read_bytes()
    with pytest.raises(ConfigurationError, match=r"cannot be written \(\w+\)"):
        open_store(BUCKET, S3Access(store.endpoint)).put("b", bundle)


def test_credentials_of_the_environment_are_not_used(
    store: ObjectStore, access: S3Access, bundle: Path, tmp_path: Path
) -> None:
    open_store(BUCKET, access).put("b", bundle)
    wrong = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    assert fetch(store, tmp_path, "b", environment=wrong).returncode == 0


def one_sentence(ended: subprocess.CompletedProcess[str], exit_code: int) -> str:
    assert ended.returncode == exit_code, ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("gapless: ")
    return ended.stderr


def test_what_is_wrong_is_one_sentence_and_the_old_file_stays(
    store: ObjectStore, access: S3Access, bundle: Path, tmp_path: Path
) -> None:
    bucket = open_store(BUCKET, access)
    bucket.put("good", bundle)
    (tmp_path / "altered").write_bytes(bundle.read_bytes().replace(b"[7,9]", b"[7,8]"))
    bucket.put("altered", tmp_path / "altered")
    (tmp_path / "cut").write_bytes(gzip.compress(bundle.read_bytes())[:-20])
    bucket.put("cut", tmp_path / "cut")
    (tmp_path / "nobody").write_text("nobody")
    (tmp_path / "fetched").write_text("an older one")
    for key, more, exit_code, words in (
        ("none", (), 2, f"s3://{BUCKET}/none at {store.endpoint} cannot be read (NoSuchKey)"),
        ("altered", (), 2, f"The bundle s3://{BUCKET}/altered was altered"),
        ("cut", (), 2, f"The gzip compression of the bundle s3://{BUCKET}/cut is truncated"),
        ("good", ("--sha256=" + 64 * "0",), 2, "has the digest"),
        (
            "good",
            ("--endpoint-url=http://127.0.0.1:1",),
            3,
            "does not answer (Connection refused)",
        ),
        ("good", (f"--endpoint-url={store.endpoint.replace('http', 'https')}",), 3, "no TLS there"),
        ("good", ("--endpoint-url=http://no-such-host.invalid",), 3, "failed to lookup address information"),
        ("good", (f"--access-key-file={tmp_path / 'cut'}",), 2, "with the access key is not one line of plain text"),
        ("good", (f"--access-key-file={tmp_path / 'nobody'}",), 2, "cannot be read (InvalidAccessKeyId)"),
        ("good", (f"--secret-key-file={tmp_path / 'access'}",), 2, "cannot be read (SignatureDoesNotMatch)"),
        ("good", (f"--output={tmp_path}/no/folder",), 2, "cannot be written"),
    ):
        assert words in one_sentence(fetch(store, tmp_path, key, *more), exit_code), key
        assert (tmp_path / "fetched").read_text() == "an older one"
    assert fetch(store, tmp_path, "good").returncode == 0
    assert read_bundle(tmp_path / "fetched").missing == 12


def test_a_bucket_that_is_not_there_is_named(access: S3Access, bundle: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"s3://other/b at .* cannot be written \(NoSuchBucket\)"):
        open_store("other", access).put("b", bundle)


def test_a_store_with_a_certificate_of_its_own_authority_is_trusted_by_that_alone(bundle: Path, tmp_path: Path) -> None:
    with ObjectStore(tls=True) as secure:
        secure.make_bucket(BUCKET)
        access = access_to(secure, tmp_path)
        assert access.endpoint_url.startswith("https://")
        with pytest.raises(StoreUnreachableError, match="its certificate is not trusted: UnknownIssuer"):
            open_store(BUCKET, access).put("b", bundle)
        open_store(BUCKET, replace(access, ca_file=secure.ca_file)).put("b", bundle)
        assert secure.content(BUCKET, "b") == bundle.read_bytes()
        assert fetch(secure, tmp_path, "b", f"--ca-file={secure.ca_file}").returncode == 0
        assert fetch(secure, tmp_path, "b", environment={"SSL_CERT_FILE": str(secure.ca_file)}).returncode == 0
        assert fetch(secure, tmp_path, "b").returncode == 3


def test_a_store_without_tls_needs_no_certificates_of_the_system(store: ObjectStore, tmp_path: Path) -> None:
    nothing = {"SSL_CERT_FILE": str(tmp_path / "none")}
    ended = fetch(store, tmp_path, "none", environment=nothing)
    assert "cannot be read (NoSuchKey)" in one_sentence(ended, 2)
    https = fetch(store, tmp_path, "none", "--endpoint-url=https://store.invalid", environment=nothing)
    assert "SSL_CERT_FILE names" in one_sentence(https, 2)


def test_the_secret_shows_nowhere(store: ObjectStore, tmp_path: Path) -> None:
    ended = fetch(store, tmp_path, "none")
    assert store.SECRET_KEY not in ended.stdout + ended.stderr
    assert json.dumps(store.SECRET_KEY)[1:-1] not in ended.stderr
