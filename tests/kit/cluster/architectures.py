"""The architectures of machines: their names, and running programs of another one, which QEMU starts.

Must not know what runs.
"""

from __future__ import annotations

import platform
from pathlib import Path

from kit.cluster.packages import install
from kit.cluster.places import ClusterError
from kit.cluster.shell import run

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""In the naming of wheels and of `uname -m`, and in that of Debian, Go and registries."""
_KERNEL = Path("/proc/sys/fs/binfmt_misc")
_FORMATS = Path("/usr/lib/binfmt.d")
"""How Debian's package tells the kernel to start each architecture."""


def machine() -> str:
    """Return the architecture of this machine in the naming of wheels."""
    return platform.machine()


def emulate(architecture: str) -> None:
    """Let this machine run programs of an architecture, also in containers.

    Raises:
        ClusterError: it cannot, and the package of QEMU cannot be installed here.
    """
    known = _KERNEL / f"qemu-{architecture}"
    if architecture == machine() or known.exists():
        return
    install({f"qemu-{architecture}-static": "qemu-user-static"}, reason=f"runs programs for {architecture}")
    try:
        if not (_KERNEL / "register").exists():
            run(["mount", "-t", "binfmt_misc", "binfmt_misc", _KERNEL], what="Mounting binfmt_misc")
        if not known.exists():
            (_KERNEL / "register").write_bytes((_FORMATS / f"{known.name}.conf").read_bytes().strip())
    except OSError as error:
        raise ClusterError(
            f"The kernel of this machine does not run programs for {architecture} ({error.strerror}): use a machine of "
            f"that architecture, or one where QEMU can be registered."
        ) from None
