"""The segments of an archive, recorded in chains of commits."""
