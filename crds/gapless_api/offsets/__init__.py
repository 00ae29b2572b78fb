"""Event ids, offset ranges and their algebra, partition windows."""
