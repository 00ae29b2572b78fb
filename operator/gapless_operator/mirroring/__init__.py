"""The reconciler of Mirror."""
