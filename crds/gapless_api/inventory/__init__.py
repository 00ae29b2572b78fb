"""Inventories, the files that list what exists upstream: format, reading, writing, transport over the link."""
