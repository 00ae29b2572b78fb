"""What is in a segment: rows, digest, Parquet objects."""
