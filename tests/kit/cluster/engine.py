"""Owns the choice of what builds images: Docker or Podman where one works, else a Docker engine of our own.

Must not know which images are built. Our own engine is Debian's, unpacked into the cache and run in mounts and process
ids of its own for as long as images are built; it needs no registry, its base image is made of Debian packages.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kit.cluster import cgroups
from kit.cluster.namespaces import child_of
from kit.cluster.packages import install
from kit.cluster.places import ClusterError, places
from kit.cluster.shell import run, stage, works
from kit.machine.maven import file_lock
from kit.machine.processes import end, start_bound, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

LOCAL_BASE = "gapless-kit/python:3.11"
"""The base of our own engine: like Python's own slim image, which is Debian's with another Python."""

_ENGINE_PACKAGES = {"containerd": "containerd", "runc": "runc"}
_SETTINGS = {"builder": {"gc": {"enabled": True, "defaultKeepStorage": "8GB"}}}
"""How many steps of past builds are kept; the default is a tenth of the disk."""

_SUITE = "bookworm"
_PACKAGES = ("python3", "python3-venv", "ca-certificates")
_NOT_NEEDED = ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Engine:
    """A program that builds from Dockerfiles."""

    program: str
    base: str | None = None
    """The base image to use where nobody named one; None: that of the Dockerfile."""
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def build(self, dockerfile: Path, context: Path, tag: str, arguments: Mapping[str, str]) -> None:
        """Build an image.

        Raises:
            ClusterError: a step failed; with the engine's last words.
        """
        options = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
        progress = ["--progress=plain"] if self.program == "docker" else []
        # The network is only for packages of the base's own distribution.
        run(
            [self.program, "build", *progress, "--network=host", "-f", dockerfile, "-t", tag, *options, context],
            what=f"Building the image {tag}",
            environment=self.environment,
        )

    def save(self, tags: Sequence[str], archive: Path) -> None:
        """Write images as one archive that Docker and containerd load."""
        fresh = archive.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        several = ["--multi-image-archive"] if self.program == "podman" and len(tags) > 1 else []
        command = ["save", *several, "-o", str(fresh), *tags]
        run([self.program, *command], what=f"Saving the images {' '.join(tags)}", environment=self.environment)
        fresh.rename(archive)

    def size_bytes(self, tag: str) -> int:
        """How large an image is when it is unpacked."""
        form = ["image", "inspect", "--format={{.Size}}", tag]
        return int(run([self.program, *form], what=f"Asking about {tag}", environment=self.environment))


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """Give an engine that works, for the time of the block.

    Raises:
        ClusterError: there is none, and none can be had here.
    """
    found = _found()
    if found is not None:
        yield Engine(found)
        return
    with file_lock(places().engine / "lock"), _own_engine() as made:
        yield made


def prepare() -> None:
    """Fetch what an engine of our own needs, if there is no other.

    Raises:
        ClusterError: it cannot be had here.
    """
    if _found() is None:
        install(_ENGINE_PACKAGES, reason="runs the steps of image builds")
        _unpacked_engine()
        _base_archive()


def _found() -> str | None:
    return next((program for program in ("docker", "podman") if works(program, "info")), None)


@contextlib.contextmanager
def _own_engine() -> Iterator[Engine]:
    if os.geteuid() != 0:
        raise ClusterError("Images are built by Docker or Podman, or else by root: start one of them, or be root.")
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
    own: list[str | Path] = [
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
            [*own, "sh", "-c", shell, "dockerd", *options], stdout=log, stderr=log, environment=environment
        )
    try:
        _await_engine(outer, environment)
        made = Engine("docker", LOCAL_BASE, environment)
        _import_base(made)
        yield made
        run(["docker", "image", "prune", "--force"], what="Forgetting replaced images", environment=environment)
    finally:
        inner = child_of(outer.pid)
        if inner is not None:
            os.kill(inner, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                outer.wait(20)
        end(outer)
        cgroups.remove(group)


def _unpacked_engine() -> Path:
    """Unpack Debian's Docker without installing it, so that no daemon is started on the machine."""
    folder = places().engine / "unpacked"
    if not (folder / "usr" / "sbin" / "dockerd").exists():
        apt = shutil.which("apt-get")
        if apt is None:
            raise ClusterError("Images are built by Docker or Podman: install one of them, and try again.")
        with stage("Docker engine for building images: fetching Debian's (60 MB)"):
            fetched = places().engine / "fetched"
            fetched.mkdir(parents=True, exist_ok=True)
            run([apt, "update", "-qq"], what="Reading the lists of Debian packages")
            run([apt, "download", "-qq", "docker.io"], what="Fetching the package docker.io", folder=fetched)
            for package in fetched.glob("docker.io_*.deb"):
                run(["dpkg", "-x", package, folder], what="Unpacking the package docker.io")
    return folder / "usr"


def _await_engine(outer: subprocess.Popen[bytes], environment: dict[str, str]) -> None:
    def answers() -> bool:
        if outer.poll() is not None:
            words = (places().engine / "log").read_text(errors="replace")[-1000:]
            raise ClusterError(f"The Docker engine for building images did not start: {words}")
        asked = ["docker", "version"]
        time.sleep(0.1)
        return subprocess.run(asked, check=False, capture_output=True, env=environment).returncode == 0

    wait_until(answers, timeout_seconds=60, what="the first answer of the Docker engine")


def _import_base(made: Engine) -> None:
    asked = ["docker", "image", "inspect", LOCAL_BASE]
    if subprocess.run(asked, check=False, capture_output=True, env=made.environment).returncode != 0:
        command: list[str | Path] = [
            "docker",
            "import",
            "-c",
            f"ENV {_PATH}",
            "-c",
            'CMD ["python3"]',
            _base_archive(),
            LOCAL_BASE,
        ]
        run(command, what="Importing the base image", environment=made.environment)


def _base_archive() -> Path:
    """Return the root filesystem of the base image; make it from Debian packages when the cache has none."""
    archive = places().images / f"python-{_SUITE}.rootfs.tar"
    if archive.exists():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    install({"debootstrap": "debootstrap"}, reason="makes the base image")
    root = places().images / "python-root"
    with stage("base image: Debian with Python 3.11, from packages (1 to 2 minutes)"):
        shutil.rmtree(root, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", _SUITE, str(root)]
        run([*command, *_mirror()], what="Making the base image with debootstrap")
        for path in _NOT_NEEDED:
            shutil.rmtree(root / path, ignore_errors=True)
            (root / path).mkdir(parents=True)
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        fresh = archive.with_suffix(".new")
        excluded = [f"--exclude=./{folder}/*" for folder in ("proc", "sys", "dev")]
        run(["tar", "-C", root, *excluded, "-cf", fresh, "."], what="Packing the base image")
        fresh.rename(archive)
        shutil.rmtree(root, ignore_errors=True)
    return archive


def _mirror() -> list[str]:
    """The mirror this machine takes its own packages from, if it has those of the base image; else debootstrap's."""
    form = "$(ORIGIN)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)"
    listed = run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"], what="Asking apt for mirrors")
    for line in listed.splitlines():
        found = re.match(rf"Debian\|{_SUITE}\|main\|(\S+)$", line)
        if found:
            return [found[1]]
    return []


def machine() -> str:
    """The processor, as wheels name it."""
    return platform.machine()
