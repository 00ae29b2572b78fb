"""The documentation in a release: the site as one archive; must not know how pages become a site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from release.archives import files_in, write_archive
from release.site import VERSION
from release.steps import run, say

if TYPE_CHECKING:
    from release.sources import Sources


def pack_site(sources: Sources, into: Path) -> None:
    """Write the site, which a browser reads without a network. Raises ReleaseError: a link leads nowhere."""
    say("the documentation as a site")
    site = sources.folder.with_name("site")
    run(
        *(sys.executable, "-m", "mkdocs", "build", "--site-dir", site),
        folder=sources.folder,
        variables={VERSION: sources.version, "SOURCE_DATE_EPOCH": str(sources.time), "NO_MKDOCS_2_WARNING": "1"},
    )
    name = f"gapless-docs-{sources.version}"
    write_archive(files_in(site, name), sources.time, into / f"{name}.tgz")
