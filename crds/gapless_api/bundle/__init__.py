"""Bundles, the files that list missing offsets: format, reading, writing, signatures, algebra, comparison."""
