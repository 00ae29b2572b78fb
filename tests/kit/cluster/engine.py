"""The engine that builds images: Docker or Podman if one works, else a private Docker engine.

Must not know which images are built. The private engine is Debian's, unpacked into the cache, and runs in its own mount
and PID namespaces during a build. It needs no registry: its base image is built from Debian packages.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kit.cluster import cgroups
from kit.cluster.architectures import ARCHITECTURES, machine
from kit.cluster.archives import ImageForm, pack_root
from kit.cluster.namespaces import child_of
from kit.cluster.packages import install
from kit.cluster.places import ClusterError, places
from kit.cluster.shell import run, stage, works
from kit.machine.maven import file_lock
from kit.machine.processes import end, start_bound, wait_until

LOCAL_BASE = "gapless-kit/python:3.11"
"""The base image of the private engine, equivalent to python:slim, which is Debian with another Python."""

_ENGINE_PACKAGES = {"containerd": "containerd", "runc": "runc"}
_SETTINGS = {"builder": {"gc": {"enabled": True, "defaultKeepStorage": "8GB"}}}
"""Limits the build cache; the default is a tenth of the disk."""

_SUITE = "bookworm"
_PACKAGES = ("python3", "python3-venv", "ca-certificates")
_REMOVED_FOLDERS = ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")
_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


@dataclass(frozen=True)
class Engine:
    """A program that builds images from Dockerfiles."""

    program: str
    base: str | None = None
    """The default base image; None for that of the Dockerfile."""
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def base_for(self, architecture: str) -> str | None:
        """Return the default base image for an architecture; ``None`` for that of the Dockerfile.

        Raises:
            ClusterError: the packages of the base image cannot be installed.
        """
        if self.base is None or architecture == machine():
            return self.base
        return _import_base(self.environment, architecture)

    def build(
        self, dockerfile: Path, context: Path, tag: str, arguments: Mapping[str, str], *, architecture: str
    ) -> None:
        """Build an image for an architecture, which this machine must be able to run.

        Raises:
            ClusterError: a step failed; contains the end of the engine's output.
        """
        options = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
        if architecture != machine():
            options += ["--platform", f"linux/{ARCHITECTURES[architecture]}"]
        progress = ["--progress=plain"] if self.program == "docker" else []
        # The network is needed only for packages of the base image's distribution.
        run(
            [self.program, "build", *progress, "--network=host", "-f", dockerfile, "-t", tag, *options, context],
            what=f"Building the image {tag}",
            environment=self.environment,
        )

    def save(self, tags: Sequence[str], archive: Path) -> None:
        """Write images to one archive for Docker and containerd."""
        temporary = archive.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        several = ["--multi-image-archive"] if self.program == "podman" and len(tags) > 1 else []
        command = ["save", *several, "-o", str(temporary), *tags]
        run([self.program, *command], what=f"Saving the images {' '.join(tags)}", environment=self.environment)
        temporary.rename(archive)

    def size_bytes(self, tag: str) -> int:
        """Return the unpacked size of an image."""
        command = ["image", "inspect", "--format={{.Size}}", tag]
        return int(run([self.program, *command], what=f"Inspecting {tag}", environment=self.environment))


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """Yield a working engine for the block.

    Raises:
        ClusterError: no engine works, and a private one cannot run here.
    """
    program = _installed_engine()
    if program is not None:
        yield Engine(program)
        return
    with file_lock(places().engine / "lock"), _private_engine() as private:
        yield private


def prepare() -> None:
    """Download the private engine and its base image, if it is needed.

    Raises:
        ClusterError: a download or the installation of packages failed.
    """
    if _installed_engine() is None:
        install(_ENGINE_PACKAGES, reason="runs the steps of image builds")
        _unpacked_engine()
        _base_archive(machine())


def _installed_engine() -> str | None:
    return next((program for program in ("docker", "podman") if works(program, "info")), None)


@contextlib.contextmanager
def _private_engine() -> Iterator[Engine]:
    if os.geteuid() != 0:
        raise ClusterError("Building images needs Docker, Podman or root: start one of them, or run this as root.")
    install(_ENGINE_PACKAGES, reason="runs the steps of image builds")
    programs = _unpacked_engine()
    folder = places().engine
    socket = folder / "socket"
    socket.unlink(missing_ok=True)
    environment = os.environ | {
        "PATH": f"{programs / 'bin'}:{programs / 'sbin'}:{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin",
        "DOCKER_HOST": f"unix://{socket}",
        "DOCKER_CONFIG": str(folder / "config"),
        "DOCKER_BUILDKIT": "1",
    }
    group = f"{places().control_group}-images"
    options = [
        f"--config-file={folder / 'settings.json'}",
        f"--data-root={folder / 'data'}",
        f"--exec-root={folder / 'exec'}",
        f"--pidfile={folder / 'pid'}",
        f"--host=unix://{socket}",
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
        "--ip-forward=false",
        "--ip-masq=false",
        f"--cgroup-parent=/{group}",
    ]
    unshare: list[str | Path] = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--propagation=private",
    ]
    shell = 'mount --make-rshared / && exec dockerd "$@"'
    (folder / "pid").unlink(missing_ok=True)
    (folder / "settings.json").write_text(json.dumps(_SETTINGS))
    with (folder / "log").open("wb") as log:
        outer = start_bound(
            [*unshare, "sh", "-c", shell, "dockerd", *options], stdout=log, stderr=log, environment=environment
        )
    try:
        _await_engine(outer, environment)
        yield Engine("docker", _import_base(environment, machine()), environment)
        run(["docker", "image", "prune", "--force"], what="Removing replaced images", environment=environment)
    finally:
        inner = child_of(outer.pid)
        if inner is not None:
            os.kill(inner, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                outer.wait(20)
        end(outer)
        cgroups.remove(group)


def _unpacked_engine() -> Path:
    """Unpack Debian's Docker without installing it, so that no daemon starts on the machine."""
    folder = places().engine / "unpacked"
    if not (folder / "usr" / "sbin" / "dockerd").exists():
        apt = shutil.which("apt-get")
        if apt is None:
            raise ClusterError("Building images needs Docker or Podman: install one of them, and retry.")
        with stage("Docker engine for building images: downloading Debian's package (60 MB)"):
            fetched = places().engine / "fetched"
            fetched.mkdir(parents=True, exist_ok=True)
            run([apt, "update", "-qq"], what="Updating the lists of Debian packages")
            run([apt, "download", "-qq", "docker.io"], what="Downloading the package docker.io", folder=fetched)
            for package in fetched.glob("docker.io_*.deb"):
                run(["dpkg", "-x", package, folder], what="Unpacking the package docker.io")
    return folder / "usr"


def _await_engine(outer: subprocess.Popen[bytes], environment: dict[str, str]) -> None:
    def answers() -> bool:
        if outer.poll() is not None:
            log = (places().engine / "log").read_text(errors="replace")[-1000:]
            raise ClusterError(f"The Docker engine for building images did not start: {log}")
        command = ["docker", "version"]
        time.sleep(0.1)
        return subprocess.run(command, check=False, capture_output=True, env=environment).returncode == 0

    wait_until(answers, what="the first answer of the Docker engine")


def _import_base(environment: dict[str, str], architecture: str) -> str:
    """Give the private engine a base image for an architecture, and return its tag."""
    tag = LOCAL_BASE if architecture == machine() else f"{LOCAL_BASE}-{architecture}"
    inspect = ["docker", "image", "inspect", tag]
    if subprocess.run(inspect, check=False, capture_output=True, env=environment).returncode != 0:
        archive = places().engine / "base.tar"
        pack_root(ImageForm(tag, ("python3",), environment=_PATH), _base_archive(architecture), architecture, archive)
        run(
            ["docker", "load", "--quiet", f"--input={archive}"],
            what="Importing the base image",
            environment=environment,
        )
        archive.unlink()
    return tag


def _base_archive(architecture: str) -> Path:
    """Return the root filesystem of the base image from the cache; build it from Debian packages if it is missing."""
    other = "" if architecture == machine() else f"-{architecture}"
    archive = places().images / f"python-{_SUITE}{other}.rootfs.tar"
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    install({"debootstrap": "debootstrap"}, reason="builds the base image")
    root = places().images / f"python-root{other}"
    with stage("base image: Debian with Python 3.11, from packages (1 to 2 minutes)"):
        shutil.rmtree(root, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}"]
        command += [f"--arch={ARCHITECTURES[architecture]}"] if other else []
        command += [_SUITE, str(root)]
        run([*command, *_mirror()], what="Building the base image with debootstrap")
        for path in _REMOVED_FOLDERS:
            shutil.rmtree(root / path, ignore_errors=True)
            (root / path).mkdir(parents=True)
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        temporary = archive.with_suffix(".new")
        excluded = [f"--exclude=./{folder}/*" for folder in ("proc", "sys", "dev")]
        run(["tar", "-C", root, *excluded, "-cf", temporary, "."], what="Packing the base image")
        temporary.rename(archive)
        shutil.rmtree(root, ignore_errors=True)
    return archive


def _mirror() -> list[str]:
    """Return this machine's package mirror if it has the base image's suite, else nothing for debootstrap's default."""
    fields = "$(ORIGIN)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)"
    listed = run(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"], what="Listing apt mirrors")
    for line in listed.splitlines():
        mirror = re.match(rf"Debian\|{_SUITE}\|main\|(\S+)$", line)
        if mirror:
            return [mirror[1]]
    return []
