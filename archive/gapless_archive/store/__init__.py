"""The store: objects in a folder or an S3-compatible store."""
