"""The archive of a release for a closed network is all that an installation needs: its images go into a registry there.

The registry is crane's, on loopback of the node. How the images of a release are built is measured and not tested here.
"""

from __future__ import annotations

import contextlib
import json
import platform
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from kit.cluster import images
from kit.cluster.architectures import ARCHITECTURES
from kit.cluster.archives import ImageForm, pack_root
from kit.cluster.build import CRANE
from kit.cluster.places import CHECKOUT
from kit.cluster.product import OPERATOR_NAMESPACE, RELEASE, SENDER_NAMESPACE, Installation
from kit.machine.processes import end, start_bound, wait_until
from release.images import DIGESTS, MACHINES, pack_images, pack_offline
from release.kubernetes import pack_chart
from release.listing import write_sums
from release.sources import Sources

if TYPE_CHECKING:
    from conftest import SiteFactory
    from kit.cluster.access import Cluster

pytestmark = pytest.mark.timeout(900)

VERSION = "9.8.7"
FIXED = 1_577_836_800
"""2020-01-01: the time of files in layers of ours."""
PUSHED = ("operator", "sender")
"""That of Spark is four times as large, and is pushed and pulled in the same way."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked archive of a release with the images of this checkout."""
    into = tmp_path_factory.mktemp("offline")
    release = into / "made" / VERSION
    release.mkdir(parents=True)
    sources = Sources(CHECKOUT, "a" * 40, 1_580_601_600, VERSION)
    # With the time of the release they have other IDs than the loaded images. The kubelet asks a registry again for
    # each image that it has pulled from one, by its ID; other tests need those under their own names without one.
    archives = {platform.machine(): {archive.stem: archive for archive in images.build(PUSHED)}}
    own = {name: CRANE.build() for name, machine in MACHINES.items() if machine == platform.machine()}
    pack_images(archives, sources, own, release)
    pack_chart(sources, release)
    write_sums(release)
    pack_offline(sources, release)
    (archive,) = release.glob("*.tar")
    subprocess.run(["sha256sum", "-c", f"{archive.name}.sha256"], cwd=release, check=True, capture_output=True)
    assert any(
        member.name == "opt/gapless/clean.sh" and member.mtime == FIXED for member in files_in(release, "operator")
    )
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
    return into / f"gapless-{VERSION}"


def files_in(release: Path, image: str) -> Iterator[tarfile.TarInfo]:
    """Yield all members of the layers of an image."""
    for blob in (release / "images" / image / "blobs" / "sha256").iterdir():
        with contextlib.suppress(tarfile.ReadError), tarfile.open(blob) as layer:
            yield from layer


def test_an_installation_takes_its_images_from_the_registry_that_the_archive_was_loaded_into(
    cluster: Cluster, installed: Installation, make_site: SiteFactory, unpacked: Path, tmp_path: Path
) -> None:
    crane, values = unpacked / "images" / f"crane-{platform.machine()}", tmp_path / "values.yaml"
    with registry(crane, tmp_path) as address:
        loaded = load(unpacked, address, f"--values={values}")
        assert loaded.returncode == 0, loaded.stderr
        digests = {name: digest for digest, name in map(str.split, (unpacked / DIGESTS).read_text().splitlines())}
        assert yaml.safe_load(values.read_text()) == {
            "image": {"registry": address},
            "images": {name: {"tag": VERSION, "digest": digest} for name, digest in digests.items()},
        }
        try:
            install(installed, unpacked, values)
            place = f"{address}/gapless"
            (operator,) = cluster.list("pod", OPERATOR_NAMESPACE, "app.kubernetes.io/component=operator")
            assert operator["spec"]["containers"][0]["image"] == f"{place}/operator@{digests['operator']}"
            site = make_site()
            site.fill(100)
            live = f"{site.name}-live"
            cluster.apply(site.diode(), site.everything(live))
            cluster.wait_for("resend", live, "Succeeded", namespace=SENDER_NAMESPACE, timeout_seconds=180)
            (job,) = cluster.list("job", SENDER_NAMESPACE, f"gapless.dev/name={live}")
            (container,) = job["spec"]["template"]["spec"]["containers"]
            assert container["image"] == f"{place}/sender@{digests['sender']}"
        finally:
            installed.upgrade()


def test_one_image_is_for_machines_of_two_architectures(tmp_path: Path) -> None:
    release = tmp_path / "made" / VERSION
    release.mkdir(parents=True)
    (tmp_path / "root.tar").write_bytes(bytes(10240))
    made = {machine: {"tiny": tmp_path / machine} for machine in ARCHITECTURES}
    for machine, images_of in made.items():
        pack_root(ImageForm("tiny:1", ("/tiny",)), tmp_path / "root.tar", machine, images_of["tiny"])
    own = {name: CRANE.build() for machine, name in ARCHITECTURES.items() if machine == platform.machine()}
    pack_images(made, Sources(CHECKOUT, "a" * 40, 1_580_601_600, VERSION), own, release)
    (listed,) = json.loads((release / "images" / "tiny" / "index.json").read_text())["manifests"]
    assert f"{listed['digest']}  tiny\n" == (release / DIGESTS).read_text()
    index = json.loads((release / "images/tiny/blobs/sha256" / listed["digest"].removeprefix("sha256:")).read_text())
    assert {each["platform"]["architecture"] for each in index["manifests"]} == set(ARCHITECTURES.values())


def test_what_is_damaged_or_cannot_be_pushed_is_said_and_no_values_are_written(unpacked: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    away = load(unpacked, "127.0.0.1:9", f"--values={values}")
    assert (away.returncode, away.stderr.splitlines()[-1]) == (
        3,
        f"load.sh: 127.0.0.1:9 did not take 127.0.0.1:9/gapless/operator:{VERSION}.",
    )
    for arguments, said in (
        (
            ["https://registry.example"],
            "load.sh: https://registry.example is not a registry: give its name without https://.",
        ),
        (["a.example", "b.example"], "load.sh: Give one registry, and not a.example and b.example."),
        (["a.example", "--force"], "load.sh: --force is unknown: see ./load.sh --help."),
    ):
        refused = load(unpacked, *arguments)
        assert (refused.returncode, refused.stderr.splitlines()) == (2, [said])
    (unpacked / DIGESTS).write_text(re.sub("sha256:.", "sha256:x", (unpacked / DIGESTS).read_text()))
    damaged = load(unpacked, "127.0.0.1:9", f"--values={values}")
    assert (damaged.returncode, damaged.stderr.splitlines()[-1]) == (
        2,
        "load.sh: This release is damaged: copy it again.",
    )
    # Digests of other images, in a release that is whole in itself: what the registry answers counts.
    write_sums(unpacked)
    with registry(unpacked / "images" / f"crane-{platform.machine()}", tmp_path) as address:
        other = load(unpacked, address, f"--values={values}")
    image = f"{address}/gapless/operator:{VERSION}"
    assert other.returncode == 3
    assert other.stderr.splitlines()[-1].startswith(f"load.sh: {address} has another image as {image}: sha256:")
    assert list(tmp_path.glob("values*")) == []


def load(release: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a release in its folder, as a person does."""
    return subprocess.run(
        ["./load.sh", *arguments], cwd=release, check=False, capture_output=True, text=True, timeout=300
    )


@contextlib.contextmanager
def registry(crane: Path, folder: Path) -> Iterator[str]:
    """Run a registry on loopback of the node; yield its address."""
    blobs, log = folder / "blobs", folder / "registry.log"
    blobs.mkdir()
    command = [crane, "registry", "serve", "--address=127.0.0.1:0", f"--disk={blobs}"]
    with log.open("wb") as said:
        serving = start_bound(command, stderr=said)
    try:
        wait_until(lambda: "serving on port" in log.read_text(), what="the registry")
        yield f"127.0.0.1:{log.read_text().split()[-1]}"
    finally:
        end(serving)


def install(installed: Installation, release: Path, values: Path) -> None:
    """Install the chart of a release with its images, and otherwise as for the other tests."""
    own = {name: value for name, value in installed.values.items() if not name.startswith("images.")}
    own["image.pullPolicy"] = "Always"
    settings = [f"--set-json={name}={json.dumps(value)}" for name, value in own.items()]
    chart = release / f"gapless-chart-{VERSION}.tgz"
    options = (f"--namespace={OPERATOR_NAMESPACE}", "--wait", "--timeout=3m", f"--values={values}")
    installed.cluster.helm("upgrade", RELEASE, str(chart), *options, *settings)
