"""What the operator knows of the cluster: lists, watches, and the trimmed objects."""
