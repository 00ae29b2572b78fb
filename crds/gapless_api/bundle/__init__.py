"""Bundles, the files that list what is missing: form, reading, writing, signatures, algebra, comparison."""
