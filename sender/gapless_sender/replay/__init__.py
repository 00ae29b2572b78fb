"""The way of a batch from source to link, its account, checkpoint and report."""
