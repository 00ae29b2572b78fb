"""The images of a release, as OCI layouts, and the archive of a release for closed networks.

Must not know how an image is built: the kit does that, from the sources of the release. crane converts the images, in a
registry of its own on loopback.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from release.layers import settle_times
from release.listing import digest_of
from release.steps import ReleaseError, build_go, run, say

if TYPE_CHECKING:
    from release.sources import Sources

IMAGES = ("operator", "sender", "spark")
DIGESTS = "images/digests"
"""A line for each image, with its digest."""
_HERE = Path(__file__).parent
_CRANE = "github.com/google/go-containerregistry/cmd/crane"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""The architectures that crane is built for, and what `uname -m` prints there."""
_WITHOUT = "leave them out: --no-images"


def machines_of(text: str) -> tuple[str, ...]:
    """Read for which machines images are made, as `uname -m` prints them. Raises ArgumentTypeError."""
    names, known = tuple(text.split()), tuple(MACHINES.values())
    if not names or not set(names) <= set(known):
        raise ArgumentTypeError(f"images are made for {' and '.join(known)}, and not for {text or 'nothing'}")
    return names


def build_images(sources: Sources, tools: Path, machines: Sequence[str]) -> dict[str, dict[str, Path]]:
    """Build the images, and return their archives by the machine that they are for, and by name.

    Args:
        sources: of the release.
        tools: the folder of the program uv.
        machines: their architectures, as `uname -m` prints them; QEMU builds those of others than this machine.

    Raises:
        ReleaseError: there is no engine that builds images, or a build failed.
    """
    (sources.folder / ".tools").symlink_to(tools)
    return {architecture: _build_images(sources, architecture) for architecture in machines}


def _build_images(sources: Sources, architecture: str) -> dict[str, Path]:
    say(f"images for {architecture} (some 15 minutes the first time, and longer for another machine than this)")
    tests = sources.folder / "tests"
    command = (sys.executable, "-m", "kit.cluster.images", *IMAGES, f"--version={sources.version}")
    variables = {"PYTHONPATH": str(tests), "PYTHONDONTWRITEBYTECODE": "1", "GAPLESS_REVISION": sources.commit}
    try:
        made = run(*command, f"--architecture={architecture}", folder=sources.folder, variables=variables)
    except ReleaseError as error:
        raise ReleaseError(f"The images cannot be built; mend this, or {_WITHOUT}. {error}") from None
    return archives_by_name(made)


def archives_by_name(said: str) -> dict[str, Path]:
    """Return the archives in the output of a build by the names of their images, which an architecture may follow."""
    archives = [Path(line) for line in said.splitlines() if line.endswith(".tar")]
    return {archive.stem.partition("-")[0]: archive for archive in archives}


def build_crane(folder: Path) -> dict[str, Path]:
    """Build crane for each architecture, and return the programs.

    Raises:
        ReleaseError: there is no Go, or its modules cannot be fetched.
    """
    say("crane (three minutes the first time)")
    why = f"converts the images; {_WITHOUT}"
    return {
        name: build_go(_CRANE, _HERE / "crane", folder / f"crane-{machine}", why, architecture=name)
        for name, machine in MACHINES.items()
    }


def pack_images(
    archives: Mapping[str, Mapping[str, Path]], sources: Sources, programs: Mapping[str, Path], release: Path
) -> None:
    """Write each image as an OCI layout, the digests, crane, and ``load.sh``, which pushes them into a registry.

    Args:
        archives: of the images, by the machine that they are for, and by name.
        sources: of the release.
        programs: crane, by architecture.
        release: the folder of the release.

    Raises:
        ReleaseError: crane refuses an archive, or is not built for this machine.
    """
    into = release / "images"
    into.mkdir()
    machine = os.uname().machine
    own = next((program for name, program in programs.items() if MACHINES[name] == machine), None)
    if own is None:
        machines = " or ".join(MACHINES.values())
        raise ReleaseError(f"Images cannot be converted on {machine}: use a machine with {machines}, or {_WITHOUT}.")
    lines, settled = [], release.parent / "settled.tar"
    with _registry(own, release.parent / "registry") as address:
        for name in sorted({name for each in archives.values() for name in each}):
            image, ones = f"{address}/{name}:{sources.version}", []
            for architecture, each in sorted(archives.items()):
                ones.append(f"{address}/{name}:{architecture}")
                settle_times(each[name], sources.time, settled)
                run(own, "push", settled, ones[-1])
            run(own, "index", "append", *(f"--manifest={one}" for one in ones), f"--tag={image}")
            run(own, "pull", "--format=oci", image, into / name)
            lines.append(f"{run(own, 'digest', image).strip()}  {name}\n")
    settled.unlink(missing_ok=True)
    (release / DIGESTS).write_text("".join(lines))
    for name, program in programs.items():
        shutil.copy2(program, into / f"crane-{MACHINES[name]}")
    script = release / "load.sh"
    script.write_text((_HERE / "system" / "load.sh").read_text().replace("@VERSION@", sources.version))
    script.chmod(0o755)


def pack_offline(sources: Sources, release: Path) -> None:
    """Write all of a finished release to one archive, with its digest beside it."""
    say("the archive for a closed network")
    folder, archive = f"gapless-{sources.version}", release / f"gapless-offline-{sources.version}.tar"
    partial = release.parent / archive.name
    with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as packed:
        for file in sorted(file for file in release.rglob("*") if file.is_file()):
            member = packed.gettarinfo(file, f"{folder}/{file.relative_to(release)}")
            member.mtime, member.uid, member.gid, member.uname, member.gname = sources.time, 0, 0, "", ""
            member.mode = 0o755 if os.access(file, os.X_OK) else 0o644
            with file.open("rb") as content:
                packed.addfile(member, content)
    shutil.move(partial, archive)
    archive.with_name(f"{archive.name}.sha256").write_text(f"{digest_of(archive)}  {archive.name}\n")


@contextlib.contextmanager
def _registry(crane: Path, folder: Path) -> Iterator[str]:
    """Run a registry on loopback for the block; yield its address."""
    folder.mkdir()
    command = [str(crane), "registry", "serve", "--address=127.0.0.1:0", f"--disk={folder}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        try:
            said = next((line for line in serving.stderr or () if "serving on port" in line), "")
            if not said:
                raise ReleaseError("crane could not serve a registry on 127.0.0.1.")
            yield f"127.0.0.1:{said.split()[-1]}"
        finally:
            serving.terminate()
    shutil.rmtree(folder)
