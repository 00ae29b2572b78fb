"""Building the product's images and the Spark operator's: their contents, when to rebuild them, and the archives.

Must not know how an engine works. `python -m kit.cluster.images` builds changed images. Packages are installed outside
the engine and verified by their hashes, so that no build step needs a package index or the machine's certificates.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.cluster.architectures import ARCHITECTURES, emulate, machine
from kit.cluster.build import SPARK_OPERATOR
from kit.cluster.client_source import client_source
from kit.cluster.engine import Engine, engine
from kit.cluster.places import CHECKOUT, HERE, ClusterError
from kit.cluster.shell import run, say, stage
from kit.machine.maven import file_lock

PYTHON = "3.11"
"""The version in the base image, independent of the one that runs this."""

ARCHIVES = CHECKOUT / "build" / "images"
_UV = CHECKOUT / ".tools" / "bin" / "uv"


@dataclass(frozen=True)
class Image:
    """One image.

    Args:
        name: of gapless/NAME, and of the folder images/NAME with its Dockerfile and requirements.lock.
        packages: folders of the product's packages in it.
        after: its base image, which its archive contains, too.
    """

    name: str
    packages: tuple[str, ...] = ()
    after: str | None = None

    @property
    def dockerfile(self) -> Path:
        """The path of the Dockerfile."""
        folder = CHECKOUT / "images" / self.name if self.packages else HERE / self.name
        return folder / "Dockerfile"

    def archive(self, architecture: str) -> Path:
        """Return the archive of the image for an architecture."""
        return ARCHIVES / f"{self.name}{_suffix(architecture)}.tar"

    @property
    def prepared(self) -> Path:
        """The folder that the Dockerfile copies."""
        return ARCHIVES / self.name

    @property
    def has_client(self) -> bool:
        """Whether it has a Kafka client."""
        return "kafka" in self.packages

    def tag(self, version: str, architecture: str) -> str:
        """Return its full name."""
        return f"gapless/{self.name}:{version}{_suffix(architecture)}"

    def sources(self) -> Iterable[Path]:
        """Yield every input file of the build."""
        yield self.dockerfile
        if not self.packages:
            yield SPARK_OPERATOR.build()
            return
        yield from sorted(path for path in self.dockerfile.parent.iterdir() if path != self.dockerfile)
        yield CHECKOUT / "images" / "clean.sh"
        yield from sorted((CHECKOUT / "images" / "bin").iterdir())
        if self.has_client:
            yield from sorted((CHECKOUT / "images" / "client").iterdir())
            yield client_source()
        for package in self.packages:
            for path in sorted((CHECKOUT / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield path


IMAGES = (
    Image("sender", ("crds", "kafka", "mirror", "archive", "sender")),
    Image("operator", ("crds", "operator")),
    Image("spark", ("crds", "kafka", "mirror", "archive", "spark")),
    Image("spark-operator", after="spark"),
)


def build(
    names: Sequence[str], version: str = "dev", base: str | None = None, architecture: str | None = None
) -> list[Path]:
    """Build the images that changed and return the archives of all that are named.

    Args:
        names: of `IMAGES`.
        version: their tag.
        base: base image, instead of the Dockerfile's.
        architecture: of `ARCHITECTURES`; that of this machine if not given. QEMU runs the steps of another one.

    Raises:
        ClusterError: a program is missing, or a build failed.
    """
    selected, architecture = [image for image in IMAGES if image.name in names], architecture or machine()
    with file_lock(ARCHIVES / "lock"):
        digests: dict[str, str] = {}
        for image in IMAGES:
            if image in selected or any(each.after == image.name for each in selected):
                after = digests.get(image.after or "", "")
                digests[image.name] = _digest(image, f"{version}|{base}|{after}")
        built = {image.name: image.archive(architecture) for image in selected}
        stale = [image for image in selected if not _is_current(built[image.name], digests[image.name])]
        if stale:
            emulate(architecture)
            with engine() as builder:
                for image in stale:
                    _build(builder, image, version, base, architecture)
                    _digest_file(built[image.name]).write_text(digests[image.name])
    return list(built.values())


def _build(builder: Engine, image: Image, version: str, base: str | None, architecture: str) -> None:
    """Build and save an image and, before it, its base image; the archive contains both, because they share layers."""
    tags: list[str] = []
    for each in (*(below for below in IMAGES if below.name == image.after), image):
        tag = each.tag(version, architecture)
        with stage(f"image {tag}"):
            _prepare(each, architecture)
            arguments = {"VERSION": version, "REVISION": _revision()}
            if each.after:
                arguments["BASE"] = tags[-1]
            elif own_base := base or builder.base_for(architecture):
                arguments["BASE"] = own_base
                arguments["BUILD_BASE"] = base or builder.base or ""
            builder.build(each.dockerfile, CHECKOUT, tag, arguments, architecture=architecture)
            tags.append(tag)
    builder.save(tags, image.archive(architecture))
    say(f"    {tags[-1]}: {builder.size_bytes(tags[-1]) / 1e6:.0f} MB unpacked")


def _prepare(image: Image, architecture: str) -> None:
    """Fill the folder that the Dockerfile copies."""
    image.prepared.mkdir(parents=True, exist_ok=True)
    if not image.packages:
        shutil.copy2(SPARK_OPERATOR.build(), image.prepared / SPARK_OPERATOR.name)
        return
    if image.has_client:
        shutil.copyfile(client_source(), ARCHIVES / "librdkafka.tgz")
    site, own, wheels = (image.prepared / folder for folder in ("site", "own", "wheels"))
    into: list[str | Path] = [_UV, "pip", "install", "--quiet", f"--python-version={PYTHON}"]
    into += [f"--python-platform={architecture}-manylinux_2_36", f"--python={sys.executable}"]
    lock = image.dockerfile.with_name("requirements.lock")
    # Dependencies change rarely, and an engine reads only files that are newer than its copy.
    installed, wanted = image.prepared / "installed", f"{architecture}\n{lock.read_text()}"
    if not installed.exists() or installed.read_text() != wanted:
        shutil.rmtree(site, ignore_errors=True)
        run([*into, f"--target={site}", "--require-hashes", "-r", lock], what=f"Installing {lock}")
        installed.write_text(wanted)
    for folder in (own, wheels):
        shutil.rmtree(folder, ignore_errors=True)
    for package in image.packages:
        command: list[str | Path] = [_UV, "build", "--quiet", "--wheel", CHECKOUT / package, f"--out-dir={wheels}"]
        run(command, what=f"Building the package in {package}/")
    built = sorted(wheels.glob("*.whl"))
    run([*into, f"--target={own}", "--no-deps", *built], what=f"Installing the packages of {image.name}")
    for folder in (site, own):
        _remove_traces(folder)


def _remove_traces(folder: Path) -> None:
    """Remove what tells how and where packages were installed: scripts, notes of uv, and their lines in the records.

    Scripts contain the path of the Python that installed them; the image has another.
    """
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for note in (
        folder / ".lock",
        *folder.glob("*.dist-info/uv_cache.json"),
        *folder.glob("*.dist-info/direct_url.json"),
    ):
        note.unlink(missing_ok=True)
    for record in folder.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        present = [line for line in lines if (folder / next(csv.reader([line]))[0]).exists()]
        if present != lines:
            record.unlink()  # It may be a link to uv's cache.
            record.write_text("".join(present))


def _digest(image: Image, more: str) -> str:
    state = hashlib.sha256(more.encode())
    for path in image.sources():
        state.update(str(path).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def _digest_file(archive: Path) -> Path:
    return archive.with_suffix(".digest")


def _is_current(archive: Path, digest: str) -> bool:
    return archive.exists() and _digest_file(archive).exists() and _digest_file(archive).read_text() == digest


def _suffix(architecture: str) -> str:
    """Return what names of images for another architecture than that of this machine end with."""
    return "" if architecture == machine() else f"-{ARCHITECTURES[architecture]}"


def _revision() -> str:
    """Return the commit; ``GAPLESS_REVISION`` names that of sources that were exported from one."""
    if revision := os.environ.get("GAPLESS_REVISION"):
        return revision
    try:
        return run(["git", "-C", CHECKOUT, "rev-parse", "HEAD"], what="Reading the git revision").strip()
    except ClusterError:
        return "unknown"  # a release archive has no git history


def main() -> None:
    """Build the images in the command line."""
    parser = argparse.ArgumentParser(prog="python -m kit.cluster.images", description="Build the container images.")
    products = [image.name for image in IMAGES if image.packages]
    parser.add_argument("names", nargs="*", default=products, help=f"of {', '.join(i.name for i in IMAGES)}")
    parser.add_argument("--version", default=os.environ.get("IMAGE_VERSION", "dev"))
    parser.add_argument("--base", default=os.environ.get("BASE") or None, help="base image (default: the Dockerfile's)")
    parser.add_argument("--architecture", choices=ARCHITECTURES, help="instead of that of this machine; QEMU runs it")
    options = parser.parse_args()
    try:
        for archive in build(options.names, options.version, options.base, options.architecture):
            print(archive)
    except ClusterError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
