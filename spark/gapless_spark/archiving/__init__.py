"""What works on an archive: writing it, joining its segments, restoring from it, comparing it with a topic."""
