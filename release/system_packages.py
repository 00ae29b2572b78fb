"""The packages for Debian and for RPM: all but Spark, for one version of Python and one architecture.

They hold the command with its modules, manual pages, completions, and the systemd unit with its user. Must not know
how packages are written: nfpm does that.
"""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from release.manual import write_manual
from release.steps import ReleaseError, build_go, run, say

if TYPE_CHECKING:
    from release.packages import Target
    from release.sources import Sources

UNITS = Path("examples/systemd")
_HERE = Path(__file__).parent
_GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}
_MODULES = "usr/lib/gapless"
_OF_THE_INSTALLATION = ("__pycache__", "bin", ".lock", "uv_cache.json", "RECORD", "INSTALLER", "REQUESTED")
"""What says how and when the packages were installed, but not what they are."""
_UNIT_COMMAND = "/opt/gapless/bin/gapless"
"""Where the unit of the examples looks for the command."""


class SystemPackages:
    """Writes the packages of all targets; `folder` is for what they share."""

    def __init__(self, sources: Sources, own_site: Path, folder: Path) -> None:
        """Build nfpm, and write the manual.

        Args:
            sources: of the release.
            own_site: the folder of the installed packages, for the Python that runs this.
            folder: empty.

        Raises:
            ReleaseError: there is no Go, or its modules cannot be fetched.
        """
        self._sources, self._shared = sources, folder / "shared"
        say("manual pages and completions, and nfpm (a minute the first time)")
        self._nfpm = build_go(
            "github.com/goreleaser/nfpm/v2/cmd/nfpm",
            _HERE / "nfpm",
            folder / "nfpm",
            "writes the packages for Debian and RPM; leave them out: --no-system-packages",
        )
        self._write_shared(own_site)

    def write(self, target: Target, site: Path, into: Path) -> None:
        """Write both packages of a target.

        Args:
            target: what they are for.
            site: the folder of its installed packages.
            into: the folder of the release.

        Raises:
            ReleaseError: nfpm refuses.
        """
        say(f"packages for Debian and RPM with Python {target.python} on {target.architecture}")
        python = f"python{target.python}"
        work = self._shared.parent / target.tag
        root = work / "root"
        shutil.copytree(self._shared, root)
        shutil.copytree(site, root / _MODULES, ignore=shutil.ignore_patterns(*_OF_THE_INSTALLATION))
        command = root / "usr/bin/gapless"
        command.parent.mkdir(parents=True)
        command.write_text(_filled("gapless", python))
        self._set_modes(root, command)
        scripts = {name: work / f"{name}.sh" for name in ("postinstall", "preremove")}
        for name, file in scripts.items():
            file.write_text(_filled(f"{name}.sh", python))
        described = work / "nfpm.json"
        described.write_text(json.dumps(self._description(target, root, scripts), indent=1))
        for packager in ("deb", "rpm"):
            # nfpm takes the kind of a link from what has its target's name in the working folder.
            run(self._nfpm, "package", "--config", described, "--packager", packager, "--target", into, folder=work)
        shutil.rmtree(work)

    def _write_shared(self, own_site: Path) -> None:
        """Write what is the same for all targets."""
        share, units = self._shared / "usr/share", self._shared / "usr/lib/systemd/system"
        write_manual(own_site, self._sources.version, self._sources.time, share)
        units.mkdir(parents=True)
        for unit in (self._sources.folder / UNITS).glob("*.service"):
            text = unit.read_text()
            if _UNIT_COMMAND not in text:
                raise ReleaseError(f"{UNITS / unit.name} does not start {_UNIT_COMMAND}.")
            (units / unit.name).write_text(text.replace(_UNIT_COMMAND, "/usr/bin/gapless"))
        documents = share / "doc/gapless"
        documents.mkdir(parents=True)
        shutil.copyfile(self._sources.folder / "gapless/LICENSE", documents / "copyright")
        shutil.copyfile(self._sources.folder / UNITS / "README.md", documents / "README.systemd.md")

    def _set_modes(self, root: Path, command: Path) -> None:
        """Give each file the time of the release, and the same modes whatever the umask was."""
        for path in (root, *root.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path == command else 0o644)
            os.utime(path, (self._sources.time, self._sources.time))

    def _description(self, target: Target, root: Path, scripts: dict[str, Path]) -> dict[str, object]:
        """Return the description of both packages for nfpm."""
        return {
            "name": "gapless",
            "arch": _GOARCH[target.architecture],
            "platform": "linux",
            "version": self._sources.version.replace("rc", "~rc"),
            "version_schema": "none",
            "release": f"1.{target.tag.partition('-')[0]}",
            "section": "net",
            "maintainer": "The Gapless project <gapless@example.com>",
            "description": "Finds events that were lost on a one-way link and sends them again.\n"
            "Also an archive of Kafka topics with restore, and a mirror between clusters.",
            "license": "Apache-2.0",
            "mtime": datetime.fromtimestamp(self._sources.time, UTC).isoformat(),
            "contents": _contents(root),
            "scripts": {name: str(file) for name, file in scripts.items()},
            "deb": {"compression": "zstd"},
            "rpm": {"compression": "zstd", "buildhost": "gapless", "summary": "Finds lost events and sends them again"},
            "overrides": {
                "deb": {"depends": [f"python{target.python}", "passwd"], "recommends": ["util-linux"]},
                "rpm": {"depends": [f"python(abi) = {target.python}", "shadow-utils"], "recommends": ["util-linux"]},
            },
        }


def _contents(root: Path) -> list[dict[str, str]]:
    """Return what a package owns: the folder of the modules, and of other folders only the files."""
    modules, linked = root / _MODULES, {"src": "gapless", "dst": "/usr/bin/kubectl-gapless", "type": "symlink"}
    files = sorted(file for file in root.rglob("*") if file.is_file() and modules not in file.parents)
    others = [{"src": str(file), "dst": f"/{file.relative_to(root)}"} for file in files]
    return [{"src": str(modules), "dst": f"/{_MODULES}", "type": "tree"}, *others, linked]


def _filled(name: str, python: str) -> str:
    return (_HERE / "system" / name).read_text().replace("@PYTHON@", python)
