"""The sources of librdkafka for the images, whose Kafka client has Kerberos. Must not know how they are built.

They are part of Confluent's client for JavaScript, and the only ones that come from a package registry.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
from pathlib import Path

from kit.cluster.places import ClusterError
from kit.cluster.shell import run, say
from kit.machine.maven import cache_folder, file_lock

_PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
"""It has librdkafka 2.15.1, the version that `images/client/constraints.txt` names."""
_SHA512 = "KVePUBn21EqCVP9mfxzEuM3SYJHHEF7X+iiC2e43QQgDSyEaksInmCGooT3w5q+cNAdkSCrK71j0ICfqoSqZLw=="


def client_source() -> Path:
    """Return the archive of the package, from the cache or from the registry.

    Raises:
        ClusterError: npm is missing or failed, or the archive is not the expected one.
    """
    archive = cache_folder() / "client" / f"{_SHA512[:12].replace('/', '_')}.tgz"
    with file_lock(cache_folder() / "client.lock"):
        if not archive.exists():
            say(f"sources of librdkafka, in {_PACKAGE} (3 MB, by npm)")
            _fetch(archive)
    return archive


def _fetch(archive: Path) -> None:
    if shutil.which("npm") is None:
        raise ClusterError("Building images needs npm, which fetches the sources of librdkafka: install it, and retry.")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        run(["npm", "pack", "--silent", f"--pack-destination={folder}", _PACKAGE], what=f"Fetching {_PACKAGE}")
        (fetched,) = Path(folder).glob("*.tgz")
        found = base64.b64encode(hashlib.sha512(fetched.read_bytes()).digest()).decode()
        if found != _SHA512:
            raise ClusterError(f"{_PACKAGE} has another content than expected (sha512-{found}): do not use it.")
        fetched.rename(archive)
