"""Topics and consumer groups: listing, IDs, configuration, creation, and committed offsets."""
