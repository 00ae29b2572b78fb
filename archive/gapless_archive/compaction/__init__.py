"""Compaction of an archive: join segments, expire old ones, delete unneeded objects."""
