"""Storage of objects: a folder, or an S3-compatible object store."""
