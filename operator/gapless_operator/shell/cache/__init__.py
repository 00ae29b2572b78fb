"""What the operator knows of the cluster: lists, watches, trimmed objects, logs and nodes."""
