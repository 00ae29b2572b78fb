"""What is wrong with one or two clusters, found without changing anything."""
