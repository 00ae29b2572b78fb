"""The two base images of the node: the pause image of pod sandboxes, and busybox for small test pods.

Must not know the product's images. Both contain only Debian's statically linked busybox.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from kit.cluster.archives import ImageForm, write_archive
from kit.cluster.configuration import SANDBOX_IMAGE
from kit.cluster.packages import find
from kit.cluster.places import ClusterError, places

BUSYBOX_IMAGE = "docker.io/gapless-kit/busybox:1"

_PATH = {"PATH": "/bin"}
_FORMS = {
    # A sandbox only has to keep running; containerd stops it with SIGKILL.
    "pause": ImageForm(SANDBOX_IMAGE, ("/bin/sleep", "infinity"), "65535:65535", _PATH),
    "busybox": ImageForm(BUSYBOX_IMAGE, ("/bin/sh",), "", _PATH),
}


def base_archives() -> list[Path]:
    """Return the archives from the cache; build them if they are missing."""
    folder = places().images
    folder.mkdir(parents=True, exist_ok=True)
    archives = {name: folder / f"{name}.tar" for name in _FORMS}
    if not all(archive.exists() for archive in archives.values()):
        with tempfile.TemporaryDirectory(prefix="gapless-image-") as temporary:
            root = Path(temporary)
            _install_busybox(root)
            for name, archive in archives.items():
                write_archive(_FORMS[name], root, archive)
    return list(archives.values())


def _install_busybox(root: Path) -> None:
    program = find("busybox")
    if program is None:
        raise ClusterError("The program busybox is missing: install the Debian package busybox-static.")
    for folder in ("bin", "etc", "proc", "sys", "dev", "tmp"):
        (root / folder).mkdir()
    (root / "tmp").chmod(0o1777)
    shutil.copy(program, root / "bin" / "busybox")
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for applet in listed:
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
