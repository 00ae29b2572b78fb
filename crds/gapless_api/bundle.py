"""Owns the names under which the rest of Gapless reaches bundles; must not hold any rule of its own.

The parts: `bundle_form` (what a bundle is, its digest), `bundle_writer`, `bundle_reader`, `bundle_signature`.
"""

from gapless_api.bundle_form import Bundle, BundleKind, BundleMark, PartitionGaps
from gapless_api.bundle_reader import read_bundle, read_bundle_text
from gapless_api.bundle_writer import write_bundle, write_signed

__all__ = [
    "Bundle",
    "BundleKind",
    "BundleMark",
    "PartitionGaps",
    "read_bundle",
    "read_bundle_text",
    "write_bundle",
    "write_signed",
]
