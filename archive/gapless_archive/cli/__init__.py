"""Commands of the archive."""

from gapless_archive.cli.fetch import fetch

__all__ = ["fetch"]
