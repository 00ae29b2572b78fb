"""Event IDs, offset ranges and their algebra, partition windows."""
