"""Inventories, the files that list what exists upstream: form, reading, writing, transport over the link."""
