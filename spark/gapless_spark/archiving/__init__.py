"""The jobs of an archive: write it, join its segments, restore from it, compare it with a topic."""
